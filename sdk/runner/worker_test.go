package runner_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/sdk/runner"
)

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
