package park

import (
	"context"
	"errors"
	"time"
	"uuid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/notify"
	"github.com/toolpark/toolpark/internal/postgres"
)

// Advanced is what one look at a task found. It holds ids and states only: it goes into the workflow's
// history.
type Advanced struct {
	Over       bool            // nothing is left to do for this generation
	Status     toolpark.Status // where the task stands
	Wake       time.Duration   // look again after this long
	ClaimedBy  uuid.UUID       // who holds the claim; the zero UUID when nobody does
	DeadlineAt time.Time       // to be shown; never compared with workflow time
}

// Advance is the one step of a task's workflow: it judges every staged input in order, looks at the
// clock, and stores what follows. Calling it again, or too often, changes nothing. canceled says that
// the workflow itself was asked to cancel, from the Temporal Web UI or CLI: that is one more input.
func (p *Park) Advance(ctx context.Context, id toolpark.TaskID, generation int, canceled bool) (Advanced, error) {
	var (
		advanced Advanced
		messages func() []notify.Message // made of what the commit tells
	)
	err := p.DB.Tx(ctx, func(tx *postgres.Tx) error {
		task, err := postgres.LockTask(ctx, tx, id)
		if refusal, ok := errors.AsType[*toolpark.Error](err); ok && refusal.Code == toolpark.CodeNotFound {
			advanced = Advanced{Over: true} // a restored database may not know this task
			return nil
		}
		if err != nil {
			return err
		}
		if task.Generation != generation || task.Status.Settled() {
			advanced = Advanced{Over: true, Status: task.Status}
			return nil
		}
		if canceled && task.CancelRequestedAt == nil {
			stageOwnCancel(tx, task)
		}
		report, failed := p.reporter(ctx, tx)
		step := Judge(&task.Task, task.Now, task.Inputs, report)
		if *failed != nil {
			return *failed
		}
		if step.Outcome == nil {
			advanced = asleep(task, step.Wake)
			messages = func() []notify.Message { return told(task, step.Verdicts) }
			return postgres.Sleep(tx, task, step.Verdicts, task.ClaimedBy != nil)
		}
		settled, err := postgres.Settle(tx, task, step.Outcome, step.Verdicts)
		advanced = Advanced{Over: true, Status: step.Outcome.Status}
		messages = func() []notify.Message { return news(task, step.Outcome, settled) }
		return err
	})
	if err != nil {
		return Advanced{}, err
	}
	if messages != nil {
		p.Hub.Publish(messages()...)
	}
	return advanced, nil
}

// stageOwnCancel stages the cancel that reached the workflow directly and so has no row yet.
func stageOwnCancel(tx *postgres.Tx, task *postgres.LockedTask) {
	seq := postgres.Stage(tx, task, postgres.NewInput{Kind: toolpark.InputCancel})
	task.Inputs = append(task.Inputs, toolpark.Input{
		Seq: seq, Generation: task.Generation, Kind: toolpark.InputCancel, StagedAt: task.Now,
	})
}

func asleep(task *postgres.LockedTask, wake time.Duration) Advanced {
	a := Advanced{Status: task.Status, Wake: wake}
	if task.ClaimedBy != nil {
		a.ClaimedBy = *task.ClaimedBy
	}
	if task.DeadlineAt != nil {
		a.DeadlineAt = *task.DeadlineAt
	}
	return a
}

// told wakes those who wait for a verdict.
func told(task *postgres.LockedTask, verdicts []postgres.Verdict) []notify.Message {
	if len(verdicts) == 0 {
		return nil
	}
	return []notify.Message{{Topic: notify.TaskTopic(task.ID())}}
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
