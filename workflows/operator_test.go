package workflows_test

import (
	"context"
	"testing"
	"time"
	"uuid"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/sdk/runner"
	"github.com/toolpark/toolpark/workflows"
)

func TestADelayedStartFindsTheTaskSettled(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	task := s.Unstarted(s.run, s.runner, "echo", time.Hour, 1)[0]
	row := task.Row().Task
	task.Commit(task.Claim(), "done")
	first := s.closed(task.WorkflowID(), enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED).WorkflowExecution.RunID

	// The start that authoring sent out lands only now.
	require.Equal(t, []toolpark.GenerationID{row.GenerationID()}, s.start(&row), "a closed workflow counts as started")
	require.Equal(t, first, s.describe(task.WorkflowID()).WorkflowExecution.RunID)
	require.Equal(t, []string{first}, s.runs(task.WorkflowID()), "no second workflow was opened")
}

func TestAStartFindsTheWorkflowRunning(t *testing.T) {
	t.Parallel()
	s := closedShop(t)
	task := s.echo(time.Hour)
	row := task.Row().Task
	require.Equal(t, []toolpark.GenerationID{row.GenerationID()}, s.start(&row))
	require.Len(t, s.runs(task.WorkflowID()), 1)
}

func TestASpareRunFindsTheTaskSettledAndEnds(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	task := s.echo(time.Hour)
	task.Commit(task.Claim(), "done")
	first := s.closed(task.WorkflowID(), enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED).WorkflowExecution.RunID
	settled := task.Row()
	require.NoError(t, s.Delivery.Nudge(t.Context(), &settled.Task, workflows.SignalWake))
	s.Eventually("the spare run ends", func() bool {
		now := s.describe(task.WorkflowID())
		return now.WorkflowExecution.RunID != first && now.Status == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
	})
	require.Equal(t, settled, task.Row(), "it changed nothing")
}

// start delivers the first start of a task, whatever became of it meanwhile, and returns the tasks whose
// workflow is known to exist afterwards.
func (s *shop) start(task *toolpark.Task) []toolpark.GenerationID {
	s.T.Helper()
	late := lateParks{started: make(chan []toolpark.GenerationID, 1)}
	delivery := workflows.NewDelivery(s.Temporal, s.Queue, late, s.Log)
	delivery.Start([]*toolpark.Task{task})
	delivery.Close()
	select {
	case started := <-late.started:
		return started
	default:
		return nil
	}
}

// lateParks read a moment too early: every task still needs its start.
type lateParks struct{ started chan []toolpark.GenerationID }

func (lateParks) Unstarted(_ context.Context, tasks []toolpark.GenerationID) ([]toolpark.GenerationID, error) {
	return tasks, nil
}

func (p lateParks) Started(_ context.Context, tasks []toolpark.GenerationID) error {
	p.started <- tasks
	return nil
}

