package notify_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"
	"uuid"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/devstack/devtest"
	"github.com/toolpark/toolpark/internal/notify"
)

const patience = 30 * time.Second

var quiet = slog.New(slog.DiscardHandler)

// states is what a recheck reads: the test's own database.
type states struct {
	mu     sync.Mutex
	tokens map[notify.Topic]string
	reads  int
}

func (s *states) set(topic notify.Topic, token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens == nil {
		s.tokens = map[notify.Topic]string{}
	}
	s.tokens[topic] = token
}

func (s *states) recheck(_ context.Context, topics []notify.Topic) (map[notify.Topic]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	found := map[notify.Topic]string{}
	for _, topic := range topics {
		if token, ok := s.tokens[topic]; ok {
			found[topic] = token
		}
	}
	return found, nil
}

// process is a hub with a pool of its own, as every API and worker process has.
type process struct {
	*notify.Hub
	*states
	pool *pgxpool.Pool
	stop func()
}

func start(t *testing.T, database string) *process {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), database)
	require.NoError(t, err)
	p := &process{states: &states{}, pool: pool}
	p.Hub = notify.NewHub(quiet, p.recheck)
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	wait.Go(func() {
		if err := p.Run(ctx, pool); err != nil {
			t.Errorf("hub: %v", err)
		}
	})
	p.stop = sync.OnceFunc(func() {
		cancel()
		wait.Wait()
		pool.Close()
	})
	t.Cleanup(p.stop)
	return p
}

// listeners are the backends that listen.
func (p *process) listeners(t *testing.T) (pids []int32) {
	t.Helper()
	rows, err := p.pool.Query(t.Context(), `
		SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'`)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var pid int32
		require.NoError(t, rows.Scan(&pid))
		pids = append(pids, pid)
	}
	return pids
}

func (p *process) listening(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return len(p.listeners(t)) == n }, patience, 20*time.Millisecond)
}

func woken(t *testing.T, sub *notify.Subscription, within time.Duration) {
	t.Helper()
	select {
	case <-sub.C:
	case <-time.After(within):
		require.FailNow(t, "nobody woke the waiter")
	}
}

func asleep(t *testing.T, sub *notify.Subscription) {
	t.Helper()
	select {
	case <-sub.C:
		require.FailNow(t, "the waiter was woken for nothing")
	default:
	}
}

func TestAMessageReachesWaitersOfThisProcessAtOnce(t *testing.T) {
	t.Parallel()
	hub := notify.NewHub(quiet, nil) // it does not run
	task := notify.TaskTopic(toolpark.TaskID{Run: uuid.NewV7(), Key: "r1t0"})
	one, two, other := hub.Subscribe(task), hub.Subscribe(task), hub.Subscribe(notify.RunTopic(uuid.NewV7()))
	hub.Publish(notify.Message{Topic: task, Note: "first"}, notify.Message{Topic: task, Note: "second"})
	for _, sub := range []*notify.Subscription{one, two} {
		woken(t, sub, time.Second)
		notes, missed := sub.Notes()
		require.Equal(t, []string{"first", "second"}, notes)
		require.False(t, missed)
		notes, _ = sub.Notes()
		require.Empty(t, notes, "notes are told once")
		asleep(t, sub)
	}
	asleep(t, other)

	one.Close()
	hub.Publish(notify.Message{Topic: task})
	asleep(t, one)
	woken(t, two, time.Second)
	_, missed := two.Notes()
	require.True(t, missed, "a message without a note says to look")
}

func TestAMessageReachesOtherProcesses(t *testing.T) {
	t.Parallel()
	database := devtest.Database(t)
	here, there := start(t, database), start(t, database)
	here.listening(t, 2)
	topic := notify.InboxTopic(uuid.NewV7())
	sub, own := there.Subscribe(topic), here.Subscribe(topic)
	// More than one notification can carry, told in a burst.
	var want []string
	for i := range 200 {
		note := notify.Arrived(uuid.NewV7(), fmt.Sprintf("r1t%d", i), 1)
		want = append(want, note)
		here.Publish(notify.Message{Topic: topic, Note: note})
	}
	var got []string
	require.Eventually(t, func() bool {
		notes, missed := sub.Notes()
		require.False(t, missed)
		got = append(got, notes...)
		return len(got) == len(want)
	}, patience, 5*time.Millisecond)
	require.Equal(t, want, got)
	notes, _ := own.Notes()
	require.Equal(t, want, notes, "the process that tells does not hear itself")
}

func TestALostMessageIsFoundByTheRecheck(t *testing.T) {
	t.Parallel()
	p := start(t, devtest.Database(t))
	topic := notify.RunTopic(uuid.NewV7())
	p.set(topic, "1")
	sub := p.Subscribe(topic)
	defer sub.Close()
	woken(t, sub, patience) // a new waiter is woken once: it may have missed something before
	sub.Notes()
	p.set(topic, "2") // something changed and nobody told
	began := time.Now()
	woken(t, sub, patience)
	require.Less(t, time.Since(began), 3*time.Second)
	_, missed := sub.Notes()
	require.True(t, missed)
}

func TestNothingNewWakesNobody(t *testing.T) {
	t.Parallel()
	p := start(t, devtest.Database(t))
	topic := notify.RunTopic(uuid.NewV7())
	p.set(topic, "1")
	sub := p.Subscribe(topic)
	defer sub.Close()
	woken(t, sub, patience)
	read := p.count()
	require.Eventually(t, func() bool { return p.count() >= read+2 }, patience, 20*time.Millisecond)
	asleep(t, sub)
}

func (s *states) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

