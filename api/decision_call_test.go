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

// A tool_call crosses no stage of its own: the call that it makes does.
func TestAToolCallsChildIsDecidedAbout(t *testing.T) {
	t.Parallel()
	s := newScene(t, kerneltest.Entry("bash", kerneltest.Writes), readOnly("never"))
	kernel := agent.Configuration{
		ApprovalMode: "ask", KernelTools: []string{"nexus.tools.search", "nexus.tools.call"},
		ToolDefinitions: []jsontext.Value{jsontext.Value(`{"name":"Do","canonical":"nexus.tools.call","params":{"what":{"maps_to":"name"}}}`)},
		ApprovalRules: []agent.ApprovalRule{
			{Tool: "never", Verdict: "deny", Reason: "not here"},
			{Tool: "bash", Path: "command", Match: new("sleep"), Verdict: "ask", HoldMS: 200},
		},
	}
	run := s.ruledWith(kernel)

	t.Run("approved with another input, which the model is told", func(t *testing.T) {
		wrapper, child := s.wrapped(run, "bash", `{"command":"ls"}`)
		require.EqualValues(t, toolpark.Running, s.read(wrapper).text("/task/status"))
		require.Equal(t, "kernel", s.read(wrapper).text("/task/approval/origin"))
		held := s.read(child)
		require.EqualValues(t, toolpark.NeedsApproval, held.text("/task/status"))
		require.Equal(t, `{"command":"ls"}`, string(held.raw("/task/tool_input")))
		listed := s.approvals(agent.WaitingFilter{Run: run})
		require.Len(t, listed, 1)
		require.Equal(t, child.TaskKey, listed[0].TaskKey)
		require.Equal(t, "bash", listed[0].ToolName)
		s.decide(s.Admin, wrapper, "approve", "").refused(http.StatusConflict, toolpark.CodeNotAwaitingApproval)
		s.decide(s.Admin, wrapper, "deny", "").refused(http.StatusConflict, toolpark.CodeNotAwaitingApproval)
		s.decide(s.Admin, child, "approve", `{"input":{"command":"ls -l","n":1.50}}`).ok(http.StatusOK)
		grant, err := s.Box.Claim(t.Context(), child, "claim")
		require.NoError(t, err)
		require.Equal(t, `{"command":"ls -l","n":1.50}`, string(grant.Task.ToolInput))
		s.report(child, grant.Token, `"content":"a.txt"`).ok(http.StatusOK)
		end := s.settled(wrapper)
		require.Equal(t, "a.txt", end.text("/task/output"))
		require.Equal(t, `{"name":"bash","input":{"command":"ls"}}`, string(end.raw("/task/tool_input")))
		require.Nil(t, end.raw("/task/original_input"))
		for _, format := range toolpark.Formats {
			messages, err := s.Agent.Messages(t.Context(), run, 1, string(format))
			require.NoError(t, err)
			require.Contains(t, string(messages[0]), "changed its input")
			require.Contains(t, string(messages[0]), "ls -l")
		}
	})

	t.Run("denied", func(t *testing.T) {
		wrapper, child := s.wrapped(run, "bash", `{}`)
		s.decide(s.Admin, child, "deny", `{"reason":"no"}`).ok(http.StatusOK)
		end := s.settled(wrapper)
		require.Equal(t, toolpark.ErrApprovalDenied, end.text("/task/error/key"))
		require.Equal(t, `declined by a person, with the words "no"`, end.text("/task/error/detail"))
	})

	t.Run("not decided in time", func(t *testing.T) {
		wrapper, child := s.wrapped(run, "bash", `{"command":"sleep"}`)
		for _, end := range []answer{s.settled(child), s.settled(wrapper)} {
			require.EqualValues(t, toolpark.TimedOut, end.text("/task/status"))
			require.Equal(t, toolpark.ErrApprovalExpired, end.text("/task/error/key"))
		}
	})

	t.Run("denied by a rule", func(t *testing.T) {
		wrapper, child := s.wrapped(run, "never", `{}`)
		for _, end := range []answer{s.settled(child), s.settled(wrapper)} {
			require.Equal(t, toolpark.ErrApprovalDenied, end.text("/task/error/key"))
			require.Equal(t, "not here", end.text("/task/error/detail"))
		}
		require.Equal(t, "rule", s.read(child).text("/task/approval/origin"))
	})

	t.Run("with the call that made it canceled", func(t *testing.T) {
		wrapper, child := s.wrapped(run, "bash", `{}`)
		s.asAgent("POST", taskPath(wrapper)+"/cancel", "").ok(http.StatusOK)
		require.EqualValues(t, toolpark.Canceled, s.settled(child).text("/task/status"))
		s.decide(s.Admin, child, "approve", "").refused(http.StatusConflict, toolpark.CodeNotAwaitingApproval)
	})

	t.Run("canceled itself", func(t *testing.T) {
		wrapper, child := s.wrapped(run, "bash", `{}`)
		s.asAgent("POST", taskPath(child)+"/cancel", "").ok(http.StatusOK)
		require.EqualValues(t, toolpark.Canceled, s.settled(wrapper).text("/task/status"))
	})

	t.Run("made under an alias", func(t *testing.T) {
		wrapper := s.call(run, "Do", `{"what":"bash","input":{"command":"pwd"}}`)
		require.Eventually(t, func() bool { return len(s.approvals(agent.WaitingFilter{Run: run})) == 1 }, patience, patience/1000)
		child := childOf(wrapper)
		require.Equal(t, `{"command":"pwd"}`, string(s.read(child).raw("/task/tool_input")))
		s.decide(s.Admin, child, "deny", "").ok(http.StatusOK)
		require.Equal(t, toolpark.ErrApprovalDenied, s.settled(wrapper).text("/task/error/key"))
	})

	t.Run("unless a rule denies the wrapper itself", func(t *testing.T) {
		closed := kernel
		closed.ApprovalRules = []agent.ApprovalRule{
			{Tool: "tool_call", Path: "name", Match: new("bash"), Verdict: "deny", Reason: "by its own name"},
			{Tool: "tool_search", Verdict: "deny"},
			{Tool: "tool_call", Verdict: "ask"},
		}
		run := s.ruledWith(closed)
		require.Equal(t, "by its own name", s.result(run, "tool_call", `{"name":"bash","input":{}}`).Error.Detail)
		require.Equal(t, "by its own name", s.result(run, "Do", `{"what":"bash","input":{}}`).Error.Detail, "the mapped input is judged")
		require.Equal(t, toolpark.ErrApprovalDenied, s.result(run, "tool_search", `{"query":"bash"}`).Error.Key)
		_, child := s.wrapped(run, "never", `{}`)
		require.EqualValues(t, toolpark.NeedsApproval, s.read(child).text("/task/status"), "an ask does not hold the wrapper")
	})
	require.Empty(t, s.approvals(agent.WaitingFilter{Tool: "bash"}))
}

