package notify

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

const (
	channel      = "toolpark"
	flushEvery   = 5 * time.Millisecond
	payloadLimit = 7900 // a NOTIFY of 8 000 bytes fails its statement
	listenPing   = 5 * time.Second
	retryListen  = 500 * time.Millisecond
)

// Run listens, sends and rechecks until ctx ends. The listener has a connection of its own, taken
// from the pool's configuration and never from the pool.
func (h *Hub) Run(ctx context.Context, pool *pgxpool.Pool) error {
	self := rand.Text()[:8]
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return h.send(ctx, pool, self) })
	group.Go(func() error { return h.listen(ctx, pool.Config().ConnConfig, self) })
	group.Go(func() error {
		for sleep(ctx, recheckEvery) {
			if err := h.check(ctx); err != nil && ctx.Err() == nil {
				h.log.Warn("recheck failed", "error", err)
			}
		}
		return nil
	})
	return group.Wait()
}

// send gathers messages for a few milliseconds and notifies them together.
func (h *Hub) send(ctx context.Context, pool *pgxpool.Pool, self string) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-h.outgoing:
			sleep(ctx, flushEvery)
			h.flush(ctx, pool, self, m)
		}
	}
}

func (h *Hub) flush(ctx context.Context, pool *pgxpool.Pool, self string, first Message) {
	var payloads []string
	payload := self
	add := func(m Message) {
		line := "\n" + string(m.Topic) + "\t" + m.Note
		if len(payload)+len(line) > payloadLimit {
			payloads = append(payloads, payload)
			payload = self
		}
		payload += line
	}
	add(first)
	for range len(h.outgoing) {
		add(<-h.outgoing)
	}
	payloads = append(payloads, payload)
	_, err := pool.Exec(ctx, `SELECT pg_notify($1, p) FROM unnest($2::text[]) AS p`, channel, payloads)
	if err != nil && ctx.Err() == nil {
		h.log.Warn("notify failed; waiters elsewhere recheck", "error", err)
	}
}

// listen keeps a connection that hears the other processes. While it is down, rechecks serve.
func (h *Hub) listen(ctx context.Context, config *pgx.ConnConfig, self string) error {
	for {
		err := h.listenOnce(ctx, config, self)
		if ctx.Err() != nil {
			return nil
		}
		h.log.Warn("listening connection lost; reconnecting", "error", err)
		sleep(ctx, retryListen)
	}
}

func (h *Hub) listenOnce(ctx context.Context, config *pgx.ConnConfig, self string) error {
	connect, cancel := context.WithTimeout(ctx, listenPing)
	defer cancel()
	conn, err := pgx.ConnectConfig(connect, config)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(connect, "LISTEN "+channel); err != nil {
		return err
	}
	// What was told while nobody listened is found now rather than at the next tick.
	if err := h.check(ctx); err != nil {
		return err
	}
	for {
		wait, cancel := context.WithTimeout(ctx, listenPing)
		n, err := conn.WaitForNotification(wait)
		cancel()
		switch {
		case err == nil:
			h.receive(n.Payload, self)
		case ctx.Err() != nil:
			return nil
		case wait.Err() != nil:
			// Silence may be a dead connection: ask it something, and give up on it when it does not answer.
			ping, cancel := context.WithTimeout(ctx, recheckEvery)
			err := conn.Ping(ping)
			cancel()
			if err != nil {
				return err
			}
		default:
			return err
		}
	}
}

func (h *Hub) receive(payload, self string) {
	lines := strings.Split(payload, "\n")
	if lines[0] == self {
		return // this process told its own waiters before it notified
	}
	for _, line := range lines[1:] {
		topic, note, _ := strings.Cut(line, "\t")
		h.deliver(Message{Topic: Topic(topic), Note: note})
	}
}

// sleep waits and tells whether ctx still stands.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
