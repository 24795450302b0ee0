package postgres

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"time"
	"uuid"

	"github.com/jackc/pgx/v5"

	"github.com/toolpark/toolpark"
)

// NewTask is a task about to be written, as it is born.
type NewTask struct {
	Key              string                  `json:"key"`
	Round            *int                    `json:"round"`
	Position         int                     `json:"position"`
	Kind             toolpark.TaskKind       `json:"kind"`
	Origin           toolpark.Origin         `json:"origin"`
	Status           toolpark.Status         `json:"status"`
	CallableName     *string                 `json:"callable_name"`
	ToolName         *string                 `json:"tool_name"`
	ToolCallID       *string                 `json:"tool_call_id"`
	AddressedRole    *toolpark.ExecutorKind  `json:"addressed_role"`
	AddressedTo      []uuid.UUID             `json:"addressed_to"`
	TargetName       *string                 `json:"target_name"`
	EffectProfile    *toolpark.EffectProfile `json:"effect_profile"`
	OutputSchemaHash []byte                  `json:"-"`
	TimeoutMS        *int64                  `json:"timeout_ms"`
	AnnouncedMS      *int64                  `json:"announced_timeout_ms"`
	ErrorKey         *string                 `json:"error_key"`   // of a failed birth
	ErrorDetail      *string                 `json:"-"`           //
	Input            jsontext.Value          `json:"-"`           // nil when the arguments were no JSON object
	OutputSchemaHex  *string                 `json:"output_hash"` // set by InsertTasks
}

// LockedRun is a run's row under its lock, and the database's clock read after it.
type LockedRun struct {
	Run
	Now time.Time
}

// LockRun locks a run's row. Authoring locks the run first, which breaks no order: the task rows it
// goes on to write are new. It answers not_found when the member may not read the run.
func LockRun(ctx context.Context, tx pgx.Tx, account, run uuid.UUID) (*LockedRun, error) {
	batch := &pgx.Batch{}
	batch.Queue(`SELECT `+runColumns+` FROM runs r WHERE r.account_id = $1 AND r.id = $2 FOR NO KEY UPDATE`, account, run)
	batch.Queue(`SELECT clock_timestamp()`)
	results := tx.SendBatch(ctx, batch)
	defer func() { _ = results.Close() }()
	rows, _ := results.Query()
	r, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Run])
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, NotFound("run")
	}
	if err != nil {
		return nil, mapError(err, "lock run %s", run)
	}
	locked := &LockedRun{Run: r}
	return locked, mapError(results.QueryRow().Scan(&locked.Now), "read the clock")
}

// InsertTasks writes the tasks of one round or one append under a locked run, with their inputs, their
// inbox rows and their events, in a constant number of statements. Live tasks start their clock at
// run.Now. A round number of nil means the append door.
func InsertTasks(ctx context.Context, tx pgx.Tx, run *LockedRun, round *int, tasks []NewTask) error {
	inputs := make([]jsontext.Value, len(tasks))
	keys := make([]string, len(tasks))
	details := make([]*string, len(tasks))
	for i := range tasks {
		keys[i], inputs[i], details[i] = tasks[i].Key, tasks[i].Input, tasks[i].ErrorDetail
		if tasks[i].OutputSchemaHash != nil {
			tasks[i].OutputSchemaHex = byteaText(tasks[i].OutputSchemaHash)
		}
	}
	rows, err := json.Marshal(tasks)
	if err != nil {
		return err
	}
	batch := &pgx.Batch{}
	if round != nil {
		batch.Queue(`INSERT INTO rounds (account_id, run_id, number, created_at) VALUES ($1, $2, $3, $4)`,
			run.AccountID, run.ID, *round, run.Now)
	}
	batch.Queue(`
		INSERT INTO tasks (account_id, run_id, key, round, position, kind, origin, status, callable_name, tool_name,
			tool_call_id, addressed_role, addressed_to, target_name, effect_profile, output_schema_hash, timeout_ms,
			announced_timeout_ms, dispatched_at, deadline_at, settled_at, settled_by, error_key, wake_at, created_at)
		SELECT $1, $2, key, round, position, kind, origin, status, callable_name, tool_name, tool_call_id,
			addressed_role, addressed_to, target_name, effect_profile, output_hash::bytea, timeout_ms,
			announced_timeout_ms,
			CASE WHEN status = 'dispatched' THEN $4::timestamptz END,
			CASE WHEN status = 'dispatched' THEN $4::timestamptz + timeout_ms * interval '1 millisecond' END,
			CASE WHEN status = 'failed' THEN $4::timestamptz END,
			CASE WHEN status = 'failed' THEN 'birth' END,
			error_key,
			CASE WHEN status <> 'failed' THEN $4::timestamptz + $5::interval END,
			$4
		FROM json_to_recordset($3::json) AS t(key text, round int, position int, kind text, origin text, status text,
			callable_name text, tool_name text, tool_call_id text, addressed_role text, addressed_to uuid[],
			target_name text, effect_profile json, output_hash text, timeout_ms bigint,
			announced_timeout_ms bigint, error_key text)`,
		run.AccountID, run.ID, jsontext.Value(rows), run.Now, wakeGrace)
	batch.Queue(`
		INSERT INTO task_payloads (account_id, run_id, task_key, generation, input)
		SELECT $1, $2, key, 1, input FROM unnest($3::text[], $4::json[]) AS p(key, input)`,
		run.AccountID, run.ID, keys, inputs)
	batch.Queue(`
		INSERT INTO task_results (account_id, run_id, task_key, generation, error_detail)
		SELECT $1, $2, t.key, 1, d.detail
		FROM unnest($3::text[], $4::text[]) AS d(key, detail)
		JOIN tasks t ON t.run_id = $2 AND t.key = d.key AND t.settled_at IS NOT NULL`,
		run.AccountID, run.ID, keys, details)
	batch.Queue(`
		INSERT INTO deliveries (executor_id, run_id, task_key, generation, account_id, dispatched_at)
		SELECT e, t.run_id, t.key, 1, t.account_id, t.dispatched_at
		FROM tasks t, unnest(t.addressed_to) AS e
		WHERE t.run_id = $1 AND t.key = ANY($2) AND t.status = 'dispatched'`, run.ID, keys)
	batch.Queue(`
		WITH happened AS (
			SELECT 0 AS n, 'round_opened' AS type, json_build_object('round', $3::int) AS data WHERE $3::int IS NOT NULL
			UNION ALL
			SELECT i, 'task_status', json_build_object('task_key', t.key, 'generation', 1, 'status', t.status)
			FROM unnest($4::text[]) WITH ORDINALITY AS k(key, i) JOIN tasks t ON t.run_id = $2 AND t.key = k.key
			UNION ALL
			SELECT 1000, 'round_settled', json_build_object('round', $3::int)
			WHERE $3::int IS NOT NULL AND NOT EXISTS (
				SELECT FROM tasks WHERE run_id = $2 AND round = $3 AND settled_at IS NULL)
		), numbered AS (
			SELECT row_number() OVER (ORDER BY n) AS n, type, data FROM happened
		), told AS (
			INSERT INTO events (account_id, run_id, seq, type, data)
			SELECT $1, $2, $5 + n, type, data FROM numbered
		), round_done AS (
			UPDATE rounds SET settled_at = clock_timestamp()
			WHERE run_id = $2 AND number = $3 AND EXISTS (SELECT FROM happened WHERE type = 'round_settled')
		)
		UPDATE runs SET
			event_seq = $5 + (SELECT count(*) FROM numbered),
			rounds = rounds + ($3::int IS NOT NULL)::int,
			appends = appends + ($3::int IS NULL)::int,
			authored_at = $6
		WHERE account_id = $1 AND id = $2`,
		run.AccountID, run.ID, round, keys, run.EventSeq, run.Now)
	return mapError(tx.SendBatch(ctx, batch).Close(), "write tasks of run %s", run.ID)
}

