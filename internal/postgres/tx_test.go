package postgres_test

import (
	"context"
	"errors"
	"testing"
	"uuid"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark/internal/postgres"
)

func TestTransactions(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	const insert = `INSERT INTO accounts (id, name, workspace_id) VALUES ($1, $2, $1)`
	written := func(t *testing.T, name string) (n int) {
		require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM accounts WHERE name = $1`, name).Scan(&n))
		return n
	}
	later := func(tx *postgres.Tx, name string) { tx.Later().Queue(insert, uuid.NewV7(), name) }

	t.Run("what is queued is read by what follows, and committed", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, db.Tx(t.Context(), func(tx *postgres.Tx) error {
			later(tx, "queued")
			var seen int
			require.NoError(t, tx.QueryRow(t.Context(), `SELECT count(*) FROM accounts WHERE name = 'queued'`).Scan(&seen))
			require.Equal(t, 1, seen)
			later(tx, "queued")
			return nil
		}))
		require.Equal(t, 2, written(t, "queued"))
	})

	t.Run("an error takes everything back", func(t *testing.T) {
		t.Parallel()
		mine := errors.New("mine")
		for _, flush := range []bool{false, true} {
			err := db.Tx(t.Context(), func(tx *postgres.Tx) error {
				later(tx, "taken back")
				if flush {
					require.NoError(t, tx.Send(t.Context(), &pgx.Batch{}))
				}
				return mine
			})
			require.ErrorIs(t, err, mine)
		}
		require.Zero(t, written(t, "taken back"))
	})

	t.Run("a failure among what is queued fails the commit", func(t *testing.T) {
		t.Parallel()
		require.Error(t, db.Tx(t.Context(), func(tx *postgres.Tx) error {
			later(tx, "beside a failure")
			later(tx, "") // an account needs a name
			later(tx, "beside a failure")
			return nil
		}))
		require.Zero(t, written(t, "beside a failure"))
	})

	t.Run("a failure that nobody minds is none the less one", func(t *testing.T) {
		t.Parallel()
		require.Error(t, db.Tx(t.Context(), func(tx *postgres.Tx) error {
			later(tx, "after a failure")
			_, _ = tx.Exec(t.Context(), `SELECT 1 / 0`)
			later(tx, "after a failure")
			return nil
		}))
		require.Zero(t, written(t, "after a failure"))
	})

	t.Run("a caller that goes away leaves nothing, and no broken connection", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		require.Error(t, db.Tx(ctx, func(tx *postgres.Tx) error {
			later(tx, "gone")
			require.NoError(t, tx.Send(ctx, &pgx.Batch{}))
			cancel()
			return nil
		}))
		require.Zero(t, written(t, "gone"))
	})
}

func TestTheSweepSaysWhetherThereIsMore(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	_, err := db.Pool.Exec(t.Context(), `
		INSERT INTO idempotency_keys (account_id, owner_id, key, request_hash, status, created_at)
		SELECT $1, $1, n::text, '', 201, now() - interval '2 days' * (n % 2) FROM generate_series(1, 6) AS n`, uuid.NewV7())
	require.NoError(t, err)
	for _, want := range []bool{true, false, false} {
		more, err := db.Sweep(t.Context(), 2)
		require.NoError(t, err)
		require.Equal(t, want, more)
	}
	var left int
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM idempotency_keys`).Scan(&left))
	require.Equal(t, 3, left, "those of today stay")
}
