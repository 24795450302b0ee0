package park

import (
	"bytes"
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/approval"
	"github.com/toolpark/toolpark/internal/catalog"
	"github.com/toolpark/toolpark/internal/declaration"
	"github.com/toolpark/toolpark/internal/postgres"
	"github.com/toolpark/toolpark/internal/strictjson"
)

// Decision is what somebody decides about a call that waits for approval.
type Decision struct {
	Approve bool
	Reason  string         // a denial's; what exceeds toolpark.MaxDecisionReason is cut
	Digest  string         // of the input that the approver saw; empty: not said
	Input   jsontext.Value // what an approver puts in place of the call's own; nil: nothing
}

// kind is the input that a decision is staged as.
func (d Decision) kind() toolpark.InputKind {
	if d.Approve {
		return toolpark.InputApprove
	}
	return toolpark.InputDeny
}

// StageDecision stages a member's decision on a call that waits for one. The first decision that was staged before
// the hold ended stands; repeating it answers as before, and any other is not_awaiting_approval. So is a decision
// on a call that waits for none.
//
// Other refusals: not_authorized (an agent that may not decide), input_changed (the digest is not that of the
// input that waits), validation_failed (an edited input that the tool does not take), approval_denied (an edited
// input that a rule denies).
func (p *Park) StageDecision(ctx context.Context, m toolpark.Member, run *postgres.Run, key string, d Decision) (*Staged, error) {
	if m.Kind == toolpark.Agent && !m.MayDecide {
		return nil, toolpark.Errorf(toolpark.CodeNotAuthorized,
			"This agent may not decide; a person must, or an administrator lets it with may_decide.")
	}
	id := toolpark.TaskID{Account: run.AccountID, Run: run.ID, Key: key}
	if d.Input != nil {
		var err error
		if d.Input, err = p.edited(ctx, run, id, d.Input); err != nil {
			return nil, err
		}
	}
	bodyHash, err := d.hash()
	if err != nil {
		return nil, err
	}
	staged := &Staged{Asks: toolpark.NeedsApproval}
	if !d.Approve {
		staged.Asks = toolpark.Failed
	}
	err = p.DB.Tx(ctx, func(tx *postgres.Tx) error {
		var (
			before []postgres.Decision
			input  jsontext.Value
		)
		task, err := postgres.LockTask(ctx, tx, id, postgres.FindDecisions(id, &before), postgres.ReadInput(id, &input))
		if err != nil {
			return err
		}
		staged.Task = &task.Task
		digest := heldDigest(&task.Task, input)
		changed := d.Digest != "" && d.Digest != digest
		for _, b := range before {
			if b.Kind == d.kind() && bytes.Equal(b.BodyHash, bodyHash) && (b.Verdict == nil || b.Verdict.Code == "") && !changed {
				staged.Seq, staged.Verdict = b.Seq, b.Verdict
				return nil
			}
		}
		switch {
		case task.Status != toolpark.NeedsApproval:
			return NotAwaitingApproval(&task.Task)
		case !task.Now.Before(*task.DeadlineAt):
			return toolpark.Errorf(toolpark.CodeNotAwaitingApproval, "The time to decide was over at %s.", task.DeadlineAt)
		case changed:
			return toolpark.Errorf(toolpark.CodeInputChanged,
				"The call waits with another input than the one of input_digest; read it again, then decide.").At("/input_digest")
		case len(before) >= toolpark.MaxReportsPerClaim:
			return toolpark.Errorf(toolpark.CodeRateLimited, "%d decisions are staged for this call; wait for the verdict.", len(before))
		}
		body, err := d.encode(m, digest)
		if err != nil {
			return err
		}
		staged.Seq = postgres.Stage(tx, task, postgres.NewInput{Kind: d.kind(), ActorID: &m.ID, Body: body, BodyHash: bodyHash})
		return nil
	})
	return staged, err
}

