package postgres

import (
	"context"
	"encoding/json/v2"
	"errors"
	"uuid"

	"github.com/jackc/pgx/v5"

	"github.com/toolpark/toolpark"
)

// NewInput is something about to be staged for a task.
type NewInput struct {
	Kind      toolpark.InputKind
	ActorID   *uuid.UUID
	TokenHash []byte // of a commit's claim
	Body      []byte // of a commit
	BodyHash  []byte
}

// Stage writes an input for a locked task, stamped with the clock that was read under the lock, and
// asks the recovery loop to look soon in case the signal that follows is lost. It returns the input's
// sequence number.
func Stage(tx *Tx, task *LockedTask, in NewInput) int {
	id := task.ID()
	batch := tx.Later()
	batch.Queue(`
		INSERT INTO task_inputs (account_id, run_id, task_key, seq, generation, kind, staged_at, actor_id, token_hash,
			body, body_hash)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		id.Account, id.Run, id.Key, task.NextInput, task.Generation, in.Kind, task.Now, in.ActorID, in.TokenHash,
		in.Body, in.BodyHash)
	batch.Queue(`
		UPDATE tasks
		SET next_input = next_input + 1, wake_at = least(wake_at, $4::timestamptz + $5::interval), wake_attempts = 0,
			cancel_requested_at = CASE WHEN $6 THEN coalesce(cancel_requested_at, $4) ELSE cancel_requested_at END
		WHERE account_id = $1 AND run_id = $2 AND key = $3`,
		id.Account, id.Run, id.Key, task.Now, wakeGrace, in.Kind == toolpark.InputCancel)
	return task.NextInput
}

// StagedReport is a report, or an answer to an ask, that was staged before: its verdict once it was judged.
type StagedReport struct {
	Seq     int
	Verdict *Verdict // nil until it is judged
}

// Reports is what was reported before under one claim, or answered before to one ask.
type Reports struct {
	Count int           // all of them
	Equal *StagedReport // the one with an equal body: equal bodies are one input
}

// FindReports reads the reports under a claim's token into found.
func FindReports(id toolpark.TaskID, tokenHash, bodyHash []byte, found *Reports) Read {
	return func(batch *pgx.Batch) {
		batch.Queue(`
			SELECT `+reportsFound+`
			FROM task_inputs
			WHERE account_id = $1 AND run_id = $2 AND task_key = $3 AND kind = 'commit' AND token_hash = $5`,
			id.Account, id.Run, id.Key, bodyHash, tokenHash).QueryRow(found.scan)
	}
}

// FindAnswers reads the answers that were staged for the current generation of an ask into found.
func FindAnswers(id toolpark.TaskID, bodyHash []byte, found *Reports) Read {
	return func(batch *pgx.Batch) {
		batch.Queue(`
			SELECT `+reportsFound+`
			FROM task_inputs i
			JOIN tasks t ON t.run_id = i.run_id AND t.key = i.task_key AND t.generation = i.generation
			WHERE i.account_id = $1 AND i.run_id = $2 AND i.task_key = $3 AND i.kind = 'resolution'`,
			id.Account, id.Run, id.Key, bodyHash).QueryRow(found.scan)
	}
}

// reportsFound counts reports, and finds the first with the body $4.
const reportsFound = `count(*), min(seq) FILTER (WHERE body_hash = $4),
	(array_agg(verdict::text ORDER BY seq) FILTER (WHERE body_hash = $4))[1]`

func (r *Reports) scan(row pgx.Row) error {
	var (
		seq     *int
		verdict []byte
	)
	if err := row.Scan(&r.Count, &seq, &verdict); err != nil || seq == nil {
		return err
	}
	r.Equal = &StagedReport{Seq: *seq}
	if verdict == nil {
		return nil
	}
	r.Equal.Verdict = new(Verdict)
	return json.Unmarshal(verdict, r.Equal.Verdict)
}

// Verdict reads what became of a staged input, nil until it is judged, and the generation of the task that it was
// staged for, as it is then.
func (db *DB) Verdict(ctx context.Context, id toolpark.TaskID, seq int) (*Verdict, *TaskDetail, error) {
	var (
		raw        []byte
		generation int
		task       *TaskDetail
	)
	batch := &pgx.Batch{}
	batch.Queue(`
		SELECT verdict, generation FROM task_inputs WHERE account_id = $1 AND run_id = $2 AND task_key = $3 AND seq = $4`,
		id.Account, id.Run, id.Key, seq).QueryRow(func(row pgx.Row) error { return row.Scan(&raw, &generation) })
	readTask(id, &task)(batch)
	err := db.Pool.SendBatch(ctx, batch).Close()
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil, NotFound("task")
	}
	if err == nil && task.Generation != generation { // it was retried meanwhile, which is rare
		task, err = db.GenerationDetail(ctx, id, generation)
	}
	if err != nil || raw == nil {
		return nil, task, mapError(err, "read a verdict of task %s", id)
	}
	verdict := new(Verdict)
	return verdict, task, json.Unmarshal(raw, verdict)
}

// StageCancels stages a cancel for every live task of a run, in one statement and without the run's
// lock: tasks are locked in key order, and those that settled meanwhile are passed over. The stamp is
// read row by row, after each lock.
func (db *DB) StageCancels(ctx context.Context, account, run uuid.UUID, actor *uuid.UUID) error {
	_, err := db.Pool.Exec(ctx, `
		WITH live AS (
			SELECT key, generation, next_input, cancel_requested_at FROM tasks
			WHERE account_id = $1 AND run_id = $2 AND settled_at IS NULL
			ORDER BY key
			FOR NO KEY UPDATE
		), wanted AS (
			SELECT key, generation, next_input, clock_timestamp() AS at FROM live WHERE cancel_requested_at IS NULL
		), staged AS (
			INSERT INTO task_inputs (account_id, run_id, task_key, seq, generation, kind, staged_at, actor_id)
			SELECT $1, $2, key, next_input, generation, 'cancel', at, $3 FROM wanted
		)
		UPDATE tasks t
		SET next_input = t.next_input + 1, cancel_requested_at = at, wake_at = at, wake_attempts = 0
		FROM wanted w
		WHERE t.run_id = $2 AND t.key = w.key`, account, run, actor)
	return mapError(err, "stage cancels for run %s", run)
}
