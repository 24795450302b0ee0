package postgres

import (
	"context"
	"errors"
	"uuid"

	"github.com/jackc/pgx/v5"
)

// Offered reads what the model of a round was offered; nil when the round did not say. It answers not_found for
// a round that was never opened.
func (db *DB) Offered(ctx context.Context, account, run uuid.UUID, number int) (*Projection, error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT coalesce(p.digest, '') AS digest, coalesce(p.format, '') AS format, p.tools
		FROM rounds n
		LEFT JOIN projections p ON p.account_id = n.account_id AND p.digest = n.offered
		WHERE n.account_id = $1 AND n.run_id = $2 AND n.number = $3`, account, run, number)
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Projection])
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, NotFound("round")
	}
	if err != nil || found.Digest == "" {
		return nil, mapError(err, "read what round %s/%d was offered", run, number)
	}
	return &found, nil
}
