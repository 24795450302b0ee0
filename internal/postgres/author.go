package postgres

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"slices"
	"time"
	"uuid"

	"github.com/jackc/pgx/v5"

	"github.com/toolpark/toolpark"
)

// NewTask is a task about to be written, as it is born.
type NewTask struct {
	Key              string                  `json:"key"`
	Round            *int                    `json:"round"`
	ParentKey        *string                 `json:"parent_key"`
	Position         int                     `json:"position"`
	Kind             toolpark.TaskKind       `json:"kind"`
	Origin           toolpark.Origin         `json:"origin"`
	Status           toolpark.Status         `json:"status"`
	CallableName     *string                 `json:"callable_name"`
	ToolName         *string                 `json:"tool_name"`
	ToolAlias        *string                 `json:"tool_alias"`
	KernelTool       *string                 `json:"kernel_tool"`
	ToolCallID       *string                 `json:"tool_call_id"`
	AddressedRole    *toolpark.ExecutorKind  `json:"addressed_role"`
	AddressedTo      []uuid.UUID             `json:"addressed_to"`
	TargetName       *string                 `json:"target_name"`
	WaitsFor         *string                 `json:"waits_for"`
	EffectProfile    *toolpark.EffectProfile `json:"effect_profile"`
	Approval         *toolpark.Approval      `json:"approval"`
	OutputSchemaHash []byte                  `json:"-"`
	TimeoutMS        *int64                  `json:"timeout_ms"`
	HoldMS           *int64                  `json:"hold_ms"` // how long it waits to be approved; nil when it does not
	AnnouncedMS      *int64                  `json:"announced_timeout_ms"`
	ErrorKey         *string                 `json:"error_key"`   // of a failed birth
	ErrorDetail      *string                 `json:"-"`           //
	Input            jsontext.Value          `json:"-"`           // nil when the arguments were no JSON object
	OutputSchemaHex  *string                 `json:"output_hash"` // set by InsertTasks

	// Application is the agent's own application, whose inbox lists what waits for a person; nil when a human
	// made the run.
	Application *uuid.UUID `json:"-"`
}

// Listed are the executors whose inbox lists the task: those that it is addressed to, once it is dispatched.
func (t *NewTask) Listed() []uuid.UUID {
	if !t.Status.AwaitsPerson() {
		return t.AddressedTo
	}
	if t.Application == nil {
		return nil
	}
	return []uuid.UUID{*t.Application}
}

// Clock is how long the task may wait at first: to be approved, or for its result.
func (t *NewTask) Clock() time.Duration {
	ms := t.HoldMS
	if ms == nil {
		ms = t.TimeoutMS
	}
	if ms == nil {
		return toolpark.DefaultToolTimeout
	}
	return time.Duration(*ms) * time.Millisecond
}

// LockedRun is a run's row under its lock, and the database's clock read after it.
type LockedRun struct {
	Run
	Now time.Time
}

// LockRun locks a run's row. Authoring locks the run first, which breaks no order: the task rows it
// goes on to write are new. It makes the reads after the lock, in the same round trip. It answers
// not_found when there is no such run in the account.
func LockRun(ctx context.Context, tx *Tx, account, run uuid.UUID, reads ...Read) (*LockedRun, error) {
	locked := &LockedRun{}
	batch := &pgx.Batch{}
	batch.Queue(`SELECT `+runColumns+` FROM runs r WHERE r.account_id = $1 AND r.id = $2 FOR NO KEY UPDATE`,
		account, run).Query(func(rows pgx.Rows) (err error) {
		locked.Run, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Run])
		return err
	})
	batch.Queue(`SELECT clock_timestamp()`).QueryRow(func(row pgx.Row) error { return row.Scan(&locked.Now) })
	for _, read := range reads {
		read(batch)
	}
	err := tx.Send(ctx, batch)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, NotFound("run")
	}
	return locked, mapError(err, "lock run %s", run)
}

// NewRound is a round about to be written.
type NewRound struct {
	Number      int
	ContextHash []byte         // of what this round alone may call; nil for what its run may
	Context     jsontext.Value // the document of that hash
	ToolNames   []string       // the part of it that was offered; nil for all of it
	Offered     *Projection    // what the model was offered; nil when that was not said
}

// InsertRound writes a round under a locked run, with its tasks, their inputs, their inbox rows and their
// events, in a constant number of statements. Live tasks start their clock at run.Now.
func InsertRound(tx *Tx, run *LockedRun, round *NewRound, tasks []NewTask) error {
	batch := tx.Later()
	if round.ContextHash != nil {
		queueContext(batch, run.AccountID, round.ContextHash, round.Context)
	}
	var offered *string
	if p := round.Offered; p != nil {
		offered = &p.Digest
		queueProjection(batch, run.AccountID, p)
	}
	batch.Queue(`
		INSERT INTO rounds (account_id, run_id, number, context_hash, tool_names, offered, created_at, settled_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, CASE WHEN $8 THEN $7::timestamptz END)`,
		run.AccountID, run.ID, round.Number, round.ContextHash, round.ToolNames, offered, run.Now, !anyLive(tasks))
	if err := queueTasks(batch, run, tasks); err != nil {
		return err
	}
	events := birthEvents(&round.Number, tasks)
	queueEvents(batch, run, events)
	batch.Queue(`
		UPDATE runs SET rounds = rounds + 1, authored_at = $3, event_seq = event_seq + $4 WHERE account_id = $1 AND id = $2`,
		run.AccountID, run.ID, run.Now, len(events))
	return nil
}

