package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
)

// failed is a call of the run that its runner said it could not do, and the token that said so.
func (s *scene) failed(run, name string) (ref runner.Ref, token string) {
	s.t.Helper()
	ref, token = s.claimed(run, name)
	require.EqualValues(s.t, toolpark.Failed, s.report(ref, token, `"content":"no","outcome":"failed"`).ok(http.StatusOK).text("/task/status"))
	return ref, token
}

// again names the next generation of a task.
func again(ref runner.Ref) runner.Ref {
	ref.Generation++
	return ref
}

func TestAFailedCallIsRetried(t *testing.T) {
	t.Parallel()
	s := newScene(t, kerneltest.Entry("bash", kerneltest.Keyed))
	run := s.run()
	ref, token := s.failed(run, "bash")
	first := s.read(ref)
	require.Equal(t, "null", string(first.raw("/task/abandoned")))
	stream := s.listen("/executor/events", s.Box.Token)

	begun := s.asAgent("POST", taskPath(ref)+"/retry", "").ok(http.StatusOK)
	require.EqualValues(t, toolpark.Dispatched, begun.text("/task/status"))
	require.Equal(t, "2", string(begun.raw("/task/generation")))
	require.Equal(t, "null", string(begun.raw("/task/claimed_by")))
	require.Nil(t, begun.raw("/task/error"))
	require.Equal(t, first.raw("/task/tool_input"), begun.raw("/task/tool_input"))
	require.Equal(t, "true", string(begun.raw("/task/retry_safe")))
	require.Contains(t, next(t, stream), `work_available {"run_public_id":"`+run+`","task_key":"r1t0","generation":2}`)
	s.badly("POST", taskPath(ref)+"/retry", "").refused(http.StatusConflict, toolpark.CodeNotRetryable)
	s.badly("POST", taskPath(ref)+"/retry", `{"force":true}`).refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)

	// The round is open again, and whoever waits for it waits.
	require.Equal(t, "false", string(s.asAgent("GET", "/runs/"+run+"/rounds/1", "").ok(http.StatusOK).raw("/round/settled")))
	s.badly("GET", "/runs/"+run+"/rounds/1/messages?format=anthropic", "").refused(http.StatusConflict, toolpark.CodeRunBusy)
	waited := make(chan agent.Round, 1)
	go func() {
		round, err := s.Agent.Round(t.Context(), run, 1, patience)
		if err == nil {
			waited <- round
		}
		close(waited)
	}()

	listed, err := s.Box.Inbox(t.Context(), runner.InboxQuery{})
	require.NoError(t, err)
	require.Len(t, listed.Rows, 1)
	require.Equal(t, again(ref), listed.Rows[0].Ref)
	require.True(t, listed.Rows[0].Redelivery)
	require.Equal(t, run+"/r1t0", listed.Rows[0].IdempotencyKey)
	s.report(ref, token, `"content":"late"`).refused(http.StatusConflict, toolpark.CodeStaleClaim)
	grant, err := s.Box.Claim(t.Context(), again(ref), "second")
	require.NoError(t, err)
	require.True(t, grant.Task.Redelivery)
	require.Equal(t, run+"/r1t0", grant.Task.IdempotencyKey)
	s.report(ref, token, `"content":"late"`).refused(http.StatusConflict, toolpark.CodeStaleClaim)
	done := s.report(ref, grant.Token, `"content":"yes"`).ok(http.StatusOK)
	require.Equal(t, "2", string(done.raw("/task/generation")))
	s.report(ref, token, `"content":"late"`).refused(http.StatusConflict, toolpark.CodeStaleClaim)
	round := <-waited
	require.Len(t, round.Results, 1)
	require.Equal(t, "yes", round.Results[0].Output)
	require.Equal(t, 2, round.Results[0].Generation)

	// The generation before is readable as it ended; waiting for it is pointless.
	began := time.Now()
	before := s.asAgent("GET", taskPath(ref)+"?generation=1&wait_ms="+ms(patience), "").ok(http.StatusOK)
	require.Less(t, time.Since(began), patience)
	require.Equal(t, first.Body, before.Body)
	require.Equal(t, "yes", s.asAgent("GET", taskPath(ref)+"?generation=2", "").ok(http.StatusOK).text("/task/output"))
	for _, never := range []string{"3", "2147483647"} {
		s.badly("GET", taskPath(ref)+"?generation="+never, "").refused(http.StatusNotFound, toolpark.CodeNotFound)
	}
	for _, invalid := range []string{"0", "-1", "x", "", "2147483648"} {
		s.badly("GET", taskPath(ref)+"?generation="+invalid, "").refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
	}
	tasks, err := s.Agent.TaskGeneration(t.Context(), run, ref.TaskKey, 1)
	require.NoError(t, err)
	require.Equal(t, toolpark.ErrToolFailed, tasks.Error.Key)

	require.Equal(t, []string{
		`task_status {"task_key":"r1t0","generation":1,"status":"failed"}`,
		`round_settled {"round":1}`,
		`round_reopened {"round":1}`,
		`task_status {"task_key":"r1t0","generation":2,"status":"dispatched"}`,
		`task_status {"task_key":"r1t0","generation":2,"status":"completed"}`,
		`round_settled {"round":1}`,
	}, s.events(run)[3:])
}

