package park

import (
	"cmp"
	"context"
	"time"
	"uuid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/notify"
	"github.com/toolpark/toolpark/internal/postgres"
)

// Claim is the right to report on a task until its deadline.
type Claim struct {
	Token      string
	DeadlineAt time.Time
}

// Claim gives a task to an executor, once per generation, ever. Claiming is the fetch: the answer
// holds the task's input. The same executor repeating the claimKey of its live claim gets the same
// grant with the deadline untouched, so a lost answer loses nothing.
//
// Refusals, the first that applies: not_addressed_here, not_claimable_kind, task_not_claimable,
// already_claimed, not_eligible.
func (p *Park) Claim(ctx context.Context, e toolpark.Executor, id toolpark.TaskID, claimKey string) (*postgres.InboxRow, Claim, error) {
	var (
		row    postgres.InboxRow
		claim  Claim
		losers []uuid.UUID
	)
	err := p.DB.Tx(ctx, func(tx *postgres.Tx) error {
		var admits bool
		task, err := postgres.LockTask(ctx, tx, id, postgres.Admits(id, e.ID, &admits))
		if err != nil {
			return err
		}
		if task.Status == toolpark.NeedsApproval && e.Kind == toolpark.AgentApplication {
			if lists, err := postgres.Lists(ctx, tx, id, e.ID); err != nil || lists {
				return cmp.Or(err, error(toolpark.Errorf(toolpark.CodeNotClaimableKind, "An approval is decided by a member, not claimed.")))
			}
		}
		if err := claimable(task, e.ID); err != nil {
			return err
		}
		if claim.Token = p.Tokens.repeated(&task.Task, e.ID, claimKey); claim.Token == "" {
			if err := grantable(task, admits); err != nil {
				return err
			}
			claim.Token = p.Tokens.fresh(&task.Task, e.ID, claimKey)
			postgres.Grant(tx, task, e.ID, tokenHash(claim.Token))
			losers = task.AddressedTo
		}
		claim.DeadlineAt = *task.DeadlineAt
		postgres.ReadInboxRow(tx, id, &row)
		return nil
	})
	if err != nil {
		return nil, Claim{}, err
	}
	for _, loser := range losers {
		if loser != e.ID {
			p.Hub.Publish(notify.Message{Topic: notify.InboxTopic(loser)})
		}
	}
	return &row, claim, nil
}

// claimable judges everything about a claim that the locked row tells, up to who holds it.
func claimable(task *postgres.LockedTask, executor uuid.UUID) error {
	switch {
	case !task.Addresses(executor):
		return notAddressedHere()
	case task.Kind != toolpark.KindTool:
		return toolpark.Errorf(toolpark.CodeNotClaimableKind, "A task of kind %s is answered, not claimed.", task.Kind)
	case task.Status.Settled():
		return toolpark.Errorf(toolpark.CodeTaskNotClaimable, "The task has settled: it is %s.", task.Status)
	case task.Status != toolpark.Dispatched:
		return toolpark.Errorf(toolpark.CodeTaskNotClaimable, "The task is not parked for an executor: it is %s.", task.Status)
	case task.CancelRequestedAt != nil:
		return toolpark.Errorf(toolpark.CodeTaskNotClaimable, "The task is being canceled.")
	case !task.Now.Before(*task.DeadlineAt):
		return toolpark.Errorf(toolpark.CodeTaskNotClaimable, "The task's deadline is over.")
	}
	return nil
}

// grantable judges a claim that is no repetition: by who holds the task, and by the executor itself.
func grantable(task *postgres.LockedTask, admits bool) error {
	switch {
	case task.ClaimedBy != nil:
		return toolpark.Errorf(toolpark.CodeAlreadyClaimed, "The task has been claimed.")
	case !admits:
		return toolpark.Errorf(toolpark.CodeNotEligible,
			"This executor may not take the task: it is shutting down, or its scope does not admit who asks.")
	}
	return nil
}

