package worker

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	sweepEvery = 10 * time.Minute
	sweepBatch = 1000
)

// recovery finds what a crash forgot. Every worker process runs it; they share the work by row locks.
type recovery struct {
	worker *Worker
}

func (r *recovery) run(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() { r.every(ctx, wakeEvery, "wake", r.wake) })
	loops.Go(func() { r.every(ctx, closedEvery, "look for closed workflows", r.closed) })
	loops.Go(func() { r.every(ctx, sweepEvery, "sweep", r.sweep) })
	loops.Go(func() { r.schedule(ctx) })
	loops.Wait()
}

// sweep deletes what has outlived its use, batch after batch until there is no more.
func (r *recovery) sweep(ctx context.Context) error {
	for {
		more, err := r.worker.Park.DB.Sweep(ctx, sweepBatch)
		if err != nil || !more {
			return err
		}
	}
}

// every runs step again and again, with jitter so that processes do not march in step.
func (r *recovery) every(ctx context.Context, interval time.Duration, what string, step func(context.Context) error) {
	for {
		pause := interval/2 + rand.N(interval)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if err := step(ctx); err != nil && ctx.Err() == nil {
			r.worker.Log.Warn("recovery step failed; it will be tried again", "step", what, "error", err)
		}
	}
}
