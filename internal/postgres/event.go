package postgres

import (
	"context"
	"encoding/json/jsontext"
	"time"
	"uuid"

	"github.com/jackc/pgx/v5"
)

// Event is one durable thing that happened in a run: ids and states, never payloads.
type Event struct {
	Seq       int64
	Type      string
	Data      jsontext.Value
	CreatedAt time.Time
}

// Events lists a run's events after a sequence number, in order and without gaps.
func (db *DB) Events(ctx context.Context, account, run uuid.UUID, after int64, limit int) ([]Event, error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT seq, type, data, created_at
		FROM events
		WHERE account_id = $1 AND run_id = $2 AND seq > $3
		ORDER BY seq
		LIMIT $4`, account, run, after, limit)
	events, err := pgx.CollectRows(rows, pgx.RowToStructByName[Event])
	return events, mapError(err, "list events of run %s", run)
}

// Frame is the last progress frame of a live claim.
type Frame struct {
	TaskKey    string
	Generation int
	Frame      jsontext.Value
	UpdatedAt  time.Time
}

// Frames lists the progress frames of a run that are newer than since.
func (db *DB) Frames(ctx context.Context, account, run uuid.UUID, since time.Time) ([]Frame, error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT task_key, generation, frame, updated_at
		FROM progress
		WHERE account_id = $1 AND run_id = $2 AND updated_at > $3
		ORDER BY updated_at`, account, run, since)
	frames, err := pgx.CollectRows(rows, pgx.RowToStructByName[Frame])
	return frames, mapError(err, "list progress of run %s", run)
}
