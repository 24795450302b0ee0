package worker_test

import (
	"testing"
	"time"
	"uuid"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/envelope"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/workflows"
)

func TestAWorkflowTerminatedByHand(t *testing.T) {
	t.Parallel()

	t.Run("ends its task", func(t *testing.T) {
		t.Parallel()
		y := newYard(t)
		y.StartWorker()
		waiting, claimed := y.echo(), y.echo()
		token := claimed.Claim()
		before := map[*kerneltest.Task]string{}
		for _, task := range []*kerneltest.Task{waiting, claimed} {
			before[task], _ = y.latest(task)
		}
		y.quiet() // a nudge that comes first would let the park go on
		y.terminate(waiting)
		y.terminate(claimed)
		began := time.Now()
		for task := range before {
			settled := task.Settled()
			require.Equal(t, toolpark.Failed, settled.Status)
			require.Equal(t, toolpark.ErrWorkflowTerminated, *settled.ErrorKey)
			require.Equal(t, toolpark.ByTermination, *settled.SettledBy)
			require.Less(t, time.Since(began), 15*time.Second)
			y.Eventually("its own new run settled it", func() bool {
				run, status := y.latest(task)
				return run != before[task] && status == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
			})
		}
		_, err := y.Park.StageCommit(t.Context(), y.runner.As(y.Account), claimed.TaskID, token, envelope.Fields{})
		requireCode(t, toolpark.CodeStaleClaim, err)
	})

	t.Run("goes on when something nudged it first", func(t *testing.T) {
		t.Parallel()
		y := newYard(t)
		nudged, other := y.echo(), y.echo()
		y.quiet()
		y.terminate(nudged)
		require.NoError(t, y.Delivery.Nudge(t.Context(), &nudged.Row().Task, workflows.SignalWake))
		y.terminate(other)
		y.StartWorker()
		y.looked(other)
		require.Equal(t, toolpark.Dispatched, nudged.Row().Status)
		nudged.Commit(nudged.Claim(), "done")
		require.Equal(t, toolpark.Completed, nudged.Row().Status)
	})

	t.Run("is not one that was reset", func(t *testing.T) {
		t.Parallel()
		y := newYard(t)
		y.StartWorker()
		reset, other := y.echo(), y.echo()
		require.NoError(t, y.Delivery.Nudge(t.Context(), &reset.Row().Task, workflows.SignalWake))
		point := y.workflowTaskCompleted(reset)
		old, _ := y.latest(reset)
		y.quiet()
		_, err := y.Temporal.ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
			Namespace:         "default",
			WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: reset.WorkflowID(), RunId: old},
			Reason:            "by hand", WorkflowTaskFinishEventId: point, RequestId: uuid.NewV7().String(),
		})
		require.NoError(t, err)
		before, err := y.Temporal.DescribeWorkflow(t.Context(), reset.WorkflowID(), old)
		require.NoError(t, err)
		require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, before.Status, "the old run reads as terminated")
		y.terminate(other)
		y.looked(other)
		require.Equal(t, toolpark.Dispatched, reset.Row().Status)
		reset.Commit(reset.Claim(), "done")
		require.Equal(t, toolpark.Completed, reset.Row().Status)
	})

	t.Run("says nothing of a later generation", func(t *testing.T) {
		t.Parallel()
		y := newYard(t)
		terminated, canceled, other := y.echo(), y.echo(), y.echo()
		for _, task := range []*kerneltest.Task{terminated, canceled} {
			id := task.TaskID
			task.Claim()
			_, err := y.DB.Pool.Exec(t.Context(), `UPDATE tasks SET deadline_at = clock_timestamp() WHERE run_id = $1 AND key = $2`, id.Run, id.Key)
			require.NoError(t, err)
			_, err = y.Park.Advance(t.Context(), id, 1, false) // its workflow has not noticed, and stays open
			require.NoError(t, err)
			require.True(t, task.Row().Status.Settled())
			_, err = y.Agent.Retry(t.Context(), y.run, id.Key)
			require.NoError(t, err)
		}
		y.terminate(terminated)
		require.NoError(t, y.Temporal.CancelWorkflow(t.Context(), canceled.WorkflowID(), ""))
		y.terminate(other)
		y.StartWorker()
		y.looked(other)
		y.Eventually("the workflow of the generation before ends", func() bool {
			_, status := y.latest(canceled)
			return status == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
		})
		for _, task := range []*kerneltest.Task{terminated, canceled} {
			row := task.Row()
			require.Equal(t, toolpark.Dispatched, row.Status)
			require.Equal(t, 2, row.Generation)
			require.Nil(t, row.CancelRequestedAt)
			task.Commit(task.Claim(), "done")
			require.Equal(t, toolpark.Completed, task.Row().Status)
		}
	})

	t.Run("stops its run", func(t *testing.T) {
		t.Parallel()
		y := newYard(t)
		y.StartWorker()
		y.run = y.RunOf(y.Agent, y.runner)
		task := y.echo()
		require.NoError(t, y.Temporal.TerminateWorkflow(t.Context(), workflows.RunWorkflowID(task.Run), "", "by hand"))
		require.Equal(t, toolpark.Canceled, task.Settled().Status)
		y.Eventually("the run ends", func() bool {
			run, err := y.Agent.Run(t.Context(), y.run)
			require.NoError(t, err)
			return run.Status == toolpark.RunCanceled
		})
	})
}

func (y *yard) terminate(task *kerneltest.Task) {
	y.T.Helper()
	require.NoError(y.T, y.Temporal.TerminateWorkflow(y.T.Context(), task.WorkflowID(), "", "by hand"))
}

// latest is the newest run of a task's workflow.
func (y *yard) latest(task *kerneltest.Task) (runID string, status enumspb.WorkflowExecutionStatus) {
	y.T.Helper()
	described, err := y.Temporal.DescribeWorkflow(y.T.Context(), task.WorkflowID(), "")
	require.NoError(y.T, err)
	return described.WorkflowExecution.RunID, described.Status
}

// looked waits until the recovery loop has dealt with a task that was terminated after all others, and
// so has seen the others.
func (y *yard) looked(last *kerneltest.Task) {
	y.T.Helper()
	require.Equal(y.T, toolpark.ErrWorkflowTerminated, *last.Settled().ErrorKey)
}

// workflowTaskCompleted waits for a workflow task and returns its place in the history.
func (y *yard) workflowTaskCompleted(task *kerneltest.Task) (event int64) {
	y.T.Helper()
	y.Eventually("a workflow task is completed", func() bool {
		i := y.Temporal.GetWorkflowHistory(y.T.Context(), task.WorkflowID(), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for i.HasNext() {
			e, err := i.Next()
			require.NoError(y.T, err)
			if e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
				event = e.GetEventId()
			}
		}
		return event != 0
	})
	return event
}
