package postgres

import (
	"bytes"
	"context"
	"encoding/json/jsontext"
	"fmt"
	"uuid"

	"github.com/toolpark/toolpark"
)

// Replay is what a request answered the first time.
type Replay struct {
	Status int            // HTTP status
	Body   jsontext.Value // the answer as it was; nil when Run says what to render
	Run    *uuid.UUID     // the run it made: rendered as it is now
}

// ClaimKey takes an Idempotency-Key in the transaction that does the work. A nil replay means that
// the key is ours: do the work and StoreReply before committing. Another transaction that holds the
// key is waited for. The same key with another request is idempotency_mismatch; a key older than
// toolpark.IdempotencyTTL is free. An empty key claims nothing.
func ClaimKey(ctx context.Context, tx *Tx, account, owner uuid.UUID, key string, requestHash []byte) (*Replay, error) {
	if key == "" {
		return nil, nil
	}
	// On a conflict the insert waits for the other transaction and locks its row, whether or not the
	// row is old enough to take over, so the row is there for the next statement.
	tag, err := tx.Exec(ctx, `
		INSERT INTO idempotency_keys AS k (account_id, owner_id, key, request_hash, status)
		VALUES ($1, $2, $3, $4, 0)
		ON CONFLICT (account_id, owner_id, key) DO UPDATE
		SET request_hash = excluded.request_hash, run_id = NULL, status = 0, body = NULL, created_at = now()
		WHERE k.created_at < now() - make_interval(secs => $5)`,
		account, owner, key, requestHash, toolpark.IdempotencyTTL.Seconds())
	if err != nil {
		return nil, mapError(err, "claim idempotency key")
	}
	if tag.RowsAffected() == 1 {
		return nil, nil
	}
	var replay Replay
	var hash []byte
	err = tx.QueryRow(ctx, `
		SELECT request_hash, status, body, run_id
		FROM idempotency_keys
		WHERE account_id = $1 AND owner_id = $2 AND key = $3`, account, owner, key).
		Scan(&hash, &replay.Status, &replay.Body, &replay.Run)
	switch {
	case err != nil:
		return nil, mapError(err, "read idempotency key")
	case !bytes.Equal(hash, requestHash):
		return nil, toolpark.Errorf(toolpark.CodeIdempotencyMismatch,
			"This Idempotency-Key was used for another request in the last 24 hours; use a fresh one.")
	case replay.Status == 0:
		return nil, fmt.Errorf("idempotency key of %s was committed without its reply", owner)
	}
	return &replay, nil
}

// StoreReply keeps what the request answers, in the transaction that claimed the key. For a run, pass
// its id and no body. An empty key stores nothing.
func StoreReply(tx *Tx, account, owner uuid.UUID, key string, status int, body jsontext.Value, run *uuid.UUID) {
	if key == "" {
		return
	}
	tx.Later().Queue(`
		UPDATE idempotency_keys
		SET status = $4, body = $5, run_id = $6
		WHERE account_id = $1 AND owner_id = $2 AND key = $3`, account, owner, key, status, body, run)
}
