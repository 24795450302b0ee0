package api_test

import (
	"net/http"
	"testing"
	"uuid"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
)

// Whoever may read a run may decide in it, agents only by leave; nobody else finds anything (case 28).
func TestWhoMayDecide(t *testing.T) {
	t.Parallel()
	s := newScene(t, kerneltest.Entry("bash", kerneltest.Writes))
	elsewhere := sceneAt(t, s.Kernel)
	steward, stranger := s.Human("steward"), s.Human("stranger")
	agentOf := func(handle string, mayDecide bool) kerneltest.Member {
		made, err := s.Account.DB.CreateAgent(t.Context(), s.ID, steward.ID, handle, handle, mayDecide)
		require.NoError(t, err)
		return s.member(made.ID)
	}
	worker, judge := agentOf("worker", false), agentOf("judge", true)
	held := func(m kerneltest.Member) runner.Ref {
		t.Helper()
		box := s.Box.ID.String()
		run, err := m.CreateRun(t.Context(), agent.NewRun{DefaultRunner: box, Configuration: &agent.Configuration{
			Runners: []string{box}, ApprovalMode: "ask",
		}})
		require.NoError(t, err)
		round, err := m.PostRound(t.Context(), run.PublicID, agent.NewRound{Calls: []agent.Call{{Name: "bash"}}})
		require.NoError(t, err)
		return runner.Ref{Run: run.PublicID, TaskKey: round.Tasks[0].Key, Generation: 1}
	}
	verbs := []string{"approve", "deny"}

	workers := held(worker)
	unknown := runner.Ref{Run: uuid.NewV7().String(), TaskKey: workers.TaskKey}
	for _, verb := range verbs {
		for name, m := range map[string]kerneltest.Member{
			"a stranger": stranger, "another agent": s.Agent, "an agent that may decide": judge,
			"another account's administrator": elsewhere.Admin, "another account's agent": elsewhere.Agent,
		} {
			a := s.decide(m, workers, verb, "").refused(http.StatusNotFound, toolpark.CodeNotFound)
			require.Equal(t, string(s.decide(m, unknown, verb, "").Body), string(a.Body), name)
		}
		s.decide(worker, workers, verb, "").refused(http.StatusForbidden, toolpark.CodeNotAuthorized)
		for _, bearer := range []string{s.Box.Token, s.AgentAt.Token, elsewhere.Box.Token, ""} {
			s.sendBad("POST", base+taskPath(workers)+"/"+verb, bearer, "").refused(http.StatusUnauthorized, toolpark.CodeUnauthorized)
		}
		s.decide(s.Admin, runner.Ref{Run: workers.Run, TaskKey: "r1t9"}, verb, "").refused(http.StatusNotFound, toolpark.CodeNotFound)
	}
	require.EqualValues(t, toolpark.NeedsApproval, s.decide(s.Admin, workers, "approve", `{"input_digest":"x"}`).text("/error/task/status"))
	for _, m := range []kerneltest.Member{stranger, s.Agent, judge, elsewhere.Admin} {
		waiting, err := m.Approvals(t.Context(), agent.WaitingFilter{})
		require.NoError(t, err)
		require.Empty(t, waiting)
	}

	creators := held(steward)
	for _, c := range []struct {
		name   string
		who    kerneltest.Member
		ref    runner.Ref
		origin string
	}{
		{"the steward", steward, workers, "human"},
		{"an administrator", s.Admin, held(worker), "human"},
		{"the person who made the run", steward, creators, "human"},
		{"an agent by leave, of its own run", judge, held(judge), "agent"},
	} {
		listed, err := c.who.Approvals(t.Context(), agent.WaitingFilter{Run: c.ref.Run})
		require.NoError(t, err)
		require.Len(t, listed, 1, c.name)
		a := s.decide(c.who, c.ref, "approve", "").ok(http.StatusOK)
		require.Equal(t, c.origin, a.text("/task/approval/origin"), c.name)
		require.Equal(t, c.who.ID.String(), a.text("/task/approval/decided_by"), c.name)
	}
	denied := held(judge)
	a := s.decide(judge, denied, "deny", `{"reason":"on reflection"}`).ok(http.StatusOK)
	require.Equal(t, `declined by an agent that may decide, with the words "on reflection"`, a.text("/task/error/detail"))
	s.decide(steward, denied, "deny", "").ok(http.StatusOK)
	require.Equal(t, judge.ID.String(), s.decide(steward, denied, "approve", "").refused(http.StatusConflict, toolpark.CodeNotAwaitingApproval).
		text("/error/task/approval/decided_by"))
}
