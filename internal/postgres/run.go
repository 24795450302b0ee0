package postgres

import (
	"context"
	"encoding/hex"
	"encoding/json/jsontext"
	"errors"
	"time"
	"uuid"

	"github.com/jackc/pgx/v5"

	"github.com/toolpark/toolpark"
)

// Run is a run's row.
type Run struct {
	ID              uuid.UUID
	AccountID       uuid.UUID
	CreatorID       uuid.UUID
	AgentID         *uuid.UUID
	HumanID         uuid.UUID // whose private executors the run may use: the agent's steward, or the creator
	Status          toolpark.RunStatus
	ApprovalMode    *string
	DefaultRunnerID *uuid.UUID
	ContextHash     []byte
	Requested       jsontext.Value // nil for the agent's profile, and once the run is decided
	RequestedNames  []string       // narrows what is frozen; nil for all of it
	Refusal         jsontext.Value
	Label           *string
	Metadata        jsontext.Value
	Rounds          int
	Appends         int
	EventSeq        int64
	StopForced      bool
	CreatedAt       time.Time
	AuthoredAt      time.Time
	EndedAt         *time.Time
	DetailsPrunedAt *time.Time // from then on only the run itself is there to be read
}

// Principal is for whom executors are eligible in the run.
func (r *Run) Principal() Principal { return Principal{Account: r.AccountID, Human: r.HumanID} }

const runColumns = `r.id, r.account_id, r.creator_id, r.agent_id,
	(SELECT coalesce(p.steward_id, p.id) FROM members p WHERE p.id = coalesce(r.agent_id, r.creator_id)) AS human_id, r.status, r.approval_mode, r.default_runner_id,
	r.context_hash, r.requested, r.requested_tool_names AS requested_names, r.refusal, r.label, r.metadata, r.rounds, r.appends, r.event_seq, r.stop_forced, r.created_at,
	r.authored_at, r.ended_at, r.details_pruned_at`

// runReadable holds for the runs that a member may read and write: its creator, its agent, the agent's
// steward, and the account's human administrators. $1 is the account, $2 the member, $3 whether it is
// such an administrator.
const runReadable = `r.account_id = $1 AND ($3 OR r.creator_id = $2 OR r.agent_id = $2
	OR EXISTS (SELECT FROM members a WHERE a.id = r.agent_id AND a.steward_id = $2))`

func readsAll(m toolpark.Member) bool {
	return m.Kind == toolpark.Human && m.Role == toolpark.RoleAdmin
}

// InsertRun writes a run as accepting; its workflow decides it.
func InsertRun(tx *Tx, r *Run) {
	tx.Later().Queue(`
		INSERT INTO runs (id, account_id, creator_id, agent_id, status, default_runner_id, requested, requested_tool_names,
			label, metadata, wake_at)
		VALUES ($1, $2, $3, $4, 'accepting', $5, $6, $7, $8, $9, clock_timestamp() + $10::interval)`,
		r.ID, r.AccountID, r.CreatorID, r.AgentID, r.DefaultRunnerID, r.Requested, r.RequestedNames, r.Label, r.Metadata,
		wakeGrace)
}

// Run reads a run that the member may read; any other is not_found. The reads go along in the same round
// trip: what they found counts only when the run may be read.
func (db *DB) Run(ctx context.Context, m toolpark.Member, id uuid.UUID, reads ...Read) (*Run, error) {
	var run *Run
	batch := &pgx.Batch{}
	batch.Queue(`SELECT `+runColumns+` FROM runs r WHERE `+runReadable+` AND r.id = $4`, m.Account, m.ID, readsAll(m), id).
		Query(func(rows pgx.Rows) (err error) {
			run, err = pgx.CollectExactlyOneRow(rows, pgx.RowToAddrOfStructByName[Run])
			return err
		})
	for _, read := range reads {
		read(batch)
	}
	err := db.Pool.SendBatch(ctx, batch).Close()
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, NotFound("run")
	}
	return run, mapError(err, "read run %s", id)
}

// FindRun reads a run's row, whoever asks, without locking it.
func FindRun(ctx context.Context, q Querier, account, id uuid.UUID) (*Run, error) {
	rows, _ := q.Query(ctx, `SELECT `+runColumns+` FROM runs r WHERE r.account_id = $1 AND r.id = $2`, account, id)
	run, err := pgx.CollectExactlyOneRow(rows, pgx.RowToAddrOfStructByName[Run])
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, NotFound("run")
	}
	return run, mapError(err, "read run %s", id)
}

