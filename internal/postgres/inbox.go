package postgres

import (
	"context"
	"encoding/json/jsontext"
	"fmt"
	"strings"
	"time"
	"uuid"

	"github.com/jackc/pgx/v5"

	"github.com/toolpark/toolpark"
)

// InboxRow is a live task as its addressee sees it.
type InboxRow struct {
	RunID         uuid.UUID
	WorkspaceID   uuid.UUID
	TaskKey       string
	Generation    int
	ParentKey     *string // the task that made it; nil for any other
	Kind          toolpark.TaskKind
	Status        toolpark.Status
	ToolName      *string // nil for an ask
	ToolAlias     *string
	ToolInput     jsontext.Value
	ToolCallID    *string
	EffectProfile *toolpark.EffectProfile
	MemberID      uuid.UUID // who created the run
	MemberHandle  string
	MemberKind    toolpark.MemberKind
	Session       jsontext.Value
	DispatchedAt  time.Time // or, while it waits for a person, when that began
	DeadlineAt    time.Time
	TimeoutMS     int64
	Claimed       bool
	TargetName    *string
	AddressedRole *toolpark.ExecutorKind // nil for the kernel's
	AddressedTo   []uuid.UUID
}

// Task is the row's task, as far as an inbox shows it.
func (r *InboxRow) Task() *toolpark.Task {
	return &toolpark.Task{
		RunID: r.RunID, Key: r.TaskKey, Generation: r.Generation, Kind: r.Kind, Status: r.Status, ToolName: r.ToolName,
		AddressedRole: r.AddressedRole, AddressedTo: r.AddressedTo, TargetName: r.TargetName,
	}
}

// IdempotencyKey names the call to a service that does its work: the same in every generation of the task, and of
// the kernel tool's call that made it.
func (r *InboxRow) IdempotencyKey() string {
	if call, _, ok := r.madeBy(); ok {
		return fmt.Sprintf("%s/%s-1", r.RunID, call)
	}
	return fmt.Sprintf("%s/%s", r.RunID, r.TaskKey)
}

// Redelivery tells that an earlier generation, of the task or of the kernel tool's call that made it, may have had
// an effect.
func (r *InboxRow) Redelivery() bool {
	_, first, ok := r.madeBy()
	return r.Generation > 1 || ok && !first
}

// madeBy reads the key of a task that a kernel tool's call made: the last of it is the generation of that call.
func (r *InboxRow) madeBy() (call string, first, ok bool) {
	if r.ParentKey == nil {
		return "", false, false
	}
	end := strings.LastIndexByte(r.TaskKey, '-')
	if end < 0 {
		return "", false, false
	}
	return r.TaskKey[:end], r.TaskKey[end+1:] == "1", true
}

const inboxRows = `
	SELECT t.run_id, a.workspace_id, t.key AS task_key, t.generation, t.parent_key, t.kind, t.status, t.tool_name, t.tool_alias,
		p.input AS tool_input, t.tool_call_id,
		t.effect_profile, m.id AS member_id, m.handle AS member_handle, m.kind AS member_kind, r.metadata AS session,
		coalesce(t.dispatched_at, t.began_at) AS dispatched_at, t.deadline_at, t.timeout_ms,
		t.claimed_by IS NOT NULL AS claimed, t.target_name, t.addressed_role, t.addressed_to
	FROM tasks t
	JOIN task_payloads p ON p.run_id = t.run_id AND p.task_key = t.key AND p.generation = t.generation
	JOIN runs r ON r.id = t.run_id
	JOIN accounts a ON a.id = r.account_id
	JOIN members m ON m.id = r.creator_id`

// ReadInboxRow reads the row of one task into row, as its claimant receives it, when the transaction commits.
func ReadInboxRow(tx *Tx, id toolpark.TaskID, row *InboxRow) {
	tx.Later().Queue(inboxRows+`
		WHERE t.account_id = $1 AND t.run_id = $2 AND t.key = $3`, id.Account, id.Run, id.Key).
		Query(func(rows pgx.Rows) (err error) {
			*row, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[InboxRow])
			return err
		})
}

