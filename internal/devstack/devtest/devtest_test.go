package devtest_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/toolpark/toolpark/internal/devstack/devtest"
	"github.com/toolpark/toolpark/internal/visibility"
)

func TestDatabase(t *testing.T) {
	t.Parallel()

	t.Run("has the schema and no rows", func(t *testing.T) {
		t.Parallel()
		conn, err := pgx.Connect(t.Context(), devtest.Database(t))
		require.NoError(t, err)
		defer conn.Close(t.Context())
		var n int
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM tasks`).Scan(&n))
		require.Zero(t, n)
	})

	t.Run("is the test's own, and made quickly", func(t *testing.T) {
		t.Parallel()
		first := devtest.Database(t)
		began := time.Now()
		second := devtest.Database(t)
		require.NotEqual(t, first, second)
		t.Logf("made in %s", time.Since(began))
	})
}

func TestTemporal(t *testing.T) {
	t.Parallel()
	c, err := client.DialContext(t.Context(), client.Options{HostPort: devtest.Temporal(t)})
	require.NoError(t, err)
	defer c.Close()
	missing, err := visibility.Missing(t.Context(), c, client.DefaultNamespace)
	require.NoError(t, err)
	require.Empty(t, missing)
}
