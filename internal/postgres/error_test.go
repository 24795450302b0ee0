package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/postgres"
)

func codeOf(t *testing.T, err error) toolpark.Code {
	t.Helper()
	e, ok := errors.AsType[*toolpark.Error](err)
	require.True(t, ok, "%v is no toolpark.Error", err)
	return e.Code
}

func TestTransientFailuresAreUnavailable(t *testing.T) {
	t.Parallel()

	t.Run("no server", func(t *testing.T) {
		t.Parallel()
		db, err := postgres.Open(t.Context(), "postgres://nobody@127.0.0.1:1/none", 1)
		require.NoError(t, err)
		defer db.Close()
		require.Equal(t, toolpark.CodeUnavailable, codeOf(t, db.Ping(t.Context())))
	})

	t.Run("a lock that is not given", func(t *testing.T) {
		t.Parallel()
		db := openDB(t)
		account, _ := newAccount(t, db)
		lock := func(tx *postgres.Tx) error {
			_, err := tx.Exec(t.Context(), `SELECT FROM accounts WHERE id = $1 FOR UPDATE`, account)
			return err
		}
		err := db.Tx(t.Context(), func(tx *postgres.Tx) error {
			require.NoError(t, lock(tx))
			start := time.Now()
			err := db.Tx(t.Context(), lock)
			require.Less(t, time.Since(start), 4*time.Second)
			return err
		})
		require.Equal(t, toolpark.CodeUnavailable, codeOf(t, err))
	})

	t.Run("a connection that is killed", func(t *testing.T) {
		t.Parallel()
		db := openDB(t)
		err := db.Tx(t.Context(), func(tx *postgres.Tx) error {
			var pid int
			require.NoError(t, tx.QueryRow(t.Context(), `SELECT pg_backend_pid()`).Scan(&pid))
			_, err := db.Pool.Exec(t.Context(), `SELECT pg_terminate_backend($1)`, pid)
			require.NoError(t, err)
			_, err = tx.Exec(t.Context(), `SELECT 1`)
			return err
		})
		require.Equal(t, toolpark.CodeUnavailable, codeOf(t, err))
		require.NoError(t, db.Ping(t.Context()), "the pool connects again")
	})

	t.Run("a caller that goes away is not the database's fault", func(t *testing.T) {
		t.Parallel()
		db := openDB(t)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		err := db.Tx(ctx, func(tx *postgres.Tx) error {
			_, err := tx.Exec(ctx, `SELECT pg_sleep(3)`)
			return err
		})
		require.ErrorIs(t, err, context.Canceled)
		_, known := errors.AsType[*toolpark.Error](err)
		require.False(t, known)
	})
}

func TestTx(t *testing.T) {
	t.Parallel()
	db := openDB(t)

	t.Run("an error rolls back and passes as it is", func(t *testing.T) {
		refusal := toolpark.Errorf(toolpark.CodeRunBusy, "no")
		err := db.Tx(t.Context(), func(tx *postgres.Tx) error {
			_, err := tx.Exec(t.Context(), `CREATE TABLE scratch ()`)
			require.NoError(t, err)
			return refusal
		})
		require.ErrorIs(t, err, refusal)
		_, err = db.Pool.Exec(t.Context(), `SELECT FROM scratch`)
		require.ErrorContains(t, err, "scratch")
	})

	t.Run("it is READ COMMITTED", func(t *testing.T) {
		require.NoError(t, db.Tx(t.Context(), func(tx *postgres.Tx) error {
			var level string
			require.NoError(t, tx.QueryRow(t.Context(), `SHOW transaction_isolation`).Scan(&level))
			require.Equal(t, "read committed", level)
			return nil
		}))
	})
}
