package proctest_test

import (
	"context"
	"errors"
	"fmt"
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

func TestAllWorkersDieOverKernelCalls(t *testing.T) {
	t.Parallel()
	skipShort(t)
	s := newScene(t, servers{})
	b := s.newBox("box", proctest.Entry("change", proctest.Writes))
	run := s.openRun(b.declare(proctest.Entry("change", proctest.Writes))...)

	waiting, canceled := s.wrap(run, "change"), s.wrap(run, "change")
	token := b.claim(childOf(waiting)).Token
	kill(s.Workers...)

	// What is said while no worker runs is safe, and what only a worker does waits for one.
	var saying sync.WaitGroup
	saying.Go(func() {
		judged, err := b.at(s.APIs[0]).Commit(t.Context(), childOf(waiting), token, runner.Text("done"))
		if err != nil || judged {
			t.Errorf("a commit without a worker: judged %v, %v; want 202", judged, err)
		}
	})
	saying.Go(func() {
		pending, err := s.Agent.At(s.APIs[0]).CancelTask(t.Context(), run, canceled.TaskKey)
		if err != nil || pending.Status.Settled() {
			t.Errorf("a cancel without a worker: %s, %v; want 202", pending.Status, err)
		}
	})
	saying.Wait()
	search := s.call(run, "tool_search", `{"query":"change"}`)
	unmade := s.call(run, "tool_call", `{"name":"change","input":{"n":1}}`)
	for _, ref := range []runner.Ref{waiting, canceled, search, unmade} {
		task, err := s.Agent.At(s.APIs[0]).Task(t.Context(), run, ref.TaskKey, 0)
		require.NoError(t, err)
		require.Equal(t, toolpark.Running, task.Status, "only a worker settles")
	}
	require.False(t, s.exists(childOf(unmade)))

	s.restart(s.Workers...)
	require.Equal(t, toolpark.Completed, s.settled(search, recovery).Status)
	require.NoError(t, proctest.Completed("done")(s.settled(waiting, recovery)))
	for _, ref := range []runner.Ref{canceled, childOf(canceled)} {
		require.Equal(t, toolpark.Canceled, s.settled(ref, recovery).Status)
	}
	s.eventually("the child is made", func() bool { return s.exists(childOf(unmade)) })
	grant := b.claim(childOf(unmade))
	require.JSONEq(t, `{"n":1}`, string(grant.Task.ToolInput))
	judged, err := b.at(s.APIs[0]).Commit(t.Context(), childOf(unmade), grant.Token, runner.Text("done"))
	require.NoError(t, err)
	require.True(t, judged)
	require.NoError(t, proctest.Completed("done")(s.settled(unmade, recovery)))
	s.over(run)
}

func TestWorkersDieUnderALoadOfKernelCalls(t *testing.T) {
	t.Parallel()
	skipShort(t)
	s := newScene(t, servers{})
	var (
		ran    atomic.Int64
		kernel = kernelCalls("echo")
		tool   = echo("echo", &ran)
		ledger = proctest.NewLedger()
	)
	b := s.newBox("box", tool.Entry)
	b.work(s.APIs[0], ledger, 16, tool)
	load := proctest.Load{
		Agent: s.Agent, Agents: 4, Definitions: b.declare(tool.Entry),
		Round: kernel,
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	end := underway(ctx, load)
	for range 4 {
		before := ran.Load()
		s.eventually("calls run and tool_calls wait for theirs", func() bool { return ran.Load() > before+8 && s.waitingForChildren() > 0 })
		kill(s.Workers...)
		s.restart(s.Workers...)
	}
	finished, err := end()
	require.NoError(t, err, "nothing failed")
	called := 0
	for _, f := range finished {
		called += len(f.Rounds) * kernelWidth / 3 * 2
	}
	require.EqualValues(t, called, ran.Load(), "every call ran once")
	finished, err = s.Agent.Reread(ctx, finished)
	require.NoError(t, err)
	require.NoError(t, ledger.Check(finished))
	t.Logf("%d calls ran beside %d searches while all workers were killed 4 times", called, called/2)
	s.over()
}

func TestAnAPIDiesAfterAuthoringKernelCalls(t *testing.T) {
	t.Parallel()
	skipShort(t)
	server := ownTemporal(t)
	s := newScene(t, servers{temporal: server})
	var ran atomic.Int64
	tool := echo("echo", &ran)
	b := s.newBox("box", tool.Entry)
	run := s.openRun(b.declare(tool.Entry)...)
	b.work(s.APIs[1], proctest.NewLedger(), 16, tool)
	next := kernelCalls(tool.Name)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var rounds []authoredRound
	author := func() {
		expected := next()
		made := make([]agent.Call, len(expected))
		for i := range expected {
			made[i] = expected[i].Call
		}
		round, err := s.Agent.At(s.APIs[0]).PostRound(ctx, run, agent.NewRound{Calls: made})
		require.NoError(t, err)
		rounds = append(rounds, authoredRound{round.Number, expected})
		s.APIs[0].Kill()
	}

	// None of these is started by who authored it.
	require.NoError(t, server.Pause())
	author()
	require.NoError(t, server.Resume())
	// Killed as the answer arrives, its starts are somewhere between none and all.
	for range 3 {
		s.restart(s.APIs[0])
		author()
	}
	s.restart(s.APIs[0])
	for _, round := range rounds {
		settled, err := s.Agent.Await(ctx, run, round.number)
		require.NoError(t, err)
		require.Len(t, settled.Results, len(round.expected))
		for i, e := range round.expected {
			require.Equal(t, e.Call.ID, settled.Results[i].ToolCallID)
			require.NoError(t, e.Check(settled.Results[i]), "%s", settled.Results[i].Raw)
		}
	}
	require.EqualValues(t, len(rounds)*kernelWidth/3*2, ran.Load(), "every call ran once")
	s.over(run)
}

type authoredRound struct {
	number   int
	expected []proctest.Expected
}

func TestPostgresDiesWhileACallWaitsForItsChild(t *testing.T) {
	t.Parallel()
	skipShort(t)
	server := ownPostgres(t)
	s := newScene(t, servers{postgres: server})
	b := s.newBox("box", proctest.Entry("change", proctest.Writes))
	run := s.openRun(b.declare(proctest.Entry("change", proctest.Writes))...)
	completed, canceled := s.wrap(run, "change"), s.wrap(run, "change")

	crash := func() {
		require.NoError(t, server.Kill())
		require.NoError(t, server.Restart(t.Context()))
	}
	crash()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var grant runner.Grant
	require.NoError(t, again(ctx, func() (err error) {
		grant, err = b.at(s.APIs[0]).Claim(ctx, childOf(completed), "claim")
		return err
	}))
	crash()
	require.NoError(t, server.Restart(ctx)) // from a clean stop
	var saying sync.WaitGroup
	saying.Go(func() {
		if err := again(ctx, func() error {
			_, err := b.at(s.APIs[0]).Commit(ctx, childOf(completed), grant.Token, runner.Text("done"))
			return err
		}); err != nil {
			t.Errorf("commit: %v", err)
		}
	})
	saying.Go(func() {
		err := s.Agent.Try(ctx, func(c *agent.Client) error {
			_, err := c.CancelTask(ctx, run, canceled.TaskKey)
			return err
		})
		if refusal, ok := errors.AsType[*toolpark.Error](err); err != nil && (!ok || refusal.Code != toolpark.CodeAlreadySettled) {
			t.Errorf("cancel: %v", err)
		}
	})
	time.Sleep(20 * time.Millisecond)
	crash() // somewhere between the staging and the settling of each
	saying.Wait()
	require.NoError(t, proctest.Completed("done")(s.settled(completed, recovery)))
	for _, ref := range []runner.Ref{canceled, childOf(canceled)} {
		require.Equal(t, toolpark.Canceled, s.settled(ref, recovery).Status)
	}
	s.over(run)
}

// kernelWidth is the calls of one round of kernelCalls: a third each searches, runs a tool by way of tool_call, and
// runs it by its name.
const kernelWidth = 6

func kernelCalls(tool string) func() []proctest.Expected {
	next := echoes(1_000_000, kernelWidth, tool)
	return func() []proctest.Expected {
		round := next()
		for i := range round {
			switch i % 3 {
			case 0:
				round[i] = proctest.Searched(round[i].Call.ID, tool)
			case 1:
				round[i] = round[i].Called()
			}
		}
		return round
	}
}

// call authors a round of one call.
func (s *scene) call(run, name, arguments string) runner.Ref {
	s.Helper()
	round, err := s.Agent.At(s.APIs[0]).PostRound(s.Context(), run, agent.NewRound{Calls: []agent.Call{{Name: name, Arguments: arguments}}})
	require.NoError(s, err)
	return runner.Ref{Run: run, TaskKey: round.Tasks[0].Key, Generation: 1}
}

// wrap calls a tool by way of tool_call and waits until the child is made.
func (s *scene) wrap(run, tool string) runner.Ref {
	s.Helper()
	ref := s.call(run, "tool_call", fmt.Sprintf(`{"name":%q,"input":{}}`, tool))
	s.eventually("the child is made", func() bool { return s.exists(childOf(ref)) })
	return ref
}

func childOf(ref runner.Ref) runner.Ref {
	ref.TaskKey += "-call-1"
	return ref
}

func (s *scene) exists(ref runner.Ref) (exists bool) {
	s.Helper()
	require.NoError(s, s.DB.Pool.QueryRow(s.Context(), `SELECT EXISTS (SELECT FROM tasks WHERE run_id = $1 AND key = $2)`,
		uuid.MustParse(ref.Run), ref.TaskKey).Scan(&exists))
	return exists
}

// waitingForChildren counts the calls that wait for a child.
func (s *scene) waitingForChildren() (n int) {
	s.Helper()
	require.NoError(s, s.DB.Pool.QueryRow(s.Context(), `
		SELECT count(*) FROM tasks p
		WHERE settled_at IS NULL AND EXISTS (
			SELECT FROM tasks c WHERE c.run_id = p.run_id AND c.parent_key = p.key AND c.settled_at IS NULL)`).Scan(&n))
	return n
}

// again repeats a runner's request until it is answered for good.
func again(ctx context.Context, request func() error) error {
	for {
		err := request()
		if !runner.Retryable(err) || ctx.Err() != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}