// Unstarted are those of the tasks that wait and that nothing was staged for.
func (db *DB) Unstarted(ctx context.Context, tasks []toolpark.TaskID) ([]toolpark.TaskID, error) {
	accounts, runs, keys := columns(tasks)
	rows, _ := db.Pool.Query(ctx, `
		SELECT t.account_id AS account, t.run_id AS run, t.key
		FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS w(account_id, run_id, key)
		JOIN tasks t ON t.account_id = w.account_id AND t.run_id = w.run_id AND t.key = w.key
		WHERE t.settled_at IS NULL AND t.next_input = 1`, accounts, runs, keys)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[toolpark.TaskID])
	return found, mapError(err, "look for tasks to start")
}

// Started tells the recovery loop that the workflows of these tasks exist: it need not look before
// their deadline. A task that was claimed or has something staged meanwhile keeps its earlier alarm, and so
// does one that somebody works on now.
func (db *DB) Started(ctx context.Context, tasks []toolpark.TaskID) error {
	accounts, runs, keys := columns(tasks)
	_, err := db.Pool.Exec(ctx, `
		WITH started AS (
			SELECT t.run_id, t.key
			FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS w(account_id, run_id, key)
			JOIN tasks t ON t.account_id = w.account_id AND t.run_id = w.run_id AND t.key = w.key
			WHERE t.settled_at IS NULL AND t.claimed_by IS NULL AND t.next_input = 1
			FOR NO KEY UPDATE OF t SKIP LOCKED
		)
		UPDATE tasks t SET wake_at = deadline_at + $4::interval
		FROM started
		WHERE t.run_id = started.run_id AND t.key = started.key`, accounts, runs, keys, wakeGrace)
	return mapError(err, "note the start of tasks")
}

// columns lays ids out as the arrays that unnest puts together again.
func columns(tasks []toolpark.TaskID) (accounts, runs []uuid.UUID, keys []string) {
	for _, id := range tasks {
		accounts, runs, keys = append(accounts, id.Account), append(runs, id.Run), append(keys, id.Key)
	}
	return accounts, runs, keys
}

// TakenKeys are those of the keys that tasks of the run have. The run must be locked.
func TakenKeys(ctx context.Context, tx pgx.Tx, account, run uuid.UUID, keys []string) (map[string]bool, error) {
	taken := map[string]bool{}
	if len(keys) == 0 {
		return taken, nil
	}
	rows, _ := tx.Query(ctx, `SELECT key FROM tasks WHERE account_id = $1 AND run_id = $2 AND key = ANY($3)`, account, run, keys)
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, key := range found {
		taken[key] = true
	}
	return taken, mapError(err, "look for keys of run %s", run)
}

// OutputSchema reads an announced output schema by its hash.
func OutputSchema(ctx context.Context, q Querier, account uuid.UUID, hash []byte) (jsontext.Value, error) {
	var document jsontext.Value
	err := q.QueryRow(ctx, `SELECT document FROM output_schemas WHERE account_id = $1 AND hash = $2`, account, hash).Scan(&document)
	return document, mapError(err, "read output schema %x", hash)
}
