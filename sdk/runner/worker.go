package runner

import (
	"context"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
	"uuid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/sdk/internal/rest"
)

const (
	defaultSlots = 16
	defaultGrace = 30 * time.Second
	// reportGrace is how long reports may take at most once the tools were told to go.
	reportGrace = 10 * time.Second
	// unwindGrace is how long everything may take to return once even reports were given up.
	unwindGrace = time.Second
)

// Worker serves tools: it announces them, claims calls as slots are free, extends the claims while the
// tools run, and reports each result until the server has answered. Set the fields, then call Run once.
type Worker struct {
	Client      *Client
	Tools       []Tool
	Environment jsontext.Value // facts about this machine for models and people, an object; nil means {}
	Documents   []Document
	Slots       int           // calls at once; 0 means 16
	Grace       time.Duration // how long running tools may finish when Run's context ends; 0 means 30 s
	Journal     *Journal      // nil: a crash leaves the claims it held to their deadlines
	Log         *slog.Logger  // nil: the default logger
}

// Run serves until the context ends, then drains: it claims nothing more, gives running tools the grace
// period, ends the context of those that remain, and reports what they answer. It returns nil after a
// drain, and an error when the announcement is refused, the bearer stops working, the journal cannot be
// written, or a tool does not return.
func (w *Worker) Run(ctx context.Context) error {
	l := &loop{
		client: w.Client, journal: w.Journal, log: w.Log,
		tools: map[string]Tool{}, running: map[Ref]claimed{}, wake: make(chan struct{}, 1),
	}
	if l.log == nil {
		l.log = slog.Default()
	}
	a := Announcement{Tools: []Entry{}, Environment: w.Environment, Documents: w.Documents}
	for _, t := range w.Tools {
		l.tools[t.Name] = t
		a.Tools = append(a.Tools, t.Entry)
	}
	slots, grace := w.Slots, w.Grace
	if slots <= 0 {
		slots = defaultSlots
	}
	if grace <= 0 {
		grace = defaultGrace
	}
	return l.run(ctx, a, slots, grace)
}

// loop is a running worker.
type loop struct {
	client  *Client
	journal *Journal
	log     *slog.Logger
	tools   map[string]Tool
	queue   *queue

	wake      chan struct{} // asks for a reading of the inbox
	listening atomic.Bool   // the event stream is open

	toolsCtx   context.Context         // ends when tools must go
	reportsCtx context.Context         // ends when even reports are given up
	fail       context.CancelCauseFunc // ends the worker with an error

	mu      sync.Mutex
	running map[Ref]claimed
}

// claimed is a claim whose tool runs.
type claimed struct {
	token  string
	cancel context.CancelCauseFunc
}

// What ends the context of a tool beside its return.
var (
	errDraining = errors.New("the runner is stopping")
	errExpired  = errors.New("the claim's deadline passed while the server could not be reached")
	errLost     = errors.New("the claim is over")
)

func (l *loop) run(ctx context.Context, a Announcement, slots int, grace time.Duration) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	outlives := context.WithoutCancel(ctx)
	toolsCtx, endTools := context.WithCancelCause(outlives)
	defer endTools(nil)
	reportsCtx, endReports := context.WithCancel(outlives)
	defer endReports()
	l.toolsCtx, l.reportsCtx, l.fail = toolsCtx, reportsCtx, fail
	l.queue = newQueue(l.readInbox)

	if err := l.announce(ctx, a); err != nil {
		return err
	}
	if l.journal != nil {
		for _, left := range l.journal.held() {
			l.queue.push(job{ref: left.Ref, left: &left})
		}
	}
	var all sync.WaitGroup
	for range slots {
		all.Go(func() { l.slot(ctx) })
	}
	all.Go(func() { l.listen(ctx) })
	all.Go(func() { l.followInbox(ctx) })

	<-ctx.Done()
	finished := make(chan struct{})
	go func() {
		all.Wait()
		close(finished)
	}()
	stages := []struct {
		patience time.Duration
		then     func()
	}{
		{grace, func() { endTools(errDraining) }},
		{min(grace, reportGrace), endReports},
		{unwindGrace, func() {}},
	}
	for _, stage := range stages {
		select {
		case <-finished:
			return l.verdict(ctx)
		case <-time.After(stage.patience):
			stage.then()
		}
	}
	return errors.Join(l.verdict(ctx), errors.New("a tool did not return when its context ended"))
}

// verdict is why the worker stopped, nil when it was asked to.
func (l *loop) verdict(ctx context.Context) error {
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// announce says what is served, again and again until the server has answered.
func (l *loop) announce(ctx context.Context, a Announcement) error {
	for retry := (backoff{}); ; {
		self, err := l.client.Announce(ctx, a)
		if err == nil {
			l.log.Info("announced", "executor", self.PublicID, "name", self.DisplayName, "tools", len(a.Tools))
			return nil
		}
		if rest.Final(err) {
			return fmt.Errorf("announce: %w", err)
		}
		if retry.wait(ctx, err) != nil {
			return nil
		}
		l.log.Warn("announcing again", "error", err)
	}
}

// slot does one job after the other until the worker stops claiming.
func (l *loop) slot(ctx context.Context) {
	for {
		j, ok := l.queue.pop(ctx)
		if !ok {
			return
		}
		switch {
		case j.left == nil:
			l.serve(entry{Key: uuid.NewV7().String(), Ref: j.ref})
		case j.left.Untouched:
			l.serve(entry{Key: j.left.Key, Ref: j.ref})
		default:
			l.settleLeft(*j.left)
		}
		l.queue.done(j.ref)
	}
}

// stop ends the worker because its bearer no longer works.
func (l *loop) stop(err error) { l.fail(fmt.Errorf("the server refuses this runner: %w", err)) }

func unauthorized(err error) bool { return rest.CodeOf(err) == toolpark.CodeUnauthorized }
