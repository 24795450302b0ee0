package postgres_test

import (
	"encoding/json/jsontext"
	"sync/atomic"
	"testing"
	"uuid"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/postgres"
)

func TestIdempotency(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	account, owner := uuid.NewV7(), uuid.NewV7()
	hash := []byte("the request")
	reply := jsontext.Value(`{"n":1}`)

	// once answers a request, or replays it.
	once := func(t *testing.T, owner uuid.UUID, key string, hash []byte) (replay *postgres.Replay, err error) {
		err = db.Tx(t.Context(), func(tx *postgres.Tx) error {
			replay, err = postgres.ClaimKey(t.Context(), tx, account, owner, key, hash)
			if err != nil || replay != nil {
				return err
			}
			postgres.StoreReply(tx, account, owner, key, 201, reply, nil)
			return nil
		})
		return replay, err
	}

	t.Run("the same request replays", func(t *testing.T) {
		replay, err := once(t, owner, "a", hash)
		require.NoError(t, err)
		require.Nil(t, replay)
		replay, err = once(t, owner, "a", hash)
		require.NoError(t, err)
		require.Equal(t, &postgres.Replay{Status: 201, Body: reply}, replay)
	})

	t.Run("another request is a mismatch", func(t *testing.T) {
		_, err := once(t, owner, "b", hash)
		require.NoError(t, err)
		_, err = once(t, owner, "b", []byte("another"))
		require.Equal(t, toolpark.CodeIdempotencyMismatch, codeOf(t, err))
	})

	t.Run("another owner's key is another key", func(t *testing.T) {
		_, err := once(t, owner, "c", hash)
		require.NoError(t, err)
		replay, err := once(t, uuid.NewV7(), "c", []byte("another"))
		require.NoError(t, err)
		require.Nil(t, replay)
	})

	t.Run("a refused request leaves the key free", func(t *testing.T) {
		refusal := toolpark.Errorf(toolpark.CodeRunBusy, "no")
		err := db.Tx(t.Context(), func(tx *postgres.Tx) error {
			_, err := postgres.ClaimKey(t.Context(), tx, account, owner, "d", hash)
			require.NoError(t, err)
			return refusal
		})
		require.ErrorIs(t, err, refusal)
		replay, err := once(t, owner, "d", []byte("corrected"))
		require.NoError(t, err)
		require.Nil(t, replay)
	})

	t.Run("one of many at once does the work", func(t *testing.T) {
		var worked atomic.Int32
		var group errgroup.Group
		for range 8 {
			group.Go(func() error {
				replay, err := once(t, owner, "e", hash)
				if err == nil && replay == nil {
					worked.Add(1)
				}
				return err
			})
		}
		require.NoError(t, group.Wait())
		require.EqualValues(t, 1, worked.Load())
	})

	t.Run("a key is free again after a day", func(t *testing.T) {
		_, err := once(t, owner, "f", hash)
		require.NoError(t, err)
		_, err = db.Pool.Exec(t.Context(),
			`UPDATE idempotency_keys SET created_at = created_at - interval '24 hours 1 second' WHERE key = 'f'`)
		require.NoError(t, err)
		replay, err := once(t, owner, "f", []byte("another"))
		require.NoError(t, err)
		require.Nil(t, replay)
		replay, err = once(t, owner, "f", []byte("another"))
		require.NoError(t, err)
		require.NotNil(t, replay)
	})

	t.Run("a run's key names the run", func(t *testing.T) {
		run := uuid.NewV7()
		require.NoError(t, db.Tx(t.Context(), func(tx *postgres.Tx) error {
			_, err := postgres.ClaimKey(t.Context(), tx, account, owner, "g", hash)
			require.NoError(t, err)
			postgres.StoreReply(tx, account, owner, "g", 201, nil, &run)
			return nil
		}))
		replay, err := once(t, owner, "g", hash)
		require.NoError(t, err)
		require.Equal(t, &postgres.Replay{Status: 201, Run: &run}, replay)
	})
}
