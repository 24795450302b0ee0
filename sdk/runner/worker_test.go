package runner_test

import (
	"context"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/sdk/runner"
)

func contextOf(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}

// tool is a tool with no more announcement than its name.
func tool(name string, run func(context.Context, runner.Call) (runner.Result, error)) runner.Tool {
	return runner.Tool{Run: run, Name: name, EffectProfile: toolpark.EffectProfile{
		Kind: toolpark.EffectPure, EffectScope: toolpark.ScopeClosed, Idempotency: toolpark.IdempotentBy,
		Reconciliation: toolpark.ReconcileNone,
	}}
}

var echo = tool("echo", func(_ context.Context, call runner.Call) (runner.Result, error) {
	return runner.Text(string(call.Input)), nil
})

// blocker is a tool that reports when it starts and waits for its context's end.
func blocker(started chan<- runner.Call) runner.Tool {
	return tool("block", func(ctx context.Context, call runner.Call) (runner.Result, error) {
		started <- call
		<-ctx.Done()
		return runner.Result{}, ctx.Err()
	})
}

func TestPushedWorkIsClaimedWithoutReadingTheInbox(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.fault = func(w http.ResponseWriter, verb string, _ *task) bool {
		if verb == "inbox" {
			refuse(w, 503, "unavailable")
		}
		return verb == "inbox"
	}
	work(t, s, runner.Worker{Tools: []runner.Tool{echo}})
	for i := range 20 {
		s.add(task{key: fmt.Sprintf("t%d", i), tool: "echo", input: `{"n":12345678901234567890,"d":0.10}`}, true)
	}
	for i := range 20 {
		require.Equal(t, fmt.Sprintf(`{"claim_token":"token-t%d","content":"{\"n\":12345678901234567890,\"d\":0.10}"}`, i),
			s.settled(fmt.Sprintf("t%d", i)))
		require.Equal(t, 1, s.count(fmt.Sprintf("claim t%d", i)))
	}
}

func TestWorkThatWasThereBeforeIsFound(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for i := range 5 { // three pages
		s.add(task{key: fmt.Sprintf("t%d", i), tool: "echo"}, false)
	}
	work(t, s, runner.Worker{Tools: []runner.Tool{echo}, Slots: 2})
	for i := range 5 {
		s.settled(fmt.Sprintf("t%d", i))
	}
}

func TestWithoutEventStreamTheInboxIsPolled(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.noEvents = true
	work(t, s, runner.Worker{Tools: []runner.Tool{echo}})
	for i := range 5 {
		time.Sleep(20 * time.Millisecond)
		s.add(task{key: fmt.Sprintf("t%d", i), tool: "echo"}, false)
		s.settled(fmt.Sprintf("t%d", i))
	}
}

func TestLostPushIsMadeUpByReconnecting(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	work(t, s, runner.Worker{Tools: []runner.Tool{echo}})
	s.add(task{key: "t1", tool: "echo"}, true)
	s.settled("t1")
	s.pushes <- "cut"
	s.add(task{key: "t2", tool: "echo"}, false)
	s.settled("t2")
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.streams >= 2
	}, 5*time.Second, 10*time.Millisecond)
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

func TestSlotsBoundTheWorkAtOnce(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	var now, most atomic.Int32
	slow := tool("slow", func(context.Context, runner.Call) (runner.Result, error) {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(30 * time.Millisecond)
		now.Add(-1)
		return runner.Result{}, nil
	})
	for i := range 12 {
		s.add(task{key: fmt.Sprintf("t%02d", i), tool: "slow"}, false)
	}
	work(t, s, runner.Worker{Tools: []runner.Tool{slow}, Slots: 3})
	for i := range 12 {
		s.settled(fmt.Sprintf("t%02d", i))
	}
	require.EqualValues(t, 3, most.Load())
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

func TestCommitsAreRepeatedUntilAnswered(t *testing.T) {
	t.Parallel()
	cases := map[string]func(w http.ResponseWriter){
		"connection lost": sever,
		"unavailable":     func(w http.ResponseWriter) { refuse(w, 503, "unavailable") },
		"a proxy's 404":   func(w http.ResponseWriter) { http.Error(w, "<html>no such host</html>", http.StatusNotFound) },
		"pending": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusAccepted)
			fmt.Fprint(w, `{"commit":{"status":"pending"}}`)
		},
	}
	for name, answer := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.fault = func(w http.ResponseWriter, verb string, tk *task) bool {
				if verb == "commit" && len(tk.commits) < 4 {
					answer(w)
					return true
				}
				return false
			}
			work(t, s, runner.Worker{Tools: []runner.Tool{echo}})
			s.add(task{key: "t1", tool: "echo"}, true)
			s.settled("t1")
			s.with("t1", func(tk *task) {
				require.GreaterOrEqual(t, len(tk.commits), 4)
				for _, body := range tk.commits {
					require.Equal(t, tk.commits[0], body, "the same report under the same token")
				}
			})
		})
	}
}

func TestRetryAfterIsObeyed(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	var refused, again time.Time
	s.fault = func(w http.ResponseWriter, verb string, tk *task) bool {
		if verb != "commit" {
			return false
		}
		if len(tk.commits) == 1 {
			refused = time.Now()
			w.Header().Set("Retry-After", "1")
			refuse(w, 429, "rate_limited")
			return true
		}
		again = time.Now()
		return false
	}
	work(t, s, runner.Worker{Tools: []runner.Tool{echo}})
	s.add(task{key: "t1", tool: "echo"}, true)
	s.settled("t1")
	s.with("t1", func(*task) { require.GreaterOrEqual(t, again.Sub(refused), time.Second) })
}

