package proctest_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/proctest"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
)

// court is a run whose calls wait for the decisions of a person, and the runner that serves them once they are approved.
type court struct {
	*scene
	run    string
	person *proctest.Agent
	ran    atomic.Int64
	ledger *proctest.Ledger
	heard  int // decisions that let a call run
}

// openCourt makes a court. What waits there waits for a hold at most.
func (s *scene) openCourt(hold time.Duration) *court {
	s.Helper()
	c := &court{scene: s, ledger: proctest.NewLedger(), person: &proctest.Agent{APIs: s.APIs, Token: s.Account.HumanToken}}
	tool := echo("echo", &c.ran)
	b := s.newBox("court", tool.Entry)
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	var err error
	c.run, err = s.Agent.OpenRunAs(ctx, agent.Configuration{
		ToolDefinitions: b.declare(tool.Entry), ApprovalMode: "ask",
		ApprovalRules: []agent.ApprovalRule{{Tool: "*", Verdict: "ask", HoldMS: hold.Milliseconds()}},
	})
	require.NoError(s, err)
	b.work(s.APIs[1], c.ledger, 8, tool)
	return c
}

// held makes n calls that wait for approval.
func (c *court) held(n int) []runner.Ref {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	round, err := c.Agent.PostRound(ctx, c.run, calls(n))
	require.NoError(c, err)
	refs := make([]runner.Ref, n)
	for i, task := range round.Tasks {
		require.Equal(c, toolpark.NeedsApproval, task.Status)
		refs[i] = runner.Ref{Run: c.run, TaskKey: task.Key, Generation: 1}
	}
	return refs
}

// decide asks an API, or any that answers, for a decision: approve for the even ones.
func (c *court) decide(client *agent.Client, i int, ref runner.Ref) (*agent.Task, error) {
	if i%2 == 0 {
		return client.Approve(c.Context(), ref.Run, ref.TaskKey, "", nil)
	}
	return client.Deny(c.Context(), ref.Run, ref.TaskKey, "no")
}

// decideAll decides about all calls at once, again and again until each has an answer for good.
func (c *court) decideAll(refs []runner.Ref) (wait func()) {
	var deciding sync.WaitGroup
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	for i, ref := range refs {
		deciding.Go(func() {
			for {
				var decided *agent.Task
				err := c.person.Try(ctx, func(client *agent.Client) (err error) {
					decided, err = c.decide(client, i, ref)
					return err
				})
				if err != nil {
					c.Errorf("decide about %s: %v", ref.TaskKey, err)
					return
				}
				if decided != nil {
					return
				}
			}
		})
	}
	return func() {
		deciding.Wait()
		cancel()
	}
}

// requireDecided waits until the calls have gone the way that was decided about them.
func (c *court) requireDecided(refs []runner.Ref) {
	c.Helper()
	for i, ref := range refs {
		task := c.settled(ref, recovery)
		if i%2 == 0 {
			require.NoError(c, proctest.Completed(fmt.Sprintf(`{"n":%d}`, i))(task), "%s", task.Raw)
			c.heard++
			continue
		}
		require.NoError(c, proctest.Denied(task), "%s", task.Raw)
	}
}

// close audits everything.
func (c *court) close() {
	c.Helper()
	require.EqualValues(c, c.heard, c.ran.Load(), "what was approved ran once, and nothing else did")
	require.NoError(c, c.ledger.Check(nil))
	c.over(c.run)
}

func TestDecisionsOutliveTheAPIAndTemporal(t *testing.T) {
	t.Parallel()
	skipShort(t)
	away := 5 * time.Second
	if full() {
		away = 30 * time.Second
	}
	server := ownTemporal(t)
	s := newScene(t, servers{temporal: server})
	c := s.openCourt(toolpark.MaxApprovalHold)
	first, second, third := c.held(4), c.held(4), c.held(4)

	// Killed between staging and signalling.
	require.NoError(t, server.Pause())
	var asking sync.WaitGroup
	for i, ref := range first {
		asking.Go(func() {
			if _, err := c.decide(c.person.At(s.APIs[0]), i, ref); err == nil {
				t.Errorf("a decision was answered by an API that was killed before it could signal")
			}
		})
	}
	for _, ref := range first {
		s.eventually("the decision is staged", func() bool { return s.staged(ref) == 1 })
	}
	s.APIs[0].Kill()
	asking.Wait()
	require.NoError(t, server.Resume())
	c.decideAll(first[:2])() // some people ask again, of others nothing more is heard
	c.requireDecided(first)
	require.Equal(t, 1, s.staged(first[1]), "equal decisions are one")
	s.restart(s.APIs[0])

	// Killed while it may be anywhere.
	wait := c.decideAll(second)
	time.Sleep(5 * time.Millisecond)
	s.APIs[0].Kill()
	s.restart(s.APIs[0])
	wait()
	c.requireDecided(second)

	// Temporal is away from the decision on.
	require.NoError(t, server.Kill())
	killed := time.Now()
	for i, ref := range third {
		asking.Go(func() {
			decided, err := c.decide(c.person.At(s.APIs[i%2]), i, ref)
			if err != nil || decided != nil {
				t.Errorf("a decision without Temporal: %v, %v; want 202", decided, err)
			}
		})
	}
	asking.Wait()
	time.Sleep(away - time.Since(killed))
	require.NoError(t, server.Restart(t.Context()))
	c.requireDecided(third)
	c.close()
}

func TestDecisionsOutliveAllWorkers(t *testing.T) {
	t.Parallel()
	skipShort(t)
	s := newScene(t, servers{})
	c := s.openCourt(6 * time.Second)
	decided, forgotten := c.held(4), c.held(1)[0]
	kill(s.Workers...)
	var asking sync.WaitGroup
	for i, ref := range decided {
		asking.Go(func() {
			answer, err := c.decide(c.person.At(s.APIs[i%2]), i, ref)
			if err != nil || answer != nil {
				t.Errorf("a decision without a worker: %v, %v; want 202", answer, err)
			}
		})
	}
	asking.Wait()
	time.Sleep(time.Until(*s.deadline(forgotten)) + 100*time.Millisecond)
	_, err := c.person.At(s.APIs[0]).Approve(t.Context(), c.run, forgotten.TaskKey, "", nil)
	requireCode(t, toolpark.CodeNotAwaitingApproval, err)
	s.restart(s.Workers...)
	c.requireDecided(decided)
	require.Equal(t, toolpark.TimedOut, s.settled(forgotten, recovery).Status)
	c.close()
}

func TestDecisionsOutlivePostgres(t *testing.T) {
	t.Parallel()
	skipShort(t)
	server := ownPostgres(t)
	s := newScene(t, servers{postgres: server})
	c := s.openCourt(toolpark.MaxApprovalHold)
	held, staged := c.held(4), c.held(4)
	crash := func() {
		require.NoError(t, server.Kill())
		require.NoError(t, server.Restart(t.Context()))
	}
	crash() // over calls that are held
	c.decideAll(held)()
	wait := c.decideAll(staged)
	time.Sleep(20 * time.Millisecond)
	crash() // somewhere between the staging and the settling of each
	wait()
	c.requireDecided(held)
	c.requireDecided(staged)
	c.close()
}
