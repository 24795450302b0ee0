package park

import (
	"context"
	"slices"
	"uuid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/approval"
	"github.com/toolpark/toolpark/internal/catalog"
	"github.com/toolpark/toolpark/internal/declaration"
	"github.com/toolpark/toolpark/internal/postgres"
)

// policy is what decides in a run whether a call needs approval: its frozen mode and rules.
func (p *Park) policy(ctx context.Context, q postgres.Querier, run *postgres.Run) (approval.Policy, error) {
	frozen, err := p.context(ctx, q, run.AccountID, run.ContextHash)
	if err != nil {
		return approval.Policy{}, err
	}
	return approval.Policy{Mode: deref(run.ApprovalMode), Rules: frozen.ApprovalRules}, nil
}

// approvalCall is a call as the stage of approval sees it. What only reads of the kernel's own, and the wrapper of
// another call, which crosses the stage itself, are exempt.
func approvalCall(tool string, origin toolpark.Origin, kernelTool *string, effect *toolpark.EffectProfile, input []byte) approval.Call {
	return approval.Call{Tool: tool, Origin: origin, Input: input, Exempt: Exempt(kernelTool, effect)}
}

// Exempt tells whether a call is the kernel's own and needs a rule to be stopped. Nil names no kernel tool.
func Exempt(kernelTool *string, effect *toolpark.EffectProfile) bool {
	return kernelTool != nil && (*kernelTool == catalog.ToolsCall || effect == nil || effect.Kind != toolpark.EffectWrite)
}

// decideAll lets a round's calls cross the stage of approval, before any lock is taken. A call that is born failed
// has none to cross.
func decideAll(policy approval.Policy, admitted []declaration.Admitted) []approval.Decision {
	decisions := make([]approval.Decision, len(admitted))
	for i := range admitted {
		a := &admitted[i]
		if a.Failure == nil {
			name, kernelTool, effect := stageName(a.Tool)
			decisions[i] = policy.Decide(approvalCall(name, toolpark.OriginModel, kernelTool, effect, a.Input))
		}
	}
	return decisions
}

// stageName is what rules call a tool: its wire name, or the name that it is served under.
func stageName(tool *declaration.Tool) (name string, kernelTool *string, effect *toolpark.EffectProfile) {
	switch {
	case tool.Kernel != nil:
		if entry, ok := catalog.Find(tool.Kernel.Canonical); ok {
			effect = &entry.EffectProfile
		}
		return tool.Kernel.Name, &tool.Kernel.Canonical, effect
	case tool.Route != nil:
		return tool.Route.ToolName, nil, nil
	default:
		return tool.Name, nil, nil
	}
}

// cross lets a task that is about to be dispatched cross the stage of approval as was decided: it is dispatched,
// or parked for somebody who may decide, or refused.
func cross(t *postgres.NewTask, run *postgres.LockedRun, d approval.Decision) {
	if t.Status.Settled() {
		return
	}
	if d.Verdict == approval.Deny || d.Verdict == approval.Allow && d.Origin == toolpark.ApprovedByRule {
		t.Approval = &toolpark.Approval{Origin: d.Origin, DecidedAt: run.Now, Reason: d.Reason}
	}
	switch d.Verdict {
	case approval.Allow:
	case approval.Ask:
		hold := d.Hold.Milliseconds()
		t.Status, t.HoldMS = toolpark.NeedsApproval, &hold
	default: // what nobody has decided about is denied, too
		fail(t, toolpark.TaskError{Key: toolpark.ErrApprovalDenied, Detail: d.Reason})
	}
}

// listForPeople has what waits for a person listed by the application of the run's agent. A question is addressed
// to it, too: it may answer. The run of a human has none.
func listForPeople(ctx context.Context, q postgres.Querier, run *postgres.Run, tasks []postgres.NewTask) error {
	waits := slices.ContainsFunc(tasks, func(t postgres.NewTask) bool { return t.Status.AwaitsPerson() })
	if !waits || run.AgentID == nil {
		return nil
	}
	application, err := postgres.ApplicationOf(ctx, q, run.AccountID, *run.AgentID)
	role := toolpark.AgentApplication
	for i := range tasks {
		t := &tasks[i]
		t.Application = &application
		if t.Kind == toolpark.KindAsk {
			t.AddressedRole, t.AddressedTo = &role, []uuid.UUID{application}
		}
	}
	return err
}
