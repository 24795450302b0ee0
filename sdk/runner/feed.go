package runner

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/toolpark/toolpark/sdk/internal/rest"
)

const (
	// reread is how often the inbox is read although the event stream is open: a push may be lost.
	reread = 30 * time.Second
	// pollWait is how long one poll of the inbox waits for a change while there is no event stream.
	pollWait = 30 * time.Second
	// pollGap keeps polls of a busy inbox, which changes with every claim, from following each other at
	// once.
	pollGap = 100 * time.Millisecond
)

// listen keeps the event stream open. A push is acted on at once, without reading the inbox: claiming is
// the fetch.
func (l *loop) listen(ctx context.Context) {
	var retry backoff
	for ctx.Err() == nil {
		opened := time.Now()
		err := l.hear(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case unauthorized(err):
			l.stop(err)
			return
		case time.Since(opened) > maxDelay:
			retry = backoff{}
		}
		l.log.Debug("the event stream is closed", "error", err)
		_ = retry.wait(ctx, err)
	}
}

// hear follows one stream to its end.
func (l *loop) hear(ctx context.Context) error {
	events, err := l.client.Events(ctx)
	if err != nil {
		return err
	}
	defer events.Close()
	l.listening.Store(true)
	defer func() {
		l.listening.Store(false)
		l.readInbox() // from here on by polling
	}()
	l.readInbox() // what came before the stream was open
	for {
		event, err := events.Next()
		if err != nil {
			return err
		}
		switch event.Type {
		case WorkAvailable:
			l.queue.push(job{ref: event.Ref})
		case WorkCanceled:
			l.queue.drop(event.Ref)
			l.lose(event.Ref)
		}
	}
}

// readInbox asks for a reading of the inbox.
func (l *loop) readInbox() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// followInbox reads the inbox whenever it is asked to and now and then; without an event stream, whenever
// the server says that it changed.
func (l *loop) followInbox(ctx context.Context) {
	var retry backoff
	version := "" // of the last reading
	for ctx.Err() == nil {
		query := InboxQuery{}
		switch {
		case l.listening.Load():
			l.sleep(ctx, reread+rand.N(reread/4))
		case version != "":
			l.sleep(ctx, pollGap)
			if !l.listening.Load() {
				query = InboxQuery{Wait: pollWait, Unless: version}
			}
		}
		v, err := l.takeInbox(ctx, query)
		switch {
		case err == nil:
			version, retry = v, backoff{}
		case ctx.Err() != nil:
			return
		case rest.Final(err):
			l.stop(err)
			return
		default:
			l.log.Warn("the inbox cannot be read", "error", err)
			_ = retry.wait(ctx, err)
		}
	}
}

// sleep waits until the inbox is to be read, at most for d.
func (l *loop) sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-l.wake:
	case <-timer.C:
	}
}

// takeInbox queues what is unclaimed and ends the tools whose claim is no longer listed. It returns the
// version of the list it read.
func (l *loop) takeInbox(ctx context.Context, q InboxQuery) (version string, err error) {
	gone := l.claims()
	for page := 0; ; page++ {
		box, err := l.client.Inbox(ctx, q)
		if err != nil {
			return "", err
		}
		if page == 0 {
			version = box.Version
		}
		for _, row := range box.Rows {
			delete(gone, row.Ref)
			if row.Kind == "tool_call" && !row.Claimed && !l.queue.push(job{ref: row.Ref}) {
				return version, nil // no room: the queue asks again when it has run empty
			}
		}
		if box.Next == "" {
			break
		}
		q = InboxQuery{After: box.Next}
	}
	for ref, token := range gone {
		if active, err := l.client.ClaimActive(ctx, ref, token); !active && (err == nil || rest.Final(err)) {
			l.lose(ref)
		}
	}
	return version, nil
}

// claims are the claims whose tools run now, with their tokens.
func (l *loop) claims() map[Ref]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := make(map[Ref]string, len(l.running))
	for ref, c := range l.running {
		held[ref] = c.token
	}
	return held
}

// lose ends the tool that works on a claim which is over.
func (l *loop) lose(ref Ref) {
	l.mu.Lock()
	c, ok := l.running[ref]
	l.mu.Unlock()
	if ok {
		l.log.Info("the claim is over", "run", ref.Run, "task", ref.TaskKey, "generation", ref.Generation)
		c.cancel(errLost)
	}
}
