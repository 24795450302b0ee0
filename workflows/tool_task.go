package workflows

import (
	"fmt"
	"time"
	"uuid"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/activities"
	"github.com/toolpark/toolpark/internal/visibility"
)

// ToolTaskInput names the task that a ToolTask settles.
type ToolTaskInput struct {
	Account    uuid.UUID `json:"account"`
	Run        uuid.UUID `json:"run"`
	Key        string    `json:"key"`
	Generation int       `json:"generation"`
	Canceled   bool      `json:"canceled,omitempty"` // a cancel was requested of the workflow before it continued as this run
}

// ToolTask carries one generation of one task to its settlement. It is the only writer of the task's
// outcome. It is started with a delay as long as the task's deadline, so a park costs nothing; the first
// signal or the end of the delay makes its first step.
func ToolTask(ctx workflow.Context, in ToolTaskInput) error {
	wf := &toolTask{
		in:   in,
		log:  log.With(workflow.GetLogger(ctx), "run", in.Run.String(), "task", in.Key, "generation", in.Generation),
		wait: newWaiter(ctx, taskSignals, in.Canceled),
	}
	wf.shown, _ = workflow.GetTypedSearchAttributes(ctx).GetKeyword(visibility.State) // what the start said
	return wf.run(ctx)
}

var taskActivities *activities.Tasks // nil: only names activities, so the compiler checks that they exist

type toolTask struct {
	in    ToolTaskInput
	log   log.Logger
	wait  *waiter
	shown string // the state that operators were shown last
}

func (wf *toolTask) run(ctx workflow.Context) error {
	for {
		a, err := wf.advance(ctx)
		if err == nil {
			wf.show(ctx, a)
			if a.Over {
				return nil
			}
		}
		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			// Signals that came meanwhile are nudges; the next run begins with a step anyway.
			next := wf.in
			next.Canceled = wf.wait.asked
			return workflow.NewContinueAsNewError(ctx, ToolTask, next)
		}
		if err != nil {
			wf.log.Warn("The task could not be advanced; trying again.", "error", err)
			wf.wait.retry(ctx)
			continue
		}
		wf.wait.succeeded()
		wf.wait.sleep(ctx, a.Wake)
	}
}

// advance judges what is staged for the task. An error means try again later, never that the task
// failed. It runs in a disconnected context: a cancel request must not drop a step that settled.
func (wf *toolTask) advance(ctx workflow.Context) (activities.AdvanceResult, error) {
	in := activities.AdvanceInput{
		Account: wf.in.Account, Run: wf.in.Run, Key: wf.in.Key, Generation: wf.in.Generation,
		Canceled: wf.wait.drain(ctx),
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	ctx = workflow.WithLocalActivityOptions(ctx, rowWrite)
	var a activities.AdvanceResult
	err := workflow.ExecuteLocalActivity(ctx, taskActivities.Advance, in).Get(ctx, &a)
	return a, err
}

// show tells operators where the task stands, when that has changed: the search attributes that they
// filter by, and the details that they read.
func (wf *toolTask) show(ctx workflow.Context, a activities.AdvanceResult) {
	if a.Child != "" {
		workflow.SetCurrentDetails(ctx, fmt.Sprintf("Waits for task %s of the same run, whose outcome becomes its own. "+
			"Request cancellation of this workflow to settle both tasks as canceled.", a.Child))
	}
	state := string(a.Status)
	claimed := a.ClaimedBy != (uuid.UUID{})
	if claimed {
		state = visibility.StateClaimed
	}
	if state == "" || state == wf.shown {
		return
	}
	wf.shown = state
	updates := []temporal.SearchAttributeUpdate{visibility.State.ValueSet(state)}
	if !a.Over && !a.DeadlineAt.IsZero() {
		updates = append(updates, visibility.Deadline.ValueSet(a.DeadlineAt))
	}
	if claimed {
		updates = append(updates, visibility.Executor.ValueSet(a.ClaimedBy.String()))
	}
	if err := workflow.UpsertTypedSearchAttributes(ctx, updates...); err != nil {
		wf.log.Warn("The state could not be shown.", "error", err)
	}
	switch {
	case a.Child != "":
	case a.Status == toolpark.Dispatched && !claimed:
		workflow.SetCurrentDetails(ctx, fmt.Sprintf("Approved, and parked for whom it is addressed to until %s. "+
			"Request cancellation of this workflow to settle the task as canceled.", a.DeadlineAt.UTC().Format(time.RFC3339)))
	case a.Status == toolpark.Running:
		workflow.SetCurrentDetails(ctx, "Approved; the kernel works it out.")
	case a.Over:
		workflow.SetCurrentDetails(ctx, fmt.Sprintf("Settled: %s.", state))
	case claimed:
		workflow.SetCurrentDetails(ctx, fmt.Sprintf(
			"Claimed by executor %s, which may report until %s. Request cancellation of this workflow to settle the task as canceled.",
			a.ClaimedBy, a.DeadlineAt.UTC().Format(time.RFC3339)))
	}
}
