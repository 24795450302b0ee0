package workflows

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/toolpark/toolpark"
)

const (
	// startAfter is how long a task waits for its first start, at least; twice that at most. A call that is
	// reported sooner needs none: the signal of its report starts the workflow that settles it, and one call to
	// the server is saved.
	startAfter = 200 * time.Millisecond

	// startsAtOnce is how many task workflows one process starts at once.
	startsAtOnce = 16

	// startsWaiting is how many starts may queue. While the Temporal server is away there are soon more:
	// the recovery loop starts those once it is back.
	startsWaiting = 1024
)

// Parks knows which tasks need a first start (postgres.DB).
type Parks interface {
	// Unstarted are those of the tasks that wait and that nothing has been staged for: whatever was staged
	// starts the workflow itself.
	Unstarted(ctx context.Context, tasks []toolpark.GenerationID) ([]toolpark.GenerationID, error)
	// Started tells the recovery loop that the workflows of these tasks exist.
	Started(ctx context.Context, tasks []toolpark.GenerationID) error
}

// starts gathers the first starts of many rounds and makes them together, a moment after they were authored.
// What the kernel works out itself it starts at once.
type starts struct {
	parks   Parks
	start   func(ctx context.Context, task *toolpark.Task, delay time.Duration) error
	log     *slog.Logger
	closing chan struct{} // closed: what waits is started at once
	working sync.WaitGroup

	mu      sync.Mutex
	waiting []waitingStart
	awake   bool
}

type waitingStart struct {
	task  *toolpark.Task
	since time.Time
}

// delay is how long the workflow sleeps at first: until the alarm of a park, and not at all when there is
// something to work out.
func (w waitingStart) delay() time.Duration {
	if w.task.Status == toolpark.Running {
		return 0
	}
	return max(0, w.task.DeadlineAt.Sub(w.task.BeganAt)-time.Since(w.since))
}

func (s *starts) add(tasks []*toolpark.Task) {
	var parked, running []waitingStart
	for _, task := range tasks {
		start := waitingStart{task: task, since: time.Now()}
		if task.Status == toolpark.Running {
			running = append(running, start)
		} else {
			parked = append(parked, start)
		}
	}
	if len(running) > 0 {
		s.working.Go(func() { s.tryMake(running) })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(parked) == 0 || len(s.waiting)+len(parked) > startsWaiting {
		return
	}
	s.waiting = append(s.waiting, parked...)
	if !s.awake {
		s.awake = true
		s.working.Go(s.work)
	}
}

func (s *starts) close() {
	close(s.closing)
	s.working.Wait()
}

// work makes starts until none waits any more.
func (s *starts) work() {
	for {
		select {
		case <-time.After(startAfter):
		case <-s.closing:
		}
		batch, more := s.due()
		if len(batch) > 0 {
			s.tryMake(batch)
		}
		if !more {
			return
		}
	}
}

// due takes those that have waited long enough, or all when the process is about to end. Without more, nothing
// waits and whoever adds the next task wakes work again.
func (s *starts) due() (batch []waitingStart, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.waiting)
	if !s.isClosing() {
		// They are in the order of their authoring.
		n, _ = slices.BinarySearchFunc(s.waiting, time.Now().Add(-startAfter), func(w waitingStart, before time.Time) int {
			return w.since.Compare(before)
		})
	}
	batch, s.waiting = s.waiting[:n:n], slices.Clone(s.waiting[n:])
	s.awake = len(batch) > 0 || len(s.waiting) > 0
	return batch, s.awake
}

func (s *starts) isClosing() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

func (s *starts) tryMake(batch []waitingStart) {
	if err := s.make(context.Background(), batch); err != nil {
		s.log.Warn("task workflows not started; the recovery loop will", "tasks", len(batch), "error", err)
	}
}

// make starts those of the batch that still need it. When the server is away the rest is left to the
// recovery loop.
func (s *starts) make(ctx context.Context, batch []waitingStart) error {
	byID := make(map[toolpark.GenerationID]waitingStart, len(batch))
	ids := make([]toolpark.GenerationID, len(batch))
	for i, w := range batch {
		ids[i] = w.task.GenerationID()
		byID[ids[i]] = w
	}
	ids, err := s.parks.Unstarted(ctx, ids)
	if err != nil || len(ids) == 0 {
		return err
	}
	var (
		mu      sync.Mutex
		started []toolpark.GenerationID
	)
	group, starting := errgroup.WithContext(ctx)
	group.SetLimit(startsAtOnce)
	for _, id := range ids {
		group.Go(func() error {
			w := byID[id]
			err := s.start(starting, w.task, w.delay())
			switch {
			case err == nil:
				mu.Lock()
				defer mu.Unlock()
				started = append(started, id)
			case Unreachable(err) || starting.Err() != nil:
				return err
			default:
				s.log.Error("task workflow not started; the recovery loop will try", "run", id.Run, "task", id.Key, "error", err)
			}
			return nil
		})
	}
	err = group.Wait()
	if len(started) > 0 {
		if noteErr := s.parks.Started(ctx, started); noteErr != nil {
			return noteErr
		}
	}
	return err
}
