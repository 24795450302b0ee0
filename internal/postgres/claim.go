package postgres

import (
	"context"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"time"
	"uuid"

	"github.com/jackc/pgx/v5"

	"github.com/toolpark/toolpark"
)

// Admits reads into admits whether an executor is eligible for the run's principal now: not shutting down,
// and its scope admits the run's agent, or the human who created it. Its credential was checked at the door.
func Admits(id toolpark.TaskID, executor uuid.UUID, admits *bool) Read {
	return func(batch *pgx.Batch) {
		batch.Queue(`
			SELECT coalesce(bool_or(NOT e.shutting_down AND CASE
				WHEN e.kind = 'agent_application' THEN coalesce(e.agent_id = r.agent_id, false)
				ELSE e.assignment_scope = 'account_wide' OR e.manager_id = coalesce(p.steward_id, p.id) END), false)
			FROM runs r
			JOIN members p ON p.id = coalesce(r.agent_id, r.creator_id)
			JOIN executors e ON e.account_id = r.account_id AND e.id = $3
			WHERE r.account_id = $1 AND r.id = $2`, id.Account, id.Run, executor).
			QueryRow(func(row pgx.Row) error { return row.Scan(admits) })
	}
}

// Grant gives a locked task to an executor: its clock starts again in full, and its inbox row stays
// only with the claimant. The recovery loop shows the claim to operators if it lasts.
func Grant(tx *Tx, task *LockedTask, executor uuid.UUID, tokenHash []byte) {
	id := task.ID()
	deadline := task.Now.Add(task.Timeout())
	batch := tx.Later()
	batch.Queue(`
		UPDATE tasks
		SET claimed_by = $4, claimed_at = $5, claim_token_hash = $6, claim_shown = false, deadline_at = $7,
			wake_at = least(wake_at, $5::timestamptz + $8::interval), wake_attempts = 0, revision = revision + 1
		WHERE account_id = $1 AND run_id = $2 AND key = $3`,
		id.Account, id.Run, id.Key, executor, task.Now, tokenHash, deadline, wakeGrace)
	if len(task.AddressedTo) > 1 {
		batch.Queue(`DELETE FROM deliveries WHERE run_id = $1 AND task_key = $2 AND executor_id <> $3`, id.Run, id.Key, executor)
	}
	batch.Queue(`UPDATE deliveries SET claimed = true WHERE run_id = $1 AND task_key = $2 AND executor_id = $3`,
		id.Run, id.Key, executor)
	task.DeadlineAt, task.ClaimedBy, task.ClaimTokenHash = &deadline, &executor, tokenHash
}

// Extend moves a locked task's deadline, with the event that says so. The recovery loop's alarm moves
// along unless something else is due before the old deadline.
func Extend(tx *Tx, task *LockedTask, deadline time.Time) {
	id := task.ID()
	batch := tx.Later()
	batch.Queue(`
		UPDATE tasks
		SET wake_at = CASE WHEN wake_at >= deadline_at THEN $4::timestamptz + $5::interval ELSE wake_at END,
			deadline_at = $4, revision = revision + 1
		WHERE account_id = $1 AND run_id = $2 AND key = $3`, id.Account, id.Run, id.Key, deadline, wakeGrace)
	tellRun(batch, id, Event{Type: eventDeadlineExtended, Data: jsontext.Value(fmt.Sprintf(
		`{"task_key":"%s","generation":%d,"deadline_at":"%s"}`, id.Key, task.Generation, deadline.UTC().Format(time.RFC3339Nano)))})
	task.DeadlineAt = &deadline
}

// Progress keeps the last frame of a live claim. It tells whether the frame was kept: frames that come
// faster than the interval, or after the task has settled, are dropped.
func (db *DB) Progress(ctx context.Context, id toolpark.TaskID, generation int, frame []byte) (bool, error) {
	tag, err := db.Pool.Exec(ctx, `
		INSERT INTO progress AS p (account_id, run_id, task_key, generation, frame, updated_at)
		SELECT t.account_id, t.run_id, t.key, t.generation, $5::json, clock_timestamp()
		FROM tasks t
		WHERE t.account_id = $1 AND t.run_id = $2 AND t.key = $3 AND t.generation = $4 AND t.settled_at IS NULL
		ON CONFLICT (run_id, task_key) DO UPDATE
		SET generation = excluded.generation, frame = excluded.frame, updated_at = excluded.updated_at
		WHERE p.updated_at <= excluded.updated_at - $6::interval`,
		id.Account, id.Run, id.Key, generation, frame, toolpark.ProgressInterval)
	return tag.RowsAffected() == 1, mapError(err, "keep progress of task %s", id)
}

// TaskLive reads a task without locking it, and whether its park still stands by the database's clock: not
// settled, not being canceled, and before its deadline.
func (db *DB) TaskLive(ctx context.Context, id toolpark.TaskID) (*toolpark.Task, bool, error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT `+taskColumns+`,
			t.settled_at IS NULL AND t.cancel_requested_at IS NULL AND t.deadline_at > clock_timestamp() AS live
		FROM tasks t
		WHERE t.account_id = $1 AND t.run_id = $2 AND t.key = $3`, id.Account, id.Run, id.Key)
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToAddrOfStructByName[struct {
		toolpark.Task
		Live *bool
	}])
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, false, NotFound("task")
	}
	if err != nil {
		return nil, false, mapError(err, "read task %s", id)
	}
	return &found.Task, found.Live != nil && *found.Live, nil
}
