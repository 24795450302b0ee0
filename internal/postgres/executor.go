package postgres

import (
	"context"
	"encoding/json/jsontext"
	"time"
	"uuid"

	"github.com/jackc/pgx/v5"

	"github.com/toolpark/toolpark"
)

// eligible is the condition on executors AS e that they may take work for a principal: $1 is the
// account, $2 the human whose private executors count (toolpark.Member.Human). Presence never decides.
const eligible = `
	e.account_id = $1
	AND e.status = 'active'
	AND NOT e.shutting_down
	AND (e.assignment_scope = 'account_wide' OR e.manager_id = $2)
	AND EXISTS (
		SELECT FROM credentials c
		WHERE c.executor_id = e.id
			AND c.epoch = e.credential_epoch
			AND c.revoked_at IS NULL
			AND (c.expires_at IS NULL OR c.expires_at > now()))`

// ExecutorDescription is an executor with what it serves.
type ExecutorDescription struct {
	ID              uuid.UUID
	Kind            toolpark.ExecutorKind
	DisplayName     string
	Identifier      string // its name among its manager's executors
	Status          string // active, revoked
	CredentialEpoch int    // advances with each re-pairing
	AssignmentScope toolpark.Scope
	ShuttingDown    bool
	Tools           jsontext.Value // a list: the announced entries as they came, in their order
	Environment     jsontext.Value // an object, as announced
	Documents       jsontext.Value // a list, as announced
	Present         bool           // it holds an event stream open
	AnnouncedAt     *time.Time
	ConnectedAt     *time.Time
	LastSeenAt      *time.Time
}

const describe = `
	SELECT e.id, e.kind, e.display_name, e.identifier, e.status, e.credential_epoch, e.assignment_scope, e.shutting_down,
		(SELECT coalesce(json_agg(t.entry ORDER BY t.position), '[]') FROM executor_tools t WHERE t.executor_id = e.id) AS tools,
		e.environment, e.documents,
		coalesce(e.present_until > now(), false) AS present,
		e.announced_at, e.connected_at, e.last_seen_at
	FROM executors e `

// DescribeExecutor reads an executor of the account, whatever its state. pgx.ErrNoRows when there is none.
func DescribeExecutor(ctx context.Context, q Querier, account, id uuid.UUID) (ExecutorDescription, error) {
	return describeOne(ctx, q, describe+`WHERE e.account_id = $1 AND e.id = $2`, account, id)
}

// discoverable are the eligible executors that members may look at: an agent's own address is not one.
const discoverable = `WHERE e.kind <> 'agent_application' AND ` + eligible

// DiscoverExecutor reads one eligible runner or tools provider. pgx.ErrNoRows when there is none.
func (db *DB) DiscoverExecutor(ctx context.Context, account, human, id uuid.UUID) (ExecutorDescription, error) {
	return describeOne(ctx, db.Pool, describe+discoverable+` AND e.id = $3`, account, human, id)
}

// DiscoverExecutors lists eligible runners and tools providers by id, from after on, at most limit.
// An empty kind lists both.
func (db *DB) DiscoverExecutors(ctx context.Context, account, human uuid.UUID, kind toolpark.ExecutorKind, after uuid.UUID, limit int) ([]ExecutorDescription, error) {
	rows, _ := db.Pool.Query(ctx, describe+discoverable+`
		AND ($3 = '' OR e.kind = $3) AND e.id > $4
		ORDER BY e.id
		LIMIT $5`, account, human, kind, after, limit)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[ExecutorDescription])
	return found, mapError(err, "list executors")
}

func describeOne(ctx context.Context, q Querier, sql string, args ...any) (ExecutorDescription, error) {
	rows, _ := q.Query(ctx, sql, args...)
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[ExecutorDescription])
	return found, rowError(err, "describe executor")
}

// ShutDownExecutor marks an executor as going down for good: it gets no new work until it announces again.
func (db *DB) ShutDownExecutor(ctx context.Context, account, id uuid.UUID) error {
	_, err := db.Pool.Exec(ctx, `
		UPDATE executors SET shutting_down = true WHERE account_id = $1 AND id = $2`, account, id)
	return mapError(err, "shut down executor %s", id)
}

// MarkPresent says that the executor holds an event stream open and will for a while; a stream that
// stays open says so again in time. It counts as contact, too.
func (db *DB) MarkPresent(ctx context.Context, account, id uuid.UUID, while time.Duration) error {
	_, err := db.Pool.Exec(ctx, `
		UPDATE executors
		SET connected_at = CASE WHEN present_until > now() THEN connected_at ELSE now() END,
			present_until = now() + make_interval(secs => $3), last_seen_at = now()
		WHERE account_id = $1 AND id = $2`, account, id, while.Seconds())
	return mapError(err, "mark executor %s as present", id)
}