// What a round brings is judged by the rules of its run.
func TestARoundsOwnToolsAreDecidedAbout(t *testing.T) {
	t.Parallel()
	s := newScene(t, kerneltest.Entry("bash", kerneltest.Writes), readOnly("look"))
	run := s.ruled("ask", agent.ApprovalRule{Tool: "look", Verdict: "allow"},
		agent.ApprovalRule{Tool: "bash", Path: "command", Match: new("rm*"), Verdict: "deny", Reason: "nothing is removed"})
	a := s.asAgent("POST", "/runs/"+run+"/rounds", `{"tools":[`+string(function("shell", routed(s.Box.ID, "bash")))+`,`+
		string(function("see", routed(s.Box.ID, "look")))+`],"calls":[{"name":"shell","arguments":{"command":"ls"}},
		{"name":"see"},{"name":"shell","arguments":{"command":"rm x"}}]}`).ok(http.StatusCreated)
	require.EqualValues(t, toolpark.NeedsApproval, a.text("/round/tasks/0/status"))
	require.EqualValues(t, toolpark.Dispatched, a.text("/round/tasks/1/status"))
	require.Equal(t, toolpark.ErrApprovalDenied, a.text("/round/tasks/2/error/key"))
	ref := runner.Ref{Run: run, TaskKey: "r1t0", Generation: 1}
	require.Equal(t, "rule", s.asAgent("GET", "/runs/"+run+"/tasks/r1t1", "").text("/task/approval/origin"))
	s.decide(s.Admin, ref, "approve", `{"input":{"command":"rm -r /"}}`).refused(http.StatusUnprocessableEntity, toolpark.CodeApprovalDenied)
	s.decide(s.Admin, ref, "approve", `{"input":{"command":"ls /"}}`).ok(http.StatusOK)
}

