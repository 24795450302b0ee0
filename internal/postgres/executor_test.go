package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/postgres"
)

func TestPresence(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	account, ada := newAccount(t, db)
	id, _ := newRunner(t, db, account, ada.ID, "box", toolpark.UserPrivate)
	describe := func() postgres.ExecutorDescription {
		e, err := postgres.DescribeExecutor(t.Context(), db.Pool, account, id)
		require.NoError(t, err)
		return e
	}
	require.False(t, describe().Present)

	require.NoError(t, db.MarkPresent(t.Context(), account, id, time.Minute))
	first := describe()
	require.True(t, first.Present)
	require.NotNil(t, first.ConnectedAt)

	require.NoError(t, db.MarkPresent(t.Context(), account, id, -time.Second))
	second := describe()
	require.Equal(t, first.ConnectedAt, second.ConnectedAt, "the same stream, still open until then")
	require.False(t, second.Present)

	require.NoError(t, db.MarkPresent(t.Context(), account, id, time.Minute))
	require.True(t, describe().ConnectedAt.After(*first.ConnectedAt), "a new stream")
}
