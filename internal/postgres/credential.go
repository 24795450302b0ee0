package postgres

import (
	"context"
	"errors"
	"time"
	"uuid"

	"github.com/jackc/pgx/v5"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/credential"
)

// Credential is what is known of a bearer. The bearer itself is never stored.
type Credential struct {
	ID        uuid.UUID        `json:"id"`
	Plane     credential.Plane `json:"plane"`
	OwnerID   uuid.UUID        `json:"owner_id"` // a member or an executor
	Epoch     *int             `json:"epoch"`    // of the executor when it was minted
	Label     string           `json:"label"`
	CreatedAt time.Time        `json:"created_at"`
	ExpiresAt *time.Time       `json:"expires_at"`
	RevokedAt *time.Time       `json:"revoked_at"`
}

const credentialColumns = `id, plane, coalesce(member_id, executor_id) AS owner_id, epoch, label, created_at, expires_at, revoked_at`

// CreateCredential mints a bearer for an active member or executor and returns it, to be shown once.
// Without expiresAt it does not expire. An executor's belongs to its current epoch.
func CreateCredential(
	ctx context.Context, q Querier, account uuid.UUID, plane credential.Plane, owner uuid.UUID, label string, expiresAt *time.Time,
) (Credential, string, error) {
	bearer, hash := credential.Mint(plane)
	sql := `
		INSERT INTO credentials (id, account_id, plane, member_id, secret_hash, label, expires_at)
		SELECT $1, account_id, 'member', id, $4, $5, $6
		FROM members WHERE account_id = $2 AND id = $3 AND status = 'active'
		RETURNING ` + credentialColumns
	if plane == credential.Executor {
		sql = `
		INSERT INTO credentials (id, account_id, plane, executor_id, epoch, secret_hash, label, expires_at)
		SELECT $1, account_id, 'executor', id, credential_epoch, $4, $5, $6
		FROM executors WHERE account_id = $2 AND id = $3 AND status = 'active'
		RETURNING ` + credentialColumns
	}
	rows, _ := q.Query(ctx, sql, uuid.NewV7(), account, owner, hash, label, expiresAt)
	made, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Credential])
	if errors.Is(err, pgx.ErrNoRows) {
		return Credential{}, "", toolpark.Errorf(toolpark.CodeNotFound, "There is no active %s %s in this account.", plane, owner)
	}
	if err != nil {
		return Credential{}, "", mapError(err, "create a credential for %s %s", plane, owner)
	}
	return made, bearer, nil
}

// Credentials lists the account's credentials, dead ones included, oldest first.
func (db *DB) Credentials(ctx context.Context, account uuid.UUID) ([]Credential, error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT `+credentialColumns+`
		FROM credentials
		WHERE account_id = $1
		ORDER BY id`, account)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[Credential])
	return found, mapError(err, "list credentials")
}

// RevokeCredential ends a credential at once. pgx.ErrNoRows when there is no such credential or it is
// revoked already.
func RevokeCredential(ctx context.Context, q Querier, account, id uuid.UUID) (Credential, error) {
	rows, _ := q.Query(ctx, `
		UPDATE credentials SET revoked_at = now()
		WHERE account_id = $1 AND id = $2 AND revoked_at IS NULL
		RETURNING `+credentialColumns, account, id)
	revoked, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Credential])
	return revoked, rowError(err, "revoke credential %s", id)
}

// RotateCredential revokes a credential and mints another for the same owner, all or nothing.
// pgx.ErrNoRows as for RevokeCredential.
func (db *DB) RotateCredential(ctx context.Context, account, id uuid.UUID, expiresAt *time.Time) (Credential, string, error) {
	var made Credential
	var bearer string
	err := db.Tx(ctx, func(tx *Tx) error {
		old, err := RevokeCredential(ctx, tx, account, id)
		if err != nil {
			return err
		}
		made, bearer, err = CreateCredential(ctx, tx, account, old.Plane, old.OwnerID, old.Label, expiresAt)
		return err
	})
	return made, bearer, err
}