// A client's own steps need no approval, unless a rule is about their author.
func TestAuthoredStepsAreDecidedAbout(t *testing.T) {
	t.Parallel()
	operate := kerneltest.Entry("operate", kerneltest.Writes)
	operate.Description, operate.InputSchema = "", nil
	s := newScene(t, kerneltest.Entry("bash", kerneltest.Writes), operate)
	run := s.ruled("ask",
		agent.ApprovalRule{Tool: "bash", Path: "command", Match: new("rm*"), Verdict: "deny", Origin: toolpark.OriginAuthor, Reason: "nothing is removed"},
		agent.ApprovalRule{Tool: "operate", Verdict: "ask", Origin: toolpark.OriginAuthor, HoldMS: time.Hour.Milliseconds()},
		agent.ApprovalRule{Tool: "bash", Verdict: "deny"})
	free, row := s.step(run, `"name":"bash","route":{"kind":"runner"},"input":{"command":"ls"}`)
	require.EqualValues(t, toolpark.Dispatched, row.text("/task/status"), "a rule about a model's calls is none about a client's")
	require.Equal(t, "author", row.text("/task/approval/origin"))
	s.claim(free)

	before := len(s.events(run))
	refused := s.badly("POST", "/runs/"+run+"/tasks", `{"steps":[
		{"tool":{"name":"bash","route":{"kind":"runner"},"input":{"command":"ls"}}},
		{"tool":{"name":"bash","route":{"kind":"runner"},"input":{"command":"rm x"}}},
		{"tool":{"name":"nobody","route":{"kind":"runner"}}}]}`).refused(http.StatusUnprocessableEntity, toolpark.CodeApprovalDenied)
	require.Equal(t, "/steps/1/tool", refused.text("/error/steps/0/path"))
	require.Contains(t, refused.text("/error/steps/0/message"), "nothing is removed")
	require.EqualValues(t, toolpark.CodeToolNotServed, refused.text("/error/steps/1/code"))
	require.Len(t, s.events(run), before, "all or none")

	held, row := s.step(run, `"name":"operate","route":{"kind":"runner"},"input":{"a":1},"timeout_ms":5000`)
	require.EqualValues(t, toolpark.NeedsApproval, row.text("/task/status"))
	require.Equal(t, "5000", string(row.raw("/task/timeout_ms")))
	s.decide(s.Admin, held, "approve", `{"input":{"a":"\u0000"}}`).refused(http.StatusUnprocessableEntity, toolpark.CodeValidationFailed)
	approved := s.decide(s.Admin, held, "approve", `{"input":{"anything":[1.0]}}`).ok(http.StatusOK)
	require.EqualValues(t, toolpark.Dispatched, approved.text("/task/status"))
	grant, err := s.Box.Claim(t.Context(), held, "claim")
	require.NoError(t, err)
	require.Equal(t, `{"anything":[1.0]}`, string(grant.Task.ToolInput))
}
