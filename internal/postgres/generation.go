package postgres

import (
	"context"
	"errors"
	"time"
	"uuid"

	"github.com/jackc/pgx/v5"

	"github.com/toolpark/toolpark"
)

// Renew begins a settled task again as its next generation. The row as it was moves aside, and the task is written
// as next is born, with what it was asked before. The task is locked, and the run's row after it; run.Now starts the
// clock. reopens tells that the task's round had settled: it has not any more.
func Renew(tx *Tx, task *LockedTask, run *LockedRun, next *NewTask, reopens bool) {
	id, generation := task.ID(), task.Generation+1
	batch := tx.Later()
	batch.Queue(`
		INSERT INTO task_generations (account_id, run_id, task_key, generation, facts)
		SELECT t.account_id, t.run_id, t.key, t.generation, row_to_json(t)
		FROM tasks t
		WHERE t.account_id = $1 AND t.run_id = $2 AND t.key = $3`, id.Account, id.Run, id.Key)
	batch.Queue(`
		UPDATE tasks
		SET generation = $4, status = $5, addressed_to = $6, approval = $7, began_at = $8,
			dispatched_at = CASE WHEN $5 <> 'needs_approval' THEN $8::timestamptz END, deadline_at = $9,
			claimed_by = NULL, claimed_at = NULL, claim_token_hash = NULL, claim_shown = false, cancel_requested_at = NULL,
			settled_at = NULL, settled_by = NULL, is_error = false, answered_by = NULL, error_key = NULL,
			wake_at = $8::timestamptz + $10::interval, wake_attempts = 0, revision = revision + 1
		WHERE account_id = $1 AND run_id = $2 AND key = $3`,
		id.Account, id.Run, id.Key, generation, next.Status, next.AddressedTo, next.Approval, run.Now,
		run.Now.Add(next.Clock()), wakeGrace)
	batch.Queue(`
		INSERT INTO task_payloads (account_id, run_id, task_key, generation, input, original_input)
		SELECT account_id, run_id, task_key, $4, input, original_input
		FROM task_payloads
		WHERE account_id = $1 AND run_id = $2 AND task_key = $3 AND generation = $5`,
		id.Account, id.Run, id.Key, generation, task.Generation)
	queueDelivery(batch, id, generation, next.Listed(), run.Now)
	// A frame that came while the generation before was settling would be shown as this one's.
	batch.Queue(`DELETE FROM progress WHERE run_id = $1 AND task_key = $2`, id.Run, id.Key)
	events := birthOf(id.Key, generation, next.Status)
	if reopens {
		batch.Queue(`UPDATE rounds SET settled_at = NULL WHERE run_id = $1 AND number = $2`, id.Run, task.Round)
		events = append([]Event{{Type: eventRoundReopened, Data: roundData(task.Round)}}, events...)
	}
	queueEvents(batch, run, events)
	batch.Queue(`UPDATE runs SET authored_at = $3, event_seq = event_seq + $4 WHERE account_id = $1 AND id = $2`,
		run.AccountID, run.ID, run.Now, len(events))
}

// Abandon stamps a locked task's failure as given up by a member.
func Abandon(tx *Tx, task *LockedTask, by uuid.UUID) {
	id := task.ID()
	tx.Later().Queue(`
		UPDATE tasks SET abandoned_at = $4, abandoned_by = $5 WHERE account_id = $1 AND run_id = $2 AND key = $3`,
		id.Account, id.Run, id.Key, task.Now, by)
}

// Kin is how those stand that a task has made, or that made it.
type Kin struct {
	ParentLives     bool
	ParentAbandoned bool
	ChildLives      bool
}

// ReadKin reads into kin how a task's parent and children stand. Read under the run's lock it stays true: no task of
// the run begins meanwhile.
func ReadKin(id toolpark.TaskID, kin *Kin) Read {
	return func(batch *pgx.Batch) {
		batch.Queue(`
			SELECT coalesce(parent.settled_at IS NULL AND parent.key IS NOT NULL, false),
				parent.abandoned_at IS NOT NULL,
				EXISTS (SELECT FROM tasks c WHERE c.run_id = t.run_id AND c.parent_key = t.key AND c.settled_at IS NULL)
			FROM tasks t
			LEFT JOIN tasks parent ON parent.run_id = t.run_id AND parent.key = t.parent_key
			WHERE t.account_id = $1 AND t.run_id = $2 AND t.key = $3`,
			id.Account, id.Run, id.Key).
			QueryRow(func(row pgx.Row) error { return row.Scan(&kin.ParentLives, &kin.ParentAbandoned, &kin.ChildLives) })
	}
}

// GenerationAt reads the earlier generation of a task that was its newest at a moment; nil when none was.
func GenerationAt(ctx context.Context, tx *Tx, id toolpark.TaskID, at time.Time) (*toolpark.Task, error) {
	rows, _ := tx.Query(ctx, `
		SELECT `+taskColumns+`
		FROM task_generations g, json_populate_record(NULL::tasks, g.facts) t
		WHERE g.account_id = $1 AND g.run_id = $2 AND g.task_key = $3 AND t.began_at <= $4
		ORDER BY g.generation DESC
		LIMIT 1`, id.Account, id.Run, id.Key, at)
	task, err := pgx.CollectExactlyOneRow(rows, pgx.RowToAddrOfStructByName[toolpark.Task])
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return task, mapError(err, "read an earlier generation of task %s", id)
}

// ReadRoundOver reads into over whether a round was told to have settled. A nil number is of no round.
func ReadRoundOver(run uuid.UUID, number *int, over *bool) Read {
	return func(batch *pgx.Batch) {
		batch.Queue(`SELECT EXISTS (SELECT FROM rounds WHERE run_id = $1 AND number = $2 AND settled_at IS NOT NULL)`,
			run, number).QueryRow(func(row pgx.Row) error { return row.Scan(over) })
	}
}

// generationDetails reads generation $4 of a task, whether it is the newest or an earlier one.
var generationDetails = detailsOf(`(
	SELECT ` + taskColumns + ` FROM tasks t
	WHERE t.account_id = $1 AND t.run_id = $2 AND t.key = $3 AND t.generation = $4
	UNION ALL
	SELECT ` + taskColumns + ` FROM task_generations g, json_populate_record(NULL::tasks, g.facts) t
	WHERE g.account_id = $1 AND g.run_id = $2 AND g.task_key = $3 AND g.generation = $4)`)

// GenerationDetail reads one generation of a task whole. It answers not_found for one that never was.
func (db *DB) GenerationDetail(ctx context.Context, id toolpark.TaskID, generation int) (*TaskDetail, error) {
	rows, _ := db.Pool.Query(ctx, generationDetails, id.Account, id.Run, id.Key, generation)
	task, err := pgx.CollectExactlyOneRow(rows, pgx.RowToAddrOfStructByName[TaskDetail])
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, NotFound("generation of a task")
	}
	return task, mapError(err, "read generation %d of task %s", generation, id)
}
