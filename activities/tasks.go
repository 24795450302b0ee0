// Package activities is what workflows call: each activity is one step that touches the world and is
// safe to repeat. Inputs and results go into Temporal's history, so they hold ids and states only.
package activities

import (
	"context"
	"errors"
	"log/slog"
	"time"
	"uuid"

	"go.temporal.io/sdk/temporal"
	"golang.org/x/sync/errgroup"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/park"
)

// Tasks is the activities of a task's workflow.
type Tasks struct {
	Park     *park.Park
	Delivery Delivery
	Log      *slog.Logger
}

// Delivery reaches the workflows of other tasks. What it fails to do the recovery loop does.
type Delivery interface {
	// Start starts the workflows of tasks that were just authored, without waiting for it.
	Start(tasks []*toolpark.Task)
	// Wake makes a task's workflow look again.
	Wake(ctx context.Context, task *toolpark.Task) error
}

// AdvanceInput names a generation of a task.
type AdvanceInput struct {
	Account    uuid.UUID `json:"account"`
	Run        uuid.UUID `json:"run"`
	Key        string    `json:"key"`
	Generation int       `json:"generation"`
	Canceled   bool      `json:"canceled,omitempty"` // the workflow itself was asked to cancel
}

// AdvanceResult says where the task stands after a step.
type AdvanceResult struct {
	Over       bool            `json:"over"` // nothing is left to do for this generation
	Status     toolpark.Status `json:"status"`
	Wake       time.Duration   `json:"wake"`        // look again after this long, in nanoseconds
	ClaimedBy  uuid.UUID       `json:"claimed_by"`  // the zero UUID when nobody holds the park
	DeadlineAt time.Time       `json:"deadline_at"` // to be shown only

	Child string `json:"child,omitempty"` // the key of the task whose outcome becomes this one's; to be shown only
}

// Advance judges what is staged for a task and looks at the clock (park.Advance).
func (t *Tasks) Advance(ctx context.Context, in AdvanceInput) (AdvanceResult, error) {
	id := toolpark.TaskID{Account: in.Account, Run: in.Run, Key: in.Key}
	a, err := t.Park.Advance(ctx, id, in.Generation, in.Canceled)
	if err != nil {
		return AdvanceResult{}, applicationError(err)
	}
	if a.Start != nil {
		t.Delivery.Start([]*toolpark.Task{a.Start})
	}
	t.nudge(ctx, a.Nudge)
	return AdvanceResult{
		Over: a.Over, Status: a.Status, Wake: a.Wake, ClaimedBy: a.ClaimedBy, DeadlineAt: a.DeadlineAt, Child: a.Child,
	}, nil
}

// maxNudges is how many tasks one settlement nudges itself.
const maxNudges = 32

// nudgesAtOnce bounds the calls to the server that one settlement makes at the same time.
const nudgesAtOnce = 16

// nudge makes tasks look again: the first of them. A settlement that many wait for leaves the others to the recovery
// loop, whose alarms it has set, since its step must end soon.
func (t *Tasks) nudge(ctx context.Context, tasks []*toolpark.Task) {
	tasks = tasks[:min(len(tasks), maxNudges)]
	var group errgroup.Group
	group.SetLimit(nudgesAtOnce)
	for _, task := range tasks {
		group.Go(func() error {
			if err := t.Delivery.Wake(ctx, task); err != nil {
				t.Log.WarnContext(ctx, "task not nudged; the recovery loop will", "run", task.RunID, "task", task.Key, "error", err)
			}
			return nil
		})
	}
	_ = group.Wait()
}

// applicationError carries a code across Temporal, where Go types do not travel. What may work later
// is retried; any other refusal would be the same again.
func applicationError(err error) error {
	e, ok := errors.AsType[*toolpark.Error](err)
	if !ok || e.Code == toolpark.CodeInternal {
		return err // unclassified: the retry policy decides
	}
	return temporal.NewApplicationErrorWithOptions(e.Message, string(e.Code), temporal.ApplicationErrorOptions{
		NonRetryable: e.Code != toolpark.CodeUnavailable, Cause: e.Err,
	})
}
