package park

import (
	"context"
	"time"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/approval"
	"github.com/toolpark/toolpark/internal/notify"
	"github.com/toolpark/toolpark/internal/postgres"
)

// Retry lets a task that failed, timed out or is uncertain begin again as its next generation: with the same key,
// target, effect profile, timeout and schemas, and the input that it ran with. It is authoring: the generation
// before keeps its outcome, and whatever waited for that one and has settled never changes. The new generation is
// admitted again, approval included, and its workflow is the caller's to start.
//
// Refusals, which change nothing: run_accepting, run_stopping, run_settled; not_retryable; runner_not_eligible or
// tool_not_served when nobody may take it now; approval_denied.
func (p *Park) Retry(ctx context.Context, id toolpark.TaskID) (*toolpark.Task, error) {
	before, decided, err := p.decideAgain(ctx, id)
	if err != nil {
		return nil, err
	}
	var (
		begun *toolpark.Task
		next  postgres.NewTask
	)
	err = p.DB.Tx(ctx, func(tx *postgres.Tx) error {
		task, err := postgres.LockTask(ctx, tx, id)
		if err != nil {
			return err
		}
		var (
			kin     postgres.Kin
			reopens bool
		)
		run, err := postgres.LockRun(ctx, tx, id.Account, id.Run,
			postgres.ReadRoundOver(id.Run, task.Round, &reopens), postgres.ReadKin(id, &kin))
		if err != nil {
			return err
		}
		if err := open(&run.Run); err != nil {
			return err
		}
		if refusal := retryable(&task.Task, kin); refusal != nil {
			return refusal
		}
		if task.Generation != before {
			return toolpark.Errorf(toolpark.CodeNotRetryable, "The task has only just failed; read it, then retry it.")
		}
		if next, err = p.again(ctx, tx, run, &task.Task, decided); err != nil {
			return err
		}
		postgres.Renew(tx, task, run, &next, reopens)
		begun = startable(run, &next)
		begun.Generation = task.Generation + 1
		return nil
	})
	if err != nil {
		return nil, err
	}
	p.Hub.Publish(notify.Message{Topic: notify.RunTopic(id.Run)})
	p.Hub.Publish(arrived(id.Run, id.Key, begun.Generation, next.Listed())...)
	return begun, nil
}

// decideAgain lets a call cross the stage of approval as it was asked last, before any lock is taken: what a task has
// run with does not change once it has settled. Another kind of task crosses none. The generation is the one that was
// decided about; 0 when there was nothing to decide yet.
func (p *Park) decideAgain(ctx context.Context, id toolpark.TaskID) (generation int, decided approval.Decision, err error) {
	task, err := p.DB.TaskDetail(ctx, id)
	if err != nil {
		return 0, decided, err
	}
	if !task.Status.Failure() {
		return 0, decided, nil
	}
	if task.Kind != toolpark.KindTool {
		return task.Generation, decided, nil
	}
	run, err := postgres.FindRun(ctx, p.DB.Pool, id.Account, id.Run)
	if err != nil || run.ContextHash == nil {
		return 0, decided, err
	}
	policy, err := p.policy(ctx, p.DB.Pool, run)
	if err != nil {
		return 0, decided, err
	}
	return task.Generation, policy.Decide(approvalCall(*task.ToolName, task.Origin, task.KernelTool, task.EffectProfile, task.Input)), nil
}

// retryable tells why a task cannot be retried, if it cannot.
func retryable(task *toolpark.Task, kin postgres.Kin) *toolpark.Error {
	refuse := func(format string, args ...any) *toolpark.Error {
		return toolpark.Errorf(toolpark.CodeNotRetryable, format, args...)
	}
	switch {
	case !task.Status.Failure():
		return refuse("The task is %s; only one that failed, timed out or is uncertain can be retried.", task.Status)
	case task.AbandonedAt != nil:
		return refuse("The failure was abandoned at %s; make another call.", task.AbandonedAt.Format(time.RFC3339))
	case *task.SettledBy == toolpark.ByBirth:
		return refuse("The call could not be accepted (%s), and never ran; make another.", deref(task.ErrorKey))
	case deref(task.ErrorKey) == toolpark.ErrApprovalDenied:
		return refuse("The call was denied, and that stands; make another.")
	case kin.ParentLives:
		return refuse("The task %s, which made this one, has not settled; wait until it has.", *task.ParentKey)
	case kin.ParentAbandoned:
		return refuse("The task %s, which made this one, was abandoned; make another call.", *task.ParentKey)
	case kin.ChildLives:
		return refuse("A task that this one made lives again; wait until it has settled, or cancel it.")
	}
	return nil
}

// again is a settled task as it begins once more: for those of its target who may still take it, or held for
// somebody who may decide.
func (p *Park) again(
	ctx context.Context, tx *postgres.Tx, run *postgres.LockedRun, task *toolpark.Task, decided approval.Decision,
) (postgres.NewTask, error) {
	next := postgres.NewTask{
		Key: task.Key, Round: task.Round, ParentKey: task.ParentKey, Kind: task.Kind, Origin: task.Origin,
		Status: firstStatus(task), ToolName: task.ToolName, KernelTool: task.KernelTool, AddressedRole: task.AddressedRole,
		AddressedTo: task.AddressedTo, TargetName: task.TargetName, WaitsFor: task.WaitsFor,
		TimeoutMS: task.TimeoutMS,
	}
	if task.Kind == toolpark.KindTool {
		if err := admitAgain(ctx, tx, run, task, decided, &next); err != nil {
			return next, err
		}
	}
	made := []postgres.NewTask{next}
	err := listForPeople(ctx, tx, &run.Run, made)
	return made[0], err
}

// admitAgain judges a call as it was judged when it was made: who may take it, and whether it needs approval.
func admitAgain(
	ctx context.Context, tx *postgres.Tx, run *postgres.LockedRun, task *toolpark.Task, decided approval.Decision, next *postgres.NewTask,
) error {
	to, gone, err := dispatchable(ctx, tx, &run.Run, task)
	if err != nil {
		return err
	}
	if gone != nil {
		return toolpark.Errorf(toolpark.Code(gone.Key), "Nobody whom the call is addressed to may take it now: %s.", gone.Detail)
	}
	next.AddressedTo = to
	if decided.Verdict == approval.Deny {
		return deniedBy("The run denies the call as it would run now", decided)
	}
	cross(next, run, decided)
	return nil
}

// firstStatus is where a task stands when it begins and nothing holds it.
func firstStatus(task *toolpark.Task) toolpark.Status {
	switch {
	case task.KernelTool != nil, task.Kind == toolpark.KindWait:
		return toolpark.Running
	case task.Kind == toolpark.KindAsk:
		return toolpark.AwaitingInput
	default:
		return toolpark.Dispatched
	}
}

// Abandon stamps the failure of a task as given up: it is not retried any more. It is no outcome, and says
// nothing to whoever waits. Repeating it is no error; the first stamp stays. A task that has not failed is
// not_abandonable. One that failed at birth may be given up like any other.
func (p *Park) Abandon(ctx context.Context, m toolpark.Member, id toolpark.TaskID) error {
	return p.DB.Tx(ctx, func(tx *postgres.Tx) error {
		task, err := postgres.LockTask(ctx, tx, id)
		if err != nil || task.AbandonedAt != nil {
			return err
		}
		if !task.Status.Failure() {
			return toolpark.Errorf(toolpark.CodeNotAbandonable,
				"The task is %s; only one that failed, timed out or is uncertain can be given up.", task.Status)
		}
		postgres.Abandon(tx, task, m.ID)
		return nil
	})
}