// InsertSteps writes what the append door authored, as InsertRound does for a round.
func InsertSteps(tx *Tx, run *LockedRun, tasks []NewTask) error {
	batch := tx.Later()
	if err := queueTasks(batch, run, tasks); err != nil {
		return err
	}
	events := birthEvents(nil, tasks)
	queueEvents(batch, run, events)
	batch.Queue(`
		UPDATE runs SET appends = appends + 1, authored_at = $3, event_seq = event_seq + $4 WHERE account_id = $1 AND id = $2`,
		run.AccountID, run.ID, run.Now, len(events))
	return nil
}

// InsertChild writes a task that another one made. The parent's row is locked, and the run's after it.
func InsertChild(tx *Tx, run *LockedRun, child NewTask) error {
	batch := tx.Later()
	tasks := []NewTask{child}
	if err := queueTasks(batch, run, tasks); err != nil {
		return err
	}
	events := birthEvents(nil, tasks)
	queueEvents(batch, run, events)
	moveEvents(batch, run, len(events))
	return nil
}

// queueTasks writes tasks with everything that is theirs alone.
func queueTasks(batch *pgx.Batch, run *LockedRun, tasks []NewTask) error {
	if err := queueRows(batch, run, tasks); err != nil {
		return err
	}
	queuePayloads(batch, run, tasks)
	queueDeliveries(batch, run, tasks)
	return nil
}

func queueRows(batch *pgx.Batch, run *LockedRun, tasks []NewTask) error {
	for i := range tasks {
		if tasks[i].OutputSchemaHash != nil {
			tasks[i].OutputSchemaHex = byteaText(tasks[i].OutputSchemaHash)
		}
	}
	rows, err := json.Marshal(tasks)
	if err != nil {
		return err
	}
	batch.Queue(`
		INSERT INTO tasks (account_id, run_id, key, round, parent_key, position, kind, origin, status, callable_name,
			tool_name, tool_alias, kernel_tool, tool_call_id, addressed_role, addressed_to, waits_for, target_name,
			effect_profile, approval, output_schema_hash, timeout_ms, announced_timeout_ms, began_at, dispatched_at,
			deadline_at, settled_at, settled_by, error_key, wake_at, created_at)
		SELECT $1, $2, key, round, parent_key, position, kind, origin, status, callable_name, tool_name, tool_alias,
			kernel_tool, tool_call_id, addressed_role, addressed_to, waits_for, target_name, effect_profile, approval,
			output_hash::bytea, timeout_ms, announced_timeout_ms, $4,
			CASE WHEN status NOT IN ('failed', 'needs_approval') THEN $4::timestamptz END,
			CASE WHEN status <> 'failed' THEN $4::timestamptz + coalesce(hold_ms, timeout_ms) * interval '1 millisecond' END,
			CASE WHEN status = 'failed' THEN $4::timestamptz END,
			CASE WHEN status = 'failed' THEN 'birth' END,
			error_key,
			CASE WHEN status <> 'failed' THEN $4::timestamptz + $5::interval END,
			$4
		FROM json_to_recordset($3::json) AS t(key text, round int, parent_key text, position int, kind text, origin text,
			status text, callable_name text, tool_name text, tool_alias text, kernel_tool text, tool_call_id text, addressed_role text, addressed_to uuid[],
			waits_for text, target_name text, effect_profile json, approval json, output_hash text, timeout_ms bigint,
			hold_ms bigint, announced_timeout_ms bigint, error_key text)`,
		run.AccountID, run.ID, jsontext.Value(rows), run.Now, wakeGrace)
	return nil
}

// queuePayloads writes what each task was asked, and why those that failed at birth did.
func queuePayloads(batch *pgx.Batch, run *LockedRun, tasks []NewTask) {
	var (
		keys, failed []string
		inputs       []jsontext.Value
		details      []*string
	)
	for i := range tasks {
		keys, inputs = append(keys, tasks[i].Key), append(inputs, tasks[i].Input)
		if tasks[i].Status.Settled() {
			failed, details = append(failed, tasks[i].Key), append(details, tasks[i].ErrorDetail)
		}
	}
	batch.Queue(`
		INSERT INTO task_payloads (account_id, run_id, task_key, generation, input)
		SELECT $1, $2, key, 1, input FROM unnest($3::text[], $4::json[]) AS p(key, input)`,
		run.AccountID, run.ID, keys, inputs)
	if failed == nil {
		return
	}
	batch.Queue(`
		INSERT INTO task_results (account_id, run_id, task_key, generation, error_detail)
		SELECT $1, $2, key, 1, detail FROM unnest($3::text[], $4::text[]) AS d(key, detail)`,
		run.AccountID, run.ID, failed, details)
}

