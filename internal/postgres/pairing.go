package postgres

import (
	"context"
	"time"
	"uuid"

	"github.com/jackc/pgx/v5"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/credential"
)

// NewExecutor is a runner or a tools provider to be made.
type NewExecutor struct {
	Kind            toolpark.ExecutorKind // runner, tools_provider
	Manager         uuid.UUID             // an active human of the account
	Identifier      string                // unique among the manager's executors
	DisplayName     string                // for people
	AssignmentScope toolpark.Scope
}

// CreateExecutor makes a runner or a tools provider. It is eligible once it has a credential.
func (db *DB) CreateExecutor(ctx context.Context, account uuid.UUID, e NewExecutor) (ExecutorDescription, error) {
	id := uuid.NewV7()
	tag, err := db.Pool.Exec(ctx, `
		INSERT INTO executors (id, account_id, kind, display_name, identifier, assignment_scope, manager_id)
		SELECT $1, account_id, $4, $5, $6, $7, id
		FROM members WHERE account_id = $2 AND id = $3 AND kind = 'human' AND status = 'active'`,
		id, account, e.Manager, e.Kind, e.DisplayName, e.Identifier, e.AssignmentScope)
	if err != nil {
		return ExecutorDescription{}, mapError(err, "create executor %s", e.Identifier)
	}
	if tag.RowsAffected() == 0 {
		return ExecutorDescription{}, toolpark.Errorf(toolpark.CodeValidationFailed,
			"A manager must be an active human of the same account.")
	}
	return DescribeExecutor(ctx, db.Pool, account, id)
}

// Executors lists the account's executors, revoked ones included, oldest first.
func (db *DB) Executors(ctx context.Context, account uuid.UUID) ([]ExecutorDescription, error) {
	rows, _ := db.Pool.Query(ctx, describe+`WHERE e.account_id = $1 ORDER BY e.id`, account)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[ExecutorDescription])
	return found, mapError(err, "list executors")
}

// RevokeExecutor ends an executor for good: no credential of it works again. pgx.ErrNoRows when there
// is no such executor or it is revoked already.
func (db *DB) RevokeExecutor(ctx context.Context, account, id uuid.UUID) error {
	tag, err := db.Pool.Exec(ctx, `
		UPDATE executors SET status = 'revoked' WHERE account_id = $1 AND id = $2 AND status = 'active'`, account, id)
	if err == nil && tag.RowsAffected() == 0 {
		return pgx.ErrNoRows
	}
	return mapError(err, "revoke executor %s", id)
}

// RepairPairing moves an executor to its next epoch, which ends all its credentials, and mints one of
// the new epoch. Its id stays. pgx.ErrNoRows when there is no active executor with the id.
func (db *DB) RepairPairing(ctx context.Context, account, id uuid.UUID, expiresAt *time.Time) (Credential, string, error) {
	var made Credential
	var bearer string
	err := db.Tx(ctx, func(tx *Tx) error {
		tag, err := tx.Exec(ctx, `
			UPDATE executors SET credential_epoch = credential_epoch + 1
			WHERE account_id = $1 AND id = $2 AND status = 'active'`, account, id)
		if err != nil {
			return mapError(err, "advance the epoch of executor %s", id)
		}
		if tag.RowsAffected() == 0 {
			return pgx.ErrNoRows
		}
		made, bearer, err = CreateCredential(ctx, tx, account, credential.Executor, id, "", expiresAt)
		return err
	})
	return made, bearer, err
}
