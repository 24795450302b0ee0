package park

import (
	"context"
	"encoding/json/jsontext"
	"uuid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/envelope"
	"github.com/toolpark/toolpark/internal/postgres"
)

// StageResolution stages a member's answer to a question for the task's workflow to judge. What is no answer is
// refused and leaves the question standing: the envelope's codes, result_unstorable among them, and
// invalid_content for one that must choose from the options and does not. An answer that was given before in the
// same words has the verdict that it had then.
//
// Other refusals: not_awaiting_input (the task asks nobody), already_settled (by something else than this answer),
// rate_limited.
func (p *Park) StageResolution(ctx context.Context, m toolpark.Member, id toolpark.TaskID, fields envelope.Fields) (*Staged, error) {
	return p.stageAnswer(ctx, m.ID, id, fields, func(task *toolpark.Task) error {
		if task.Kind == toolpark.KindAsk {
			return nil
		}
		return toolpark.Errorf(toolpark.CodeNotAwaitingInput, "The task asks nobody anything: its kind is %s.", task.Kind)
	})
}

// stageCommittedAnswer is StageResolution for a commit without a token, as only the addressed application of an
// ask may make it.
func (p *Park) stageCommittedAnswer(ctx context.Context, e toolpark.Executor, id toolpark.TaskID, fields envelope.Fields) (*Staged, error) {
	return p.stageAnswer(ctx, e.ID, id, fields, func(task *toolpark.Task) error {
		switch {
		case !task.Addresses(e.ID):
			return notAddressedHere()
		case task.Kind != toolpark.KindAsk:
			return LateCommitError(toolpark.CodeStaleClaim)
		}
		return nil
	})
}

// stageAnswer stages an answer to an ask, once the locked task has passed the check of who may give one.
func (p *Park) stageAnswer(
	ctx context.Context, actor uuid.UUID, id toolpark.TaskID, fields envelope.Fields, check func(*toolpark.Task) error,
) (*Staged, error) {
	// What needs no row is worked out before the lock. A refused answer was never staged, so it equals none.
	report, refusal := parseReport(fields)
	var body, bodyHash []byte
	if refusal == nil {
		var err error
		if body, bodyHash, err = encodeReport(fields); err != nil {
			return nil, err
		}
	}
	staged := &Staged{Asks: toolpark.Completed}
	if report.Failed {
		staged.Asks = toolpark.Failed
	}
	err := p.DB.Tx(ctx, func(tx *postgres.Tx) error {
		var (
			before   postgres.Reports
			question jsontext.Value
		)
		task, err := postgres.LockTask(ctx, tx, id, postgres.FindAnswers(id, bodyHash, &before), postgres.ReadInput(id, &question))
		if err != nil {
			return err
		}
		staged.Task = &task.Task
		if err := check(&task.Task); err != nil {
			return err
		}
		switch {
		case before.Equal != nil:
			staged.Seq, staged.Verdict = before.Equal.Seq, before.Equal.Verdict
			return nil
		case task.SettledAt != nil:
			return AlreadyAnswered(&task.Task)
		case refusal != nil:
			return refusal
		}
		if err := chosen(question, report); err != nil {
			return err
		}
		if before.Count >= toolpark.MaxReportsPerClaim {
			return toolpark.Errorf(toolpark.CodeRateLimited, "%d different answers are staged for this question; wait for the verdict.", before.Count)
		}
		staged.Seq = postgres.Stage(tx, task, postgres.NewInput{
			Kind: toolpark.InputResolution, ActorID: &actor, Body: body, BodyHash: bodyHash,
		})
		return nil
	})
	return staged, err
}

// chosen holds an answer to the question as it is stored.
func chosen(question jsontext.Value, report envelope.Report) error {
	q, refusal := ReadQuestion(question)
	if refusal != nil { // it was read before it was stored
		return toolpark.Errorf(toolpark.CodeInternal, "The question cannot be read.").Because(refusal)
	}
	if refusal := q.Judge(report); refusal != nil {
		return refusal
	}
	return nil
}

// AlreadyAnswered says why an answer no longer counts.
func AlreadyAnswered(task *toolpark.Task) *toolpark.Error {
	why := "it has settled"
	if task.SettledBy != nil {
		switch *task.SettledBy {
		case toolpark.ByResolution:
			why = "it has been answered"
		case toolpark.ByExpiry:
			why = "its time was over before"
		case toolpark.ByCancel:
			why = "it was canceled before"
		}
	}
	return toolpark.Errorf(toolpark.CodeAlreadySettled, "The question takes no answer any more: %s; the task is %s.", why, task.Status)
}
