package api_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/catalog"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
)

// askingRun creates a run that may call the kernel's tools to ask, to wait and to call.
func (s *scene) askingRun(mode string) string {
	s.t.Helper()
	return s.ruledWith(agent.Configuration{
		ApprovalMode: mode, KernelTools: []string{catalog.HumanAsk, catalog.GraphWait, catalog.ToolsCall},
	})
}

// asked makes one call of ask, and names the question that it made once that is there.
func (s *scene) asked(run, arguments string) (call, question runner.Ref) {
	s.t.Helper()
	call = s.call(run, "ask", arguments)
	return call, s.made(call, "-ask-1")
}

// made names the task that a call made, once that is there.
func (s *scene) made(call runner.Ref, suffix string) runner.Ref {
	s.t.Helper()
	child := runner.Ref{Run: call.Run, TaskKey: call.TaskKey + suffix, Generation: 1}
	s.Eventually("the call has made its task", func() bool {
		return s.badly("GET", taskPath(child), "").Status == http.StatusOK
	})
	return child
}

// overdue lets the deadline of a task pass, and its alarm ring.
func (s *scene) overdue(ref runner.Ref) {
	s.t.Helper()
	_, err := s.Kernel.DB.Pool.Exec(s.t.Context(), `
		UPDATE tasks SET deadline_at = clock_timestamp(), wake_at = clock_timestamp() WHERE run_id = $1 AND key = $2`, ref.Run, ref.TaskKey)
	require.NoError(s.t, err)
}

func TestAModelAsksAPerson(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	run := s.askingRun("bypass")
	call, question := s.asked(run, `{"prompt":"Which?","options":["a","b"],"multi":true}`)

	waiting := s.read(call)
	require.EqualValues(t, toolpark.Running, waiting.text("/task/status"))
	require.Equal(t, "null", string(waiting.raw("/task/deadline_at")), "the question's clock is the only one")
	require.Equal(t, "null", string(waiting.raw("/task/addressed_to")))
	_, err := s.AgentAt.Claim(t.Context(), call, "k")
	require.Equal(t, toolpark.CodeNotAddressedHere, code(err))
	require.Equal(t, []string{question.TaskKey}, inbox(t, s.AgentAt), "the call itself does not list")
	s.answers(call, `{"content":"forged"}`).refused(http.StatusConflict, toolpark.CodeNotAddressedHere)
	s.resolve(call, `{"content":"forged"}`).refused(http.StatusConflict, toolpark.CodeNotAwaitingInput)

	child := s.read(question)
	require.EqualValues(t, toolpark.KindAsk, child.text("/task/kind"))
	require.EqualValues(t, toolpark.OriginKernel, child.text("/task/origin"))
	require.Equal(t, call.TaskKey, child.text("/task/parent_task_key"))
	require.Equal(t, "3600000", string(child.raw("/task/timeout_ms")))
	require.Equal(t, "null", string(child.raw("/task/round")))
	found, err := s.Admin.Asks(t.Context(), agent.WaitingFilter{Run: run})
	require.NoError(t, err)
	require.Equal(t, "Which?", found[0].Prompt)
	require.Equal(t, []string{"a", "b"}, found[0].Options)
	require.True(t, found[0].Multi)
	require.False(t, found[0].Strict)

	s.resolve(question, `{"content":"a and b","structured_content":["a","b"]}`).ok(http.StatusOK)
	s.sameEnd(call, question)
	require.Equal(t, "a and b", s.settled(call).text("/task/output"))
	require.Contains(t, compacted(s.events(run)), `ask_required {"task_key":"r1t0-ask-1","generation":1}`)
}

// sameEnd requires that a call ended as the task that it made.
func (s *scene) sameEnd(call, child runner.Ref) {
	s.t.Helper()
	end, made := s.settled(call), s.settled(child)
	for _, fact := range []string{"status", "is_error", "error", "output", "content", "structured_content", "title", "metadata"} {
		require.Equal(s.t, string(made.raw("/task/"+fact)), string(end.raw("/task/"+fact)), fact)
	}
}

