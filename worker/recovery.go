package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
	"uuid"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"golang.org/x/sync/errgroup"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/workflows"
)

const (
	wakeEvery     = time.Second
	wakeBatch     = 200
	closedEvery   = 5 * time.Second
	closedWithin  = 10 * time.Minute // how far back a workflow closed by hand is looked for
	sweepEvery    = 10 * time.Minute
	sweepBatch    = 1000
	nudgesAtOnce  = 16
	closedPage    = 200
	closedMaxPage = 10
)

// recovery finds what a crash forgot. Every worker process runs it; they share the work by row locks.
type recovery struct {
	worker *Worker
}

func (r *recovery) run(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() { r.every(ctx, wakeEvery, "wake", r.wake) })
	loops.Go(func() { r.every(ctx, closedEvery, "look for closed workflows", r.closed) })
	loops.Go(func() {
		r.every(ctx, sweepEvery, "sweep", func(ctx context.Context) error { return r.worker.Park.DB.Sweep(ctx, sweepBatch) })
	})
	loops.Wait()
}

// every runs step again and again, with jitter so that processes do not march in step.
func (r *recovery) every(ctx context.Context, interval time.Duration, what string, step func(context.Context) error) {
	for {
		pause := interval/2 + rand.N(interval)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if err := step(ctx); err != nil && ctx.Err() == nil {
			r.worker.Log.Warn("recovery step failed; it will be tried again", "step", what, "error", err)
		}
	}
}

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

// closed finds workflows that ended without ending their task or run. One that was terminated by hand
// ends it as such; one that failed or timed out is nudged to begin again.
func (r *recovery) closed(ctx context.Context) error {
	query := fmt.Sprintf(
		`TaskQueue = '%s' AND WorkflowType IN ('ToolTask', 'Run') AND ExecutionStatus IN ('Terminated', 'Failed', 'TimedOut') AND CloseTime > '%s'`,
		r.worker.Queue, time.Now().Add(-closedWithin).UTC().Format(time.RFC3339))
	request := &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: r.worker.Namespace, PageSize: closedPage, Query: query,
	}
	for range closedMaxPage {
		page, err := r.worker.Client.ListWorkflow(ctx, request)
		if err != nil {
			return err
		}
		var found closedWorkflows
		for _, execution := range page.GetExecutions() {
			found.add(execution.GetExecution().GetWorkflowId())
		}
		if err := r.reopen(ctx, &found); err != nil {
			return err
		}
		if request.NextPageToken = page.GetNextPageToken(); len(request.GetNextPageToken()) == 0 {
			return nil
		}
	}
	return nil
}

// closedWorkflows is what a page of closed workflows was for.
type closedWorkflows struct {
	taskRuns []uuid.UUID
	taskKeys []string
	runs     []uuid.UUID
}

func (c *closedWorkflows) add(workflowID string) {
	if task, _, ok := workflows.TaskOfWorkflow(workflowID); ok {
		c.taskRuns, c.taskKeys = append(c.taskRuns, task.Run), append(c.taskKeys, task.Key)
	} else if run, ok := workflows.RunOfWorkflow(workflowID); ok {
		c.runs = append(c.runs, run)
	}
}

func (r *recovery) reopen(ctx context.Context, found *closedWorkflows) error {
	db := r.worker.Park.DB
	tasks, err := db.LiveTasks(ctx, found.taskRuns, found.taskKeys)
	if err != nil {
		return err
	}
	for _, task := range tasks {
		status, err := r.latest(ctx, workflows.TaskWorkflowID(task.RunID, task.Key, task.Generation))
		if err != nil {
			return err
		}
		if status == enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED {
			if err := r.worker.Park.StageTermination(ctx, task.ID()); err != nil {
				return err
			}
		}
		if status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
			if err := r.worker.Delivery.Nudge(ctx, task, workflows.SignalWake); err != nil {
				return err
			}
		}
	}
	runs, err := db.OpenRuns(ctx, found.runs)
	if err != nil {
		return err
	}
	for _, run := range runs {
		status, err := r.latest(ctx, workflows.RunWorkflowID(run.ID))
		if err != nil {
			return err
		}
		if status == enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED {
			if err := r.worker.Park.StopByOperator(ctx, run.AccountID, run.ID); err != nil {
				return err
			}
		}
		if status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
			if err := r.worker.Delivery.NudgeRun(ctx, run.AccountID, run.ID, workflows.SignalWake); err != nil {
				return err
			}
		}
	}
	return nil
}

// latest is the status of the newest run of a workflow, unspecified when there is none: a reset lists the
// run it replaced as terminated.
func (r *recovery) latest(ctx context.Context, workflowID string) (enumspb.WorkflowExecutionStatus, error) {
	described, err := r.worker.Client.DescribeWorkflow(ctx, workflowID, "")
	if _, ok := errors.AsType[*serviceerror.NotFound](err); ok {
		return enumspb.WORKFLOW_EXECUTION_STATUS_UNSPECIFIED, nil
	}
	if err != nil {
		return enumspb.WORKFLOW_EXECUTION_STATUS_UNSPECIFIED, err
	}
	return described.Status, nil
}