// RunsPage lists the runs a member may read, newest first; refused runs are in no list.
func (db *DB) RunsPage(ctx context.Context, m toolpark.Member, before *uuid.UUID, limit int) ([]*Run, error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT `+runColumns+` FROM runs r
		WHERE `+runReadable+` AND r.status <> 'refused' AND ($4::uuid IS NULL OR r.id < $4)
		ORDER BY r.id DESC
		LIMIT $5`, m.Account, m.ID, readsAll(m), before, limit)
	runs, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[Run])
	return runs, mapError(err, "list runs")
}

// ContextDocument reads a frozen context by its hash.
func ContextDocument(ctx context.Context, q Querier, account uuid.UUID, hash []byte) (jsontext.Value, error) {
	var document jsontext.Value
	err := q.QueryRow(ctx, `SELECT document FROM frozen_contexts WHERE account_id = $1 AND hash = $2`,
		account, hash).Scan(&document)
	return document, mapError(err, "read frozen context %x", hash)
}

// AcceptRun freezes the context and lets the run begin. An empty approval mode means that nothing can be
// called. The run must be locked and accepting.
func AcceptRun(tx *Tx, run *LockedRun, approvalMode string, hash []byte, document jsontext.Value) {
	batch := tx.Later()
	queueContext(batch, run.AccountID, hash, document)
	batch.Queue(`
		UPDATE runs SET status = 'running', approval_mode = nullif($4, ''), context_hash = $3, requested = NULL,
			requested_tool_names = NULL, wake_at = NULL, wake_attempts = 0, authored_at = clock_timestamp()
		WHERE account_id = $1 AND id = $2`, run.AccountID, run.ID, hash, approvalMode)
	queueEvents(batch, run, []Event{{Type: eventRunAccepted, Data: jsontext.Value(`{}`)}})
	moveEvents(batch, run, 1)
}

// queueContext stores a frozen context by its content, and marks it as in use (retention_unused.go says why). The
// output schemas that it names are read out of it only when it is new.
func queueContext(batch *pgx.Batch, account uuid.UUID, hash []byte, document jsontext.Value) {
	batch.Queue(`
		UPDATE frozen_contexts SET used_at = now()
		WHERE account_id = $1 AND hash = $2 AND used_at < now() - $3::interval`, account, hash, markUsed)
	batch.Queue(`
		INSERT INTO frozen_contexts (account_id, hash, document, output_schemas)
		SELECT $1, $2, $3, ARRAY(
			SELECT DISTINCT decode(tool->'served'->>'output_schema_hash', 'base64')
			FROM json_array_elements($3::json->'tools') AS tool
			WHERE tool->'served'->>'output_schema_hash' IS NOT NULL)
		WHERE NOT EXISTS (SELECT FROM frozen_contexts WHERE account_id = $1 AND hash = $2)
		ON CONFLICT DO NOTHING`, account, hash, document)
}

// RefuseRun keeps the refusal and nothing else; the run's Idempotency-Key is free again.
func RefuseRun(tx *Tx, run *LockedRun, refusal jsontext.Value) {
	batch := tx.Later()
	batch.Queue(`
		UPDATE runs SET status = 'refused', refusal = $3, requested = NULL, requested_tool_names = NULL, wake_at = NULL,
			ended_at = clock_timestamp()
		WHERE account_id = $1 AND id = $2`, run.AccountID, run.ID, refusal)
	batch.Queue(`DELETE FROM idempotency_keys WHERE account_id = $1 AND run_id = $2`, run.AccountID, run.ID)
}

// HasLiveTask tells whether any task of the locked run has not settled.
func HasLiveTask(ctx context.Context, tx *Tx, run *LockedRun) (bool, error) {
	var live bool
	err := tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM tasks WHERE run_id = $1 AND settled_at IS NULL)`, run.ID).Scan(&live)
	return live, mapError(err, "look for live tasks of run %s", run.ID)
}

// SetRunStatus moves a locked run to stopping or to its end, with the event that says so. Its workflow
// is nudged at once, and by the recovery loop if that is lost.
func SetRunStatus(tx *Tx, run *LockedRun, status toolpark.RunStatus) {
	batch := tx.Later()
	batch.Queue(`
		UPDATE runs SET status = $3, wake_at = clock_timestamp() + $4::interval,
			ended_at = CASE WHEN $5 THEN clock_timestamp() END
		WHERE account_id = $1 AND id = $2`, run.AccountID, run.ID, status, wakeGrace, status.Terminal())
	queueEvents(batch, run, []Event{runStatus(status)})
	moveEvents(batch, run, 1)
}

// ForceStop records that the live tasks of a locked, stopping run are to be canceled. The run's workflow
// sees to it if whoever asked dies before it has staged the cancels.
func ForceStop(tx *Tx, run *LockedRun) {
	tx.Later().Queue(`
		UPDATE runs SET stop_forced = true, wake_at = clock_timestamp() + $3::interval WHERE account_id = $1 AND id = $2`,
		run.AccountID, run.ID, wakeGrace)
}

// RunSleeps records that the run's workflow has seen the run as it is.
func RunSleeps(tx *Tx, run *LockedRun) {
	tx.Later().Queue(`UPDATE runs SET wake_at = NULL, wake_attempts = 0 WHERE account_id = $1 AND id = $2`,
		run.AccountID, run.ID)
}

// byteaText is the text form of a bytea, for a parameter that travels inside JSON.
func byteaText(b []byte) *string {
	s := `\x` + hex.EncodeToString(b)
	return &s
}
