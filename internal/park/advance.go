package park

import (
	"cmp"
	"context"
	"errors"
	"time"
	"uuid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/notify"
	"github.com/toolpark/toolpark/internal/postgres"
)

// Advanced is what one look at a task found.
type Advanced struct {
	Over       bool            // nothing is left to do for this generation
	Status     toolpark.Status // where the task stands
	Wake       time.Duration   // look again after this long
	ClaimedBy  uuid.UUID       // who holds the claim; the zero UUID when nobody does
	DeadlineAt time.Time       // to be shown; never compared with workflow time
	Child      string          // the key of the task that a tool_call or an ask waits for; empty for none

	// What is now due elsewhere. If it is lost, the recovery loop finds it.
	Start *toolpark.Task   // a child to start; nil for none
	Nudge []*toolpark.Task // those that were told of this settlement, and a child that is to end
}

// errFamily breaks off a step that touches more tasks than it has locked: it begins again with all of them.
var errFamily = errors.New("the step needs the locks of the task's whole family")

// Advance is the one step of a task's workflow: it judges every staged input in order, looks at the
// clock, works out a kernel tool's call, and stores what follows. Calling it again, or too often, changes
// nothing. canceled says that the workflow itself was asked to cancel, from the Temporal Web UI or CLI:
// that is one more input.
func (p *Park) Advance(ctx context.Context, id toolpark.TaskID, generation int, canceled bool) (Advanced, error) {
	step, err := p.advance(ctx, id, generation, canceled, nil)
	for errors.Is(err, errFamily) && ctx.Err() == nil { // again, when the family grew while its locks were waited for
		step, err = p.advance(ctx, id, generation, canceled, postgres.Family{})
	}
	if err != nil {
		return Advanced{}, err
	}
	if step.news != nil {
		p.Hub.Publish(step.news()...)
	}
	return step.found, nil
}

// advance is Advance under the lock of the task, and of its parent if it has one; or, with a family to be read,
// under the locks of the whole family. Tasks are locked in the order of their keys, whatever the step comes to:
// nothing that sorts before the last lock is locked later.
func (p *Park) advance(ctx context.Context, id toolpark.TaskID, generation int, canceled bool, family postgres.Family) (*advance, error) {
	step := &advance{park: p, canceled: canceled, family: family}
	err := p.DB.Tx(ctx, func(tx *postgres.Tx) error {
		switch {
		case family != nil:
			postgres.LockFamily(tx, id, family)
		case mayHaveParent(id.Key):
			postgres.LockParent(tx, id, &step.parent)
		}
		task, err := postgres.LockTask(ctx, tx, id)
		if refusal, ok := errors.AsType[*toolpark.Error](err); ok && refusal.Code == toolpark.CodeNotFound {
			step.found = Advanced{Over: true} // a restored database may not know this task
			return nil
		}
		if err != nil {
			return err
		}
		if task.Generation != generation || task.Status.Settled() {
			step.found = Advanced{Over: true, Status: task.Status}
			return nil
		}
		step.task = task
		if family != nil {
			step.parent = family.Parent(&task.Task)
		}
		return step.take(ctx, tx)
	})
	return step, err
}

// advance is one step under the locks of a task and of its parent, if it has one.
type advance struct {
	park     *Park
	canceled bool
	task     *postgres.LockedTask
	parent   *toolpark.Task  // nil unless a kernel tool's call made the task
	family   postgres.Family // nil: it is not locked
	found    Advanced
	news     func() []notify.Message // made of what the commit tells

	dispatched bool        // it was approved
	unlisted   []uuid.UUID // whose inbox listed it until then
	listed     []uuid.UUID // whose inbox lists the child it made
}

func (a *advance) take(ctx context.Context, tx *postgres.Tx) error {
	if a.canceled && a.task.CancelRequestedAt == nil {
		stageOwnCancel(tx, a.task)
	}
	inputs := a.task.Inputs
	target, err := a.target()
	if err != nil {
		return err
	}
	if target != nil && target.BeganAt.After(a.task.BeganAt) {
		// It has settled since the wait began, and was retried.
		if target, err = postgres.GenerationAt(ctx, tx, target.ID(), a.task.BeganAt); err != nil {
			return err
		}
	}
	if target != nil && target.Status.Settled() {
		inputs = withSettlement(inputs, a.task, target)
	}
	hearing := &hearing{ctx: ctx, park: a.park, tx: tx, target: target}
	step := Judge(&a.task.Task, a.task.Now, inputs, hearing.evidence())
	if hearing.failed != nil {
		return hearing.failed
	}
	if step.Approved != nil {
		postgres.Dispatch(tx, a.task, step.Approved.Input, &a.unlisted)
		a.dispatched = true
	}
	if step.Outcome != nil {
		return a.settle(ctx, tx, step.Outcome, step.Verdicts)
	}
	switch {
	case a.task.WaitsFor != nil:
		if o := a.watch(tx, target); o != nil {
			return a.settle(ctx, tx, o, step.Verdicts)
		}
	case a.task.Status == toolpark.Running && !waitsForChild(&a.task.Task):
		e, err := a.park.evaluate(ctx, tx, a.task)
		if err != nil {
			return err
		}
		if e.outcome != nil {
			return a.settle(ctx, tx, e.outcome, step.Verdicts)
		}
		a.found.Start, a.listed, step.Wake = e.child, e.listed, noDeadline
	}
	return a.sleep(tx, step)
}