// ClaimState tells whether the token holds a live claim, and until when. Any other token reads as a claim
// that is over.
func (p *Park) ClaimState(ctx context.Context, e toolpark.Executor, id toolpark.TaskID, token string) (active bool, deadline *time.Time, err error) {
	task, live, err := p.DB.TaskLive(ctx, id)
	if err != nil {
		return false, nil, err
	}
	if !task.Addresses(e.ID) {
		return false, nil, notAddressedHere()
	}
	if claimant(task, e.ID, token) != nil {
		return false, nil, nil
	}
	return live, task.DeadlineAt, nil
}

func notAddressedHere() error {
	return toolpark.Errorf(toolpark.CodeNotAddressedHere, "This task is not addressed to this executor.")
}

func claimant(task *toolpark.Task, executor uuid.UUID, token string) error {
	if task.ClaimedBy == nil || *task.ClaimedBy != executor || !holds(task, tokenHash(token)) {
		return toolpark.Errorf(toolpark.CodeNotClaimant, "This token does not hold the task's claim.")
	}
	return nil
}

// Extend moves the deadline of a live claim to timeout from now, and never to an earlier time.
//
// Refusals: not_claimant, not_extendable (settled, being canceled, or past its deadline),
// extension_too_long (over the announced timeout or an hour, whichever is smaller).
func (p *Park) Extend(ctx context.Context, e toolpark.Executor, id toolpark.TaskID, token string, timeout time.Duration) (*postgres.InboxRow, Claim, error) {
	var row postgres.InboxRow
	claim := Claim{Token: token}
	moved := false
	err := p.DB.Tx(ctx, func(tx *postgres.Tx) error {
		task, err := postgres.LockTask(ctx, tx, id)
		if err != nil {
			return err
		}
		if err := extendable(task, e.ID, token, timeout); err != nil {
			return err
		}
		if deadline := task.Now.Add(timeout); deadline.After(*task.DeadlineAt) {
			postgres.Extend(tx, task, deadline)
			moved = true
		}
		claim.DeadlineAt = *task.DeadlineAt
		postgres.ReadInboxRow(tx, id, &row)
		return nil
	})
	if err != nil {
		return nil, Claim{}, err
	}
	if moved {
		p.Hub.Publish(notify.Message{Topic: notify.RunTopic(id.Run)}, notify.Message{Topic: notify.TaskTopic(id)})
	}
	return &row, claim, nil
}

func extendable(task *postgres.LockedTask, executor uuid.UUID, token string, timeout time.Duration) error {
	if err := claimant(&task.Task, executor, token); err != nil {
		return err
	}
	if task.Status.Settled() || task.CancelRequestedAt != nil || !task.Now.Before(*task.DeadlineAt) {
		return toolpark.Errorf(toolpark.CodeNotExtendable,
			"The claim is over: the task is %s, its deadline was %s.", task.Status, task.DeadlineAt.Format(time.RFC3339Nano))
	}
	if limit := task.LongestExtension(); timeout > limit {
		return toolpark.Errorf(toolpark.CodeExtensionTooLong,
			"One extension of this task is at most %d ms; extend again later.", limit.Milliseconds())
	}
	return nil
}

// Progress keeps a frame of a live claim for those who watch the run. It tells whether the frame was
// kept: frames that come too fast are dropped.
func (p *Park) Progress(ctx context.Context, e toolpark.Executor, id toolpark.TaskID, token string, frame []byte) (bool, error) {
	task, err := p.DB.Task(ctx, id)
	if err != nil {
		return false, err
	}
	if err := claimant(task, e.ID, token); err != nil {
		return false, err
	}
	if task.SettledAt != nil {
		return false, toolpark.Errorf(toolpark.CodeNotClaimant, "The claim is over: the task is %s.", task.Status)
	}
	kept, err := p.DB.Progress(ctx, id, task.Generation, frame)
	if kept {
		p.Hub.Publish(notify.Message{Topic: notify.ProgressTopic(id.Run)})
	}
	return kept, err
}
