package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// sample is one round of one column.
type sample struct {
	perSecond float64
	p50, p99  time.Duration
}

// measure makes the round's calls, as many at once as the options say.
func measure(ctx context.Context, c column, o options) (sample, error) {
	var (
		mu        sync.Mutex
		latencies []time.Duration
	)
	work := make(chan struct{}, o.Calls)
	for range o.Calls {
		work <- struct{}{}
	}
	close(work)
	begin := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for slot := range o.Concurrency {
		group.Go(func() error {
			for range work {
				start := time.Now()
				if err := c.call(ctx, slot); err != nil {
					return err
				}
				mu.Lock()
				latencies = append(latencies, time.Since(start))
				mu.Unlock()
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return sample{}, err
	}
	took := time.Since(begin)
	slices.Sort(latencies)
	return sample{
		perSecond: float64(len(latencies)) / took.Seconds(),
		p50:       latencies[len(latencies)/2],
		p99:       latencies[len(latencies)*99/100],
	}, nil
}