// sleep stores what was judged of a task that goes on waiting.
func (a *advance) sleep(tx *postgres.Tx, step Step) error {
	a.found.Status, a.found.Wake = a.task.Status, step.Wake
	if a.task.ClaimedBy != nil {
		a.found.ClaimedBy = *a.task.ClaimedBy
	}
	if a.task.DeadlineAt != nil {
		a.found.DeadlineAt = *a.task.DeadlineAt
	}
	if waitsForChild(&a.task.Task) {
		a.found.Child = childKey(&a.task.Task)
	}
	a.news = func() []notify.Message { return a.sleepNews(step.Verdicts) }
	return postgres.Sleep(tx, a.task, step.Verdicts, a.task.ClaimedBy != nil)
}

// settle ends the task, tells the parent and the tasks that wait for it, and ends the child that it waits for.
func (a *advance) settle(ctx context.Context, tx *postgres.Tx, o *postgres.Outcome, verdicts []postgres.Verdict) error {
	if a.task.Watched {
		if complete, err := postgres.FamilyIsComplete(ctx, tx, a.task.ID(), a.family); err != nil || !complete {
			return cmp.Or(err, errFamily)
		}
	}
	if waitsForChild(&a.task.Task) && o.By != toolpark.ByKernel {
		child, err := cancelChild(ctx, tx, a.task)
		if err != nil {
			return err
		}
		if child != nil {
			a.found.Nudge = append(a.found.Nudge, child)
		}
	}
	settled, err := postgres.Settle(tx, a.task, o, verdicts)
	if err != nil {
		return err
	}
	if a.parent != nil && !a.parent.Status.Settled() {
		postgres.TellParent(tx, a.task)
		a.found.Nudge = append(a.found.Nudge, a.parent)
	}
	waiters := a.family.Waiters(&a.task.Task)
	postgres.WakeWaiters(tx, waiters)
	a.found.Nudge = append(a.found.Nudge, waiters...)
	a.found.Over, a.found.Status = true, o.Status
	a.news = func() []notify.Message { return news(a.task, o, settled) }
	return nil
}

// cancelChild stages the end of the child that a settling call waits for; nil when it has settled.
func cancelChild(ctx context.Context, tx *postgres.Tx, task *postgres.LockedTask) (*toolpark.Task, error) {
	id := task.ID()
	id.Key = childKey(&task.Task)
	child, err := postgres.LockTask(ctx, tx, id)
	if err != nil || child.Status.Settled() {
		return nil, err
	}
	if child.CancelRequestedAt == nil {
		stageOwnCancel(tx, child)
	}
	return &child.Task, nil
}

// stageOwnCancel stages the cancel that reached the workflow, or that of the call which waits for it, and so has no
// row yet.
func stageOwnCancel(tx *postgres.Tx, task *postgres.LockedTask) {
	seq := postgres.Stage(tx, task, postgres.NewInput{Kind: toolpark.InputCancel})
	task.CancelRequestedAt = &task.Now
	task.Inputs = append(task.Inputs, toolpark.Input{
		Seq: seq, Generation: task.Generation, Kind: toolpark.InputCancel, StagedAt: task.Now,
	})
}

// sleepNews wakes those who wait for a verdict, and tells those who may take what is dispatched now.
func (a *advance) sleepNews(verdicts []postgres.Verdict) []notify.Message {
	var messages []notify.Message
	if len(verdicts) > 0 {
		messages = append(messages, notify.Message{Topic: notify.TaskTopic(a.task.ID())})
	}
	if a.dispatched {
		messages = append(messages, notify.Message{Topic: notify.RunTopic(a.task.RunID)})
		// Whom it waited at hears first that it left, and then perhaps that it is there for itself to take.
		note := notify.Gone(a.task.RunID, a.task.Key, a.task.Generation, string(toolpark.ByDecision))
		for _, executor := range a.unlisted {
			messages = append(messages, notify.Message{Topic: notify.InboxTopic(executor), Note: note})
		}
		messages = append(messages, arrived(a.task.RunID, a.task.Key, a.task.Generation, a.task.AddressedTo)...)
	}
	if child := a.found.Start; child != nil {
		messages = append(messages, notify.Message{Topic: notify.RunTopic(child.RunID)})
		messages = append(messages, arrived(child.RunID, child.Key, child.Generation, a.listed)...)
	}
	return messages
}

// news is who wants to hear of a settlement.
func news(task *postgres.LockedTask, o *postgres.Outcome, settled *postgres.Settled) []notify.Message {
	messages := []notify.Message{
		{Topic: notify.TaskTopic(task.ID())},
		{Topic: notify.RunTopic(task.RunID)},
	}
	if settled.RoundSettled {
		messages = append(messages, notify.Message{Topic: notify.RoundTopic(task.RunID, *task.Round)})
	}
	note := notify.Gone(task.RunID, task.Key, task.Generation, string(o.By))
	for _, executor := range settled.Listed {
		messages = append(messages, notify.Message{Topic: notify.InboxTopic(executor), Note: note})
	}
	return messages
}