func TestAListenerThatIsCutOffComesBack(t *testing.T) {
	t.Parallel()
	database := devtest.Database(t)
	here, there := start(t, database), start(t, database)
	here.listening(t, 2)
	before := here.listeners(t)
	_, err := here.pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM unnest($1::int[]) AS pid`, before)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		now := here.listeners(t)
		return len(now) == 2 && now[0] != before[0] && now[0] != before[1] && now[1] != before[0] && now[1] != before[1]
	}, patience, 20*time.Millisecond)
	topic := notify.InboxTopic(uuid.NewV7())
	sub := there.Subscribe(topic) // of which no recheck knows
	here.Publish(notify.Message{Topic: topic, Note: "heard again"})
	woken(t, sub, patience)
	notes, _ := sub.Notes()
	require.Equal(t, []string{"heard again"}, notes)
}

func TestWhatHappenedWhileNobodyListenedIsFoundOnReturn(t *testing.T) {
	t.Parallel()
	p := start(t, devtest.Database(t))
	p.listening(t, 1)
	topic := notify.RunTopic(uuid.NewV7())
	p.set(topic, "1")
	sub := p.Subscribe(topic)
	defer sub.Close()
	woken(t, sub, patience)
	_, err := p.pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM unnest($1::int[]) AS pid`, p.listeners(t))
	require.NoError(t, err)
	p.set(topic, "2")
	woken(t, sub, patience)
}

func TestASlowReaderIsToldThatItMissedSomething(t *testing.T) {
	t.Parallel()
	hub := notify.NewHub(quiet, nil)
	topic := notify.InboxTopic(uuid.NewV7())
	sub := hub.Subscribe(topic)
	for i := range 10_000 { // far more than the hub queues for others, too
		hub.Publish(notify.Message{Topic: topic, Note: fmt.Sprint(i)})
	}
	woken(t, sub, time.Second)
	notes, missed := sub.Notes()
	require.True(t, missed)
	require.NotEmpty(t, notes)
	require.LessOrEqual(t, len(notes), 1000, "notes are bounded")
	require.Equal(t, "0", notes[0], "the oldest are kept: the rest is read again")
	notes, missed = sub.Notes()
	require.Empty(t, notes)
	require.False(t, missed)
}

func TestAwait(t *testing.T) {
	t.Parallel()
	hub := notify.NewHub(quiet, nil)
	topic := notify.RunTopic(uuid.NewV7())
	never := func(context.Context) (string, bool, error) { return "not yet", false, nil }

	t.Run("reads again when it is woken", func(t *testing.T) {
		t.Parallel()
		sub := hub.Subscribe(topic)
		defer sub.Close()
		reads := 0
		value, err := notify.Await(t.Context(), sub, patience, nil, func(context.Context) (int, bool, error) {
			if reads++; reads < 3 {
				hub.Publish(notify.Message{Topic: topic})
			}
			return reads, reads == 3, nil
		})
		require.NoError(t, err)
		require.Equal(t, 3, value)
	})
	t.Run("answers at once without a wait", func(t *testing.T) {
		t.Parallel()
		value, err := notify.Await(t.Context(), hub.Subscribe(), 0, nil, never)
		require.NoError(t, err)
		require.Equal(t, "not yet", value)
	})
	t.Run("answers what it read last when the time is over", func(t *testing.T) {
		t.Parallel()
		value, err := notify.Await(t.Context(), hub.Subscribe(), 10*time.Millisecond, nil, never)
		require.NoError(t, err)
		require.Equal(t, "not yet", value)
	})
	t.Run("answers early when the server stops", func(t *testing.T) {
		t.Parallel()
		stop := make(chan struct{})
		close(stop)
		value, err := notify.Await(t.Context(), hub.Subscribe(), time.Hour, stop, never)
		require.NoError(t, err)
		require.Equal(t, "not yet", value)
	})
	t.Run("ends when the caller goes", func(t *testing.T) {
		t.Parallel()
		ctx, gone := context.WithCancel(t.Context())
		gone()
		_, err := notify.Await(ctx, hub.Subscribe(), time.Hour, nil, never)
		require.ErrorIs(t, err, context.Canceled)
	})
	t.Run("passes what reading failed with", func(t *testing.T) {
		t.Parallel()
		_, err := notify.Await(t.Context(), hub.Subscribe(), time.Hour, nil, func(context.Context) (int, bool, error) {
			return 0, false, io.ErrUnexpectedEOF
		})
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	})
}

func TestPushesReadBack(t *testing.T) {
	t.Parallel()
	run := uuid.NewV7()
	arrived, ok := notify.ParsePush(notify.Arrived(run, "r1t0", 2))
	require.True(t, ok)
	require.Equal(t, notify.Push{RunID: run, TaskKey: "r1t0", Generation: 2}, arrived)
	gone, ok := notify.ParsePush(notify.Gone(run, "r1t0", 2, "cancel"))
	require.True(t, ok)
	require.Equal(t, notify.Push{RunID: run, TaskKey: "r1t0", Generation: 2, Reason: "cancel"}, gone)
	for _, forged := range []string{"", "x", run.String(), run.String() + " r1t0", "x r1t0 1", run.String() + " r1t0 x", run.String() + " a 1 b c"} {
		_, ok := notify.ParsePush(forged)
		require.False(t, ok, forged)
	}
}

// TestAHubEndsWithItsContext is not parallel: it counts goroutines.
func TestAHubEndsWithItsContext(t *testing.T) { //nolint:paralleltest // goroutines of other tests would count
	database := devtest.Database(t)
	before := goleak.IgnoreCurrent()
	p := start(t, database)
	p.listening(t, 1)
	topic := notify.RunTopic(uuid.NewV7())
	sub := p.Subscribe(topic)
	p.Publish(notify.Message{Topic: topic})
	woken(t, sub, patience)
	sub.Close()
	p.stop()
	goleak.VerifyNone(t, before)
}
