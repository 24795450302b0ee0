package postgres

import (
	"context"
	"time"
	"uuid"

	"github.com/jackc/pgx/v5"
)

// Account is a tenant. Nothing crosses it.
type Account struct {
	ID          uuid.UUID `json:"id"`
	Name        string    `json:"name"`
	WorkspaceID uuid.UUID `json:"workspace_id"`
	CreatedAt   time.Time `json:"created_at"`

	// RetentionDays is for how many days after its end the details of a run are kept; nil keeps them.
	RetentionDays *int `json:"execution_details_retention_days" db:"execution_details_retention_days"`
}

const accountColumns = `id, name, workspace_id, created_at, execution_details_retention_days`

// CreateAccount makes an account and its workspace. The name is for people and need not be unique.
func (db *DB) CreateAccount(ctx context.Context, name string) (Account, error) {
	rows, _ := db.Pool.Query(ctx, `
		INSERT INTO accounts (id, name, workspace_id)
		VALUES ($1, $2, $3)
		RETURNING `+accountColumns, uuid.NewV7(), name, uuid.NewV7())
	account, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Account])
	return account, mapError(err, "create account")
}

// Accounts lists all accounts, oldest first.
func (db *DB) Accounts(ctx context.Context) ([]Account, error) {
	rows, _ := db.Pool.Query(ctx, `SELECT `+accountColumns+` FROM accounts ORDER BY id`)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[Account])
	return found, mapError(err, "list accounts")
}
