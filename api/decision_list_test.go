package api_test

import (
	"encoding/json/jsontext"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
	"uuid"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
)

// approvalsPaged lists what waits page by page and names the tasks in the order that they come.
func (s *scene) approvalsPaged(query string) (all []runner.Ref) {
	s.t.Helper()
	for cursor := ""; ; {
		a := s.send("GET", base+"/approvals?"+query+cursor, s.Admin.Token, "").ok(http.StatusOK)
		for i := 0; a.raw(fmt.Sprintf("/approvals/%d", i)) != nil; i++ {
			at := fmt.Sprintf("/approvals/%d", i)
			all = append(all, runner.Ref{Run: a.text(at + "/run_public_id"), TaskKey: a.text(at + "/task_key"), Generation: 1})
		}
		if cursor = a.text("/pagination/next_after"); cursor == "" {
			return all
		}
		cursor = "&after=" + cursor
	}
}

func TestApprovalsAreListed(t *testing.T) {
	t.Parallel()
	s := newScene(t, kerneltest.Entry("bash", kerneltest.Writes), kerneltest.Entry("zsh", kerneltest.Writes))
	runs := []string{s.ruled("ask"), s.ruled("ask"), s.ruled("ask")}
	require.Empty(t, s.approvalsPaged(""))
	var refs []runner.Ref
	for i := range 4 {
		for j, run := range runs {
			tool := []string{"bash", "zsh"}[(i+j)%2]
			refs = append(refs, s.calls(run, agent.Call{Name: tool}, agent.Call{Name: tool})...)
		}
	}
	elsewhere := sceneAt(t, s.Kernel, kerneltest.Entry("bash", kerneltest.Writes))
	elsewhere.call(elsewhere.ruled("ask"), "bash", `{}`)
	s.call(s.run(), "bash", `{}`) // waits for nobody's decision

	for _, limit := range []int{1, 5, 24, 200} {
		require.Equal(t, refs, s.approvalsPaged(fmt.Sprintf("limit=%d", limit)), "the longest waiting first")
	}
	of := func(keep func(i int) bool) (some []runner.Ref) {
		for i := range refs {
			if keep(i) {
				some = append(some, refs[i])
			}
		}
		return some
	}
	require.Equal(t, of(func(i int) bool { return refs[i].Run == runs[1] }), s.approvalsPaged("limit=3&run="+runs[1]))
	zsh := func(i int) bool { return (i/6+i/2%3)%2 == 1 }
	require.Equal(t, of(zsh), s.approvalsPaged("limit=5&tool=zsh"))
	require.Equal(t, of(func(i int) bool { return zsh(i) && refs[i].Run == runs[0] }), s.approvalsPaged("limit=1&tool=zsh&run="+runs[0]))
	for _, none := range []string{"tool=gone", "run=" + uuid.NewV7().String(), "min_age_ms=86400000", "tool=BASH"} {
		require.Empty(t, s.approvalsPaged(none), none)
	}
	_, err := s.Account.DB.Pool.Exec(t.Context(), `UPDATE tasks SET began_at = began_at - interval '1 hour' WHERE run_id = $1 AND key = 'r3t1'`, uuid.MustParse(runs[2]))
	require.NoError(t, err)
	old := []runner.Ref{{Run: runs[2], TaskKey: "r3t1", Generation: 1}}
	require.Equal(t, old, s.approvalsPaged("min_age_ms=3000000"))
	require.Equal(t, old[0], s.approvalsPaged("min_age_ms=0&limit=1")[0])

	head, err := http.NewRequestWithContext(t.Context(), http.MethodHead, s.url+base+"/approvals", nil)
	require.NoError(t, err)
	head.Header.Set("Authorization", "Bearer "+s.Admin.Token)
	answered, err := s.http.Do(head)
	require.NoError(t, err)
	require.NoError(t, answered.Body.Close())
	require.Equal(t, http.StatusOK, answered.StatusCode)

	for _, query := range []string{
		"run=", "run=x", "run=" + strings.ToUpper(runs[0]) + "x", "tool=", "tool=%00", "tool=%ff", "min_age_ms=", "min_age_ms=-1", "min_age_ms=1.5",
		"min_age_ms=86400001", "min_age_ms=99999999999999999999", "limit=0", "limit=201", "after=", "after=x", "after=e30", "older=1",
		"run=" + runs[0] + "&run=" + runs[1],
	} {
		s.sendBad("GET", base+"/approvals?"+query, s.Admin.Token, "").refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
	}

	// What is decided, canceled or stopped is listed no more, whichever page comes next.
	first := s.send("GET", base+"/approvals?limit=1&run="+runs[0], s.Admin.Token, "").ok(http.StatusOK)
	s.decide(s.Admin, refs[0], "approve", "").ok(http.StatusOK)
	s.decide(s.Admin, refs[1], "deny", "").ok(http.StatusOK)
	s.asAgent("POST", taskPath(refs[6])+"/cancel", "").ok(http.StatusOK)
	second := s.send("GET", base+"/approvals?limit=1&run="+runs[0]+"&after="+first.text("/pagination/next_after"), s.Admin.Token, "").ok(http.StatusOK)
	require.Equal(t, refs[7].TaskKey, second.text("/approvals/0/task_key"))
	for _, run := range runs[1:] {
		_, err := s.Agent.StopRun(t.Context(), run, true)
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return len(s.approvalsPaged("")) == 5 }, patience, patience/1000)
	require.Len(t, inbox(t, s.AgentAt), 5)
}

