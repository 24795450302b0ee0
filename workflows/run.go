package workflows

import (
	"uuid"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"

	"github.com/toolpark/toolpark/activities"
)

// RunInput names the run that a Run workflow hosts.
type RunInput struct {
	Account uuid.UUID
	Run     uuid.UUID
}

// Run accepts a run: it freezes what the run may call, or refuses it. Then it waits until the run ends.
// Rounds never signal it; when its alarm rings it reads the database, and a run that has been idle for a
// day without a live task completes.
func Run(ctx workflow.Context, in RunInput) error {
	wf := &run{in: in, log: log.With(workflow.GetLogger(ctx), "run", in.Run.String()), wait: newWaiter(ctx, runSignals)}
	return wf.run(ctx)
}

var runActivities *activities.Runs // nil: only names activities

type run struct {
	in   RunInput
	log  log.Logger
	wait *waiter
}

func (wf *run) run(ctx workflow.Context) error {
	wf.assemble(ctx)
	for {
		a, err := wf.advance(ctx)
		if err != nil {
			wf.log.Warn("The run could not be advanced; trying again.", "error", err)
			wf.wait.retry(ctx)
			continue
		}
		wf.wait.succeeded()
		if a.Over {
			return nil
		}
		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			return workflow.NewContinueAsNewError(ctx, Run, wf.in)
		}
		wf.wait.sleep(ctx, a.Wake)
	}
}

// assemble decides an accepting run, however long the database takes to answer. A run that has been
// decided stays as it is.
func (wf *run) assemble(ctx workflow.Context) {
	in := activities.AssembleInput{Account: wf.in.Account, Run: wf.in.Run}
	for {
		err := wf.step(ctx, freeze, runActivities.Assemble, in, nil)
		if err == nil {
			wf.wait.succeeded()
			return
		}
		wf.log.Warn("The run could not be decided; trying again.", "error", err)
		wf.wait.retry(ctx)
	}
}

// advance looks after a decided run. A cancel request of the workflow, from the Web UI or the CLI, is
// a forced stop.
func (wf *run) advance(ctx workflow.Context) (activities.AdvanceRunResult, error) {
	in := activities.AdvanceRunInput{Account: wf.in.Account, Run: wf.in.Run, Canceled: wf.wait.drain(ctx)}
	var a activities.AdvanceRunResult
	err := wf.step(ctx, rowWrite, runActivities.AdvanceRun, in, &a)
	return a, err
}

// step runs one activity in a disconnected context: a cancel request must not drop what it did.
func (wf *run) step(ctx workflow.Context, options workflow.LocalActivityOptions, activity, in, out any) error {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	ctx = workflow.WithLocalActivityOptions(ctx, options)
	return workflow.ExecuteLocalActivity(ctx, activity, in).Get(ctx, out)
}
