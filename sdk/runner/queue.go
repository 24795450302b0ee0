package runner

import (
	"context"
	"sync"
)

// maxQueue bounds the offers that wait for a slot. The inbox holds the rest.
const maxQueue = 1024

// job is something for a slot to do: an offer to claim, or a claim that an earlier process left behind.
type job struct {
	ref  Ref
	left *entry
}

// queue holds the jobs that wait for a slot and knows those in flight, so that the same work, which comes
// in by push and by inbox, is claimed once.
type queue struct {
	mu      sync.Mutex
	waiting []job
	known   map[Ref]struct{} // waiting or in flight
	ready   chan struct{}    // has a token while jobs wait
	full    bool             // an offer was turned away since the queue last ran empty
	refill  func()           // called when the queue runs empty after it turned offers away
}

func newQueue(refill func()) *queue {
	return &queue{known: map[Ref]struct{}{}, ready: make(chan struct{}, 1), refill: refill}
}

// push adds a job unless its work is known. It returns false when the queue is full.
func (q *queue) push(j job) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.known[j.ref]; ok {
		return true
	}
	if len(q.waiting) >= maxQueue && j.left == nil {
		q.full = true
		return false
	}
	q.known[j.ref] = struct{}{}
	q.waiting = append(q.waiting, j)
	q.signal()
	return true
}

// pop waits for a job; false when the context ended. The caller calls done when the job is over.
func (q *queue) pop(ctx context.Context) (job, bool) {
	for {
		if ctx.Err() != nil {
			return job{}, false
		}
		if j, ok := q.take(); ok {
			return j, true
		}
		select {
		case <-ctx.Done():
			return job{}, false
		case <-q.ready:
		}
	}
}

func (q *queue) take() (job, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return job{}, false
	}
	j := q.waiting[0]
	q.waiting[0] = job{}
	q.waiting = q.waiting[1:]
	switch {
	case len(q.waiting) > 0:
		q.signal() // for the next slot that waits
	case q.full:
		q.full = false
		q.refill()
	}
	return j, true
}

// drop removes work that waits; it was canceled.
func (q *queue) drop(ref Ref) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, j := range q.waiting {
		if j.ref == ref && j.left == nil {
			q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
			delete(q.known, ref)
			return
		}
	}
}

// done forgets work that is over.
func (q *queue) done(ref Ref) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.known, ref)
}

func (q *queue) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}