func TestACancelFromTheWebUISettlesATask(t *testing.T) {
	t.Parallel()

	t.Run("that waits in its start delay", func(t *testing.T) {
		t.Parallel()
		s := openShop(t)
		task := s.echo(time.Hour)
		require.NoError(t, s.Temporal.CancelWorkflow(t.Context(), task.WorkflowID(), ""))
		settled := task.Settled()
		require.Equal(t, toolpark.Canceled, settled.Status)
		require.Equal(t, toolpark.ErrTaskCanceled, *settled.ErrorKey)
		s.closed(task.WorkflowID(), enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
		require.Equal(t, 1, s.inputs(task), "the cancel has a row like any other")
	})

	t.Run("that is claimed; its report comes too late", func(t *testing.T) {
		t.Parallel()
		s := openShop(t)
		task := s.echo(time.Hour)
		token := task.Claim()
		require.NoError(t, s.Temporal.CancelWorkflow(t.Context(), task.WorkflowID(), ""))
		require.Equal(t, toolpark.Canceled, task.Settled().Status)
		_, err := s.runner.Commit(t.Context(), task.Ref, token, runner.Text("late"))
		requireCode(t, toolpark.CodeClaimCanceled, err)
	})

	t.Run("that a member cancels at the same time, once", func(t *testing.T) {
		t.Parallel()
		s := closedShop(t)
		task := s.echo(time.Hour)
		_, err := s.Park.StageCancel(t.Context(), s.Member(), task.TaskID)
		require.NoError(t, err)
		require.NoError(t, s.Temporal.CancelWorkflow(t.Context(), task.WorkflowID(), ""))
		s.StartWorker()
		require.Equal(t, toolpark.Canceled, task.Settled().Status)
		require.Equal(t, 1, s.inputs(task))
	})

	t.Run("unless a report was staged before", func(t *testing.T) {
		t.Parallel()
		s := closedShop(t)
		task := s.echo(time.Hour)
		_, err := s.Park.StageCommit(t.Context(), s.runner.As(s.Account), task.TaskID, task.Claim(), text("done"))
		require.NoError(t, err)
		require.NoError(t, s.Temporal.CancelWorkflow(t.Context(), task.WorkflowID(), ""))
		s.StartWorker()
		require.Equal(t, toolpark.Completed, task.Settled().Status)
	})

	t.Run("unless it is settling", func(t *testing.T) {
		t.Parallel()
		s := openShop(t)
		task := s.echo(time.Hour)
		token := task.Claim()
		// The settle holds the task's row and waits for the run's while the cancel request comes.
		release := s.hold(`SELECT FROM runs WHERE id = $1 FOR NO KEY UPDATE`, task.Run)
		_, err := s.Park.StageCommit(t.Context(), s.runner.As(s.Account), task.TaskID, token, text("done"))
		require.NoError(t, err)
		require.NoError(t, s.Delivery.Nudge(t.Context(), &task.Row().Task, workflows.SignalCommit))
		s.blocked()
		require.NoError(t, s.Temporal.CancelWorkflow(t.Context(), task.WorkflowID(), ""))
		release()
		settled := task.Settled()
		require.Equal(t, toolpark.Completed, settled.Status)
		require.Equal(t, toolpark.ByCommit, *settled.SettledBy)
		s.closed(task.WorkflowID(), enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
		require.Len(t, s.runs(task.WorkflowID()), 1)
	})
}

func TestACancelFromTheWebUIStopsARun(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	s.run = s.RunOf(s.Agent, s.runner)
	id := workflows.RunWorkflowID(uuid.MustParse(s.run))
	waiting, claimed, settled := s.echo(time.Hour), s.echo(time.Hour), s.echo(time.Hour)
	token := claimed.Claim()
	settled.Commit(settled.Claim(), "done")

	require.NoError(t, s.Temporal.CancelWorkflow(t.Context(), id, ""))
	require.Equal(t, toolpark.Canceled, waiting.Settled().Status)
	require.Equal(t, toolpark.Canceled, claimed.Settled().Status)
	require.Equal(t, toolpark.Completed, settled.Row().Status)
	s.Eventually("the run ends", func() bool {
		run, err := s.Agent.Run(t.Context(), s.run)
		require.NoError(t, err)
		return run.Status == toolpark.RunCanceled
	})
	_, err := s.runner.Commit(t.Context(), claimed.Ref, token, runner.Text("late"))
	requireCode(t, toolpark.CodeClaimCanceled, err)
	s.closed(id, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
	var canceled int
	require.NoError(t, s.DB.Pool.QueryRow(t.Context(), `
		SELECT count(*) FROM events WHERE run_id = $1 AND type = 'run_status' AND data->>'status' = 'canceled'`,
		waiting.Run).Scan(&canceled))
	require.Equal(t, 1, canceled)
}

func TestACancelFromTheWebUIOfAnIdleRun(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	run := s.RunOf(s.Agent, s.runner)
	id := workflows.RunWorkflowID(uuid.MustParse(run))
	require.NoError(t, s.Temporal.CancelWorkflow(t.Context(), id, ""))
	s.closed(id, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
	stopped, err := s.Agent.Run(t.Context(), run)
	require.NoError(t, err)
	require.Equal(t, toolpark.RunCanceled, stopped.Status)
}

// inputs counts what was staged for a task.
func (s *shop) inputs(task *kerneltest.Task) (n int) {
	s.T.Helper()
	require.NoError(s.T, s.DB.Pool.QueryRow(s.T.Context(), `
		SELECT count(*) FROM task_inputs WHERE run_id = $1 AND task_key = $2`, task.Run, task.Key).Scan(&n))
	return n
}

// hold takes a lock from outside until release is called.
func (s *shop) hold(lock string, args ...any) (release func()) {
	s.T.Helper()
	ctx := s.T.Context()
	conn, err := pgx.Connect(ctx, s.Database)
	require.NoError(s.T, err)
	tx, err := conn.Begin(ctx)
	require.NoError(s.T, err)
	_, err = tx.Exec(ctx, lock, args...)
	require.NoError(s.T, err)
	return func() {
		require.NoError(s.T, tx.Commit(ctx))
		require.NoError(s.T, conn.Close(ctx))
	}
}

// blocked waits until somebody waits for a lock.
func (s *shop) blocked() {
	s.T.Helper()
	s.Eventually("somebody waits for the lock", func() bool {
		var found bool
		err := s.DB.Pool.QueryRow(s.T.Context(), `
			SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&found)
		return err == nil && found
	})
}

func requireCode(t *testing.T, code toolpark.Code, err error) {
	t.Helper()
	var refusal *toolpark.Error
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, code, refusal.Code)
}

func TestAWorkflowOfATaskNobodyKnowsEnds(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	// As after the database was restored to an earlier time.
	unknown := &toolpark.Task{AccountID: s.ID, RunID: uuid.NewV7(), Key: "r1t0", Generation: 1, Status: toolpark.Dispatched}
	require.NoError(t, s.Delivery.Nudge(t.Context(), unknown, workflows.SignalWake))
	s.closed(workflows.TaskWorkflowID(unknown.RunID, "r1t0", 1), enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
	require.NoError(t, s.Delivery.NudgeRun(t.Context(), s.ID, unknown.RunID, workflows.SignalWake))
	s.closed(workflows.RunWorkflowID(unknown.RunID), enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
}
