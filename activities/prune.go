package activities

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/toolpark/toolpark/internal/postgres"
)

// Retention is the activities that prune. Each may be repeated at any time.
type Retention struct {
	DB  *postgres.DB
	Log *slog.Logger
}

const (
	// stepTime is how long one deletion is to take. Rows are of very different sizes, from a hundred bytes to
	// megabytes, and so are machines: each step deletes half as much as the one before when that took longer, and
	// twice as much when it took less than half of it.
	stepTime = 30 * time.Millisecond

	minStep, firstStep, maxStep = 10, 50, 500 // tasks deleted in one step
	unusedPage                  = 20          // rows shared by content that one step looks at; a context may be a megabyte
)

// errStopping ends an activity whose worker stops: another one takes it up.
var errStopping = errors.New("the worker stops")

// ExpireInput is empty.
type ExpireInput struct{}

// ExpireResult says whether there is anything to delete.
type ExpireResult struct {
	Wait time.Duration `json:"wait"` // when, in nanoseconds from now; zero when there is nothing
}

// ExpireDetails marks the runs whose details are to be deleted: from then on those are refused to whoever asks.
func (r *Retention) ExpireDetails(ctx context.Context, _ ExpireInput) (ExpireResult, error) {
	for more := true; more; {
		var err error
		if more, err = r.DB.ExpireDetails(ctx); err != nil {
			return ExpireResult{}, applicationError(err)
		}
		activity.RecordHeartbeat(ctx)
	}
	half, err := r.DB.HalfPruned(ctx)
	if err != nil || !half {
		return ExpireResult{}, applicationError(err)
	}
	return ExpireResult{Wait: postgres.PruneGrace}, nil
}

// DeleteDetailsInput is empty.
type DeleteDetailsInput struct{}

// DeleteDetailsResult counts what is gone.
type DeleteDetailsResult struct {
	Runs  int `json:"runs"`
	Tasks int `json:"tasks"`
}

// DeleteDetails deletes the details of marked runs in short transactions, and rests as long as each took: the system
// is at work. An attempt that was broken off is taken up where it was; its counts are the last ones it told.
func (r *Retention) DeleteDetails(ctx context.Context, _ DeleteDetailsInput) (DeleteDetailsResult, error) {
	var result DeleteDetailsResult
	if activity.HasHeartbeatDetails(ctx) {
		if err := activity.GetHeartbeatDetails(ctx, &result); err != nil {
			return result, err
		}
	}
	size := firstStep
	for more := true; more; {
		began := time.Now()
		pruned, err := r.DB.PruneDetails(ctx, size)
		if err != nil {
			return result, applicationError(err)
		}
		more = pruned.More
		result.Runs += pruned.Runs
		result.Tasks += pruned.Tasks
		activity.RecordHeartbeat(ctx, result)
		took := time.Since(began)
		size = nextStep(size, took)
		if err := rest(ctx, took); err != nil {
			return result, err
		}
	}
	r.Log.InfoContext(ctx, "execution details pruned", "runs", result.Runs, "tasks", result.Tasks)
	return result, nil
}

func nextStep(size int, took time.Duration) int {
	switch {
	case took > stepTime:
		return max(minStep, size/2)
	case took < stepTime/2:
		return min(maxStep, size*2)
	}
	return size
}

// rest waits, unless the worker stops or the activity is over.
func rest(ctx context.Context, pause time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-activity.GetWorkerStopChannel(ctx):
		return errStopping
	case <-time.After(pause):
		return nil
	}
}

// DeleteUnusedInput is empty.
type DeleteUnusedInput struct{}

// DeleteUnusedResult counts what is gone.
type DeleteUnusedResult struct {
	Rows int `json:"rows"`
}

// DeleteUnused deletes contexts, projections and output schemas that nothing refers to and that nobody has used for a
// day.
func (r *Retention) DeleteUnused(ctx context.Context, _ DeleteUnusedInput) (DeleteUnusedResult, error) {
	var result DeleteUnusedResult
	for _, kind := range postgres.SharedKinds {
		for place := new(postgres.SharedPlace); place != nil; {
			began := time.Now()
			next, deleted, err := r.DB.DeleteUnused(ctx, kind, *place, unusedPage)
			if err != nil {
				return result, applicationError(err)
			}
			place = next
			result.Rows += deleted
			activity.RecordHeartbeat(ctx)
			if err := rest(ctx, time.Since(began)); err != nil {
				return result, err
			}
		}
	}
	return result, nil
}