func TestAnAskEndsAsItsQuestionDoes(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	run := s.askingRun("bypass")
	for name, c := range map[string]struct {
		end    func(call, question runner.Ref)
		status toolpark.Status
		key    string
	}{
		"answered by the application": {func(_, q runner.Ref) {
			s.answers(q, `{"content":"x","title":"T","metadata":{"a":1.0}}`).ok(http.StatusOK)
		}, toolpark.Completed, ""},
		"blank":                    {func(_, q runner.Ref) { s.resolve(q, `{}`).ok(http.StatusOK) }, toolpark.Completed, ""},
		"not to be answered":       {func(_, q runner.Ref) { s.resolve(q, `{"content":"no","outcome":"failed"}`).ok(http.StatusOK) }, toolpark.Failed, toolpark.ErrToolFailed},
		"its time is over":         {func(_, q runner.Ref) { s.overdue(q) }, toolpark.TimedOut, toolpark.ErrAskTimeout},
		"the question is canceled": {func(_, q runner.Ref) { s.asAgent("POST", taskPath(q)+"/cancel", "").ok(http.StatusOK) }, toolpark.Canceled, toolpark.ErrTaskCanceled},
		"the call is canceled":     {func(c, _ runner.Ref) { s.asAgent("POST", taskPath(c)+"/cancel", "").ok(http.StatusOK) }, toolpark.Canceled, toolpark.ErrTaskCanceled},
	} {
		t.Run(name, func(t *testing.T) {
			call, question := s.asked(run, `{"prompt":"Which?"}`)
			c.end(call, question)
			s.sameEnd(call, question)
			require.EqualValues(t, c.status, s.settled(call).text("/task/status"))
			require.Equal(t, c.key, s.settled(call).text("/task/error/key"))
			require.Empty(t, inbox(t, s.AgentAt))
		})
	}

	t.Run("each time that it is retried", func(t *testing.T) {
		call, question := s.asked(run, `{"prompt":"Which?"}`)
		s.overdue(question)
		require.Equal(t, toolpark.ErrAskTimeout, s.settled(call).text("/task/error/key"))
		_, err := s.Agent.Retry(t.Context(), run, call.TaskKey)
		require.NoError(t, err)
		second := s.made(call, "-ask-2")
		s.resolve(second, `{"content":"This."}`).ok(http.StatusOK)
		require.Equal(t, "This.", s.settled(call).text("/task/output"))
		require.EqualValues(t, toolpark.TimedOut, s.settled(question).text("/task/status"))
	})

	t.Run("through tool_call", func(t *testing.T) {
		wrapper := s.call(run, "tool_call", `{"name":"ask","input":{"prompt":"Which?"}}`)
		call := s.made(wrapper, "-call-1")
		question := s.made(call, "-ask-1")
		s.resolve(question, `{"content":"This."}`).ok(http.StatusOK)
		s.sameEnd(call, question)
		s.sameEnd(wrapper, question)
	})

	t.Run("through tool_call, canceled from above", func(t *testing.T) {
		wrapper := s.call(run, "tool_call", `{"name":"ask","input":{"prompt":"Which?"}}`)
		question := s.made(s.made(wrapper, "-call-1"), "-ask-1")
		s.asAgent("POST", taskPath(wrapper)+"/cancel", "").ok(http.StatusOK)
		require.EqualValues(t, toolpark.Canceled, s.settled(question).text("/task/status"))
	})
}

func TestAnAskThatAsksNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	run := s.askingRun("bypass")
	for arguments, detail := range map[string]string{
		`{}`:                                   "prompt",
		`{"prompt":""}`:                        "/prompt",
		`{"prompt":" \n"}`:                     "/prompt",
		`{"prompt":"x","multi":true}`:          "/multi",
		`{"prompt":"x","options":[]}`:          "/options",
		`{"prompt":"x","options":[" "]}`:       "/options/0",
		`{"prompt":"x","options":["a"," a"]}`:  "/options/1",
		`{"prompt":"x","strict_options":true}`: "strict_options",
		`{"prompt":"` + fmt.Sprintf("%04000d", 0) + fmt.Sprintf("%04193d", 0) + `"}`: "/prompt",
	} {
		task := s.result(run, "ask", arguments)
		require.Equal(t, toolpark.Failed, task.Status, arguments)
		require.Equal(t, toolpark.ErrInvalidToolInput, task.Error.Key)
		require.Contains(t, task.Error.Detail, detail)
	}
	require.Empty(t, inbox(t, s.AgentAt))
}

func TestAnAskNeedsApprovalLikeAnyWrite(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	run := s.askingRun("ask")
	ref := s.call(run, "ask", `{"prompt":"Which?"}`)
	require.EqualValues(t, toolpark.NeedsApproval, s.read(ref).text("/task/status"))
	s.decide(s.Admin, ref, "approve", "").ok(http.StatusOK)
	question := s.made(ref, "-ask-1")
	s.resolve(question, `{"content":"This."}`).ok(http.StatusOK)
	s.sameEnd(ref, question)
	wait := s.call(run, "wait", `{"task":"r1t0"}`)
	require.EqualValues(t, toolpark.Completed, s.settled(wait).text("/task/status"), "what only reads needs none")
}
