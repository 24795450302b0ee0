package workflows_test

import (
	"context"
	"testing"
	"time"
	"uuid"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/toolpark/toolpark/internal/devstack/devtest"
)

// TestTemporalKeepsWhatAParkStandsOn pins the behaviour of the server that a delayed start relies on.
// No worker runs: what is tested is when the server makes a workflow task.
func TestTemporalKeepsWhatAParkStandsOn(t *testing.T) {
	t.Parallel()
	const (
		started   = enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED
		signaled  = enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
		cancel    = enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED
		scheduled = enumspb.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED
	)
	c, err := client.DialContext(t.Context(), client.Options{HostPort: devtest.Temporal(t), Logger: silent{}})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	delayed := func(t *testing.T) client.StartWorkflowOptions {
		options := client.StartWorkflowOptions{
			ID: "contract/" + uuid.NewV7().String(), TaskQueue: devtest.TaskQueue(t), StartDelay: time.Hour,
		}
		_, err := c.ExecuteWorkflow(t.Context(), options, "Nothing")
		require.NoError(t, err)
		require.Equal(t, []enumspb.EventType{started}, eventTypes(t, c, options.ID), "the delay makes no workflow task")
		t.Cleanup(func() { _ = c.TerminateWorkflow(context.Background(), options.ID, "", "the test is over") })
		return options
	}

	t.Run("signal with start during the delay makes the first workflow task at once", func(t *testing.T) {
		t.Parallel()
		options := delayed(t)
		options.StartDelay = 0
		options.WorkflowIDConflictPolicy = enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING
		_, err := c.SignalWithStartWorkflow(t.Context(), options.ID, "commit", nil, options, "Nothing")
		require.NoError(t, err)
		require.Equal(t, []enumspb.EventType{started, signaled, scheduled}, eventTypes(t, c, options.ID))
	})

	t.Run("a plain signal during the delay is only recorded", func(t *testing.T) {
		t.Parallel()
		options := delayed(t)
		require.NoError(t, c.SignalWorkflow(t.Context(), options.ID, "", "commit", nil))
		require.Equal(t, []enumspb.EventType{started, signaled}, eventTypes(t, c, options.ID))
	})

	t.Run("a cancel request during the delay wakes the workflow", func(t *testing.T) {
		t.Parallel()
		options := delayed(t)
		require.NoError(t, c.CancelWorkflow(t.Context(), options.ID, ""))
		require.Equal(t, []enumspb.EventType{started, cancel, scheduled}, eventTypes(t, c, options.ID))
	})

	t.Run("the end of the delay wakes the workflow", func(t *testing.T) {
		t.Parallel()
		options := client.StartWorkflowOptions{
			ID: "contract/" + uuid.NewV7().String(), TaskQueue: devtest.TaskQueue(t), StartDelay: 500 * time.Millisecond,
		}
		_, err := c.ExecuteWorkflow(t.Context(), options, "Nothing")
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.TerminateWorkflow(context.Background(), options.ID, "", "the test is over") })
		require.Eventually(t, func() bool { return len(eventTypes(t, c, options.ID)) == 2 }, time.Minute, 50*time.Millisecond)
	})

	t.Run("a start that rejects duplicates finds a closed workflow", func(t *testing.T) {
		t.Parallel()
		options := client.StartWorkflowOptions{
			ID: "contract/" + uuid.NewV7().String(), TaskQueue: devtest.TaskQueue(t), StartDelay: time.Hour,
			WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
			WorkflowExecutionErrorWhenAlreadyStarted: true,
		}
		w := worker.New(c, options.TaskQueue, worker.Options{})
		w.RegisterWorkflowWithOptions(func(workflow.Context) error { return nil }, workflow.RegisterOptions{Name: "Nothing"})
		require.NoError(t, w.Start())
		defer w.Stop()
		now := options
		now.StartDelay = 0
		first, err := c.ExecuteWorkflow(t.Context(), now, "Nothing")
		require.NoError(t, err)
		require.NoError(t, first.Get(t.Context(), nil))
		_, err = c.ExecuteWorkflow(t.Context(), options, "Nothing")
		var exists *serviceerror.WorkflowExecutionAlreadyStarted
		require.ErrorAs(t, err, &exists)
		described, err := c.DescribeWorkflow(t.Context(), options.ID, "")
		require.NoError(t, err)
		require.Equal(t, first.GetRunID(), described.WorkflowExecution.RunID, "no second run was opened")
	})
}

func eventTypes(t *testing.T, c client.Client, workflowID string) (list []enumspb.EventType) {
	t.Helper()
	for i := c.GetWorkflowHistory(t.Context(), workflowID, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); i.HasNext(); {
		event, err := i.Next()
		require.NoError(t, err)
		list = append(list, event.GetEventType())
	}
	return list
}
