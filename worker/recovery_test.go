package worker_test

import (
	"encoding/json/jsontext"
	"strings"
	"sync"
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
	"github.com/toolpark/toolpark/internal/postgres"
	"github.com/toolpark/toolpark/workflows"
)

// yard is a run with a runner that serves echo.
type yard struct {
	*kerneltest.Account
	runner kerneltest.Executor
	run    string
}

func (y *yard) open() {
	y.T.Helper()
	y.runner, y.run = y.Runner("box"), y.BareRun()
	y.Serve(y.runner, kerneltest.Entry("echo", kerneltest.ReadOnly))
}

// newYard opens a yard without a worker.
func newYard(t *testing.T) *yard {
	t.Helper()
	y := &yard{Account: kerneltest.StartAPI(t).Account()}
	y.open()
	return y
}

// echo authors a step whose workflow has been started.
func (y *yard) echo() *kerneltest.Task {
	y.T.Helper()
	task := y.Step(y.run, y.runner, "echo", `{}`, time.Hour)
	y.Eventually("the workflow is started", func() bool {
		_, err := y.Temporal.DescribeWorkflow(y.T.Context(), task.WorkflowID(), "")
		return err == nil
	})
	return task
}

func (y *yard) stage(task *kerneltest.Task, text string) {
	y.T.Helper()
	_, err := y.Park.StageCommit(y.T.Context(), y.runner.As(y.Account), task.TaskID, task.Claim(),
		envelope.Fields{Content: jsontext.Value(`"` + text + `"`)})
	require.NoError(y.T, err)
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

func TestAStartThatWasLostIsMade(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	task := y.Unstarted(y.run, y.runner, "echo", time.Hour, 1)[0]
	y.StartWorker()
	y.Eventually("the workflow is started", func() bool {
		_, err := y.Temporal.DescribeWorkflow(t.Context(), task.WorkflowID(), "")
		return err == nil
	})
	task.Commit(task.Claim(), "done")
	require.Equal(t, toolpark.Completed, task.Row().Status)
}

func TestAReportThatWasNeverSignalledIsJudged(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.StartWorker()
	started, lost := y.echo(), y.Unstarted(y.run, y.runner, "echo", time.Hour, 1)[0]
	y.stage(started, "one")
	y.stage(lost, "two")
	require.Equal(t, toolpark.Completed, started.Settled().Status)
	require.Equal(t, toolpark.Completed, lost.Settled().Status)
}

func TestACancelThatWasNeverSignalledIsJudged(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.StartWorker()
	task := y.echo()
	_, err := y.Park.StageCancel(t.Context(), y.Member(), task.TaskID)
	require.NoError(t, err)
	require.Equal(t, toolpark.Canceled, task.Settled().Status)
}

func TestARunWhoseStartWasLostIsDecided(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	id, mode := uuid.NewV7(), "bypass"
	require.NoError(t, y.DB.Tx(t.Context(), func(tx *postgres.Tx) error {
		postgres.InsertRun(tx, &postgres.Run{
			ID: id, AccountID: y.ID, CreatorID: y.Agent.ID, AgentID: &y.Agent.ID, ApprovalMode: &mode,
			Requested: jsontext.Value(`{}`), Metadata: jsontext.Value(`{}`),
		})
		return nil
	}))
	y.StartWorker()
	y.Eventually("the run is accepted", func() bool {
		run, err := y.Agent.Run(t.Context(), id.String())
		require.NoError(t, err)
		return run.Status == toolpark.RunRunning
	})
}

func TestAForcedStopWhoseCancelsWereLostIsCarriedThrough(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	task := y.Unstarted(y.run, y.runner, "echo", time.Hour, 1)[0]
	require.NoError(t, y.DB.Tx(t.Context(), func(tx *postgres.Tx) error {
		run, err := postgres.LockRun(t.Context(), tx, y.ID, task.Run)
		if err != nil {
			return err
		}
		postgres.SetRunStatus(tx, run, toolpark.RunStopping)
		postgres.ForceStop(tx, run)
		return nil
	}))
	_, err := y.DB.Pool.Exec(t.Context(), `UPDATE runs SET wake_at = now() WHERE id = $1`, task.Run)
	require.NoError(t, err)
	y.StartWorker()
	y.Eventually("the run is canceled", func() bool {
		run, err := y.Agent.Run(t.Context(), task.Run.String())
		require.NoError(t, err)
		return run.Status == toolpark.RunCanceled
	})
	require.Equal(t, toolpark.Canceled, task.Row().Status)
}

func TestAllOverdueTasksSettle(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	const tasks = 500 // more than two batches
	made := y.Unstarted(y.run, y.runner, "echo", time.Millisecond, tasks)
	y.due("run_id = $1", made[0].Run)
	y.StartWorker()
	y.Eventually("all have settled", func() bool { return y.counted(`status = 'timed_out' AND wake_at IS NULL`) == tasks })
	var last, events int
	require.NoError(t, y.DB.Pool.QueryRow(t.Context(), `
		SELECT max(seq), count(*) FROM events WHERE run_id = $1`, made[0].Run).Scan(&last, &events))
	require.Equal(t, last, events, "events have no gap")
	require.Equal(t, 1+tasks+tasks, events, "run_accepted, and two states of each task")
}

func TestWorkersShareWhatIsDue(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	const tasks, workers = 300, 6
	made := y.Unstarted(y.run, y.runner, "echo", time.Hour, tasks)
	y.due("run_id = $1", made[0].Run)
	var (
		barrier = make(chan struct{})
		wait    sync.WaitGroup
		mu      sync.Mutex
		taken   = map[string]int{}
	)
	for range workers {
		wait.Go(func() {
			<-barrier
			for {
				due, err := y.DB.DueTasks(t.Context(), 20)
				if err != nil {
					t.Errorf("due tasks: %v", err)
				}
				if len(due) == 0 {
					return
				}
				mu.Lock()
				for _, task := range due {
					taken[task.Key]++
				}
				mu.Unlock()
			}
		})
	}
	close(barrier)
	wait.Wait()
	require.Len(t, taken, tasks)
	for key, times := range taken {
		require.Equal(t, 1, times, key)
	}
}

func TestATaskThatCannotBeStartedHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	// No server takes a search attribute of this size.
	stuck := y.Unstarted(y.run, y.runner, "echo", time.Hour, 1)[0]
	_, err := y.DB.Pool.Exec(t.Context(), `UPDATE tasks SET tool_name = $3, wake_at = '2020-01-01' WHERE run_id = $1 AND key = $2`,
		stuck.Run, stuck.Key, strings.Repeat("x", 1<<20))
	require.NoError(t, err)
	others := y.Unstarted(y.run, y.runner, "echo", time.Millisecond, 40)
	y.due("key <> $1", stuck.Key)
	y.StartWorker()
	y.Eventually("the others have settled", func() bool { return y.counted(`status = 'timed_out'`) == len(others) })
	require.Equal(t, toolpark.Dispatched, stuck.Row().Status)
}

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

// due lets the alarms of the tasks ring now.
func (y *yard) due(which string, args ...any) {
	y.T.Helper()
	_, err := y.DB.Pool.Exec(y.T.Context(), `UPDATE tasks SET wake_at = clock_timestamp() - interval '1 second' WHERE `+which, args...)
	require.NoError(y.T, err)
}

// quiet lets no alarm ring for an hour.
func (y *yard) quiet() {
	y.T.Helper()
	_, err := y.DB.Pool.Exec(y.T.Context(), `
		UPDATE tasks SET wake_at = clock_timestamp() + interval '1 hour' WHERE settled_at IS NULL`)
	require.NoError(y.T, err)
}

func (y *yard) counted(which string) (n int) {
	y.T.Helper()
	require.NoError(y.T, y.DB.Pool.QueryRow(y.T.Context(), `SELECT count(*) FROM tasks WHERE `+which).Scan(&n))
	return n
}

func requireCode(t *testing.T, code toolpark.Code, err error) {
	t.Helper()
	var refusal *toolpark.Error
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, code, refusal.Code)
}
