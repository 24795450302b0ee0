package postgres_test

import (
	"testing"
	"uuid"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/credential"
	"github.com/toolpark/toolpark/internal/devstack/devtest"
	"github.com/toolpark/toolpark/internal/postgres"
)

// openDB opens a database of the test's own.
func openDB(t *testing.T) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), devtest.Database(t), 10)
	require.NoError(t, err)
	t.Cleanup(db.Close)
	return db
}

// newAccount makes an account with one human.
func newAccount(t *testing.T, db *postgres.DB) (account uuid.UUID, human postgres.Member) {
	t.Helper()
	made, err := db.CreateAccount(t.Context(), "acme")
	require.NoError(t, err)
	human, err = db.CreateHuman(t.Context(), made.ID, "ada", "Ada", toolpark.RoleMember)
	require.NoError(t, err)
	return made.ID, human
}

// newRunner makes a runner with a working credential.
func newRunner(t *testing.T, db *postgres.DB, account, manager uuid.UUID, identifier string, scope toolpark.Scope) (uuid.UUID, postgres.Credential) {
	t.Helper()
	runner, err := db.CreateExecutor(t.Context(), account, postgres.NewExecutor{
		Kind: toolpark.Runner, Manager: manager, Identifier: identifier, DisplayName: identifier, AssignmentScope: scope,
	})
	require.NoError(t, err)
	made, _, err := postgres.CreateCredential(t.Context(), db.Pool, account, credential.Executor, runner.ID, "", nil)
	require.NoError(t, err)
	return runner.ID, made
}
