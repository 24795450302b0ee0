package proctest_test

import (
	"context"
	"encoding/json/jsontext"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark/internal/proctest"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
)

// box is a runner that the test itself, or a Worker inside it, acts for.
type box struct {
	proctest.Executor
	s *scene
}

// newBox makes a runner and announces tools for it.
func (s *scene) newBox(name string, entries ...runner.Entry) *box {
	s.Helper()
	made, err := s.Account.Runner(s.Context(), name)
	require.NoError(s, err)
	b := &box{Executor: made, s: s}
	_, err = b.at(s.APIs[0]).Announce(s.Context(), runner.Announcement{Tools: entries})
	require.NoError(s, err)
	return b
}

// at is the box's client of one API, without retries.
func (b *box) at(api *proctest.Process) *runner.Client {
	return &runner.Client{BaseURL: api.URL, Token: b.Token}
}

// work serves tools through an API until the test ends.
func (b *box) work(api *proctest.Process, ledger *proctest.Ledger, slots int, tools ...runner.Tool) {
	b.s.Helper()
	w := &runner.Worker{
		Client: &runner.Client{BaseURL: api.URL, Token: b.Token, HTTP: ledger.Client(slots + 2)},
		Tools:  tools, Slots: slots, Grace: time.Second, Log: slog.New(slog.DiscardHandler),
	}
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.Run(b.s.Context()); err != nil {
			b.s.Errorf("runner: %v", err)
		}
	})
	b.s.Cleanup(running.Wait)
}

// step authors one step for the box, due after timeout, and returns where to claim it.
func (b *box) step(run, tool, input string, timeout time.Duration) runner.Ref {
	b.s.Helper()
	made, err := b.s.Agent.At(b.s.APIs[0]).AppendTasks(b.s.Context(), run, []agent.Step{{
		Name: tool, Input: jsontext.Value(input), TimeoutMS: timeout.Milliseconds(),
		Route: &agent.Route{Kind: "runner", Runner: b.ID.String()},
	}}, "")
	require.NoError(b.s, err)
	return runner.Ref{Run: run, TaskKey: made[0].Key, Generation: 1}
}

func (b *box) claim(ref runner.Ref) runner.Grant {
	b.s.Helper()
	grant, err := b.at(b.s.APIs[0]).Claim(b.s.Context(), ref, "claim")
	require.NoError(b.s, err)
	return grant
}

// declare is the definition of each tool of the box under its own name.
func (b *box) declare(entries ...runner.Entry) []jsontext.Value {
	b.s.Helper()
	var all []jsontext.Value
	for _, entry := range entries {
		definition, err := proctest.Declare(entry.Name, b.Executor, entry)
		require.NoError(b.s, err)
		all = append(all, definition)
	}
	return all
}

// echo is a tool that answers its input. It counts how often it ran.
func echo(name string, ran *atomic.Int64) runner.Tool {
	return runner.Tool{
		Entry: proctest.Entry(name, proctest.Writes),
		Run: func(_ context.Context, call runner.Call) (runner.Result, error) {
			ran.Add(1)
			return runner.Text(string(call.Input)), nil
		},
	}
}

// echoes makes rounds of calls of echo tools with distinct inputs, as many as rounds says.
func echoes(rounds int, width int, tools ...string) func() []proctest.Expected {
	var next atomic.Int64
	return func() []proctest.Expected {
		round := int(next.Add(1)) - 1
		if round >= rounds {
			return nil
		}
		calls := make([]proctest.Expected, width)
		for i := range calls {
			input := fmt.Sprintf(`{"n":%d}`, round*width+i)
			calls[i] = proctest.Expected{
				Call:  agent.Call{ID: fmt.Sprintf("call_%d", i), Name: tools[i%len(tools)], Arguments: input},
				Check: proctest.Completed(input),
			}
		}
		return calls
	}
}
