package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/credential"
	"github.com/toolpark/toolpark/internal/postgres"
)

func TestCredentials(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	tn := d.newTenant()
	ctx := t.Context()
	fresh := func(plane credential.Plane) string {
		bearer, _ := credential.Mint(plane)
		return bearer
	}
	expired := func(plane credential.Plane, owner postgres.Member) string {
		past := time.Now().Add(-time.Second)
		_, bearer, err := postgres.CreateCredential(ctx, d.DB.Pool, tn.account, plane, owner.ID, "", &past)
		require.NoError(t, err)
		return bearer
	}
	_, revokedRunner := d.newExecutor(tn, toolpark.Runner, "revoked", toolpark.UserPrivate)
	_, err := d.DB.Pool.Exec(ctx, `UPDATE executors SET status = 'revoked' WHERE identifier = 'revoked'`)
	require.NoError(t, err)
	repaired, earlier := d.newExecutor(tn, toolpark.Runner, "repaired", toolpark.UserPrivate)
	_, current, err := d.DB.RepairPairing(ctx, tn.account, repaired, nil)
	require.NoError(t, err)

	// Both planes: what a route answers to each bearer.
	const members, executors = "/agent_api/v1/executors", "/agent_api/v1/executor"
	unauthorized := func(a answer) string {
		t.Helper()
		a.refused(http.StatusUnauthorized, toolpark.CodeUnauthorized)
		require.Equal(t, `Bearer realm="toolpark"`, a.Header.Get("WWW-Authenticate"))
		return string(a.Body)
	}
	for _, test := range []struct {
		name, bearer       string
		members, executors int
	}{
		{"a human", tn.humanBearer, 200, 401},
		{"an agent", tn.botBearer, 200, 401},
		{"a runner", tn.runnerBearer, 401, 200},
		{"an agent's address", tn.appBearer, 401, 200},
		{"a re-paired runner", current, 401, 200},
		{"an earlier epoch", earlier, 401, 401},
		{"a revoked runner", revokedRunner, 401, 401},
		{"an expired member", expired(credential.Member, tn.human), 401, 401},
		{"nobody's, member", fresh(credential.Member), 401, 401},
		{"nobody's, executor", fresh(credential.Executor), 401, 401},
		{"a member's secret under the other prefix", strings.Replace(tn.humanBearer, "tp_member_", "tp_executor_", 1), 401, 401},
		{"a runner's secret under the other prefix", strings.Replace(tn.runnerBearer, "tp_executor_", "tp_member_", 1), 401, 401},
		{"none", "", 401, 401},
	} {
		t.Run(test.name, func(t *testing.T) {
			for path, want := range map[string]int{members: test.members, executors: test.executors} {
				a := d.sendBad("GET", path, test.bearer, "")
				require.Equal(t, want, a.Status, path)
				if want == 401 {
					require.Equal(t, string(d.sendBad("GET", path, "", "").Body), unauthorized(a), "indistinguishable")
				}
			}
		})
	}

	t.Run("spelled otherwise", func(t *testing.T) {
		for _, header := range []string{
			"", "Bearer", "Bearer ", "bearer", "Basic " + tn.humanBearer, tn.humanBearer,
			"Bearer  " + tn.humanBearer, "Bearer\t" + tn.humanBearer, "Bearer " + tn.humanBearer + ",",
			"Bearer " + tn.humanBearer + " x", "Token " + tn.humanBearer, `Bearer "` + tn.humanBearer + `"`,
		} {
			unauthorized(d.sendBad("GET", members, "", "", "Authorization", header))
		}
		d.send("GET", members, "", "", "Authorization", "bearer "+tn.humanBearer).ok(http.StatusOK)
	})

	t.Run("in the query string", func(t *testing.T) {
		for _, name := range []string{"access_token", "token", "bearer", "authorization"} {
			unauthorized(d.sendBad("GET", members+"?"+name+"="+tn.humanBearer, "", ""))
		}
	})

	t.Run("revoking acts at once", func(t *testing.T) {
		made, bearer, err := postgres.CreateCredential(ctx, d.DB.Pool, tn.account, credential.Member, tn.human.ID, "", nil)
		require.NoError(t, err)
		d.send("GET", members, bearer, "").ok(http.StatusOK)
		_, err = postgres.RevokeCredential(ctx, d.DB.Pool, tn.account, made.ID)
		require.NoError(t, err)
		unauthorized(d.sendBad("GET", members, bearer, ""))
	})

	t.Run("removing a member acts at once", func(t *testing.T) {
		d.send("GET", members, tn.botBearer, "").ok(http.StatusOK)
		d.send("GET", executors, tn.appBearer, "").ok(http.StatusOK)
		require.NoError(t, d.DB.RemoveMember(ctx, tn.account, tn.agent.ID))
		unauthorized(d.sendBad("GET", members, tn.botBearer, ""))
		unauthorized(d.sendBad("GET", executors, tn.appBearer, ""))
	})
}

func TestContactMark(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	tn := d.newTenant()
	first := d.send("GET", "/agent_api/v1/executor", tn.runnerBearer, "").ok(http.StatusOK)
	require.NotNil(t, first.get("/executor/last_seen_at"))
	second := d.send("GET", "/agent_api/v1/executor", tn.runnerBearer, "").ok(http.StatusOK)
	require.Equal(t, first.get("/executor/last_seen_at"), second.get("/executor/last_seen_at"), "not at every request")
}
