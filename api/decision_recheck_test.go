package api_test

import (
	"encoding/json/jsontext"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
)

// An approval looks again whether whoever was asked may still take the call.
func TestAnApprovalOfWhatIsGone(t *testing.T) {
	t.Parallel()
	k := kerneltest.Start(t)
	for name, c := range map[string]struct {
		leave func(t *testing.T, s *scene)
		key   string
	}{
		"shut down": {func(t *testing.T, s *scene) {
			require.NoError(t, s.Box.Shutdown(t.Context()))
		}, toolpark.ErrRunnerNotEligible},
		"without a live credential": {func(t *testing.T, s *scene) {
			_, err := s.Account.DB.Pool.Exec(t.Context(), `UPDATE credentials SET revoked_at = now() WHERE executor_id = $1`, s.Box.ID)
			require.NoError(t, err)
		}, toolpark.ErrRunnerNotEligible},
		"with a credential of an earlier epoch": {func(t *testing.T, s *scene) {
			_, err := s.Account.DB.Pool.Exec(t.Context(), `UPDATE executors SET credential_epoch = credential_epoch + 1 WHERE id = $1`, s.Box.ID)
			require.NoError(t, err)
		}, toolpark.ErrRunnerNotEligible},
		"revoked": {func(t *testing.T, s *scene) {
			_, err := s.Account.DB.Pool.Exec(t.Context(), `UPDATE executors SET status = 'revoked' WHERE id = $1`, s.Box.ID)
			require.NoError(t, err)
		}, toolpark.ErrRunnerNotEligible},
		"somebody else's": {func(t *testing.T, s *scene) {
			_, err := s.Account.DB.Pool.Exec(t.Context(), `UPDATE executors SET assignment_scope = 'user_private', manager_id = $2 WHERE id = $1`,
				s.Box.ID, s.Human("bob").ID)
			require.NoError(t, err)
		}, toolpark.ErrRunnerNotEligible},
		"serving something else": {func(_ *testing.T, s *scene) {
			s.Serve(s.Box, readOnly("other"))
		}, toolpark.ErrToolNotServed},
		"serving nothing": {func(_ *testing.T, s *scene) { s.Serve(s.Box) }, toolpark.ErrToolNotServed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sceneAt(t, k, kerneltest.Entry("bash", kerneltest.Writes))
			run := s.ruled("ask")
			approved, denied := s.call(run, "bash", `{}`), s.call(run, "bash", `{}`)
			c.leave(t, s)
			a := s.decide(s.Admin, approved, "approve", "").ok(http.StatusOK)
			require.EqualValues(t, toolpark.Failed, a.text("/task/status"))
			require.Equal(t, c.key, a.text("/task/error/key"))
			require.Equal(t, "human", a.text("/task/approval/origin"), "it was approved all the same")
			require.Equal(t, "null", string(a.raw("/task/dispatched_at")))
			require.Equal(t, string(a.Body), string(s.decide(s.Admin, approved, "approve", "").ok(http.StatusOK).Body))
			s.decide(s.Admin, approved, "deny", "").refused(http.StatusConflict, toolpark.CodeNotAwaitingApproval)
			s.decide(s.Admin, denied, "deny", "").ok(http.StatusOK)
			require.Zero(t, s.dispatches(run)[approved.TaskKey])
			require.Empty(t, s.approvals(agent.WaitingFilter{Run: run}))
		})
	}
}

// What the call was accepted with stays, whatever is announced meanwhile, and its own clock starts with the approval.
func TestAnApprovedCallIsAsItWasAccepted(t *testing.T) {
	t.Parallel()
	s := newScene(t, within(kerneltest.Entry("bash", kerneltest.Writes), 7*time.Second))
	ref := s.call(s.ruled("ask"), "bash", `{}`)
	before := s.read(ref)
	changed := within(kerneltest.Entry("bash", kerneltest.ReadOnly), time.Hour)
	changed.InputSchema = jsontext.Value(`{"type":"object","required":["other"]}`)
	changed.OutputSchema = jsontext.Value(`{"type":"object","required":["n"]}`)
	s.Serve(s.Box, changed)
	_, err := s.Account.DB.Pool.Exec(t.Context(), `UPDATE tasks SET began_at = began_at - interval '23 hours' WHERE key = $1`, ref.TaskKey)
	require.NoError(t, err)

	approved := s.decide(s.Admin, ref, "approve", `{"input":{"command":"ls"}}`).ok(http.StatusOK)
	require.Equal(t, string(before.raw("/task/effect_profile")), string(approved.raw("/task/effect_profile")))
	require.Equal(t, "7000", string(approved.raw("/task/timeout_ms")))
	at := func(member string) time.Time {
		moment, err := time.Parse(time.RFC3339Nano, approved.text("/task/"+member))
		require.NoError(t, err)
		return moment
	}
	require.Equal(t, 7*time.Second, at("deadline_at").Sub(at("dispatched_at")))
	require.WithinDuration(t, time.Now(), at("dispatched_at"), patience)
	s.report(ref, s.claim(ref), `"content":"done"`).ok(http.StatusOK)
	require.EqualValues(t, toolpark.Completed, s.settled(ref).text("/task/status"), "it never promised an output")
}

