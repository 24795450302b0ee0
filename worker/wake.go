package worker

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/workflows"
)

const (
	wakeEvery    = time.Second
	wakeBatch    = 200
	nudgesAtOnce = 16
)

// wake nudges whatever is due: authored and never started, staged and never judged, claimed and never
// shown, overdue.
func (r *recovery) wake(ctx context.Context) error {
	for {
		tasks, err := r.worker.Park.DB.DueTasks(ctx, wakeBatch)
		if err != nil {
			return err
		}
		runs, err := r.worker.Park.DB.DueRuns(ctx, wakeBatch)
		if err != nil {
			return err
		}
		group, nudging := errgroup.WithContext(ctx)
		group.SetLimit(nudgesAtOnce)
		for _, task := range tasks {
			group.Go(func() error {
				return r.nudged(r.worker.Delivery.Nudge(nudging, task, reason(task)), "run", task.RunID, "task", task.Key)
			})
		}
		for _, run := range runs {
			group.Go(func() error {
				return r.nudged(r.worker.Delivery.NudgeRun(nudging, run.AccountID, run.ID, workflows.SignalWake), "run", run.ID)
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		if len(tasks) < wakeBatch && len(runs) < wakeBatch {
			return nil
		}
	}
}

// nudged passes an error that ends the batch. One that is about a single workflow is logged: its
// neighbours must not wait for it.
func (r *recovery) nudged(err error, which ...any) error {
	if err == nil || workflows.Unreachable(err) || errors.Is(err, context.Canceled) {
		return err
	}
	r.worker.Log.Error("workflow not nudged; it will be tried again", append(which, "error", err)...)
	return nil
}

// reason names the signal for the reader of the history.
func reason(task *toolpark.Task) workflows.Signal {
	switch {
	case task.CancelRequestedAt != nil:
		return workflows.SignalCancel
	case task.ClaimedBy != nil && !task.ClaimShown:
		return workflows.SignalClaimed
	default:
		return workflows.SignalWake
	}
}
