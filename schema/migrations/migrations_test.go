package migrations_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/toolpark/toolpark/internal/devstack/devtest"
	"github.com/toolpark/toolpark/schema/migrations"
)

func TestUp(t *testing.T) {
	t.Parallel()

	t.Run("several at once apply each file once", func(t *testing.T) {
		t.Parallel()
		url := devtest.EmptyDatabase(t)
		applied := make([][]string, 4)
		var group errgroup.Group
		for i := range applied {
			group.Go(func() (err error) {
				applied[i], err = migrations.Up(t.Context(), url)
				return err
			})
		}
		require.NoError(t, group.Wait())
		var all []string
		for _, names := range applied {
			all = append(all, names...)
		}
		files, err := migrations.Files.ReadDir(".")
		require.NoError(t, err)
		require.Len(t, all, len(files))
	})

	t.Run("an unreachable database is an error", func(t *testing.T) {
		t.Parallel()
		_, err := migrations.Up(t.Context(), "postgres://nobody@127.0.0.1:1/nothing?connect_timeout=1")
		require.ErrorContains(t, err, "migrate:")
	})
}
