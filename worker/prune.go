package worker

import (
	"context"
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/toolpark/toolpark/workflows"
)

const (
	pruneEvery   = time.Hour
	pruneJitter  = 5 * time.Minute
	scheduleTime = 10 * time.Second // how long one attempt to make the schedule may take
)

// schedule makes the schedule that prunes, if it is missing, however long that takes. One that is there stays as it
// is: an operator may have paused it or chosen other times.
func (r *recovery) schedule(ctx context.Context) {
	for {
		err := r.makeSchedule(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		r.worker.Log.Warn("the schedule that prunes could not be made; it will be tried again", "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(tellEvery):
		}
	}
}

func (r *recovery) makeSchedule(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, scheduleTime)
	defer cancel()
	id := workflows.PruneID(r.worker.Queue)
	_, err := r.worker.Client.ScheduleClient().Create(ctx, client.ScheduleOptions{
		ID:      id,
		Spec:    client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: pruneEvery}}, Jitter: pruneJitter},
		Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP,

		// What was missed need not be made up for: the next one finds all that is due.
		CatchupWindow: pruneJitter,
		Action: &client.ScheduleWorkflowAction{
			ID: id, Workflow: workflows.Prune, Args: []any{workflows.PruneInput{}}, TaskQueue: r.worker.Queue,
		},
	})
	if errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
		return nil
	}
	return err
}
