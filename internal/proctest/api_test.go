package proctest_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"uuid"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/proctest"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
)

func TestAnAPIDiesAfterAuthoring(t *testing.T) {
	t.Parallel()
	skipShort(t)
	server := ownTemporal(t)
	s := newScene(t, servers{temporal: server})
	var ran atomic.Int64
	tool := echo("echo", &ran)
	b := s.newBox("box", tool.Entry)
	run := s.openRun(b.declare(tool.Entry)...)
	var rounds []agent.Round

	// The answer does not wait for Temporal, so none of these workflows is started by who authored it.
	require.NoError(t, server.Pause())
	round, err := s.Agent.At(s.APIs[0]).PostRound(t.Context(), run, agent.NewRound{Calls: calls(8)})
	require.NoError(t, err)
	rounds = append(rounds, round)
	// What nobody claims, no report will start a workflow for.
	unclaimed := s.newBox("nobody", tool.Entry).step(run, tool.Name, `{}`, time.Second)
	s.APIs[0].Kill()
	require.NoError(t, server.Resume())
	require.Equal(t, toolpark.TimedOut, s.settled(unclaimed, recovery).Status)
	b.work(s.APIs[1], proctest.NewLedger(), 16, tool)
	s.requireEchoes(run, round)

	// Killed as the answer arrives, its starts are somewhere between none and all.
	for range 3 {
		s.restart(s.APIs[0])
		round, err := s.Agent.At(s.APIs[0]).PostRound(t.Context(), run, agent.NewRound{Calls: calls(16)})
		require.NoError(t, err)
		rounds = append(rounds, round)
		s.APIs[0].Kill()
	}
	s.restart(s.APIs[0])
	authored := 0
	for _, round := range rounds {
		s.requireEchoes(run, round)
		authored += len(round.Tasks)
	}
	require.EqualValues(t, authored, ran.Load(), "every call ran once")
	s.over(run)
}

func TestAnAPIDiesAfterStaging(t *testing.T) {
	t.Parallel()
	skipShort(t)
	server := ownTemporal(t)
	s := newScene(t, servers{temporal: server})
	b := s.newBox("box", proctest.Entry("look", proctest.ReadOnly))
	run := s.openRun()
	repeated, forgotten := b.step(run, "look", `{}`, time.Hour), b.step(run, "look", `{}`, time.Hour)
	canceled := b.step(run, "look", `{}`, time.Hour)
	claims := map[runner.Ref]runner.Grant{repeated: b.claim(repeated), forgotten: b.claim(forgotten)}

	require.NoError(t, server.Pause())
	var asking sync.WaitGroup
	for ref, grant := range claims {
		asking.Go(func() {
			if _, err := b.at(s.APIs[0]).Commit(t.Context(), ref, grant.Token, runner.Text("seen")); err == nil {
				t.Errorf("a commit was answered by an API that was killed before it could signal")
			}
		})
		s.eventually("the report is staged", func() bool { return s.staged(ref) == 1 })
	}
	asking.Go(func() {
		if _, err := s.Agent.At(s.APIs[0]).CancelTask(t.Context(), canceled.Run, canceled.TaskKey); err == nil {
			t.Errorf("a cancel was answered by an API that was killed before it could signal")
		}
	})
	s.eventually("the cancel is staged", func() bool { return s.staged(canceled) == 1 })
	s.APIs[0].Kill()
	asking.Wait()
	require.NoError(t, server.Resume())

	// One runner repeats its report at another API, the other is never heard of again.
	ctx, cancel := context.WithTimeout(t.Context(), recovery)
	defer cancel()
	for judged := false; !judged; {
		var err error
		judged, err = b.at(s.APIs[1]).Commit(ctx, repeated, claims[repeated].Token, runner.Text("seen"))
		require.NoError(t, err)
	}
	require.Equal(t, 1, s.staged(repeated), "equal reports are one input")
	for ref := range claims {
		require.NoError(t, proctest.Completed("seen")(s.settled(ref, recovery)))
	}
	require.Equal(t, toolpark.Canceled, s.settled(canceled, recovery).Status)
	s.restart(s.APIs[0])
	s.over(run)
}

