// Package notify wakes those who wait for the database to change: verdicts, inbox pushes, settles.
//
// What changed is told after the commit, to waiters of this process at once and to those of other
// processes by NOTIFY, batched every few milliseconds on one channel: a NOTIFY inside the settling
// transaction would serialise the commits of the whole cluster. A notification may be lost (the
// listening connection dies, its packets are dropped), so every two seconds the hub checks all its
// topics in one query and wakes those whose state moved.
package notify

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	recheckEvery = 2 * time.Second
	noteLimit    = 256 // notes a subscription holds before it only says that something was missed
)

// Recheck reads the state of each topic as an opaque token; a token that differs means that somebody
// may have something new to read. Topics it does not know may be left out.
type Recheck func(ctx context.Context, topics []Topic) (map[Topic]string, error)

// Hub hands messages to subscriptions.
type Hub struct {
	log     *slog.Logger
	recheck Recheck

	mu     sync.Mutex
	topics map[Topic]*topicState

	outgoing chan Message
}

type topicState struct {
	subs  map[*Subscription]struct{}
	token string
	known bool // the token was read while somebody was subscribed
}

// NewHub makes a hub. Without Run it reaches the waiters of this process only.
func NewHub(log *slog.Logger, recheck Recheck) *Hub {
	return &Hub{log: log, recheck: recheck, topics: map[Topic]*topicState{}, outgoing: make(chan Message, 4096)}
}

// Publish tells all waiters, here and in other processes, what has been committed. It never blocks:
// under a flood messages to other processes are dropped, and their recheck finds what they missed.
func (h *Hub) Publish(messages ...Message) {
	for _, m := range messages {
		h.deliver(m)
		select {
		case h.outgoing <- m:
		default:
		}
	}
}

func (h *Hub) deliver(m Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.topics[m.Topic]; t != nil {
		for sub := range t.subs {
			sub.wake(m.Note)
		}
	}
}

// Subscribe registers a waiter. Register first, then read, then wait: what happens in between wakes it.
func (h *Hub) Subscribe(topics ...Topic) *Subscription {
	sub := &Subscription{hub: h, topics: topics, C: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range topics {
		t := h.topics[name]
		if t == nil {
			t = &topicState{subs: map[*Subscription]struct{}{}}
			h.topics[name] = t
		}
		t.subs[sub] = struct{}{}
		t.known = false // the new waiter may have missed what the old token already tells
	}
	return sub
}

// Subscription is one waiter.
type Subscription struct {
	// C receives when something may have changed. Several changes may be one receive.
	C chan struct{}

	hub    *Hub
	topics []Topic

	mu     sync.Mutex
	notes  []string
	missed bool
}

// Close ends the subscription.
func (s *Subscription) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	for _, name := range s.topics {
		if t := s.hub.topics[name]; t != nil {
			delete(t.subs, s)
			if len(t.subs) == 0 {
				delete(s.hub.topics, name)
			}
		}
	}
}

// Notes takes what was told since the last call. When missed is true something else happened too, and
// the reader must look at the database.
func (s *Subscription) Notes() (notes []string, missed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	notes, missed = s.notes, s.missed
	s.notes, s.missed = nil, false
	return notes, missed
}

func (s *Subscription) wake(note string) {
	s.mu.Lock()
	if note != "" && len(s.notes) < noteLimit {
		s.notes = append(s.notes, note)
	} else {
		s.missed = true
	}
	s.mu.Unlock()
	select {
	case s.C <- struct{}{}:
	default:
	}
}

// check reads the state of every topic somebody waits for, in one query, and wakes those that moved.
func (h *Hub) check(ctx context.Context) error {
	h.mu.Lock()
	topics := make([]Topic, 0, len(h.topics))
	for name := range h.topics {
		topics = append(topics, name)
	}
	h.mu.Unlock()
	if len(topics) == 0 {
		return nil
	}
	tokens, err := h.recheck(ctx, topics)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, token := range tokens {
		t := h.topics[name]
		if t == nil || (t.known && t.token == token) {
			continue
		}
		t.token, t.known = token, true
		for sub := range t.subs {
			sub.wake("")
		}
	}
	return nil
}