// Of a pool those get an approved call that still serve it.
func TestAPoolIsAskedAgain(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	pool := map[string]kerneltest.Executor{}
	for _, name := range []string{"stays", "stays too", "leaves", "forgets"} {
		pool[name] = s.Executor(toolpark.ToolsProvider, name, toolpark.AccountWide)
		s.Serve(pool[name], kerneltest.Entry("pooled", kerneltest.Writes))
	}
	run, err := s.Agent.CreateRun(t.Context(), agent.NewRun{Configuration: &agent.Configuration{
		ApprovalMode: "ask", ToolDefinitions: []jsontext.Value{function("pooled", "")},
	}})
	require.NoError(t, err)
	ref := s.call(run.PublicID, "pooled", `{}`)
	late := s.Executor(toolpark.ToolsProvider, "late", toolpark.AccountWide)
	s.Serve(late, kerneltest.Entry("pooled", kerneltest.ReadOnly))
	require.NoError(t, pool["leaves"].Shutdown(t.Context()))
	s.Serve(pool["forgets"], readOnly("other"))
	for name := range pool {
		require.Empty(t, inbox(t, pool[name]), name)
	}

	approved := s.decide(s.Admin, ref, "approve", "").ok(http.StatusOK)
	require.EqualValues(t, toolpark.Dispatched, approved.text("/task/status"))
	require.Equal(t, toolpark.EffectWrite, approved.text("/task/effect_profile/kind"))
	for _, name := range []string{"stays", "stays too"} {
		require.Equal(t, []string{ref.TaskKey}, inbox(t, pool[name]), name)
	}
	for name, gone := range map[string]kerneltest.Executor{"leaves": pool["leaves"], "forgets": pool["forgets"], "late": late} {
		require.Empty(t, inbox(t, gone), name)
		_, err := gone.Claim(t.Context(), ref, "claim")
		require.Equal(t, toolpark.CodeNotAddressedHere, code(err), name)
	}
	_, err = pool["stays too"].Claim(t.Context(), ref, "claim")
	require.NoError(t, err)
	_, err = pool["stays"].Claim(t.Context(), ref, "claim")
	require.Equal(t, toolpark.CodeAlreadyClaimed, code(err))

	last := s.call(run.PublicID, "pooled", `{}`)
	for _, executor := range []kerneltest.Executor{pool["stays"], pool["stays too"], late} {
		require.NoError(t, executor.Shutdown(t.Context()))
	}
	require.Equal(t, toolpark.ErrToolNotServed, s.decide(s.Admin, last, "approve", "").ok(http.StatusOK).text("/task/error/key"))
}

// A stopping run still has its held calls decided about; a forced stop ends them.
func TestARunStopsOverHeldCalls(t *testing.T) {
	t.Parallel()
	s := newScene(t, kerneltest.Entry("bash", kerneltest.Writes))
	run := s.ruled("ask")
	refs := []runner.Ref{s.call(run, "bash", `{}`), s.call(run, "bash", `{}`), s.call(run, "bash", `{}`)}
	s.badly("POST", "/runs/"+run+"/complete", "").refused(http.StatusConflict, toolpark.CodeRunBusy)
	s.asAgent("POST", "/runs/"+run+"/stop", "").ok(http.StatusOK)
	s.decide(s.Admin, refs[0], "approve", "").ok(http.StatusOK)
	s.report(refs[0], s.claim(refs[0]), `"content":"done"`).ok(http.StatusOK)
	s.decide(s.Admin, refs[1], "deny", "").ok(http.StatusOK)
	_, err := s.Agent.StopRun(t.Context(), run, true)
	require.NoError(t, err)
	require.EqualValues(t, toolpark.Canceled, s.settled(refs[2]).text("/task/status"))
	s.decide(s.Admin, refs[2], "approve", "").refused(http.StatusConflict, toolpark.CodeNotAwaitingApproval)
	require.Empty(t, s.approvals(agent.WaitingFilter{Run: run}))
	require.Eventually(t, func() bool {
		now, err := s.Agent.Run(t.Context(), run)
		return err == nil && now.Status == toolpark.RunCanceled
	}, patience, patience/1000)
}
