package api_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kernel"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/internal/notify"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
)

// soon is how long a waiter may take to learn of an event that it was not told of. The server rechecks
// every two seconds; the rest is for a busy machine. A long poll lasts much longer.
const soon = 8 * time.Second

// promptly fails a test that waited longer than soon.
func promptly(t *testing.T, what string, do func()) {
	t.Helper()
	start := time.Now()
	do()
	require.Less(t, time.Since(start), soon, what)
}

// A worker whose word reaches nobody settles a task: every waiter finds out by itself.
func TestEventsThatAreLost(t *testing.T) {
	t.Parallel()
	k := kerneltest.StartAPI(t)
	mute := k.Another(t)
	mute.Park.Hub = notify.NewHub(mute.Log, nil) // it tells its own waiters only, and has none
	mute.StartWorker()
	s := sceneAt(t, k, readOnly("look"))

	var run string
	promptly(t, "a run", func() { run = s.run() })
	ref, token := s.claimed(run, "look")
	watched := s.listen("/runs/"+run+"/events/stream", s.Agent.Token, "Last-Event-ID", "3")
	inbox, err := s.Box.Inbox(t.Context(), runner.InboxQuery{})
	require.NoError(t, err)
	answers := make(chan string, 3)
	var waiters sync.WaitGroup
	for _, path := range []string{taskPath(ref), "/runs/" + run + "/rounds/1"} {
		waiters.Go(func() { answers <- string(s.asAgent("GET", path+"?wait_ms=60000", "").Body) })
	}
	waiters.Go(func() {
		empty, err := s.Box.Inbox(t.Context(), runner.InboxQuery{Wait: time.Minute, Unless: inbox.Version})
		answers <- fmt.Sprint(len(empty.Rows), err, " settled_at")
	})
	promptly(t, "a verdict", func() { s.report(ref, token, `"content":"it came true"`).ok(http.StatusOK) })
	promptly(t, "long polls", waiters.Wait)
	for range 3 {
		require.Contains(t, <-answers, "settled")
	}
	promptly(t, "a stream", func() { require.Contains(t, next(t, watched), "task_status") })
}

// The connection that listens is cut again and again while calls are made and waited for through two
// processes, one of which only hears of the other's work.
func TestTheListenerIsCut(t *testing.T) {
	t.Parallel()
	k := kerneltest.Start(t)
	s := sceneAt(t, k, echo().Entry)
	run := s.run()
	s.Work(s.Box, 4, echo())
	there := k.Another(t)
	elsewhere := agent.Client{BaseURL: there.URL, HTTP: there.HTTP, Token: s.Agent.Token}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	cut := make(chan int)
	go func() {
		total := 0
		for ctx.Err() == nil {
			var n int
			err := k.DB.Pool.QueryRow(ctx, `
				SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
				WHERE datname = current_database() AND pid <> pg_backend_pid() AND query IN ('LISTEN toolpark', '-- ping')
					AND state = 'idle'`).Scan(&n)
			if err == nil {
				total += n
			}
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
		cut <- total
	}()
	rounds := 10
	if full() {
		rounds = 100
	}
	for i := range rounds {
		promptly(t, "a round", func() {
			round, err := s.Agent.PostRound(t.Context(), run, agent.NewRound{Calls: []agent.Call{{Name: "echo"}, {Name: "echo"}}})
			require.NoError(t, err)
			settled, err := elsewhere.Round(t.Context(), run, round.Number, time.Minute)
			require.NoError(t, err)
			require.True(t, settled.Settled, "round %d", i)
		})
	}
	stop()
	require.Greater(t, <-cut, 1, "the listeners were there to be cut")
}

// Keys and names of nine kilobytes never reach a notification.
func TestLongWordsStayOutOfNotifications(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	other := doorOf(t, s.Kernel.Another(t))
	run := s.run()
	long := strings.Repeat("n", 9<<10)
	round, err := s.Agent.PostRound(t.Context(), run, agent.NewRound{Calls: []agent.Call{{ID: long, Name: "look"}, {ID: "b", Name: long}}})
	require.NoError(t, err)
	require.Len(t, round.Tasks, 2)
	s.badly("POST", "/runs/"+run+"/tasks", `{"steps":[{"tool":{"name":"look","route":{"kind":"runner"},"key":"`+long+`"}}]}`).
		refused(http.StatusUnprocessableEntity, toolpark.CodeValidationFailed)
	s.badly("POST", "/runs/"+run+"/rounds", `{"calls":[{"name":"look"}]}`, "Idempotency-Key", long).
		refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
	ref := runner.Ref{Run: run, TaskKey: round.Tasks[0].Key, Generation: 1}
	s.report(ref, s.claim(ref), `"content":"`+long+`"`).ok(http.StatusOK)
	promptly(t, "the other process", func() {
		a := other.send("GET", base+"/runs/"+run+"/rounds/1?wait_ms=60000", s.Agent.Token, "").ok(http.StatusOK)
		require.Equal(t, "true", string(a.raw("/round/settled")))
	})
}

// Many more waiters than connections: waiting holds none, so work goes on.
func TestWaitingHoldsNoConnection(t *testing.T) {
	t.Parallel()
	waiting := 40
	if full() {
		waiting = 200
	}
	k := kerneltest.Start(t)
	few := k.Another(t, func(c *kernel.Config) {
		c.Connections = 4
		c.Log = slog.New(slog.DiscardHandler)
	})
	s := sceneAt(t, few, readOnly("look"))
	run := s.run()
	ref, token := s.claimed(run, "look")
	idle := s.Runner("idle")
	empty, err := idle.Inbox(t.Context(), runner.InboxQuery{})
	require.NoError(t, err)

	ctx, hangUp := context.WithCancel(t.Context())
	var waiters sync.WaitGroup
	pool := few.DB.Pool
	before := pool.Stat().AcquireCount()
	for range waiting {
		waiters.Go(func() { _, _ = idle.Inbox(ctx, runner.InboxQuery{Wait: time.Minute, Unless: empty.Version}) })
		waiters.Go(func() { _, _ = s.Agent.Task(ctx, run, ref.TaskKey, time.Minute) })
	}
	// A poll of an inbox asks twice before it waits, one of a task three times.
	require.Eventually(t, func() bool {
		return pool.Stat().AcquireCount() >= before+int64(5*waiting) && pool.Stat().AcquiredConns() == 0
	}, patience, 50*time.Millisecond, "all of them wait, without a connection")

	const quick = 3 * time.Second // a second, and the rest for a busy machine
	start := time.Now()
	next := s.call(run, "look", `{}`)
	require.Less(t, time.Since(start), quick, "authoring")
	start = time.Now()
	nextToken := s.claim(next)
	require.Less(t, time.Since(start), quick, "claiming")
	start = time.Now()
	s.report(next, nextToken, `"content":"done"`).ok(http.StatusOK)
	require.Less(t, time.Since(start), quick, "committing")

	s.report(ref, token, `"content":"for all who wait"`).ok(http.StatusOK)
	hangUp()
	waiters.Wait()
}
