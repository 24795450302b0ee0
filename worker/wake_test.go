package worker_test

import (
	"encoding/json/jsontext"
	"strings"
	"sync"
	"testing"
	"time"
	"uuid"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/envelope"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/internal/postgres"
)

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

func (y *yard) stage(task *kerneltest.Task, text string) {
	y.T.Helper()
	_, err := y.Park.StageCommit(y.T.Context(), y.runner.As(y.Account), task.TaskID, task.Claim(),
		envelope.Fields{Content: jsontext.Value(`"` + text + `"`)})
	require.NoError(y.T, err)
}