// NotAwaitingApproval says what became of a call that waits for no decision any more, or never did.
func NotAwaitingApproval(task *toolpark.Task) *toolpark.Error {
	if task.Approval == nil || task.Approval.DecidedBy == nil {
		return toolpark.Errorf(toolpark.CodeNotAwaitingApproval, "The call waits for no decision: it is %s.", task.Status)
	}
	decided := "approved"
	if task.ErrorKey != nil && *task.ErrorKey == toolpark.ErrApprovalDenied {
		decided = "denied"
	}
	return toolpark.Errorf(toolpark.CodeNotAwaitingApproval, "The call was %s before, and that decision stands; the call is %s.",
		decided, task.Status)
}

// InputDigest is what an approver's decision is bound to: the SHA-256 of the canonical JSON of a call's input, its
// target and the name it is served under (in hexadecimal).
func InputDigest(task *toolpark.Task, input jsontext.Value) string {
	name := ""
	if task.ToolName != nil {
		name = *task.ToolName
	}
	return approval.Digest(input, targetID(task), name)
}

// heldDigest is the digest that a call shows, or showed, while it waits for a decision.
func heldDigest(task *toolpark.Task, input jsontext.Value) string {
	if task.Approval != nil {
		return task.Approval.InputDigest
	}
	return InputDigest(task, input)
}

// targetID names who would take a call, whatever it is called.
func targetID(task *toolpark.Task) string {
	if task.AddressedRole == nil {
		return kernelTarget
	}
	ids := make([]string, len(task.AddressedTo))
	for i, executor := range task.AddressedTo {
		ids[i] = executor.String()
	}
	slices.Sort(ids)
	return string(*task.AddressedRole) + " " + strings.Join(ids, " ")
}

// edited judges the input that an approver puts in place of a call's own: what the tool takes, and no rule denies.
func (p *Park) edited(ctx context.Context, run *postgres.Run, id toolpark.TaskID, raw jsontext.Value) (jsontext.Value, error) {
	invalid := func(failure *toolpark.TaskError) error {
		return toolpark.Errorf(toolpark.CodeValidationFailed, "%s: %s", failure.Key, failure.Detail).At("/input")
	}
	if raw.Kind() != jsontext.KindBeginObject { // a blank text or a quoted one is a provider's spelling, not an approver's
		return nil, toolpark.Errorf(toolpark.CodeValidationFailed, "The input must be a JSON object.").At("/input")
	}
	input, failure := declaration.ReadInput(raw)
	if failure != nil {
		return nil, invalid(failure)
	}
	task, err := p.DB.Task(ctx, id)
	if err != nil {
		return nil, err
	}
	if task.Status != toolpark.NeedsApproval {
		return input, nil // the lock decides, and tells what stands
	}
	_, frozen, err := p.asked(ctx, p.DB.Pool, id)
	if err != nil {
		return nil, err
	}
	if task.CallableName != nil { // what a client authored is checked by whoever serves it
		tool, ok := frozen.Tool(*task.CallableName)
		if !ok {
			return nil, toolpark.Errorf(toolpark.CodeInternal, "The call's tool is not declared.")
		}
		if failure := tool.CheckMapped(p.Schemas, input); failure != nil {
			return nil, invalid(failure)
		}
		if tool.Kernel != nil && tool.Kernel.Canonical == catalog.HumanAsk {
			if _, refusal := ReadQuestion(input); refusal != nil { // what the schema cannot say
				at, _ := refusal.Details["pointer"].(string)
				return nil, refusal.At("/input" + at)
			}
		}
	}
	policy, err := p.policy(ctx, p.DB.Pool, run)
	if err != nil {
		return nil, err
	}
	decided := policy.Decide(approvalCall(*task.ToolName, task.Origin, task.KernelTool, task.EffectProfile, input))
	if decided.Verdict == approval.Deny && decided.Origin == toolpark.ApprovedByRule {
		return nil, deniedBy("A rule of the run denies this input", decided).At("/input")
	}
	return input, nil
}