// InboxPosition is where a page of an inbox ends.
type InboxPosition struct {
	DispatchedAt time.Time
	RunID        uuid.UUID
	TaskKey      string
}

// Inbox lists the live rows of an executor, oldest first.
func (db *DB) Inbox(ctx context.Context, account, executor uuid.UUID, after InboxPosition, limit int) ([]*InboxRow, error) {
	rows, _ := db.Pool.Query(ctx, inboxRows+`
		JOIN deliveries d ON d.run_id = t.run_id AND d.task_key = t.key
		WHERE d.account_id = $1 AND d.executor_id = $2 AND t.settled_at IS NULL
			AND (d.dispatched_at, d.run_id, d.task_key) > ($3, $4, $5)
		ORDER BY d.dispatched_at, d.run_id, d.task_key
		LIMIT $6`, account, executor, after.DispatchedAt, after.RunID, after.TaskKey, limit)
	list, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[InboxRow])
	return list, mapError(err, "list inbox of %s", executor)
}

// inboxVersion digests (task, generation, claimed) of all live rows of one address. When a row was dispatched tells a
// call that waits for approval from the same call once it is approved, which may be for the same address.
const inboxVersion = `md5(coalesce(string_agg(
	d.run_id::text || '/' || d.task_key || '/' || d.generation || '/' || d.claimed || '/' || extract(epoch FROM d.dispatched_at),
	',' ORDER BY d.run_id, d.task_key), ''))`

// InboxState reads the version of an inbox, and whether it lists anything unclaimed.
func (db *DB) InboxState(ctx context.Context, account, executor uuid.UUID) (version string, unclaimed bool, err error) {
	err = db.Pool.QueryRow(ctx, `
		SELECT `+inboxVersion+`, coalesce(bool_or(NOT d.claimed), false)
		FROM deliveries d
		WHERE d.account_id = $1 AND d.executor_id = $2`, account, executor).Scan(&version, &unclaimed)
	return version, unclaimed, mapError(err, "read inbox version of %s", executor)
}

// Listed is one row of an inbox in ids.
type Listed struct {
	RunID      uuid.UUID
	TaskKey    string
	Generation int
	Claimed    bool
}

// Listed lists an executor's whole inbox in ids, oldest first.
func (db *DB) Listed(ctx context.Context, account, executor uuid.UUID) ([]Listed, error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT run_id, task_key, generation, claimed
		FROM deliveries
		WHERE account_id = $1 AND executor_id = $2
		ORDER BY dispatched_at, run_id, task_key`, account, executor)
	listed, err := pgx.CollectRows(rows, pgx.RowToStructByName[Listed])
	return listed, mapError(err, "list inbox of %s", executor)
}

// Ended is an inbox row that left its inbox. SettledBy is empty when another executor claimed it.
type Ended struct {
	Listed
	SettledBy string
}

// SettledBy tells how rows that left an inbox ended.
func (db *DB) SettledBy(ctx context.Context, account uuid.UUID, rows []Listed) ([]Ended, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	runs, keys, generations := make([]uuid.UUID, len(rows)), make([]string, len(rows)), make([]int, len(rows))
	for i, row := range rows {
		runs[i], keys[i], generations[i] = row.RunID, row.TaskKey, row.Generation
	}
	found, _ := db.Pool.Query(ctx, `
		SELECT w.run_id, w.key AS task_key, w.generation, false AS claimed,
			coalesce(CASE WHEN t.generation = w.generation THEN t.settled_by ELSE g.facts->>'settled_by' END, '') AS settled_by
		FROM unnest($2::uuid[], $3::text[], $4::int[]) AS w(run_id, key, generation)
		JOIN tasks t ON t.account_id = $1 AND t.run_id = w.run_id AND t.key = w.key
		LEFT JOIN task_generations g ON g.run_id = w.run_id AND g.task_key = w.key AND g.generation = w.generation`, account, runs, keys, generations)
	ended, err := pgx.CollectRows(found, pgx.RowToStructByName[Ended])
	return ended, mapError(err, "read how inbox rows ended")
}
