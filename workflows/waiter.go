package workflows

import (
	"math/rand/v2"
	"time"

	"go.temporal.io/sdk/workflow"
)

// waiter is what a workflow sleeps with: it wakes for a signal, for a cancel request, or when the time
// is over, whichever comes first.
type waiter struct {
	channels []workflow.ReceiveChannel
	canceled workflow.ReceiveChannel
	asked    bool // a cancel request has been seen
	retries  int
}

// newWaiter makes a waiter. asked says that a run of the workflow before this one was asked to cancel.
func newWaiter(ctx workflow.Context, signals []Signal, asked bool) *waiter {
	w := &waiter{canceled: ctx.Done(), asked: asked}
	for _, name := range signals {
		w.channels = append(w.channels, workflow.GetSignalChannel(ctx, string(name)))
	}
	return w
}

// drain takes the signals that have come: the step that follows judges whatever they tell of. It
// returns whether a cancel was requested of the workflow itself, now or before.
func (w *waiter) drain(ctx workflow.Context) bool {
	for _, c := range w.channels {
		for c.ReceiveAsync(nil) {
		}
	}
	if ctx.Err() != nil {
		w.asked = true
	}
	return w.asked
}

// sleep waits for at most d.
func (w *waiter) sleep(ctx workflow.Context, d time.Duration) {
	// A canceled context would end every timer at once: the cancel request is a channel to select on,
	// seen once.
	steady, _ := workflow.NewDisconnectedContext(ctx)
	steady, stopTimer := workflow.WithCancel(steady)
	defer stopTimer()
	selector := workflow.NewSelector(steady)
	selector.AddFuture(workflow.NewTimer(steady, d), func(workflow.Future) {})
	for _, c := range w.channels {
		selector.AddReceive(c, func(c workflow.ReceiveChannel, _ bool) { c.ReceiveAsync(nil) })
	}
	if !w.asked {
		selector.AddReceive(w.canceled, func(workflow.ReceiveChannel, bool) { w.asked = true })
	}
	selector.Select(steady)
}

// retry waits before a step that failed is tried again: 1 s to 5 s, with jitter. A signal or a cancel
// request ends the wait.
func (w *waiter) retry(ctx workflow.Context) {
	limit := min(2*minRetry<<w.retries, maxRetry)
	if limit < maxRetry {
		w.retries++
	}
	var jitter float64
	// The draw is recorded, so that a replay sleeps as long.
	_ = workflow.SideEffect(ctx, func(workflow.Context) any { return rand.Float64() }).Get(&jitter)
	w.sleep(ctx, time.Duration((0.5+jitter/2)*float64(limit)))
}

// succeeded forgets earlier failures.
func (w *waiter) succeeded() { w.retries = 0 }
