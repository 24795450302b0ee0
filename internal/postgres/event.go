package postgres

import (
	"context"
	"encoding/json/jsontext"
	"fmt"
	"time"
	"uuid"

	"github.com/jackc/pgx/v5"

	"github.com/toolpark/toolpark"
)

// Event is one durable thing that happened in a run: ids and states, never payloads.
type Event struct {
	Seq       int64
	Type      string
	Data      jsontext.Value
	CreatedAt time.Time
}

// Events of a run.
const (
	eventRunAccepted      = "run_accepted"
	eventRoundOpened      = "round_opened"
	eventRoundReopened    = "round_reopened"
	eventTaskStatus       = "task_status"
	eventApprovalRequired = "approval_required"
	eventAskRequired      = "ask_required"
	eventDeadlineExtended = "task_deadline_extended"
	eventRoundSettled     = "round_settled"
	eventRunStatus        = "run_status"
)

// The data of an event is built of ids and words that need no escaping in JSON.

func taskStatus(key string, generation int, status toolpark.Status) Event {
	return Event{Type: eventTaskStatus, Data: jsontext.Value(fmt.Sprintf(
		`{"task_key":"%s","generation":%d,"status":"%s"}`, key, generation, status))}
}

// birthOf are the events of a generation of a task that begins.
func birthOf(key string, generation int, status toolpark.Status) []Event {
	begun := taskStatus(key, generation, status)
	required := Event{Data: jsontext.Value(fmt.Sprintf(`{"task_key":"%s","generation":%d}`, key, generation))}
	switch status {
	case toolpark.NeedsApproval:
		required.Type = eventApprovalRequired
	case toolpark.AwaitingInput:
		required.Type = eventAskRequired
	default:
		return []Event{begun}
	}
	return []Event{begun, required}
}

func runStatus(status toolpark.RunStatus) Event {
	return Event{Type: eventRunStatus, Data: jsontext.Value(`{"status":"` + string(status) + `"}`)}
}

// roundData is null for what the append door authored.
func roundData(round *int) jsontext.Value {
	if round == nil {
		return nil
	}
	return jsontext.Value(fmt.Sprintf(`{"round":%d}`, *round))
}

// queueEvents writes events of a locked run; its counter is moved apart.
func queueEvents(batch *pgx.Batch, run *LockedRun, events []Event) {
	types, data := make([]string, len(events)), make([]jsontext.Value, len(events))
	for i, e := range events {
		types[i], data[i] = e.Type, e.Data
	}
	batch.Queue(`
		INSERT INTO events (account_id, run_id, seq, type, data)
		SELECT $1, $2, $3 + e.n, e.type, e.data
		FROM unnest($4::text[], $5::json[]) WITH ORDINALITY AS e(type, data, n)`,
		run.AccountID, run.ID, run.EventSeq, types, data)
}

// moveEvents moves a locked run's counter over n new events.
func moveEvents(batch *pgx.Batch, run *LockedRun, n int) {
	batch.Queue(`UPDATE runs SET event_seq = event_seq + $3 WHERE account_id = $1 AND id = $2`, run.AccountID, run.ID, n)
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
