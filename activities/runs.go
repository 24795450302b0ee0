package activities

import (
	"context"
	"time"
	"uuid"

	"github.com/toolpark/toolpark/internal/park"
)

// Runs is the activities of a run's workflow.
type Runs struct {
	Park *park.Park
}

// AssembleInput names a run.
type AssembleInput struct {
	Account uuid.UUID `json:"account"`
	Run     uuid.UUID `json:"run"`
}

// Assemble freezes what an accepting run may call, or refuses the run (park.Assemble).
func (r *Runs) Assemble(ctx context.Context, in AssembleInput) error {
	return applicationError(r.Park.Assemble(ctx, in.Account, in.Run))
}

// AdvanceRunInput names a run.
type AdvanceRunInput struct {
	Account  uuid.UUID `json:"account"`
	Run      uuid.UUID `json:"run"`
	Canceled bool      `json:"canceled,omitempty"` // the workflow itself was asked to cancel: a forced stop
}

// AdvanceRunResult says whether the run's workflow has anything left to wait for.
type AdvanceRunResult struct {
	Over bool          `json:"over"`
	Wake time.Duration `json:"wake"` // look again after this long, in nanoseconds
}

// AdvanceRun looks after a run that has been decided (park.AdvanceRun).
func (r *Runs) AdvanceRun(ctx context.Context, in AdvanceRunInput) (AdvanceRunResult, error) {
	a, err := r.Park.AdvanceRun(ctx, in.Account, in.Run, in.Canceled)
	return AdvanceRunResult(a), applicationError(err)
}
