package postgres_test

import (
	"slices"
	"testing"
	"time"
	"uuid"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/credential"
	"github.com/toolpark/toolpark/internal/postgres"
)

func TestEligibility(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	account, ada := newAccount(t, db)
	foreign, stranger := newAccount(t, db)
	bob, err := db.CreateHuman(t.Context(), account, "bob", "Bob", toolpark.RoleAdmin)
	require.NoError(t, err)

	exec := func(t *testing.T, sql string, args ...any) {
		_, err := db.Pool.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}
	var ids []uuid.UUID
	names := map[uuid.UUID]string{}
	add := func(t *testing.T, name string, manager uuid.UUID, scope toolpark.Scope, change func(id uuid.UUID, c postgres.Credential)) {
		id, made := newRunner(t, db, account, manager, name, scope)
		if change != nil {
			change(id, made)
		}
		ids = append(ids, id)
		names[id] = name
	}
	add(t, "private of ada", ada.ID, toolpark.UserPrivate, nil)
	add(t, "private of bob", bob.ID, toolpark.UserPrivate, nil)
	add(t, "account-wide of bob", bob.ID, toolpark.AccountWide, nil)
	add(t, "absent for a year", ada.ID, toolpark.UserPrivate, func(id uuid.UUID, _ postgres.Credential) {
		exec(t, `UPDATE executors SET last_seen_at = now() - interval '1 year' WHERE id = $1`, id)
	})
	add(t, "shutting down", ada.ID, toolpark.AccountWide, func(id uuid.UUID, _ postgres.Credential) {
		require.NoError(t, db.ShutDownExecutor(t.Context(), account, id))
	})
	add(t, "revoked", ada.ID, toolpark.AccountWide, func(id uuid.UUID, _ postgres.Credential) {
		require.NoError(t, db.RevokeExecutor(t.Context(), account, id))
	})
	add(t, "credential revoked", ada.ID, toolpark.AccountWide, func(_ uuid.UUID, c postgres.Credential) {
		_, err := postgres.RevokeCredential(t.Context(), db.Pool, account, c.ID)
		require.NoError(t, err)
	})
	add(t, "credential expired", ada.ID, toolpark.AccountWide, func(_ uuid.UUID, c postgres.Credential) {
		exec(t, `UPDATE credentials SET expires_at = now() WHERE id = $1`, c.ID)
	})
	add(t, "credential of an earlier epoch", ada.ID, toolpark.AccountWide, func(id uuid.UUID, _ postgres.Credential) {
		exec(t, `UPDATE executors SET credential_epoch = 2 WHERE id = $1`, id)
	})
	elsewhere, _ := newRunner(t, db, foreign, stranger.ID, "elsewhere", toolpark.AccountWide)
	ids = append(ids, elsewhere, uuid.NewV7())
	slices.Reverse(ids)

	for _, test := range []struct {
		who   string
		human uuid.UUID
		want  []string
	}{
		{"ada", ada.ID, []string{"absent for a year", "account-wide of bob", "private of ada"}},
		{"bob", bob.ID, []string{"account-wide of bob", "private of bob"}},
		{"somebody without executors", uuid.NewV7(), []string{"account-wide of bob"}},
	} {
		t.Run(test.who, func(t *testing.T) {
			eligible, err := postgres.EligibleExecutors(t.Context(), db.Pool, account, test.human, ids)
			require.NoError(t, err)
			got := []string{}
			for _, e := range eligible {
				got = append(got, names[e.ID])
				require.Equal(t, toolpark.Runner, e.Kind)
				require.Equal(t, names[e.ID], e.DisplayName)
				require.Equal(t, "{}", string(e.Environment))
			}
			require.Equal(t, test.want, got, "in the order of the ids")

			discovered, err := db.DiscoverExecutors(t.Context(), account, test.human, "", uuid.UUID{}, 100)
			require.NoError(t, err)
			require.Len(t, discovered, len(test.want))
		})
	}

	t.Run("an agent's own address takes its work and is not discovered", func(t *testing.T) {
		bot, err := db.CreateAgent(t.Context(), account, ada.ID, "bot", "Bot", false)
		require.NoError(t, err)
		_, _, err = postgres.CreateCredential(t.Context(), db.Pool, account, credential.Executor, *bot.ExecutorID, "", nil)
		require.NoError(t, err)
		eligible, err := postgres.EligibleExecutors(t.Context(), db.Pool, account, ada.ID, []uuid.UUID{*bot.ExecutorID})
		require.NoError(t, err)
		require.Len(t, eligible, 1)
		_, err = db.DiscoverExecutor(t.Context(), account, ada.ID, *bot.ExecutorID)
		require.ErrorIs(t, err, pgx.ErrNoRows)
	})
}

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
