package workflows

import (
	"uuid"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"

	"github.com/toolpark/toolpark/activities"
)

// RunInput names the run that a Run workflow hosts.
type RunInput struct {
	Account  uuid.UUID `json:"account"`
	Run      uuid.UUID `json:"run"`
	Canceled bool      `json:"canceled,omitempty"` // a cancel was requested of the workflow before it continued as this run
}

// Run accepts a run: it freezes what the run may call, or refuses it. Then it waits until the run ends.
// Rounds never signal it; when its alarm rings it reads the database, and a run that has been idle for a
// day without a live task completes.
func Run(ctx workflow.Context, in RunInput) error {
	wf := &run{in: in, log: log.With(workflow.GetLogger(ctx), "run", in.Run.String()), wait: newWaiter(ctx, runSignals, in.Canceled)}
	return wf.run(ctx)
}

var runActivities *activities.Runs // nil: only names activities

type run struct {
	in   RunInput
	log  log.Logger
	wait *waiter

	decided bool // the run has been accepted or refused
}

func (wf *run) run(ctx workflow.Context) error {
	for {
		a, err := wf.step(ctx)
		if a.Over {
			return nil
		}
		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			next := wf.in
			next.Canceled = wf.wait.asked
			return workflow.NewContinueAsNewError(ctx, Run, next)
		}
		if err != nil {
			wf.log.Warn("The run could not be advanced; trying again.", "error", err)
			wf.wait.retry(ctx)
			continue
		}
		wf.wait.succeeded()
		wf.wait.sleep(ctx, a.Wake)
	}
}

// step decides the run, once, and looks after it.
func (wf *run) step(ctx workflow.Context) (activities.AdvanceRunResult, error) {
	if !wf.decided {
		if err := wf.assemble(ctx); err != nil {
			return activities.AdvanceRunResult{}, err
		}
		wf.decided = true
	}
	return wf.advance(ctx)
}

// assemble decides an accepting run. A run that has been decided stays as it is.
func (wf *run) assemble(ctx workflow.Context) error {
	in := activities.AssembleInput{Account: wf.in.Account, Run: wf.in.Run}
	return wf.do(ctx, freeze, runActivities.Assemble, in, nil)
}

// advance looks after a decided run. A cancel request of the workflow, from the Web UI or the CLI, is
// a forced stop.
func (wf *run) advance(ctx workflow.Context) (activities.AdvanceRunResult, error) {
	in := activities.AdvanceRunInput{Account: wf.in.Account, Run: wf.in.Run, Canceled: wf.wait.drain(ctx)}
	var a activities.AdvanceRunResult
	err := wf.do(ctx, rowWrite, runActivities.AdvanceRun, in, &a)
	return a, err
}

// do runs one activity in a disconnected context: a cancel request must not drop what it did.
func (wf *run) do(ctx workflow.Context, options workflow.LocalActivityOptions, activity, in, out any) error {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	ctx = workflow.WithLocalActivityOptions(ctx, options)
	return workflow.ExecuteLocalActivity(ctx, activity, in).Get(ctx, out)
}
