package postgres

import (
	"context"
	"encoding/json/jsontext"
	"errors"
	"time"
	"uuid"

	"github.com/jackc/pgx/v5"
)

// Profile is an agent's standing configuration.
type Profile struct {
	Configuration jsontext.Value // as it was put; nil when none was
	UpdatedAt     *time.Time
}

// FindProfile reads a member's profile; it is empty when the member never put one.
func FindProfile(ctx context.Context, q Querier, account, member uuid.UUID) (Profile, error) {
	var p Profile
	err := q.QueryRow(ctx, `SELECT configuration, updated_at FROM profiles WHERE account_id = $1 AND member_id = $2`,
		account, member).Scan(&p.Configuration, &p.UpdatedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return Profile{}, nil
	}
	return p, mapError(err, "read the profile of %s", member)
}

// PutProfile replaces an agent's profile.
func (db *DB) PutProfile(ctx context.Context, account, member uuid.UUID, configuration jsontext.Value) (Profile, error) {
	p := Profile{Configuration: configuration}
	err := db.Pool.QueryRow(ctx, `
		INSERT INTO profiles (member_id, account_id, configuration) VALUES ($2, $1, $3)
		ON CONFLICT (member_id) DO UPDATE SET configuration = excluded.configuration, updated_at = clock_timestamp()
		RETURNING updated_at`, account, member, configuration).Scan(&p.UpdatedAt)
	return p, mapError(err, "put the profile of %s", member)
}