func TestACallThatNobodyFinishedIsRetriedOnRequestOnly(t *testing.T) {
	t.Parallel()
	s := newScene(t, within(kerneltest.Entry("bash", kerneltest.Keyed), 400*time.Millisecond))
	run := s.run()
	ref, _ := s.claimed(run, "bash")
	lost := s.settled(ref)
	require.EqualValues(t, toolpark.Uncertain, lost.text("/task/status"))
	require.Equal(t, "true", string(lost.raw("/task/retry_safe")))
	require.Empty(t, inbox(t, s.Box))
	task, err := s.Agent.Retry(t.Context(), run, ref.TaskKey)
	require.NoError(t, err)
	require.Equal(t, 2, task.Generation)
	unclaimed := s.settled(ref) // the alarm of its own workflow rings
	require.EqualValues(t, toolpark.TimedOut, unclaimed.text("/task/status"))
	require.Equal(t, "2", string(unclaimed.raw("/task/generation")))
}

func TestAFailureIsAbandoned(t *testing.T) {
	t.Parallel()
	s := newScene(t, kerneltest.Entry("bash", kerneltest.Writes))
	run := s.run()
	ref, _ := s.failed(run, "bash")
	given := s.send("POST", base+taskPath(ref)+"/abandon", s.Admin.Token, "").ok(http.StatusOK)
	require.EqualValues(t, toolpark.Failed, given.text("/task/status"))
	require.Equal(t, s.Admin.ID.String(), given.text("/task/abandoned/by_member_public_id"))
	repeated, err := s.Agent.Abandon(t.Context(), run, ref.TaskKey)
	require.NoError(t, err)
	require.Equal(t, s.Admin.ID.String(), repeated.Abandoned.By)
	refused := s.badly("POST", taskPath(ref)+"/retry", "").refused(http.StatusConflict, toolpark.CodeNotRetryable)
	require.Contains(t, refused.text("/error/message"), "abandoned")

	birth := s.call(run, "nothing", `{}`)
	refused = s.badly("POST", taskPath(birth)+"/retry", "").refused(http.StatusConflict, toolpark.CodeNotRetryable)
	require.Contains(t, refused.text("/error/message"), "unknown_tool")
	s.asAgent("POST", taskPath(birth)+"/abandon", "").ok(http.StatusOK)
	live := s.call(run, "bash", `{}`)
	s.badly("POST", taskPath(live)+"/abandon", "").refused(http.StatusConflict, toolpark.CodeNotAbandonable)
	s.badly("POST", taskPath(live)+"x/abandon", "").refused(http.StatusNotFound, toolpark.CodeNotFound)
	stranger := s.Human("stranger")
	for _, verb := range []string{"retry", "abandon"} {
		s.sendBad("POST", base+taskPath(ref)+"/"+verb, stranger.Token, "").refused(http.StatusNotFound, toolpark.CodeNotFound)
	}
}

func TestARetryIsDecidedAgain(t *testing.T) {
	t.Parallel()
	s := newScene(t, kerneltest.Entry("bash", kerneltest.Writes))
	run := s.ruled("ask")
	ref := s.call(run, "bash", `{"command":"a"}`)
	s.decide(s.Admin, ref, "approve", `{"input":{"command":"b"}}`).ok(http.StatusOK)
	token := s.claim(ref)
	s.report(ref, token, `"content":"no","outcome":"failed"`).ok(http.StatusOK)
	before := s.read(ref)
	held := s.asAgent("POST", taskPath(ref)+"/retry", "").ok(http.StatusOK)
	require.EqualValues(t, toolpark.NeedsApproval, held.text("/task/status"))
	require.JSONEq(t, `{"command":"b"}`, string(held.raw("/task/tool_input")))
	require.JSONEq(t, `{"command":"a"}`, string(held.raw("/task/original_input")))
	require.Equal(t, "null", string(held.raw("/task/approval")))
	listed := s.approvals(agent.WaitingFilter{})
	require.Len(t, listed, 1)
	require.Equal(t, 2, listed[0].Generation)
	require.True(t, listed[0].Redelivery)
	require.Contains(t, s.events(run), `approval_required {"task_key":"r1t0","generation":2}`)
	require.Equal(t, before.Body, s.asAgent("GET", taskPath(ref)+"?generation=1", "").ok(http.StatusOK).Body)
	denied := s.decide(s.Admin, ref, "deny", ``).ok(http.StatusOK)
	require.Equal(t, toolpark.ErrApprovalDenied, denied.text("/task/error/key"))
	refused := s.badly("POST", taskPath(ref)+"/retry", "").refused(http.StatusConflict, toolpark.CodeNotRetryable)
	require.Contains(t, refused.text("/error/message"), "denied")
}

func TestACanceledRetryTellsTheClaimantOfThatGeneration(t *testing.T) {
	t.Parallel()
	s := newScene(t, kerneltest.Entry("bash", kerneltest.Writes))
	run := s.run()
	stream := s.listen("/executor/events", s.Box.Token)
	ref := s.call(run, "bash", `{}`)
	require.Contains(t, next(t, stream), `"generation":1`) // what is claimed before it can be told is not told
	s.report(ref, s.claim(ref), `"content":"no","outcome":"failed"`).ok(http.StatusOK)
	_, err := s.Agent.Retry(t.Context(), run, ref.TaskKey)
	require.NoError(t, err)
	require.Contains(t, next(t, stream), `work_available {"run_public_id":"`+run+`","task_key":"r1t0","generation":2}`)
	s.claim(again(ref))
	s.asAgent("POST", taskPath(ref)+"/cancel", "").ok(http.StatusOK)
	told := next(t, stream)
	require.True(t, strings.HasSuffix(told, `"generation":2,"reason":"canceled"}`), told)
}
