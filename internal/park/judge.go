package park

import (
	"encoding/json/jsontext"
	"time"
	"uuid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/postgres"
)

// Step is what one look at a task decided: a verdict for every input that somebody staged, and either
// the outcome that settles the task or how long to sleep.
type Step struct {
	Verdicts []postgres.Verdict
	Approved *Approved // the approval that moved the task on; nil for none
	Outcome  *postgres.Outcome
	Wake     time.Duration // until the deadline, by the database's clock; zero once settled, else positive
}

// Approved is an approval that was taken.
type Approved struct {
	Input jsontext.Value // what the approver put in place of the call's own; nil for nothing
}

// noDeadline is how long a task sleeps that no clock ends: it waits for a signal.
const noDeadline = 24 * time.Hour

// Evidence is what Judge must be told of the world, and asks for when it needs it.
type Evidence struct {
	// Report judges an input that brings an outcome, an executor's commit, an answer to an ask, or the settlement of
	// a child or of the task that is waited for: an outcome, or a refusal that leaves the park standing.
	Report func(task *toolpark.Task, in toolpark.Input) (postgres.Outcome, *toolpark.Error)

	// Dispatchable tells who may still take a call that is approved now, or why nobody may.
	Dispatchable func(task *toolpark.Task) ([]uuid.UUID, *toolpark.TaskError)
}

// Judge decides every staged input in the order of its staging, then looks at the clock. It is the
// one place that knows what a park may do next: now and the stamps are the database's. It writes nothing but
// task, which it moves on when an approval is taken.
//
// The deadline wins: an input stamped at or after it never settles the task, however early a worker
// gets to judge it; an input stamped before it does, however late (spec: locks and clocks).
func Judge(task *toolpark.Task, now time.Time, inputs []toolpark.Input, evidence Evidence) Step {
	j := judgement{task: task, now: now, evidence: evidence}
	for _, in := range inputs {
		j.input(in)
	}
	if j.step.Outcome == nil && task.DeadlineAt != nil && !now.Before(*task.DeadlineAt) {
		j.settle(expiry(task))
	}
	switch {
	case j.step.Outcome != nil:
	case task.DeadlineAt != nil:
		j.step.Wake = task.DeadlineAt.Sub(now)
	default:
		j.step.Wake = noDeadline
	}
	return j.step
}

type judgement struct {
	task     *toolpark.Task
	now      time.Time
	evidence Evidence
	step     Step
}

func (j *judgement) settle(o postgres.Outcome) { j.step.Outcome = &o }

// verdict answers an input. A settlement that is waited for was staged by nobody and has no answer.
func (j *judgement) verdict(in toolpark.Input, code toolpark.Code, message string) {
	if in.Kind == toolpark.InputTarget {
		return
	}
	j.step.Verdicts = append(j.step.Verdicts, postgres.Verdict{Seq: in.Seq, Code: code, Message: message})
}

func (j *judgement) input(in toolpark.Input) {
	if in.Generation != j.task.Generation {
		j.verdict(in, toolpark.CodeStaleClaim, "an earlier generation of this task is over")
		return
	}
	if j.step.Outcome == nil && j.task.DeadlineAt != nil && !in.StagedAt.Before(*j.task.DeadlineAt) {
		j.settle(expiry(j.task))
	}
	if j.step.Outcome != nil {
		j.late(in)
		return
	}
	switch in.Kind {
	case toolpark.InputApprove, toolpark.InputDeny:
		if j.task.Status != toolpark.NeedsApproval {
			j.verdict(in, toolpark.CodeNotAwaitingApproval, "")
			return
		}
		j.decide(in)
		return
	case toolpark.InputCommit, toolpark.InputChild, toolpark.InputResolution, toolpark.InputTarget:
		outcome, refusal := j.evidence.Report(j.task, in)
		if refusal != nil {
			j.verdict(in, refusal.Code, refusal.Message)
			return
		}
		j.settle(outcome)
		if outcome.Error != nil && outcome.Error.Key == toolpark.ErrResultUnstorable {
			j.verdict(in, toolpark.CodeResultUnstorable, "the result cannot be stored: "+outcome.Error.Detail)
			return
		}
	case toolpark.InputCancel:
		j.settle(canceled())
	case toolpark.InputTerminated:
		j.settle(postgres.Outcome{
			Status: toolpark.Failed, By: toolpark.ByTermination,
			Error: &toolpark.TaskError{Key: toolpark.ErrWorkflowTerminated},
		})
	}
	j.verdict(in, "", "")
}

// late answers an input that came after the one that settled the task, or after the deadline.
func (j *judgement) late(in toolpark.Input) {
	code := toolpark.CodeAlreadySettled
	switch in.Kind {
	case toolpark.InputCommit:
		code = LateCommit(j.step.Outcome.By)
	case toolpark.InputApprove, toolpark.InputDeny:
		code = toolpark.CodeNotAwaitingApproval
	}
	j.verdict(in, code, "")
}

// canceled is how a task ends that somebody wants no more.
func canceled() postgres.Outcome {
	return postgres.Outcome{
		Status: toolpark.Canceled, By: toolpark.ByCancel, Error: &toolpark.TaskError{Key: toolpark.ErrTaskCanceled},
	}
}

// LateCommit is what a commit with the token that held the claim reads of a task that something else
// settled. The empty code means that a commit of that token settled it: the answer is the task.
func LateCommit(by toolpark.SettledBy) toolpark.Code {
	switch by {
	case toolpark.ByCommit:
		return ""
	case toolpark.ByExpiry:
		return toolpark.CodeClaimExpired
	case toolpark.ByCancel:
		return toolpark.CodeClaimCanceled
	default:
		return toolpark.CodeStaleClaim
	}
}

// expiry is how a task ends that nobody finished in time: a call that was claimed and whose effect
// may have happened is uncertain, never silently repeated (spec: the deadline wins).
func expiry(task *toolpark.Task) postgres.Outcome {
	switch task.Status {
	case toolpark.NeedsApproval:
		return timedOut(toolpark.ErrApprovalExpired)
	case toolpark.AwaitingInput:
		return timedOut(toolpark.ErrAskTimeout)
	}
	claimed := task.ClaimedBy != nil
	if claimed && (task.EffectProfile == nil || !task.EffectProfile.Replayable()) {
		return postgres.Outcome{
			Status: toolpark.Uncertain, By: toolpark.ByExpiry,
			Error: &toolpark.TaskError{Key: toolpark.ErrToolUncertain},
		}
	}
	return timedOut(toolpark.ErrToolTimeout)
}

func timedOut(key string) postgres.Outcome {
	return postgres.Outcome{Status: toolpark.TimedOut, By: toolpark.ByExpiry, Error: &toolpark.TaskError{Key: key}}
}