// deniedBy is the refusal of what a rule denies, with the rule's reason if it gives one.
func deniedBy(what string, d approval.Decision) *toolpark.Error {
	if d.Reason != "" {
		what += ": " + d.Reason
	}
	return toolpark.Errorf(toolpark.CodeApprovalDenied, "%s.", strings.TrimSuffix(what, "."))
}

// hash is what a decision is known by from another of its kind: approvals that let different inputs run are
// different decisions; denials are all alike.
func (d Decision) hash() ([]byte, error) {
	if d.Input == nil {
		return nil, nil
	}
	canonical, err := strictjson.Canonical(d.Input)
	return hash(canonical), err
}

// encode gives the body of a decision that is staged.
func (d Decision) encode(m toolpark.Member, digest string) ([]byte, error) {
	staged := decision{Origin: toolpark.DecidedByHuman, Digest: digest, Input: d.Input}
	if m.Kind == toolpark.Agent {
		staged.Origin = toolpark.DecidedByAgent
	}
	if !d.Approve {
		staged.Reason = strictjson.CutString(d.Reason, toolpark.MaxDecisionReason)
	}
	return json.Marshal(staged, jsontext.PreserveRawStrings(true))
}

// decision is what a staged approval or denial carries.
type decision struct {
	Origin string         `json:"origin"`          // who decided: human, agent
	Digest string         `json:"input_digest"`    // of the call as it waited
	Reason string         `json:"reason,omitzero"` // a denial's, bounded
	Input  jsontext.Value `json:"input,omitzero"`  // what the approver put in place of the call's own
}

// decide judges a decision on a call that waits for one.
func (j *judgement) decide(in toolpark.Input) {
	var d decision
	if err := json.Unmarshal(in.Body, &d); err != nil { // it was written by us
		j.verdict(in, toolpark.CodeInternal, "the decision cannot be read")
		return
	}
	decided := toolpark.Approval{
		Origin: d.Origin, DecidedBy: in.ActorID, DecidedAt: in.StagedAt, InputDigest: d.Digest, Reason: d.Reason,
		Edited: d.Input != nil,
	}
	j.verdict(in, "", "")
	if in.Kind == toolpark.InputDeny {
		j.settle(postgres.Outcome{
			Status: toolpark.Failed, By: toolpark.ByDecision, Approval: &decided,
			Error: &toolpark.TaskError{Key: toolpark.ErrApprovalDenied, Detail: declined(decided)},
		})
		return
	}
	to, gone := j.evidence.Dispatchable(j.task)
	if gone != nil {
		j.settle(postgres.Outcome{Status: toolpark.Failed, By: toolpark.ByDecision, Approval: &decided, Error: gone})
		return
	}
	j.step.Approved = &Approved{Input: d.Input}
	dispatched := j.now
	deadline := dispatched.Add(j.task.Timeout())
	j.task.Approval, j.task.AddressedTo = &decided, to
	j.task.DispatchedAt, j.task.DeadlineAt = &dispatched, &deadline
	j.task.Status = toolpark.Dispatched
	if j.task.KernelTool != nil {
		j.task.Status = toolpark.Running
	}
}

// declined is what a model reads of a denial. The reason is somebody's words: it is quoted, so that nothing in
// it reads as anything else.
func declined(a toolpark.Approval) string {
	who := "a person"
	if a.Origin == toolpark.DecidedByAgent {
		who = "an agent that may decide"
	}
	if a.Reason == "" {
		return "declined by " + who
	}
	return fmt.Sprintf("declined by %s, with the words %s", who, quoted(a.Reason))
}

// quoted is somebody's words between quotes, in at most maxQuoted bytes however many of them need an escape: a cut
// behind the quotes would leave them open.
func quoted(words string) string {
	for {
		quote := strconv.Quote(words)
		if len(quote) <= maxQuoted {
			return quote
		}
		words = strictjson.CutString(words, len(words)*maxQuoted/len(quote))
	}
}

const maxQuoted = 2 * toolpark.MaxDecisionReason
