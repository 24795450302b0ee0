package postgres

import (
	"context"
	"encoding/json/jsontext"
	"errors"
	"time"
	"uuid"

	"github.com/jackc/pgx/v5"

	"github.com/toolpark/toolpark"
)

// wakeGrace is how long a task's workflow has to act by itself before the recovery loop nudges it.
const wakeGrace = 5 * time.Second

const taskColumns = `t.account_id, t.run_id, t.key, t.round, t.parent_key, t.position, t.generation, t.kind, t.origin, t.status,
	t.callable_name, t.tool_name, t.tool_alias, t.kernel_tool, t.tool_call_id, t.addressed_role, t.addressed_to, t.waits_for, t.watched, t.target_name,
	t.effect_profile, t.approval, t.output_schema_hash, t.timeout_ms, t.announced_timeout_ms, t.began_at, t.dispatched_at, t.deadline_at, t.claimed_by, t.claimed_at,
	t.claim_token_hash, t.claim_shown, t.cancel_requested_at, t.next_input, t.settled_at, t.settled_by, t.is_error,
	t.answered_by, t.error_key, t.abandoned_at, t.abandoned_by, t.revision, t.created_at`

// LockedTask is a task's row under its lock, with the clock and what is staged, both read by a
// statement of their own after the lock: one clever UPDATE would stamp before the lock wait, or not
// see what the lock's last holder staged (spec: locks and clocks).
type LockedTask struct {
	toolpark.Task
	Now    time.Time
	Inputs []toolpark.Input // staged and not judged, in the order of their staging
}

// Read is a statement that is sent along with another one, in the same round trip.
type Read func(*pgx.Batch)

// LockTask locks a task's row, then makes the reads. It answers not_found when there is no such task in
// the account.
func LockTask(ctx context.Context, tx *Tx, id toolpark.TaskID, reads ...Read) (*LockedTask, error) {
	locked := &LockedTask{}
	batch := &pgx.Batch{}
	batch.Queue(`
		SELECT `+taskColumns+`
		FROM tasks t
		WHERE t.account_id = $1 AND t.run_id = $2 AND t.key = $3
		FOR NO KEY UPDATE`, id.Account, id.Run, id.Key).Query(func(rows pgx.Rows) (err error) {
		locked.Task, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[toolpark.Task])
		return err
	})
	batch.Queue(`SELECT clock_timestamp()`).QueryRow(func(row pgx.Row) error { return row.Scan(&locked.Now) })
	batch.Queue(`
		SELECT seq, generation, kind, staged_at, actor_id, body
		FROM task_inputs
		WHERE account_id = $1 AND run_id = $2 AND task_key = $3 AND judged_at IS NULL
		ORDER BY seq`, id.Account, id.Run, id.Key).Query(func(rows pgx.Rows) (err error) {
		locked.Inputs, err = pgx.CollectRows(rows, pgx.RowToStructByName[toolpark.Input])
		return err
	})
	for _, read := range reads {
		read(batch)
	}
	err := tx.Send(ctx, batch)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, NotFound("task")
	}
	if err != nil {
		return nil, mapError(err, "lock task %s", id)
	}
	return locked, nil
}

// NotFound is the answer for what does not exist, or exists in another account or run: they read alike.
func NotFound(what string) *toolpark.Error {
	return toolpark.Errorf(toolpark.CodeNotFound, "There is no such %s.", what)
}

