package runner_test

import (
	"context"
	"encoding/json/jsontext"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark/sdk/runner"
)

func TestALostClaimAnswerIsAskedForAgain(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.fault = func(w http.ResponseWriter, verb string, tk *task) bool {
		if verb == "claim" && tk.token == "" {
			tk.claimKey, tk.token, tk.deadline = "", "token-t1", time.Now().Add(time.Minute)
			sever(w)
			return true
		}
		if verb == "claim" {
			s.grant(w, tk)
			return true
		}
		return false
	}
	runs := atomic.Int32{}
	once := tool("once", func(context.Context, runner.Call) (runner.Result, error) {
		runs.Add(1)
		return runner.Text("done"), nil
	})
	work(t, s, runner.Worker{Tools: []runner.Tool{once}})
	s.add(task{key: "t1", tool: "once"}, true)
	s.settled("t1")
	require.EqualValues(t, 1, runs.Load())
	require.GreaterOrEqual(t, s.count("claim t1"), 2)
}

func TestACallKnowsItsTask(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	started := make(chan runner.Call, 1)
	work(t, s, runner.Worker{Tools: []runner.Tool{blocker(started)}, Grace: time.Millisecond})
	s.add(task{key: "t1", tool: "block", input: `{"a":1}`}, true)
	call := <-started
	require.Equal(t, runner.Ref{Run: "run1", TaskKey: "t1", Generation: 1}, call.Ref)
	require.Equal(t, "block", call.Tool)
	require.Equal(t, `{"a":1}`, string(call.Input))
	require.Equal(t, "run1/t1", call.IdempotencyKey)
	require.Equal(t, `{"user":7}`, string(call.Session))
	require.False(t, call.Redelivery)
	require.WithinDuration(t, time.Now().Add(time.Minute), call.Deadline, 5*time.Second)
}

func TestWhatBecomesOfATool(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, tool, report string
	}{
		{"an error result", "bad", `{"claim_token":"token-t1","content":"no such order","is_error":true}`},
		{"an error", "fails", `{"claim_token":"token-t1","content":"no database","outcome":"failed"}`},
		{"a panic", "panics", `{"claim_token":"token-t1","content":"the tool panics crashed","outcome":"failed"}`},
		{"a tool that is not served", "other", `{"claim_token":"token-t1","content":"this runner does not serve \"other\"","outcome":"failed"}`},
		{"unstorable text", "binary", `{"claim_token":"token-t1","content":"a` + "\uFFFD" + `b` + "\uFFFD" + `","title":"two lines"}`},
		{"structure", "structure", `{"claim_token":"token-t1","content":"","structured_content":null,"metadata":{"n":1.50}}`},
	}
	tools := []runner.Tool{
		tool("bad", func(context.Context, runner.Call) (runner.Result, error) {
			return runner.Errorf("no such %s", "order"), nil
		}),
		tool("fails", func(context.Context, runner.Call) (runner.Result, error) {
			return runner.Result{}, errors.New("no database")
		}),
		tool("panics", func(context.Context, runner.Call) (runner.Result, error) { panic("secret") }),
		tool("binary", func(context.Context, runner.Call) (runner.Result, error) {
			return runner.Result{Text: "a\x00b\xff", Title: "two\r\nlines"}, nil
		}),
		tool("structure", func(context.Context, runner.Call) (runner.Result, error) {
			return runner.Result{StructuredContent: jsontext.Value(`null`), Metadata: jsontext.Value(`{"n":1.50}`)}, nil
		}),
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			work(t, s, runner.Worker{Tools: tools})
			s.add(task{key: "t1", tool: c.tool}, true)
			require.Equal(t, c.report, s.settled("t1"))
		})
	}
}

func TestClaimsAreExtendedWhileToolsRun(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.fault = func(w http.ResponseWriter, verb string, tk *task) bool {
		if verb == "extend" && time.Now().After(tk.deadline) {
			t.Error("the extension came after the deadline")
		}
		if verb == "extend" && tk.extensions == 0 {
			tk.extensions++
			refuse(w, 503, "unavailable")
			return true
		}
		return false
	}
	slow := tool("slow", func(ctx context.Context, _ runner.Call) (runner.Result, error) {
		select {
		case <-ctx.Done():
			return runner.Result{}, context.Cause(ctx)
		case <-time.After(2500 * time.Millisecond):
			return runner.Text("took its time"), nil
		}
	})
	work(t, s, runner.Worker{Tools: []runner.Tool{slow}})
	s.add(task{key: "t1", tool: "slow", timeout: time.Second}, true)
	require.Contains(t, s.settled("t1"), "took its time")
	s.with("t1", func(tk *task) {
		require.GreaterOrEqual(t, tk.extensions, 4)
		require.LessOrEqual(t, tk.extensions, 10)
	})
}

func TestAnExtensionThatIsTooLongIsHalved(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	asked := []string{}
	s.fault = func(w http.ResponseWriter, verb string, tk *task) bool {
		if verb == "extend" && len(asked) < 2 {
			asked = append(asked, verb)
			refuse(w, 409, "extension_too_long")
			return true
		}
		return false
	}
	started := make(chan runner.Call, 1)
	stop := work(t, s, runner.Worker{Tools: []runner.Tool{blocker(started)}, Grace: time.Millisecond})
	s.add(task{key: "t1", tool: "block", timeout: 400 * time.Millisecond}, true)
	<-started
	require.Eventually(t, func() (extended bool) {
		s.with("t1", func(tk *task) { extended = tk.extensions > 0 })
		return extended
	}, 5*time.Second, 5*time.Millisecond)
	s.with("t1", func(tk *task) { require.LessOrEqual(t, time.Until(tk.deadline), 100*time.Millisecond) })
	require.NoError(t, stop())
}

func TestALostClaimEndsTheTool(t *testing.T) {
	t.Parallel()
	cases := map[string]func(s *server, key string){
		"told by push": func(s *server, key string) {
			s.with(key, func(tk *task) { tk.settled = true })
			s.pushes <- event("work_canceled", key)
		},
		"the extension is refused": func(s *server, key string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.fault = func(w http.ResponseWriter, verb string, tk *task) bool {
				if verb == "extend" {
					refuse(w, 409, "not_extendable")
				}
				return verb == "extend"
			}
		},
		"gone from the inbox": func(s *server, key string) {
			s.mu.Lock()
			s.noEvents = true
			s.mu.Unlock()
			s.pushes <- "cut"
			time.Sleep(50 * time.Millisecond)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.tasks[key].settled = true
			s.touch()
		},
	}
	for name, lose := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			started, ended := make(chan runner.Call, 1), make(chan error, 1)
			block := tool("block", func(ctx context.Context, call runner.Call) (runner.Result, error) {
				started <- call
				<-ctx.Done()
				ended <- ctx.Err()
				return runner.Text("too late"), nil
			})
			work(t, s, runner.Worker{Tools: []runner.Tool{block, echo}, Slots: 1})
			s.add(task{key: "t1", tool: "block", timeout: 2 * time.Second}, true)
			<-started
			lose(s, "t1")
			select {
			case <-ended:
			case <-time.After(5 * time.Second):
				t.Fatal("the tool went on")
			}
			s.mu.Lock()
			s.fault = nil
			s.mu.Unlock()
			s.add(task{key: "t2", tool: "echo"}, true)
			s.settled("t2")
			require.Zero(t, s.count("commit t1"))
		})
	}
}
