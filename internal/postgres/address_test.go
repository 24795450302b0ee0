package postgres_test

import (
	"encoding/json/jsontext"
	"maps"
	"slices"
	"testing"
	"uuid"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/credential"
	"github.com/toolpark/toolpark/internal/declaration"
	"github.com/toolpark/toolpark/internal/postgres"
)

// Who is eligible for whom, at every door that asks: a route, the acceptance of a run, discovery.
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
		serve(t, db, account, id, "echo")
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
	serve(t, db, foreign, elsewhere, "echo")
	ids = append(ids, elsewhere, uuid.NewV7())

	var routes []postgres.Route
	for _, id := range ids {
		routes = append(routes, postgres.Route{ExecutorID: id, Name: "echo"})
	}
	named := func(found map[uuid.UUID]string) []string { return slices.Sorted(maps.Values(found)) }
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
			run := &postgres.Run{AccountID: account, HumanID: test.human}
			lookup := declaration.Lookup{Runners: ids}
			for _, id := range ids {
				lookup.Routes = append(lookup.Routes, declaration.Route{Runner: id, ToolName: "echo"})
			}

			addresses := find(t, db, run, routes, "echo")
			eligible, routed := map[uuid.UUID]string{}, map[uuid.UUID]string{}
			for id := range addresses.Eligible {
				eligible[id] = names[id]
			}
			for route, served := range addresses.Routes {
				require.Equal(t, postgres.Route{ExecutorID: served.ExecutorID, Name: served.Name}, route)
				routed[route.ExecutorID] = served.DisplayName
			}
			require.Equal(t, test.want, named(eligible))
			require.Equal(t, eligible, routed)
			require.Empty(t, addresses.Names, "a runner never serves a bare name")

			snapshot, err := postgres.Snapshot(t.Context(), db.Pool, run.Principal(), lookup)
			require.NoError(t, err)
			announced := map[uuid.UUID]string{}
			for id, runner := range snapshot.Runners {
				require.Contains(t, runner.Tools, "echo")
				announced[id] = runner.DisplayName
			}
			require.Equal(t, eligible, announced)

			listed, err := db.DiscoverExecutors(t.Context(), account, test.human, "", uuid.UUID{}, 100)
			require.NoError(t, err)
			discovered := map[uuid.UUID]string{}
			for _, e := range listed {
				discovered[e.ID] = e.DisplayName
			}
			require.Equal(t, eligible, discovered)
		})
	}

	t.Run("an agent's own address takes its agent's bare names and is not discovered", func(t *testing.T) {
		bot, err := db.CreateAgent(t.Context(), account, ada.ID, "bot", "Bot", false)
		require.NoError(t, err)
		other, err := db.CreateAgent(t.Context(), account, ada.ID, "other", "Other", false)
		require.NoError(t, err)
		_, _, err = postgres.CreateCredential(t.Context(), db.Pool, account, credential.Executor, *bot.ExecutorID, "", nil)
		require.NoError(t, err)
		serve(t, db, account, *bot.ExecutorID, "greet")

		route := []postgres.Route{{ExecutorID: *bot.ExecutorID, Name: "greet"}}
		for agent, want := range map[uuid.UUID]int{bot.ID: 1, other.ID: 0} {
			run := &postgres.Run{AccountID: account, AgentID: &agent, HumanID: ada.ID}
			addresses := find(t, db, run, route, "greet")
			require.Len(t, addresses.Names["greet"], want)
			require.Empty(t, addresses.Eligible, "it is no target of a route")
		}
		_, err = db.DiscoverExecutor(t.Context(), account, ada.ID, *bot.ExecutorID)
		require.ErrorIs(t, err, pgx.ErrNoRows)
	})
}

// find resolves addresses as authoring does.
func find(t *testing.T, db *postgres.DB, run *postgres.Run, routes []postgres.Route, names ...string) *postgres.Addresses {
	t.Helper()
	addresses := &postgres.Addresses{}
	batch := &pgx.Batch{}
	postgres.FindAddresses(run, routes, names, addresses)(batch)
	require.NoError(t, db.Pool.SendBatch(t.Context(), batch).Close())
	return addresses
}

// serve announces tools by name.
func serve(t *testing.T, db *postgres.DB, account, executor uuid.UUID, names ...string) {
	t.Helper()
	announcement := declaration.Announcement{Environment: jsontext.Value(`{}`), Documents: jsontext.Value(`[]`)}
	for _, name := range names {
		announcement.Tools = append(announcement.Tools, declaration.AnnouncedTool{
			Name: name, Entry: jsontext.Value(`{}`), EffectProfile: toolpark.EffectProfile{
				Kind: toolpark.EffectPure, EffectScope: toolpark.ScopeClosed, Idempotency: toolpark.IdempotentBy,
				Reconciliation: toolpark.ReconcileNone,
			},
		})
	}
	_, err := db.Announce(t.Context(), account, executor, announcement)
	require.NoError(t, err)
}