// queueDeliveries lists each live task at everyone it is addressed to.
func queueDeliveries(batch *pgx.Batch, run *LockedRun, tasks []NewTask) {
	var (
		executors []uuid.UUID
		keys      []string
	)
	for i := range tasks {
		for _, executor := range tasks[i].Listed() {
			executors, keys = append(executors, executor), append(keys, tasks[i].Key)
		}
	}
	if keys == nil {
		return
	}
	batch.Queue(`
		INSERT INTO deliveries (executor_id, run_id, task_key, generation, account_id, dispatched_at)
		SELECT executor_id, $2, key, 1, $1, $5 FROM unnest($3::uuid[], $4::text[]) AS d(executor_id, key)`,
		run.AccountID, run.ID, executors, keys, run.Now)
}

// birthEvents are what happened when tasks were authored, in call order.
func birthEvents(round *int, tasks []NewTask) []Event {
	var events []Event
	if round != nil {
		events = append(events, Event{Type: eventRoundOpened, Data: roundData(round)})
	}
	for i := range tasks {
		events = append(events, birthOf(tasks[i].Key, 1, tasks[i].Status)...)
	}
	if round != nil && !anyLive(tasks) {
		events = append(events, Event{Type: eventRoundSettled, Data: roundData(round)})
	}
	return events
}

func anyLive(tasks []NewTask) bool {
	return slices.ContainsFunc(tasks, func(t NewTask) bool { return !t.Status.Settled() })
}

// nothingStaged holds for a task whose generation nothing was staged for.
const nothingStaged = `(t.next_input = 1 OR NOT EXISTS (
	SELECT FROM task_inputs i WHERE i.run_id = t.run_id AND i.task_key = t.key AND i.generation = t.generation))`

// Unstarted are those of the generations that wait and that nothing was staged for.
func (db *DB) Unstarted(ctx context.Context, tasks []toolpark.GenerationID) ([]toolpark.GenerationID, error) {
	accounts, runs, keys, generations := columns(tasks)
	rows, _ := db.Pool.Query(ctx, `
		SELECT t.account_id AS account, t.run_id AS run, t.key, t.generation
		FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::int[]) AS w(account_id, run_id, key, generation)
		JOIN tasks t ON t.account_id = w.account_id AND t.run_id = w.run_id AND t.key = w.key AND t.generation = w.generation
		WHERE t.settled_at IS NULL AND `+nothingStaged, accounts, runs, keys, generations)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[toolpark.GenerationID])
	return found, mapError(err, "look for tasks to start")
}

// Started tells the recovery loop that the workflows of these tasks exist: it need not look before
// their deadline. A task that was claimed or has something staged meanwhile keeps its earlier alarm, and so
// does one that somebody works on now. One that waits for its child has no deadline any more, and one that waits
// for another task may be told at any moment: their alarm is the one that Sleep gave them.
func (db *DB) Started(ctx context.Context, tasks []toolpark.GenerationID) error {
	accounts, runs, keys, generations := columns(tasks)
	_, err := db.Pool.Exec(ctx, `
		WITH started AS (
			SELECT t.run_id, t.key
			FROM unnest($1::uuid[], $2::uuid[], $3::text[], $5::int[]) AS w(account_id, run_id, key, generation)
			JOIN tasks t ON t.account_id = w.account_id AND t.run_id = w.run_id AND t.key = w.key AND t.generation = w.generation
			WHERE t.settled_at IS NULL AND t.claimed_by IS NULL AND `+nothingStaged+` AND t.deadline_at IS NOT NULL
				AND t.waits_for IS NULL
			FOR NO KEY UPDATE OF t SKIP LOCKED
		)
		UPDATE tasks t SET wake_at = deadline_at + $4::interval
		FROM started
		WHERE t.run_id = started.run_id AND t.key = started.key`, accounts, runs, keys, wakeGrace, generations)
	return mapError(err, "note the start of tasks")
}

// columns lays ids out as the arrays that unnest puts together again.
func columns(tasks []toolpark.GenerationID) (accounts, runs []uuid.UUID, keys []string, generations []int) {
	for _, id := range tasks {
		accounts, runs, keys = append(accounts, id.Account), append(runs, id.Run), append(keys, id.Key)
		generations = append(generations, id.Generation)
	}
	return accounts, runs, keys, generations
}

// TakenKeys are those of the keys that tasks of the run have. The run must be locked.
func TakenKeys(ctx context.Context, tx *Tx, account, run uuid.UUID, keys []string) (map[string]bool, error) {
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
