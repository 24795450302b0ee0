package worker_test

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/toolpark/toolpark/internal/kernel"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/workflows"
)

// schedule waits until the schedule that prunes is there.
func (y *yard) schedule() client.ScheduleHandle {
	y.T.Helper()
	handle := y.Temporal.ScheduleClient().GetHandle(y.T.Context(), workflows.PruneID(y.Queue))
	y.Eventually("the schedule is made", func() bool {
		_, err := handle.Describe(y.T.Context())
		return err == nil
	})
	y.T.Cleanup(func() { _ = handle.Delete(y.T.Context()) })
	return handle
}

// trigger prunes now, and waits for the end of it.
func (y *yard) trigger(handle client.ScheduleHandle) workflows.PruneResult {
	y.T.Helper()
	require.NoError(y.T, handle.Trigger(y.T.Context(), client.ScheduleTriggerOptions{}))
	var run *client.ScheduleWorkflowExecution
	y.Eventually("the schedule starts its workflow", func() bool {
		described, err := handle.Describe(y.T.Context())
		require.NoError(y.T, err)
		for _, action := range described.Info.RecentActions {
			run = action.StartWorkflowResult
		}
		return run != nil
	})
	var result workflows.PruneResult
	require.NoError(y.T, y.Temporal.GetWorkflow(y.T.Context(), run.WorkflowID, run.FirstExecutionRunID).Get(y.T.Context(), &result))
	return result
}

func TestTheScheduleIsMadeOnce(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	stop := y.StartWorker()
	handle := y.schedule()
	described, err := handle.Describe(t.Context())
	require.NoError(t, err)
	require.Equal(t, time.Hour, described.Schedule.Spec.Intervals[0].Every)
	require.Equal(t, enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, described.Schedule.Policy.Overlap)
	action := described.Schedule.Action.(*client.ScheduleWorkflowAction)
	require.Equal(t, y.Queue, action.TaskQueue)
	require.Equal(t, "Prune", action.Workflow)

	require.NoError(t, handle.Pause(t.Context(), client.SchedulePauseOptions{Note: "an operator's"}))
	stop()
	y.StartWorker()
	require.Never(t, func() bool {
		described, err := handle.Describe(t.Context())
		return err != nil || !described.Schedule.State.Paused
	}, 2*time.Second, 200*time.Millisecond, "another start leaves it as it is")
}

func TestTheSchedulePrunes(t *testing.T) {
	t.Parallel()
	logs := &lines{}
	k := kerneltest.StartAPI(t).Another(t, func(c *kernel.Config) { c.Log = slog.New(slog.NewJSONHandler(logs, nil)) })
	y := &yard{Account: k.Account()}
	y.open()
	other := &yard{Account: k.Account()}
	other.open()
	y.StartWorker()
	for _, of := range []*yard{y, other} {
		for range 2 {
			task := of.Step(of.run, of.runner, "echo", `{}`, time.Hour)
			task.Commit(task.Claim(), "done")
		}
		_, err := of.Agent.CompleteRun(t.Context(), of.run)
		require.NoError(t, err)
		y.Age(of.run, 91)
	}
	_, err := k.DB.SetRetention(t.Context(), other.ID, nil)
	require.NoError(t, err)

	require.Equal(t, workflows.PruneResult{Runs: 1, Tasks: 2}, y.trigger(y.schedule()))
	require.Zero(t, y.Count(`tasks WHERE account_id = $1`, y.ID))
	require.Equal(t, 2, y.Count(`tasks WHERE account_id = $1`, other.ID))
	require.Contains(t, logs.String(), `"msg":"execution details pruned","runs":1,"tasks":2`)
	require.NotContains(t, logs.String(), `"level":"WARN","msg":"the schedule`)
}

// lines is a log that may be read while it is written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