func TestAClaimsAnswerIsLost(t *testing.T) {
	t.Parallel()
	skipShort(t)
	s := newScene(t, servers{})
	b := s.newBox("box", proctest.Entry("look", proctest.ReadOnly))
	run := s.openRun()
	ref := b.step(run, "look", `{"n":1}`, time.Hour)

	conn, err := net.Dial("tcp", strings.TrimPrefix(s.APIs[0].URL, "http://"))
	require.NoError(t, err)
	body := `{"claim_key":"lost"}`
	_, err = fmt.Fprintf(conn, "POST /agent_api/v1/executor/inbox/%s/%s/claim HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", ref.Run, ref.TaskKey, b.Token, len(body), body)
	require.NoError(t, err)
	s.eventually("the claim is granted", func() bool { return s.deadline(ref) != nil && s.claimed(ref) })
	granted := s.deadline(ref)
	require.NoError(t, conn.Close())
	s.APIs[0].Kill() // what it may have remembered is gone too

	again, err := b.at(s.APIs[1]).Claim(t.Context(), ref, "lost")
	require.NoError(t, err)
	require.JSONEq(t, `{"n":1}`, string(again.Task.ToolInput))
	require.WithinDuration(t, *granted, again.DeadlineAt, 0, "the deadline is untouched")
	third, err := b.at(s.APIs[1]).Claim(t.Context(), ref, "lost")
	require.NoError(t, err)
	require.Equal(t, again.Token, third.Token)
	_, err = b.at(s.APIs[1]).Claim(t.Context(), ref, "another")
	requireCode(t, toolpark.CodeAlreadyClaimed, err)

	judged, err := b.at(s.APIs[1]).Commit(t.Context(), ref, again.Token, runner.Text("seen"))
	require.NoError(t, err)
	require.True(t, judged)
	s.restart(s.APIs[0])
	s.over(run)
}

// TestAPushedRowIsOfferedAgain cuts many streams and polls right when they are handed work: handing over
// is not owning.
func TestAPushedRowIsOfferedAgain(t *testing.T) {
	t.Parallel()
	skipShort(t)
	s := newScene(t, servers{})
	b := s.newBox("box", proctest.Entry("look", proctest.ReadOnly))
	run := s.openRun()
	ref := b.step(run, "look", `{}`, time.Hour)
	times := 50
	if full() {
		times = 1000
	}
	for range times {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			s.APIs[0].URL+"/agent_api/v1/executor/inbox?wait_ms=60000", nil)
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer "+b.Token)
		conn, err := net.Dial("tcp", request.URL.Host)
		require.NoError(t, err)
		require.NoError(t, request.Write(conn))
		_, err = bufio.NewReader(conn).ReadByte() // the row is on its way
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	}
	box, err := b.at(s.APIs[1]).Inbox(t.Context(), runner.InboxQuery{Wait: time.Minute})
	require.NoError(t, err)
	require.Len(t, box.Rows, 1)
	require.Equal(t, ref, box.Rows[0].Ref)
	judged, err := b.at(s.APIs[1]).Commit(t.Context(), ref, b.claim(ref).Token, runner.Text("seen"))
	require.NoError(t, err)
	require.True(t, judged)
	s.over(run)
}

// calls are n calls of echo with distinct inputs.
func calls(n int) []agent.Call {
	all := make([]agent.Call, n)
	for i := range all {
		all[i] = agent.Call{ID: fmt.Sprintf("call_%d", i), Name: "echo", Arguments: fmt.Sprintf(`{"n":%d}`, i)}
	}
	return all
}

// requireEchoes waits for a round of calls and looks at its results.
func (s *scene) requireEchoes(run string, round agent.Round) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	settled, err := s.Agent.Await(ctx, run, round.Number)
	require.NoError(s, err)
	require.Len(s, settled.Results, len(round.Tasks))
	for i, call := range calls(len(round.Tasks)) {
		require.Equal(s, call.ID, settled.Results[i].ToolCallID)
		require.NoError(s, proctest.Completed(call.Arguments.(string))(settled.Results[i]), "%s", settled.Results[i].Raw)
	}
}

func (s *scene) claimed(ref runner.Ref) (claimed bool) {
	s.Helper()
	require.NoError(s, s.DB.Pool.QueryRow(s.Context(), `SELECT claimed_by IS NOT NULL FROM tasks WHERE run_id = $1 AND key = $2`,
		uuid.MustParse(ref.Run), ref.TaskKey).Scan(&claimed))
	return claimed
}

func (s *scene) deadline(ref runner.Ref) (at *time.Time) {
	s.Helper()
	require.NoError(s, s.DB.Pool.QueryRow(s.Context(), `SELECT deadline_at FROM tasks WHERE run_id = $1 AND key = $2`,
		uuid.MustParse(ref.Run), ref.TaskKey).Scan(&at))
	return at
}
