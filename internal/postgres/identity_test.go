package postgres_test

import (
	"testing"
	"time"
	"uuid"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/credential"
	"github.com/toolpark/toolpark/internal/postgres"
)

func TestMemberCredentials(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	account, ada := newAccount(t, db)
	bot, err := db.CreateAgent(t.Context(), account, ada.ID, "bot", "Bot", true)
	require.NoError(t, err)

	mint := func(t *testing.T, owner uuid.UUID, expires *time.Time) (postgres.Credential, []byte) {
		made, bearer, err := postgres.CreateCredential(t.Context(), db.Pool, account, credential.Member, owner, "laptop", expires)
		require.NoError(t, err)
		hash, ok := credential.Hash(credential.Member, bearer)
		require.True(t, ok)
		return made, hash
	}

	t.Run("a working one tells who it is", func(t *testing.T) {
		_, hash := mint(t, bot.ID, nil)
		got, err := db.MemberByCredential(t.Context(), hash)
		require.NoError(t, err)
		require.Equal(t, toolpark.Member{
			Account: account, ID: bot.ID, Kind: toolpark.Agent, Handle: "bot", DisplayName: "Bot",
			Role: toolpark.RoleMember, MayDecide: true, Steward: ada.ID,
		}, got)
		require.Equal(t, ada.ID, got.Human())
	})

	t.Run("an expired one is unknown", func(t *testing.T) {
		past := time.Now().Add(-time.Second)
		_, hash := mint(t, ada.ID, &past)
		_, err := db.MemberByCredential(t.Context(), hash)
		require.ErrorIs(t, err, pgx.ErrNoRows)
	})

	t.Run("a revoked one is unknown", func(t *testing.T) {
		made, hash := mint(t, ada.ID, nil)
		_, err := postgres.RevokeCredential(t.Context(), db.Pool, account, made.ID)
		require.NoError(t, err)
		_, err = db.MemberByCredential(t.Context(), hash)
		require.ErrorIs(t, err, pgx.ErrNoRows)
		_, err = postgres.RevokeCredential(t.Context(), db.Pool, account, made.ID)
		require.ErrorIs(t, err, pgx.ErrNoRows)
	})

	t.Run("a rotated one is replaced", func(t *testing.T) {
		made, old := mint(t, ada.ID, nil)
		fresh, bearer, err := db.RotateCredential(t.Context(), account, made.ID, nil)
		require.NoError(t, err)
		require.Equal(t, made.OwnerID, fresh.OwnerID)
		require.Equal(t, "laptop", fresh.Label)
		hash, _ := credential.Hash(credential.Member, bearer)
		_, err = db.MemberByCredential(t.Context(), hash)
		require.NoError(t, err)
		_, err = db.MemberByCredential(t.Context(), old)
		require.ErrorIs(t, err, pgx.ErrNoRows)
	})

	t.Run("another account cannot revoke it", func(t *testing.T) {
		made, hash := mint(t, ada.ID, nil)
		_, err := postgres.RevokeCredential(t.Context(), db.Pool, uuid.NewV7(), made.ID)
		require.ErrorIs(t, err, pgx.ErrNoRows)
		_, err = db.MemberByCredential(t.Context(), hash)
		require.NoError(t, err)
	})

	t.Run("a removed member's are unknown", func(t *testing.T) {
		eve, err := db.CreateHuman(t.Context(), account, "eve", "Eve", toolpark.RoleAdmin)
		require.NoError(t, err)
		_, hash := mint(t, eve.ID, nil)
		require.NoError(t, db.RemoveMember(t.Context(), account, eve.ID))
		_, err = db.MemberByCredential(t.Context(), hash)
		require.ErrorIs(t, err, pgx.ErrNoRows)
		_, _, err = postgres.CreateCredential(t.Context(), db.Pool, account, credential.Member, eve.ID, "", nil)
		require.Equal(t, toolpark.CodeNotFound, codeOf(t, err))
	})
}

