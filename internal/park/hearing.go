package park

import (
	"context"
	"errors"
	"uuid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/envelope"
	"github.com/toolpark/toolpark/internal/postgres"
)

// hearing looks up what Judge asks for, in the transaction of one Advance.
type hearing struct {
	ctx    context.Context
	park   *Park
	tx     *postgres.Tx
	target *toolpark.Task // the task that is waited for; nil for none
	failed error          // the database's, not the input's: the whole step is tried again
}

func (h *hearing) evidence() Evidence {
	return Evidence{Report: h.report, Dispatchable: h.dispatchable}
}

func (h *hearing) again(err error) *toolpark.Error {
	h.failed = err
	return toolpark.Errorf(toolpark.CodeUnavailable, "try again").Because(err)
}

// report judges what somebody reported: an executor, whoever answered an ask, or a settled child.
func (h *hearing) report(task *toolpark.Task, in toolpark.Input) (postgres.Outcome, *toolpark.Error) {
	if in.Kind == toolpark.InputChild {
		id := task.ID()
		id.Key = childKey(task)
		o, err := postgres.ChildOutcome(h.ctx, h.tx, id)
		if err != nil {
			return postgres.Outcome{}, h.again(err)
		}
		return o, nil
	}
	if in.Kind == toolpark.InputTarget {
		o, err := ended(h.ctx, h.tx, h.target)
		if err != nil {
			return postgres.Outcome{}, h.again(err)
		}
		return *o, nil
	}
	fields, err := decodeReport(in.Body)
	if err != nil {
		return postgres.Outcome{}, toolpark.Errorf(toolpark.CodeInvalidContent, "the report is not JSON").Because(err)
	}
	r, err := parseReport(fields)
	if refusal, ok := errors.AsType[*toolpark.Error](err); ok {
		if refusal.Code == toolpark.CodeResultUnstorable && in.Kind == toolpark.InputCommit {
			return unstorable(refusal), nil
		}
		return postgres.Outcome{}, refusal
	}
	if in.Kind == toolpark.InputResolution {
		return h.answer(task, in, r)
	}
	output, err := h.park.outputSchema(h.ctx, h.tx, task)
	if err != nil {
		return postgres.Outcome{}, h.again(err)
	}
	return outcome(r, output), nil
}

// answer judges an answer to an ask, as it was judged before it was staged.
func (h *hearing) answer(task *toolpark.Task, in toolpark.Input, r envelope.Report) (postgres.Outcome, *toolpark.Error) {
	asked, err := postgres.FindAsked(h.ctx, h.tx, task.ID())
	if err != nil {
		return postgres.Outcome{}, h.again(err)
	}
	if refusal, ok := errors.AsType[*toolpark.Error](chosen(asked.Input, r)); ok {
		return postgres.Outcome{}, refusal
	}
	o := outcome(r, nil)
	o.By, o.AnsweredBy = toolpark.ByResolution, in.ActorID
	return o, nil
}

// dispatchable is the evidence of who may still take a call that is approved now.
func (h *hearing) dispatchable(task *toolpark.Task) ([]uuid.UUID, *toolpark.TaskError) {
	run, err := postgres.FindRun(h.ctx, h.tx, task.AccountID, task.RunID)
	if err == nil {
		var (
			to   []uuid.UUID
			gone *toolpark.TaskError
		)
		if to, gone, err = dispatchable(h.ctx, h.tx, run, task); err == nil {
			return to, gone
		}
	}
	h.failed = err
	return nil, &toolpark.TaskError{Key: toolpark.ErrToolNotServed}
}

// dispatchable tells which of those that a call is addressed to are still eligible and still serve it, or why
// none is. The kernel's own tools always are.
func dispatchable(ctx context.Context, tx *postgres.Tx, run *postgres.Run, task *toolpark.Task) ([]uuid.UUID, *toolpark.TaskError, error) {
	if task.KernelTool != nil {
		return task.AddressedTo, nil, nil
	}
	if *task.AddressedRole != toolpark.Runner {
		found, err := postgres.Resolve(ctx, tx, run, nil, []string{*task.ToolName})
		if err != nil {
			return nil, nil, err
		}
		var to []uuid.UUID
		for _, served := range found.Names[*task.ToolName] {
			if task.Addresses(served.ExecutorID) {
				to = append(to, served.ExecutorID)
			}
		}
		if to == nil {
			return nil, &toolpark.TaskError{Key: toolpark.ErrToolNotServed, Detail: *task.ToolName}, nil
		}
		return to, nil, nil
	}
	route := postgres.Route{ExecutorID: task.AddressedTo[0], Name: *task.ToolName}
	found, err := postgres.Resolve(ctx, tx, run, []postgres.Route{route}, nil)
	if err != nil {
		return nil, nil, err
	}
	if _, serves := found.Routes[route]; serves {
		return task.AddressedTo, nil, nil
	}
	if !found.Eligible[route.ExecutorID] {
		return nil, &toolpark.TaskError{Key: toolpark.ErrRunnerNotEligible, Detail: "runner " + route.ExecutorID.String()}, nil
	}
	return nil, &toolpark.TaskError{Key: toolpark.ErrToolNotServed, Detail: route.Name}, nil
}
