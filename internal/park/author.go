package park

import (
	"bytes"
	"context"
	"encoding/json/jsontext"
	"uuid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/catalog"
	"github.com/toolpark/toolpark/internal/declaration"
	"github.com/toolpark/toolpark/internal/notify"
	"github.com/toolpark/toolpark/internal/postgres"
)

// Idempotency is a request's Idempotency-Key. An empty key means that the request has none.
type Idempotency struct {
	Key  string
	Hash []byte // of method, path and body
}

// Reply renders the answer that is kept with an Idempotency-Key.
type Reply func(*Authored) (jsontext.Value, error)

// Authored is what one round or one append wrote, in the order it was asked for.
type Authored struct {
	Round *postgres.NewRound // nil for the append door
	Tasks []postgres.NewTask

	run *postgres.LockedRun
}

// Live are the tasks that need a workflow: all but those that failed at birth.
func (a *Authored) Live() []*toolpark.Task {
	var live []*toolpark.Task
	for i := range a.Tasks {
		t := &a.Tasks[i]
		if t.Status.Settled() {
			continue
		}
		live = append(live, startable(a.run, t))
	}
	return live
}

// startable is what a task's workflow is started with.
func startable(run *postgres.LockedRun, t *postgres.NewTask) *toolpark.Task {
	task := &toolpark.Task{
		AccountID: run.AccountID, RunID: run.ID, Key: t.Key, Generation: 1, Status: t.Status, ToolName: t.ToolName,
		Kind: t.Kind, WaitsFor: t.WaitsFor, KernelTool: t.KernelTool, TargetName: t.TargetName, AddressedTo: t.AddressedTo, TimeoutMS: t.TimeoutMS,
		BeganAt: run.Now,
	}
	deadline := run.Now.Add(t.Clock())
	task.DeadlineAt = &deadline
	return task
}

// author writes tasks in one transaction: the Idempotency-Key, the run's lock with the reads, what write
// makes of the run, and the reply. It returns the replay of an earlier request instead, if there was one.
func (p *Park) author(
	ctx context.Context, m toolpark.Member, run uuid.UUID, idem Idempotency, reply Reply,
	write func(*postgres.Tx, *Authored) error, reads ...postgres.Read,
) (*Authored, *postgres.Replay, error) {
	var (
		authored *Authored
		replay   *postgres.Replay
	)
	err := p.DB.Tx(ctx, func(tx *postgres.Tx) error {
		var err error
		if replay, err = postgres.ClaimKey(ctx, tx, m.Account, m.ID, idem.Key, idem.Hash); replay != nil || err != nil {
			return err
		}
		authored = &Authored{}
		if authored.run, err = postgres.LockRun(ctx, tx, m.Account, run, reads...); err != nil {
			return err
		}
		if err := open(&authored.run.Run); err != nil {
			return err
		}
		if err := write(tx, authored); err != nil {
			return err
		}
		if err := authored.insert(ctx, tx); err != nil {
			return err
		}
		if idem.Key == "" {
			return nil
		}
		body, err := reply(authored)
		if err != nil {
			return err
		}
		postgres.StoreReply(tx, m.Account, m.ID, idem.Key, 201, body, nil)
		return nil
	})
	if err != nil || replay != nil {
		return nil, replay, err
	}
	p.Hub.Publish(authored.messages()...)
	return authored, nil, nil
}

func (a *Authored) insert(ctx context.Context, tx *postgres.Tx) error {
	if err := listForPeople(ctx, tx, &a.run.Run, a.Tasks); err != nil {
		return err
	}
	if a.Round == nil {
		return postgres.InsertSteps(tx, a.run, a.Tasks)
	}
	return postgres.InsertRound(tx, a.run, a.Round, a.Tasks)
}

// messages pushes the addressees and wakes those who watch the run.
func (a *Authored) messages() []notify.Message {
	messages := []notify.Message{{Topic: notify.RunTopic(a.run.ID)}}
	for i := range a.Tasks {
		messages = append(messages, arrived(a.run.ID, a.Tasks[i].Key, 1, a.Tasks[i].Listed())...)
	}
	return messages
}

// arrived tells executors of a task that their inboxes list now.
func arrived(run uuid.UUID, key string, generation int, executors []uuid.UUID) []notify.Message {
	messages := make([]notify.Message, len(executors))
	for i, executor := range executors {
		messages[i] = notify.Message{Topic: notify.InboxTopic(executor), Note: notify.Arrived(run, key, generation)}
	}
	return messages
}

// dispatch addresses a task and lets its clock start: it is parked for whoever may claim it.
func dispatch(t *postgres.NewTask, to []postgres.Served, timeoutMS *int64) {
	first := to[0]
	role, effect, target := first.Kind, first.EffectProfile, first.DisplayName
	shortest := first.TimeoutMS
	t.OutputSchemaHash = first.OutputSchemaHash
	t.AddressedTo = nil
	for i, s := range to {
		t.AddressedTo = append(t.AddressedTo, s.ExecutorID)
		if i == 0 {
			continue
		}
		// A pool is judged by its strictest effect profile and its shortest timeout.
		effect = effect.Stricter(s.EffectProfile)
		if s.TimeoutMS != nil && (shortest == nil || *s.TimeoutMS < *shortest) {
			shortest = s.TimeoutMS
		}
		target = "tools providers"
		if !bytes.Equal(s.OutputSchemaHash, t.OutputSchemaHash) {
			t.OutputSchemaHash = nil // nobody is held to what another one promised
		}
	}
	t.AnnouncedMS = shortest
	if timeoutMS == nil {
		timeoutMS = shortest
	}
	if timeoutMS == nil {
		kernel := toolpark.DefaultToolTimeout.Milliseconds()
		timeoutMS = &kernel
	}
	t.Status = toolpark.Dispatched
	t.AddressedRole, t.EffectProfile, t.TargetName, t.TimeoutMS = &role, &effect, &target, timeoutMS
}

// kernelTarget is what an operator reads of who a kernel tool's call is for.
const kernelTarget = "kernel"

// runInKernel lets a task's clock start that nobody claims: the kernel works it out.
func runInKernel(t *postgres.NewTask, tool *declaration.Tool) {
	entry, ok := catalog.Find(tool.Kernel.Canonical)
	if !ok { // frozen by a version that had it
		fail(t, toolpark.TaskError{Key: toolpark.ErrToolNotServed, Detail: tool.Kernel.Canonical})
		return
	}
	target, ms := kernelTarget, entry.Timeout.Milliseconds()
	if entry.Canonical == catalog.GraphWait {
		target = waitedFor(t.Input)
		t.WaitsFor = &target
	}
	t.Status, t.TargetName, t.TimeoutMS = toolpark.Running, &target, &ms
	t.EffectProfile, t.KernelTool = &entry.EffectProfile, &entry.Canonical
}

// unrouted is who takes a bare name: the declaring agent's own application if it announced the name,
// else every tools provider that did.
func unrouted(served []postgres.Served) []postgres.Served {
	var pool []postgres.Served
	for _, s := range served {
		if s.Kind == toolpark.AgentApplication {
			return []postgres.Served{s}
		}
		pool = append(pool, s)
	}
	return pool
}

// fail lets a task be born already failed: the one case without a workflow.
func fail(t *postgres.NewTask, e toolpark.TaskError) {
	t.Status = toolpark.Failed
	t.ErrorKey = &e.Key
	if e.Detail != "" {
		t.ErrorDetail = &e.Detail
	}
	t.AddressedRole, t.AddressedTo = nil, nil
}
