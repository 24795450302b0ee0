package runner

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/toolpark/toolpark/sdk/internal/rest"
)

const (
	firstDelay = 100 * time.Millisecond
	maxDelay   = 15 * time.Second
)

// backoff waits longer after each failure, with jitter so that a fleet of runners does not return at once.
// The zero value is ready.
type backoff struct{ failures int }

// wait sleeps after a failure, at least as long as the server asked. It returns the context's error when
// that ends first.
func (b *backoff) wait(ctx context.Context, err error) error {
	limit := min(firstDelay<<min(b.failures, 16), maxDelay)
	b.failures++
	delay := limit/2 + rand.N(limit/2)
	var answered *rest.Error
	if errors.As(err, &answered) && answered.RetryAfter > delay {
		delay = answered.RetryAfter + rand.N(limit)
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
