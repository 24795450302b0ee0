package postgres

import (
	"context"
	"encoding/json/jsontext"
	"errors"
	"uuid"

	"github.com/jackc/pgx/v5"

	"github.com/toolpark/toolpark"
)

// Projection is what a model was offered, in its provider's form.
type Projection struct {
	Digest string
	Format toolpark.Format
	Tools  jsontext.Value
}

// queueProjection stores a projection by its content, and marks it as in use (retention_unused.go says why).
func queueProjection(batch *pgx.Batch, account uuid.UUID, p *Projection) {
	batch.Queue(`
		UPDATE projections SET used_at = now()
		WHERE account_id = $1 AND digest = $2 AND used_at < now() - $3::interval`, account, p.Digest, markUsed)
	batch.Queue(`INSERT INTO projections (account_id, digest, format, tools) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
		account, p.Digest, p.Format, p.Tools)
}

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