// The agent's own application hears of every call that waits, and of every decision.
func TestAnApplicationHearsOfDecisions(t *testing.T) {
	t.Parallel()
	s := newScene(t, kerneltest.Entry("bash", kerneltest.Writes))
	run := s.ruled("ask")
	changed := func(version string) (string, int) {
		t.Helper()
		now, err := s.AgentAt.Inbox(t.Context(), runner.InboxQuery{Wait: time.Minute, Unless: version})
		require.NoError(t, err)
		require.NotEqual(t, version, now.Version)
		return now.Version, len(now.Rows)
	}
	empty, err := s.AgentAt.Inbox(t.Context(), runner.InboxQuery{})
	require.NoError(t, err)
	version := empty.Version
	for _, verb := range []string{"approve", "deny", "cancel"} {
		heard := make(chan int, 1)
		wait := func() {
			before := version
			go func() {
				now, rows := changed(before)
				version = now
				heard <- rows
			}()
		}
		wait()
		ref := s.call(run, "bash", `{}`)
		require.Equal(t, 1, <-heard, verb)
		wait()
		if verb == "cancel" {
			s.asAgent("POST", taskPath(ref)+"/cancel", "").ok(http.StatusOK)
		} else {
			s.decide(s.Admin, ref, verb, "").ok(http.StatusOK)
		}
		require.Zero(t, <-heard, verb)
	}
	require.Equal(t, empty.Version, version)
}

// An application that serves the tool itself is told twice: that the call waits, and that it may take it.
func TestAnApplicationIsHandedItsOwnApprovedCall(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	s.Serve(s.AgentAt, kerneltest.Entry("mine", kerneltest.Writes))
	run, err := s.Agent.CreateRun(t.Context(), agent.NewRun{Configuration: &agent.Configuration{
		ApprovalMode: "ask", ToolDefinitions: []jsontext.Value{function("mine", "")},
	}})
	require.NoError(t, err)
	pushed := s.listen("/executor/events", s.AgentAt.Token)
	ref := s.call(run.PublicID, "mine", `{}`)
	about := fmt.Sprintf(`{"run_public_id":"%s","task_key":"%s","generation":1}`, ref.Run, ref.TaskKey)
	require.Equal(t, " work_available "+about, next(t, pushed))
	waiting, err := s.AgentAt.Inbox(t.Context(), runner.InboxQuery{Wait: time.Minute})
	require.NoError(t, err)
	require.Equal(t, "approval", waiting.Rows[0].Kind)
	_, err = s.AgentAt.Claim(t.Context(), ref, "early")
	require.Equal(t, toolpark.CodeNotClaimableKind, code(err))

	changed := make(chan runner.Inbox, 1)
	go func() {
		now, _ := s.AgentAt.Inbox(t.Context(), runner.InboxQuery{Wait: time.Minute, Unless: waiting.Version})
		changed <- now
	}()
	s.decide(s.Admin, ref, "approve", "").ok(http.StatusOK)
	require.Equal(t, " work_available "+about, next(t, pushed))
	select {
	case now := <-changed:
		require.NotEqual(t, waiting.Version, now.Version)
		require.Equal(t, "tool_call", now.Rows[0].Kind)
	case <-time.After(patience / 2):
		t.Fatal("the poll sleeps on")
	}
	_, err = s.AgentAt.Claim(t.Context(), ref, "now")
	require.NoError(t, err)
}

// A worker of the agent's own application claims its calls once they are approved, and only then.
func TestAnApplicationsWorkerWaitsForTheApproval(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	tool := echoing(kerneltest.Entry("mine", kerneltest.Writes))
	s.Serve(s.AgentAt, tool.Entry)
	s.Work(s.AgentAt, 2, tool)
	run, err := s.Agent.CreateRun(t.Context(), agent.NewRun{Configuration: &agent.Configuration{
		ApprovalMode: "ask", ToolDefinitions: []jsontext.Value{function("mine", "")},
	}})
	require.NoError(t, err)
	for i := range 3 {
		ref := s.call(run.PublicID, "mine", fmt.Sprintf(`{"n":%d}`, i))
		require.EqualValues(t, toolpark.NeedsApproval, s.read(ref).text("/task/status"))
		s.decide(s.Admin, ref, "approve", "").ok(http.StatusOK)
		promptly(t, "an approved call", func() { require.Equal(t, fmt.Sprintf(`{"n":%d}`, i), s.settled(ref).text("/task/output")) })
	}
}
