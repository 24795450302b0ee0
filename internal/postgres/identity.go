package postgres

import (
	"context"
	"crypto/subtle"
	"time"
	"uuid"

	"github.com/jackc/pgx/v5"

	"github.com/toolpark/toolpark"
)

// live is the condition on credentials AS c that they still work, apart from whose they are.
const live = `c.revoked_at IS NULL AND (c.expires_at IS NULL OR c.expires_at > now())`

// MemberByCredential reads who a member credential with this hash belongs to. pgx.ErrNoRows when it
// is unknown, of the other plane, expired or revoked, or its member is removed.
func (db *DB) MemberByCredential(ctx context.Context, hash []byte) (toolpark.Member, error) {
	var m toolpark.Member
	var stored []byte
	var steward *uuid.UUID
	err := db.Pool.QueryRow(ctx, `
		SELECT c.secret_hash, m.account_id, m.id, m.kind, m.handle, m.display_name, m.role, m.may_decide, m.steward_id
		FROM credentials c
		JOIN members m ON m.account_id = c.account_id AND m.id = c.member_id
		WHERE c.secret_hash = $1 AND c.plane = 'member' AND m.status = 'active' AND `+live, hash).
		Scan(&stored, &m.Account, &m.ID, &m.Kind, &m.Handle, &m.DisplayName, &m.Role, &m.MayDecide, &steward)
	if err != nil {
		return toolpark.Member{}, rowError(err, "look up a credential")
	}
	if subtle.ConstantTimeCompare(stored, hash) != 1 {
		return toolpark.Member{}, pgx.ErrNoRows
	}
	if steward != nil {
		m.Steward = *steward
	}
	return m, nil
}

// contactInterval is how old an executor's last_seen_at may get while it keeps calling.
const contactInterval = 30 * time.Second

// ExecutorByCredential reads whose an executor credential with this hash is. unseen tells that its
// contact mark is due (MarkSeen). pgx.ErrNoRows when the credential is unknown, of the other plane,
// expired, revoked or of an earlier epoch, or its executor is revoked.
func (db *DB) ExecutorByCredential(ctx context.Context, hash []byte) (e toolpark.Executor, unseen bool, err error) {
	var stored []byte
	err = db.Pool.QueryRow(ctx, `
		SELECT c.secret_hash, e.account_id, e.id, e.kind, e.display_name, e.shutting_down,
			e.last_seen_at IS NULL OR e.last_seen_at < now() - make_interval(secs => $2)
		FROM credentials c
		JOIN executors e ON e.account_id = c.account_id AND e.id = c.executor_id
		WHERE c.secret_hash = $1 AND c.plane = 'executor' AND c.epoch = e.credential_epoch
			AND e.status = 'active' AND `+live, hash, contactInterval.Seconds()).
		Scan(&stored, &e.Account, &e.ID, &e.Kind, &e.DisplayName, &e.ShuttingDown, &unseen)
	if err != nil {
		return toolpark.Executor{}, false, rowError(err, "look up a credential")
	}
	if subtle.ConstantTimeCompare(stored, hash) != 1 {
		return toolpark.Executor{}, false, pgx.ErrNoRows
	}
	return e, unseen, nil
}

// MarkSeen stamps an executor's contact mark. It never waits for a lock: somebody who holds the row
// is writing to it, and the next request stamps it.
func (db *DB) MarkSeen(ctx context.Context, account, id uuid.UUID) error {
	_, err := db.Pool.Exec(ctx, `
		UPDATE executors SET last_seen_at = now()
		WHERE id = (SELECT id FROM executors WHERE account_id = $1 AND id = $2 FOR NO KEY UPDATE SKIP LOCKED)`,
		account, id)
	return mapError(err, "mark executor %s as seen", id)
}