// Task reads a task's row without locking it.
func (db *DB) Task(ctx context.Context, id toolpark.TaskID) (*toolpark.Task, error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT `+taskColumns+`
		FROM tasks t
		WHERE t.account_id = $1 AND t.run_id = $2 AND t.key = $3`, id.Account, id.Run, id.Key)
	task, err := pgx.CollectExactlyOneRow(rows, pgx.RowToAddrOfStructByName[toolpark.Task])
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, NotFound("task")
	}
	return task, mapError(err, "read task %s", id)
}

// TaskDetail is a task with what it was asked and, once settled, what came of it.
type TaskDetail struct {
	toolpark.Task
	Input             jsontext.Value // what it runs with
	OriginalInput     jsontext.Value // what was asked before an approver edited it; nil when nobody did
	ChildInput        jsontext.Value // of a tool_call: what the call that it made ran with, if an approver edited that; else nil
	Content           jsontext.Value
	StructuredContent jsontext.Value
	Title             *string
	Metadata          jsontext.Value
	ErrorDetail       *string
	RejectedResult    jsontext.Value
}

var taskDetails = detailsOf("tasks")

// detailsOf selects whole tasks from rows of tasks, called t.
func detailsOf(rows string) string {
	return `
	SELECT ` + taskColumns + `, p.input, p.original_input,
		CASE WHEN t.kernel_tool IS NOT NULL THEN (
			SELECT c.input FROM task_payloads c
			WHERE c.run_id = t.run_id AND c.task_key = t.key || '-call-' || t.generation AND c.generation = 1
				AND c.original_input IS NOT NULL) END AS child_input,
		r.content, r.structured_content, r.title, r.metadata, r.error_detail,
		r.rejected_result
	FROM ` + rows + ` t
	LEFT JOIN task_payloads p ON p.run_id = t.run_id AND p.task_key = t.key AND p.generation = t.generation
	LEFT JOIN task_results r ON r.run_id = t.run_id AND r.task_key = t.key AND r.generation = t.generation`
}

// TaskDetail reads one task whole.
func (db *DB) TaskDetail(ctx context.Context, id toolpark.TaskID) (*TaskDetail, error) {
	var task *TaskDetail
	batch := &pgx.Batch{}
	readTask(id, &task)(batch)
	err := db.Pool.SendBatch(ctx, batch).Close()
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, NotFound("task")
	}
	return task, mapError(err, "read task %s", id)
}

func readTask(id toolpark.TaskID, task **TaskDetail) Read {
	return func(batch *pgx.Batch) {
		batch.Queue(taskDetails+`
			WHERE t.account_id = $1 AND t.run_id = $2 AND t.key = $3`, id.Account, id.Run, id.Key).
			Query(func(rows pgx.Rows) (err error) {
				*task, err = pgx.CollectExactlyOneRow(rows, pgx.RowToAddrOfStructByName[TaskDetail])
				return err
			})
	}
}

// RoundDetail reads every task of a round whole, in call order. It answers not_found for a round that
// was never opened.
func (db *DB) RoundDetail(ctx context.Context, account, run uuid.UUID, number int) ([]*TaskDetail, error) {
	rows, _ := db.Pool.Query(ctx, taskDetails+`
		WHERE t.account_id = $1 AND t.run_id = $2 AND t.round = $3
		ORDER BY t.position`, account, run, number)
	tasks, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[TaskDetail])
	if err == nil && len(tasks) == 0 {
		return nil, NotFound("round")
	}
	return tasks, mapError(err, "read round %s/%d", run, number)
}

// ReadRoundSettled reads into settled whether every task of a round has settled; of a round that was never
// opened there is none that has not.
func ReadRoundSettled(run uuid.UUID, number int, settled *bool) Read {
	return func(batch *pgx.Batch) {
		batch.Queue(`SELECT NOT EXISTS (SELECT FROM tasks WHERE run_id = $1 AND round = $2 AND settled_at IS NULL)`,
			run, number).QueryRow(func(row pgx.Row) error { return row.Scan(settled) })
	}
}

// TasksPage lists a run's tasks without inputs and results, by key.
func (db *DB) TasksPage(ctx context.Context, account, run uuid.UUID, after string, limit int) ([]toolpark.Task, error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT `+taskColumns+`
		FROM tasks t
		WHERE t.account_id = $1 AND t.run_id = $2 AND t.key > $3
		ORDER BY t.key
		LIMIT $4`, account, run, after, limit)
	tasks, err := pgx.CollectRows(rows, pgx.RowToStructByName[toolpark.Task])
	return tasks, mapError(err, "list tasks of run %s", run)
}
