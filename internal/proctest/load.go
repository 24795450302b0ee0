package proctest

import (
	"context"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/sdk/agent"
)

// Load is agents at work: each opens a run, posts rounds one after the other, waits for the results of
// each, and completes the run when there is no more to do.
type Load struct {
	Agent       *Agent
	Definitions []jsontext.Value
	Rules       []agent.ApprovalRule // beside them every call is allowed
	Agents      int
	Round       func() []Expected // the calls of the next round; none ends one agent's work
}

// Expected is a call and the judgement of its result.
type Expected struct {
	Call  agent.Call
	Check func(agent.Task) error
}

// Finished is a run whose rounds have all settled as expected.
type Finished struct {
	Run    string
	Rounds []agent.Round // with results
}

// Run works until all agents are done. It returns what was finished, also beside an error.
func (l *Load) Run(ctx context.Context) ([]Finished, error) {
	var (
		mu  sync.Mutex
		all []Finished
	)
	group, ctx := errgroup.WithContext(ctx)
	for range l.Agents {
		group.Go(func() error {
			done, err := l.work(ctx)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, done)
			return err
		})
	}
	err := group.Wait()
	return all, err
}

func (l *Load) work(ctx context.Context) (Finished, error) {
	run, err := l.Agent.OpenRunAs(ctx, agent.Configuration{
		ToolDefinitions: l.Definitions, ApprovalMode: "rules",
		ApprovalRules: append([]agent.ApprovalRule{{Tool: "*", Verdict: "allow"}}, l.Rules...),
	})
	if err != nil {
		return Finished{}, fmt.Errorf("open a run: %w", err)
	}
	done := Finished{Run: run}
	for expected := l.Round(); len(expected) > 0; expected = l.Round() {
		round, err := l.round(ctx, run, expected)
		if err != nil {
			return done, fmt.Errorf("run %s: %w", run, err)
		}
		done.Rounds = append(done.Rounds, round)
	}
	if err := l.Agent.Complete(ctx, run); err != nil {
		return done, fmt.Errorf("complete run %s: %w", run, err)
	}
	return done, nil
}

func (l *Load) round(ctx context.Context, run string, expected []Expected) (agent.Round, error) {
	calls := make([]agent.Call, len(expected))
	for i := range expected {
		calls[i] = expected[i].Call
	}
	posted, err := l.Agent.PostRound(ctx, run, calls)
	if err != nil {
		return posted, fmt.Errorf("post a round: %w", err)
	}
	settled, err := l.Agent.Await(ctx, run, posted.Number)
	if err != nil {
		return settled, fmt.Errorf("await round %d: %w", posted.Number, err)
	}
	if len(settled.Results) != len(calls) {
		return settled, fmt.Errorf("round %d: %d calls have %d results", posted.Number, len(calls), len(settled.Results))
	}
	for i, result := range settled.Results {
		if result.ToolCallID != calls[i].ID {
			return settled, fmt.Errorf("round %d: result %d is of call %q, not %q", posted.Number, i, result.ToolCallID, calls[i].ID)
		}
		if err := expected[i].Check(result); err != nil {
			return settled, fmt.Errorf("round %d, call %d: %w\n%s", posted.Number, i, err, result.Raw)
		}
	}
	return settled, nil
}

// Reread reads the results of finished runs again, as they are stored by now.
func (a *Agent) Reread(ctx context.Context, finished []Finished) ([]Finished, error) {
	again := make([]Finished, len(finished))
	for i, f := range finished {
		again[i].Run = f.Run
		for _, round := range f.Rounds {
			now, err := a.Await(ctx, f.Run, round.Number)
			if err != nil {
				return nil, fmt.Errorf("read round %d of run %s again: %w", round.Number, f.Run, err)
			}
			again[i].Rounds = append(again[i].Rounds, now)
		}
	}
	return again, nil
}

// Called is an expected call by way of tool_call instead: its result is the same.
func (e Expected) Called() Expected {
	e.Call.Arguments = fmt.Sprintf(`{"name":%q,"input":%s}`, e.Call.Name, e.Call.Arguments)
	e.Call.Name = "tool_call"
	return e
}

// Searched is a call of tool_search under a pairing key that finds a tool.
func Searched(id, tool string) Expected {
	return Expected{
		Call: agent.Call{ID: id, Name: "tool_search", Arguments: fmt.Sprintf(`{"query":%q}`, tool)},
		Check: func(t agent.Task) error {
			if t.Status != toolpark.Completed || t.IsError || !strings.Contains(t.Output, fmt.Sprintf(`"name":%q`, tool)) {
				return fmt.Errorf("want what is known of %s, completed", tool)
			}
			return nil
		},
	}
}

// Denied expects a call that somebody declined.
func Denied(t agent.Task) error {
	if t.Status != toolpark.Failed || t.Error == nil || t.Error.Key != toolpark.ErrApprovalDenied {
		return errors.New("want a call that was declined")
	}
	return nil
}

// Completed expects a completed call with an output.
func Completed(output string) func(agent.Task) error {
	return func(t agent.Task) error {
		if t.Status != toolpark.Completed || t.IsError || t.Output != output {
			return fmt.Errorf("want %q, completed", output)
		}
		return nil
	}
}
