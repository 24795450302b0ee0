package park

import (
	"time"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/postgres"
)

// Step is what one look at a task decided: a verdict for every input that was staged, and either
// the outcome that settles the task or how long to sleep.
type Step struct {
	Verdicts []postgres.Verdict
	Outcome  *postgres.Outcome
	Wake     time.Duration // until the deadline, by the database's clock; zero once settled, else positive
}

// noDeadline is how long a task sleeps that no clock ends: it waits for a signal.
const noDeadline = 24 * time.Hour

// Report judges an input that brings an outcome, an executor's commit or a child's settlement: an outcome, or
// a refusal that leaves the park standing.
type Report func(task *toolpark.Task, in toolpark.Input) (postgres.Outcome, *toolpark.Error)

// Judge decides every staged input in the order of its staging, then looks at the clock. It is the
// one place that knows what a park may do next, and it is pure: now and the stamps are the database's.
//
// The deadline wins: an input stamped at or after it never settles the task, however early a worker
// gets to judge it; an input stamped before it does, however late (spec: locks and clocks).
func Judge(task *toolpark.Task, now time.Time, inputs []toolpark.Input, report Report) Step {
	j := judgement{task: task, report: report}
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
	task   *toolpark.Task
	report Report
	step   Step
}

func (j *judgement) settle(o postgres.Outcome) { j.step.Outcome = &o }

func (j *judgement) verdict(in toolpark.Input, code toolpark.Code, message string) {
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
	case toolpark.InputCommit, toolpark.InputChild:
		outcome, refusal := j.report(j.task, in)
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
	if in.Kind == toolpark.InputCommit {
		code = LateCommit(j.step.Outcome.By)
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
	claimed := task.ClaimedBy != nil
	if claimed && (task.EffectProfile == nil || !task.EffectProfile.Replayable()) {
		return postgres.Outcome{
			Status: toolpark.Uncertain, By: toolpark.ByExpiry,
			Error: &toolpark.TaskError{Key: toolpark.ErrToolUncertain},
		}
	}
	return postgres.Outcome{
		Status: toolpark.TimedOut, By: toolpark.ByExpiry,
		Error: &toolpark.TaskError{Key: toolpark.ErrToolTimeout},
	}
}
