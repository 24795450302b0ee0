package notify

import (
	"context"
	"time"
)

// Await reads until done, waiting for a wake between two reads, for at most wait. It returns what was
// read last. It holds no connection while it waits. A closed stop channel ends the waiting early, as
// when the server shuts down.
func Await[T any](
	ctx context.Context, sub *Subscription, wait time.Duration, stop <-chan struct{},
	read func(context.Context) (value T, done bool, err error),
) (T, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		value, done, err := read(ctx)
		if err != nil || done || wait <= 0 {
			return value, err
		}
		select {
		case <-sub.C:
		case <-stop:
			return value, nil
		case <-timer.C:
			return value, nil
		case <-ctx.Done():
			return value, ctx.Err()
		}
	}
}

// Wait returns at the subscription's next wake, or when wait is over, ctx ends or stop is closed. It is for those
// who know that there is nothing to read before.
func Wait(ctx context.Context, sub *Subscription, wait time.Duration, stop <-chan struct{}) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-sub.C:
	case <-stop:
	case <-timer.C:
	case <-ctx.Done():
	}
}
