package park

import (
	"context"
	"errors"
	"uuid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/envelope"
	"github.com/toolpark/toolpark/internal/postgres"
)

// Staged is an input that waits for its task's workflow, or has been judged before.
type Staged struct {
	Task    *toolpark.Task
	Seq     int
	Verdict *postgres.Verdict // nil until it is judged
	Asks    toolpark.Status   // where the task stands if the input is accepted
}

// StageCommit stages an executor's report for the task's workflow to judge. What cannot settle the
// task is refused and changes nothing: address, token, grammar, links, in this order. A task that has
// settled answers from its row, and the error carries it as detail "task". Without a token it is the answer of the
// addressed application to an ask.
func (p *Park) StageCommit(ctx context.Context, e toolpark.Executor, id toolpark.TaskID, token string, fields envelope.Fields) (*Staged, error) {
	if token == "" {
		return p.stageCommittedAnswer(ctx, e, id, fields)
	}
	// What needs no row is worked out before the lock. A refused report was never staged, so it equals none.
	asks, refusal := stageable(fields)
	var body, bodyHash []byte
	if refusal == nil {
		var err error
		if body, bodyHash, err = encodeReport(fields); err != nil {
			return nil, err
		}
	}
	token256 := tokenHash(token)
	staged := &Staged{Asks: asks}
	err := p.DB.Tx(ctx, func(tx *postgres.Tx) error {
		var reports postgres.Reports
		task, err := postgres.LockTask(ctx, tx, id, postgres.FindReports(id, token256, bodyHash, &reports))
		if err != nil {
			return err
		}
		staged.Task = &task.Task
		if err := committable(&task.Task, e.ID, token256); err != nil {
			return err
		}
		switch {
		case reports.Equal != nil:
			staged.Seq, staged.Verdict = reports.Equal.Seq, reports.Equal.Verdict
			return nil
		case task.SettledAt != nil:
			staged.Verdict = &postgres.Verdict{} // another body under the token that settled it: the task is the answer
			return nil
		case refusal != nil:
			return refusal
		case reports.Count >= toolpark.MaxReportsPerClaim:
			return toolpark.Errorf(toolpark.CodeRateLimited,
				"%d different reports are staged under this claim; wait for the verdict.", reports.Count)
		}
		staged.Seq = postgres.Stage(tx, task, postgres.NewInput{
			Kind: toolpark.InputCommit, ActorID: &e.ID, TokenHash: token256, Body: body, BodyHash: bodyHash,
		})
		return nil
	})
	return staged, err
}

// committable judges address and token. A task that something else than a commit of this token settled
// refuses with the task's own story.
func committable(task *toolpark.Task, executor uuid.UUID, token256 []byte) error {
	if !task.Addresses(executor) {
		return notAddressedHere()
	}
	if task.ClaimedBy == nil || *task.ClaimedBy != executor || !holds(task, token256) {
		return LateCommitError(toolpark.CodeStaleClaim)
	}
	if task.SettledBy != nil {
		if code := LateCommit(*task.SettledBy); code != "" {
			return LateCommitError(code)
		}
	}
	return nil
}

// LateCommitError says why a report no longer counts.
func LateCommitError(code toolpark.Code) *toolpark.Error {
	switch code {
	case toolpark.CodeClaimExpired:
		return toolpark.Errorf(code, "The claim's deadline passed before this report; the task settled without it.")
	case toolpark.CodeClaimCanceled:
		return toolpark.Errorf(code, "The task was canceled before this report.")
	default:
		return toolpark.Errorf(toolpark.CodeStaleClaim, "This token does not hold the task's claim.")
	}
}

// stageable tells whether a report can settle its task, and how: it keeps to the grammar, or holds what
// cannot be stored, which ends the task as failed.
func stageable(fields envelope.Fields) (toolpark.Status, error) {
	report, err := parseReport(fields)
	if refusal, ok := errors.AsType[*toolpark.Error](err); ok && refusal.Code == toolpark.CodeResultUnstorable {
		return toolpark.Failed, nil
	}
	if report.Failed {
		return toolpark.Failed, err
	}
	return toolpark.Completed, err
}

// StageCancel stages a member's wish that a task end. From then on nobody can claim it. Repeating it
// is the same wish; a task that has settled refuses with already_settled.
func (p *Park) StageCancel(ctx context.Context, m toolpark.Member, id toolpark.TaskID) (*Staged, error) {
	staged := &Staged{Asks: toolpark.Canceled}
	err := p.DB.Tx(ctx, func(tx *postgres.Tx) error {
		task, err := postgres.LockTask(ctx, tx, id)
		if err != nil {
			return err
		}
		staged.Task = &task.Task
		if task.Status.Settled() {
			return toolpark.Errorf(toolpark.CodeAlreadySettled, "The task has settled: it is %s.", task.Status)
		}
		for _, in := range task.Inputs {
			if in.Kind == toolpark.InputCancel {
				staged.Seq = in.Seq
				return nil
			}
		}
		staged.Seq = postgres.Stage(tx, task, postgres.NewInput{Kind: toolpark.InputCancel, ActorID: &m.ID})
		return nil
	})
	return staged, err
}

// StageTermination records that the workflow of a generation of a task was terminated by hand. It says nothing of
// a later generation.
func (p *Park) StageTermination(ctx context.Context, of toolpark.GenerationID) error {
	return p.DB.Tx(ctx, func(tx *postgres.Tx) error {
		task, err := postgres.LockTask(ctx, tx, of.TaskID)
		if err != nil || task.Status.Settled() || task.Generation != of.Generation {
			return err
		}
		for _, in := range task.Inputs {
			if in.Kind == toolpark.InputTerminated {
				return nil
			}
		}
		postgres.Stage(tx, task, postgres.NewInput{Kind: toolpark.InputTerminated})
		return nil
	})
}