func TestExecutorCredentials(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	account, ada := newAccount(t, db)

	t.Run("re-pairing ends the ones before and keeps the id", func(t *testing.T) {
		id, _ := newRunner(t, db, account, ada.ID, "paired", toolpark.UserPrivate)
		_, old, err := postgres.CreateCredential(t.Context(), db.Pool, account, credential.Executor, id, "", nil)
		require.NoError(t, err)
		made, bearer, err := db.RepairPairing(t.Context(), account, id, nil)
		require.NoError(t, err)
		require.Equal(t, 2, *made.Epoch)
		hash, _ := credential.Hash(credential.Executor, bearer)
		got, _, err := db.ExecutorByCredential(t.Context(), hash)
		require.NoError(t, err)
		require.Equal(t, id, got.ID)
		hash, _ = credential.Hash(credential.Executor, old)
		_, _, err = db.ExecutorByCredential(t.Context(), hash)
		require.ErrorIs(t, err, pgx.ErrNoRows)
	})

	t.Run("a revoked executor has none", func(t *testing.T) {
		id, _ := newRunner(t, db, account, ada.ID, "revoked", toolpark.UserPrivate)
		_, bearer, err := postgres.CreateCredential(t.Context(), db.Pool, account, credential.Executor, id, "", nil)
		require.NoError(t, err)
		require.NoError(t, db.RevokeExecutor(t.Context(), account, id))
		hash, _ := credential.Hash(credential.Executor, bearer)
		_, _, err = db.ExecutorByCredential(t.Context(), hash)
		require.ErrorIs(t, err, pgx.ErrNoRows)
		require.ErrorIs(t, db.RevokeExecutor(t.Context(), account, id), pgx.ErrNoRows)
		_, _, err = db.RepairPairing(t.Context(), account, id, nil)
		require.ErrorIs(t, err, pgx.ErrNoRows)
	})

	t.Run("the contact mark is due once in a while and never waits", func(t *testing.T) {
		id, _ := newRunner(t, db, account, ada.ID, "seen", toolpark.UserPrivate)
		_, bearer, err := postgres.CreateCredential(t.Context(), db.Pool, account, credential.Executor, id, "", nil)
		require.NoError(t, err)
		hash, _ := credential.Hash(credential.Executor, bearer)
		_, unseen, err := db.ExecutorByCredential(t.Context(), hash)
		require.NoError(t, err)
		require.True(t, unseen)

		require.NoError(t, db.Tx(t.Context(), func(tx *postgres.Tx) error {
			_, err := tx.Exec(t.Context(), `SELECT FROM executors WHERE id = $1 FOR UPDATE`, id)
			require.NoError(t, err)
			start := time.Now()
			require.NoError(t, db.MarkSeen(t.Context(), account, id))
			require.Less(t, time.Since(start), time.Second)
			return nil
		}))
		require.NoError(t, db.MarkSeen(t.Context(), account, id))
		_, unseen, err = db.ExecutorByCredential(t.Context(), hash)
		require.NoError(t, err)
		require.False(t, unseen)
	})
}

func TestMembers(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	account, ada := newAccount(t, db)
	other, _ := newAccount(t, db)

	t.Run("bad handles are refused in words", func(t *testing.T) {
		for _, handle := range []string{"", "a", "-ab", "Ada", "a b", "abcdefghijklmnopqrstuvwxyz0123456", "añ"} {
			_, err := db.CreateHuman(t.Context(), account, handle, "x", toolpark.RoleMember)
			require.Equal(t, toolpark.CodeValidationFailed, codeOf(t, err), handle)
			require.ErrorContains(t, err, "2 to 32", handle)
		}
		_, err := db.CreateHuman(t.Context(), account, "ada", "x", toolpark.RoleMember)
		require.ErrorContains(t, err, "taken")
	})

	t.Run("an agent comes with its own address and leaves with it", func(t *testing.T) {
		agent, err := db.CreateAgent(t.Context(), account, ada.ID, "scout", "Scout", false)
		require.NoError(t, err)
		require.NotNil(t, agent.ExecutorID)
		address, err := postgres.DescribeExecutor(t.Context(), db.Pool, account, *agent.ExecutorID)
		require.NoError(t, err)
		require.Equal(t, toolpark.AgentApplication, address.Kind)
		require.Equal(t, toolpark.UserPrivate, address.AssignmentScope)

		require.ErrorContains(t, db.RemoveMember(t.Context(), account, ada.ID), "steward")
		require.NoError(t, db.RemoveMember(t.Context(), account, agent.ID))
		address, err = postgres.DescribeExecutor(t.Context(), db.Pool, account, *agent.ExecutorID)
		require.NoError(t, err)
		require.Equal(t, "revoked", address.Status)
	})

	t.Run("a steward is an active human of the same account", func(t *testing.T) {
		agent, err := db.CreateAgent(t.Context(), account, ada.ID, "one", "One", false)
		require.NoError(t, err)
		for _, steward := range []uuid.UUID{agent.ID, uuid.NewV7()} {
			_, err := db.CreateAgent(t.Context(), account, steward, "two", "Two", false)
			require.Equal(t, toolpark.CodeValidationFailed, codeOf(t, err))
		}
		_, err = db.CreateAgent(t.Context(), other, ada.ID, "two", "Two", false)
		require.Equal(t, toolpark.CodeValidationFailed, codeOf(t, err))
	})

	t.Run("a steward is not removed while an agent is made", func(t *testing.T) {
		for i := range 10 {
			handle := "h" + string(rune('a'+i))
			human, err := db.CreateHuman(t.Context(), account, handle, handle, toolpark.RoleMember)
			require.NoError(t, err)
			var made, removed error
			var group errgroup.Group
			group.Go(func() error {
				_, made = db.CreateAgent(t.Context(), account, human.ID, handle+"-bot", "Bot", false)
				return nil
			})
			group.Go(func() error {
				removed = db.RemoveMember(t.Context(), account, human.ID)
				return nil
			})
			require.NoError(t, group.Wait())
			require.NotEqual(t, (made == nil), (removed == nil), "made: %v, removed: %v", made, removed)
		}
	})

	t.Run("an unknown member is not removed", func(t *testing.T) {
		require.ErrorIs(t, db.RemoveMember(t.Context(), account, uuid.NewV7()), pgx.ErrNoRows)
		require.ErrorIs(t, db.RemoveMember(t.Context(), other, ada.ID), pgx.ErrNoRows)
	})
}