func TestARefusedResultIsReplacedByAnError(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.fault = func(w http.ResponseWriter, verb string, tk *task) bool {
		if verb == "commit" && len(tk.commits) == 1 {
			refuse(w, 422, "result_too_large")
			return true
		}
		return false
	}
	work(t, s, runner.Worker{Tools: []runner.Tool{echo}})
	s.add(task{key: "t1", tool: "echo"}, true)
	body := s.settled("t1")
	require.Contains(t, body, "result_too_large: staged by the test")
	require.Contains(t, body, `"is_error":true`)
	require.Equal(t, 2, s.count("commit t1"))
}

func TestACommitAfterTheClaimIsFinal(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"claim_expired", "claim_canceled", "stale_claim", "result_unstorable"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.fault = func(w http.ResponseWriter, verb string, tk *task) bool {
				if verb == "commit" && tk.key == "t1" {
					tk.settled = true
					refuse(w, 409, code)
					return true
				}
				return false
			}
			work(t, s, runner.Worker{Tools: []runner.Tool{echo}, Slots: 1})
			s.add(task{key: "t1", tool: "echo"}, true)
			s.add(task{key: "t2", tool: "echo"}, true)
			s.settled("t2") // by the same slot, so t1 is over
			require.Equal(t, 1, s.count("commit t1"))
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

func TestDrainLetsToolsFinish(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	started := make(chan struct{})
	slow := tool("slow", func(ctx context.Context, _ runner.Call) (runner.Result, error) {
		close(started)
		time.Sleep(300 * time.Millisecond)
		return runner.Text("finished"), ctx.Err()
	})
	stop := work(t, s, runner.Worker{Tools: []runner.Tool{slow, echo}})
	s.add(task{key: "t1", tool: "slow"}, true)
	<-started
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	time.Sleep(50 * time.Millisecond)
	s.add(task{key: "t2", tool: "echo"}, false)
	require.NoError(t, <-ended)
	require.Contains(t, s.settled("t1"), "finished")
	require.Zero(t, s.count("claim t2"))
}

func TestDrainInterruptsWhatOutlastsTheGrace(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	started := make(chan runner.Call, 1)
	stop := work(t, s, runner.Worker{Tools: []runner.Tool{blocker(started)}, Grace: time.Second})
	s.add(task{key: "t1", tool: "block"}, true)
	<-started
	require.NoError(t, stop())
	require.Equal(t, `{"claim_token":"token-t1","content":"interrupted; effects unknown","is_error":true}`, s.settled("t1"))
}

func TestProgressSendsTheNewestFrame(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	talk := tool("talk", func(_ context.Context, call runner.Call) (runner.Result, error) {
		for i := range 600 {
			call.Progress(jsontext.Value(fmt.Sprintf(`{"n":%d}`, i)))
			time.Sleep(time.Millisecond)
		}
		call.Progress(jsontext.Value(`{"not JSON`))
		call.Progress(jsontext.Value(`"` + strings.Repeat("x", 5000) + `"`))
		time.Sleep(300 * time.Millisecond)
		return runner.Result{}, nil
	})
	work(t, s, runner.Worker{Tools: []runner.Tool{talk}})
	began := time.Now()
	s.add(task{key: "t1", tool: "talk"}, true)
	s.settled("t1")
	s.with("t1", func(tk *task) {
		require.GreaterOrEqual(t, len(tk.frames), 2)
		require.LessOrEqual(t, len(tk.frames), 1+int(time.Since(began)/toolpark.ProgressInterval))
		require.Equal(t, `{"n":599}`, tk.frames[len(tk.frames)-1])
	})
}

func TestAWorkerThatIsRefusedEnds(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		verb   string
		status int
		code   string
	}{
		"announcement refused": {"announce", 422, "invalid_announcement"},
		"bearer revoked":       {"inbox", 401, "unauthorized"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.fault = func(w http.ResponseWriter, verb string, _ *task) bool {
				if verb == c.verb {
					refuse(w, c.status, c.code)
				}
				return verb == c.verb
			}
			w := runner.Worker{
				Client: &runner.Client{BaseURL: s.URL, Token: "x"}, Tools: []runner.Tool{echo},
				Log: slog.New(slog.DiscardHandler),
			}
			err := w.Run(t.Context())
			var refusal *toolpark.Error
			require.ErrorAs(t, err, &refusal)
			require.EqualValues(t, c.code, refusal.Code)
			var status *runner.ResponseError
			require.ErrorAs(t, err, &status)
			require.Equal(t, c.status, status.Status)
		})
	}
}

func TestAnAbsentServerIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	failures := atomic.Int32{}
	s.fault = func(w http.ResponseWriter, verb string, _ *task) bool {
		if failures.Add(1) <= 3 && verb == "announce" {
			sever(w)
			return true
		}
		return false
	}
	work(t, s, runner.Worker{Tools: []runner.Tool{echo}})
	s.add(task{key: "t1", tool: "echo"}, false)
	s.settled("t1")
}
