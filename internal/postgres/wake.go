package postgres

import (
	"context"
	"uuid"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/toolpark/toolpark"
)

// wakeBackoff pushes an alarm out while its task is being nudged: 5 s, then 10 s. A nudge that the server
// took is not lost, so a sooner one would only load a server that is behind with its work.
const wakeBackoff = `least(interval '10 seconds', interval '5 seconds' * power(2, least(wake_attempts, 1)))`

// DueTasks takes at most limit tasks whose alarm is over and pushes their alarms out, so that no other
// process takes them too. One partial index covers what was authored and never started, staged and
// never judged, claimed and never shown, overdue, and orphaned.
func (db *DB) DueTasks(ctx context.Context, limit int) ([]*toolpark.Task, error) {
	rows, _ := db.Pool.Query(ctx, `
		WITH due AS (
			SELECT run_id, key FROM tasks
			WHERE wake_at < now()
			ORDER BY wake_at
			LIMIT $1
			FOR NO KEY UPDATE SKIP LOCKED
		)
		UPDATE tasks t SET wake_at = clock_timestamp() + `+wakeBackoff+`, wake_attempts = wake_attempts + 1
		FROM due
		WHERE t.run_id = due.run_id AND t.key = due.key
		RETURNING `+taskColumns, limit)
	tasks, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[toolpark.Task])
	return tasks, mapError(err, "look for tasks to wake")
}

// RunRef names a run.
type RunRef struct {
	AccountID uuid.UUID
	ID        uuid.UUID
}

// DueRuns is DueTasks for runs: accepting, stopping or ended, and their workflow has not noticed.
func (db *DB) DueRuns(ctx context.Context, limit int) ([]RunRef, error) {
	rows, _ := db.Pool.Query(ctx, `
		WITH due AS (
			SELECT id FROM runs
			WHERE wake_at < now()
			ORDER BY wake_at
			LIMIT $1
			FOR NO KEY UPDATE SKIP LOCKED
		)
		UPDATE runs r SET wake_at = clock_timestamp() + `+wakeBackoff+`, wake_attempts = wake_attempts + 1
		FROM due
		WHERE r.id = due.id
		RETURNING r.account_id, r.id`, limit)
	runs, err := pgx.CollectRows(rows, pgx.RowToStructByName[RunRef])
	return runs, mapError(err, "look for runs to wake")
}

// LiveTasks reads those of the named generations that have not settled, whatever their account: the recovery
// loop asks it about workflows it found closed.
func (db *DB) LiveTasks(ctx context.Context, of []toolpark.GenerationID) ([]*toolpark.Task, error) {
	_, runs, keys, generations := columns(of)
	rows, _ := db.Pool.Query(ctx, `
		SELECT `+taskColumns+`
		FROM unnest($1::uuid[], $2::text[], $3::int[]) AS w(run_id, key, generation)
		JOIN tasks t ON t.run_id = w.run_id AND t.key = w.key AND t.generation = w.generation
		WHERE t.settled_at IS NULL`, runs, keys, generations)
	tasks, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[toolpark.Task])
	return tasks, mapError(err, "look for live tasks")
}

// OpenRuns reads those of the named runs that have not ended.
func (db *DB) OpenRuns(ctx context.Context, ids []uuid.UUID) ([]RunRef, error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT account_id, id FROM runs
		WHERE id = ANY($1) AND status NOT IN ('refused', 'completed', 'canceled')`, ids)
	runs, err := pgx.CollectRows(rows, pgx.RowToStructByName[RunRef])
	return runs, mapError(err, "look for open runs")
}

// Sweep deletes what has outlived its use, at most limit rows of a kind: Idempotency-Keys and refusals of a
// day ago, and frames that came while their task was settling. It tells whether there may be more.
func (db *DB) Sweep(ctx context.Context, limit int) (more bool, err error) {
	batch := &pgx.Batch{}
	count := func(tag pgconn.CommandTag) error {
		more = more || tag.RowsAffected() >= int64(limit)
		return nil
	}
	batch.Queue(`
		DELETE FROM idempotency_keys WHERE ctid IN (
			SELECT ctid FROM idempotency_keys WHERE created_at < now() - $1::interval LIMIT $2)`,
		toolpark.IdempotencyTTL, limit).Exec(count)
	batch.Queue(`
		DELETE FROM runs WHERE id IN (
			SELECT id FROM runs WHERE status = 'refused' AND ended_at < now() - $1::interval LIMIT $2)`,
		toolpark.RefusedRunTTL, limit).Exec(count)
	batch.Queue(`
		DELETE FROM progress WHERE ctid IN (
			SELECT p.ctid FROM progress p
			WHERE NOT EXISTS (SELECT FROM tasks t WHERE t.run_id = p.run_id AND t.key = p.task_key AND t.settled_at IS NULL)
			LIMIT $1)`, limit).Exec(count)
	err = db.Pool.SendBatch(ctx, batch).Close()
	return more, mapError(err, "sweep")
}
