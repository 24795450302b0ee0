package worker

import (
	"context"
	"errors"
	"fmt"
	"time"
	"uuid"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/workflows"
)

const (
	closedEvery   = 5 * time.Second
	closedWithin  = 10 * time.Minute // how far back a workflow closed by hand is looked for
	closedPage    = 200
	closedMaxPage = 10
)

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
	tasks []toolpark.GenerationID
	runs  []uuid.UUID
}

func (c *closedWorkflows) add(workflowID string) {
	if task, ok := workflows.TaskOfWorkflow(workflowID); ok {
		c.tasks = append(c.tasks, task)
	} else if run, ok := workflows.RunOfWorkflow(workflowID); ok {
		c.runs = append(c.runs, run)
	}
}

func (r *recovery) reopen(ctx context.Context, found *closedWorkflows) error {
	db := r.worker.Park.DB
	tasks, err := db.LiveTasks(ctx, found.tasks)
	if err != nil {
		return err
	}
	for _, task := range tasks {
		status, err := r.latest(ctx, workflows.TaskWorkflowID(task.RunID, task.Key, task.Generation))
		if err != nil {
			return err
		}
		if status == enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED {
			if err := r.worker.Park.StageTermination(ctx, task.GenerationID()); err != nil {
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
