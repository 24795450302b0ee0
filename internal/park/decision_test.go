package park_test

import (
	"testing"
	"time"
	"uuid"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/park"
)

const holdTimeout = time.Minute

// held is a call of generation 2 that waits for approval until the deadline.
func held() *toolpark.Task {
	ms, tool, role := holdTimeout.Milliseconds(), "bash", toolpark.Runner
	return &toolpark.Task{
		Generation: 2, Status: toolpark.NeedsApproval, DeadlineAt: new(deadline), TimeoutMS: &ms, ToolName: &tool,
		AddressedRole: &role, AddressedTo: []uuid.UUID{uuid.NewV7()},
	}
}

var decider = uuid.NewV7()

func decision(kind toolpark.InputKind, body string) func(time.Duration) toolpark.Input {
	return func(d time.Duration) toolpark.Input {
		return toolpark.Input{Kind: kind, StagedAt: at(d), Generation: 2, ActorID: &decider, Body: []byte(body)}
	}
}

var (
	approve  = decision(toolpark.InputApprove, `{"origin":"human"}`)
	edit     = decision(toolpark.InputApprove, `{"origin":"human","input":{"n":1.50}}`)
	deny     = decision(toolpark.InputDeny, `{"origin":"human","reason":"no"}`)
	byAgent  = decision(toolpark.InputDeny, `{"origin":"agent"}`)
	stop     = decision(toolpark.InputCancel, ``)
	tampered = decision(toolpark.InputApprove, `{`)
)

func TestJudgeDecisions(t *testing.T) {
	t.Parallel()
	const (
		accepted = toolpark.Code("")
		second   = time.Second
		not      = toolpark.CodeNotAwaitingApproval
	)
	earlier := func(in toolpark.Input) toolpark.Input {
		in.Generation = 1
		return in
	}
	gone := func(task *toolpark.Task) { task.ToolName = new("gone") }
	kernel := func(task *toolpark.Task) {
		task.KernelTool, task.AddressedRole, task.AddressedTo = new("nexus.notes.write"), nil, nil
	}
	for _, test := range []struct {
		name     string
		task     func(*toolpark.Task)
		now      time.Duration
		inputs   []toolpark.Input
		status   toolpark.Status
		errorKey string
		detail   string
		by       toolpark.SettledBy // of what settled
		decided  bool               // a decision stands on the task, or on its outcome
		verdicts []toolpark.Code
	}{
		{name: "nothing staged", now: -second, status: toolpark.NeedsApproval},
		{name: "the last moment of the hold", now: -time.Nanosecond, status: toolpark.NeedsApproval},
		{name: "at the end of the hold", now: 0, status: toolpark.TimedOut, errorKey: toolpark.ErrApprovalExpired, by: toolpark.ByExpiry},
		{
			name: "an approval", now: -second, inputs: []toolpark.Input{approve(-2 * second)},
			status: toolpark.Dispatched, decided: true, verdicts: []toolpark.Code{accepted},
		},
		{
			name: "an approval in time, judged late", now: time.Hour, inputs: []toolpark.Input{approve(-time.Nanosecond)},
			status: toolpark.Dispatched, decided: true, verdicts: []toolpark.Code{accepted},
		},
		{
			name: "a denial in time, judged late", now: time.Hour, inputs: []toolpark.Input{deny(-time.Nanosecond)},
			status: toolpark.Failed, errorKey: toolpark.ErrApprovalDenied, detail: `declined by a person, with the words "no"`,
			by: toolpark.ByDecision, decided: true, verdicts: []toolpark.Code{accepted},
		},
		{
			name: "an agent's denial", now: -second, inputs: []toolpark.Input{byAgent(-second)},
			status: toolpark.Failed, errorKey: toolpark.ErrApprovalDenied, detail: "declined by an agent that may decide",
			by: toolpark.ByDecision, decided: true, verdicts: []toolpark.Code{accepted},
		},
		{
			name: "an approval at the end of the hold", now: 0, inputs: []toolpark.Input{approve(0)},
			status: toolpark.TimedOut, errorKey: toolpark.ErrApprovalExpired, by: toolpark.ByExpiry, verdicts: []toolpark.Code{not},
		},
		{
			name: "a denial after the hold", now: second, inputs: []toolpark.Input{deny(second)},
			status: toolpark.TimedOut, errorKey: toolpark.ErrApprovalExpired, by: toolpark.ByExpiry, verdicts: []toolpark.Code{not},
		},
		{
			name: "one in time and one late, judged together", now: time.Hour, inputs: []toolpark.Input{approve(-1), deny(1)},
			status: toolpark.Dispatched, decided: true, verdicts: []toolpark.Code{accepted, not},
		},
		{
			name: "an approval, then a denial", now: -second, inputs: []toolpark.Input{approve(-2 * second), deny(-second)},
			status: toolpark.Dispatched, decided: true, verdicts: []toolpark.Code{accepted, not},
		},
		{
			name: "a denial, then an approval", now: -second, inputs: []toolpark.Input{deny(-2 * second), approve(-second)},
			status: toolpark.Failed, errorKey: toolpark.ErrApprovalDenied, detail: `declined by a person, with the words "no"`,
			by: toolpark.ByDecision, decided: true, verdicts: []toolpark.Code{accepted, not},
		},
		{
			name: "two approvals that differ", now: -second, inputs: []toolpark.Input{edit(-2 * second), approve(-second)},
			status: toolpark.Dispatched, decided: true, verdicts: []toolpark.Code{accepted, not},
		},
		{
			name: "an approval, then a cancel", now: -second, inputs: []toolpark.Input{approve(-2 * second), stop(-second)},
			status: toolpark.Canceled, errorKey: toolpark.ErrTaskCanceled, by: toolpark.ByCancel, decided: true,
			verdicts: []toolpark.Code{accepted, accepted},
		},
		{
			name: "an approval in time, then a cancel after the hold, judged together", now: time.Hour,
			inputs: []toolpark.Input{approve(-second), stop(second)},
			status: toolpark.Canceled, errorKey: toolpark.ErrTaskCanceled, by: toolpark.ByCancel, decided: true,
			verdicts: []toolpark.Code{accepted, accepted},
		},
		{
			name: "a cancel, then an approval", now: -second, inputs: []toolpark.Input{stop(-2 * second), approve(-second)},
			status: toolpark.Canceled, errorKey: toolpark.ErrTaskCanceled, by: toolpark.ByCancel,
			verdicts: []toolpark.Code{accepted, not},
		},
		{
			name: "an approval of what is gone", task: gone, now: -second, inputs: []toolpark.Input{approve(-second), deny(-second)},
			status: toolpark.Failed, errorKey: toolpark.ErrToolNotServed, by: toolpark.ByDecision, decided: true,
			verdicts: []toolpark.Code{accepted, not},
		},
		{
			name: "a denial of what is gone", task: gone, now: -second, inputs: []toolpark.Input{deny(-second)},
			status: toolpark.Failed, errorKey: toolpark.ErrApprovalDenied, detail: `declined by a person, with the words "no"`,
			by: toolpark.ByDecision, decided: true, verdicts: []toolpark.Code{accepted},
		},
		{
			name: "an approval of the kernel's own", task: kernel, now: -second, inputs: []toolpark.Input{approve(-second)},
			status: toolpark.Running, decided: true, verdicts: []toolpark.Code{accepted},
		},
		{
			name: "what was decided about an earlier generation", now: -second,
			inputs: []toolpark.Input{earlier(approve(-second)), earlier(deny(second))},
			status: toolpark.NeedsApproval, verdicts: []toolpark.Code{toolpark.CodeStaleClaim, toolpark.CodeStaleClaim},
		},
		{
			name: "a decision that cannot be read", now: -second, inputs: []toolpark.Input{tampered(-second)},
			status: toolpark.NeedsApproval, verdicts: []toolpark.Code{toolpark.CodeInternal},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for i := range test.inputs {
				test.inputs[i].Seq = i + 1
			}
			task, now := held(), at(test.now)
			if test.task != nil {
				test.task(task)
			}
			step := park.Judge(task, now, test.inputs, evidence)
			var codes []toolpark.Code
			for i, v := range step.Verdicts {
				require.Equal(t, i+1, v.Seq)
				codes = append(codes, v.Code)
			}
			require.Equal(t, test.verdicts, codes)
			approval := task.Approval
			if step.Outcome != nil {
				require.Equal(t, test.status, step.Outcome.Status)
				require.Equal(t, test.errorKey, step.Outcome.Error.Key)
				require.Equal(t, test.detail, step.Outcome.Error.Detail)
				require.Equal(t, test.by, step.Outcome.By)
				if step.Outcome.Approval != nil {
					approval = step.Outcome.Approval
				}
			} else {
				require.Equal(t, test.status, task.Status)
				require.Empty(t, test.errorKey)
				require.Equal(t, task.DeadlineAt.Sub(now), step.Wake)
			}
			require.Equal(t, test.decided, approval != nil)
			if approval != nil {
				require.Equal(t, &decider, approval.DecidedBy)
				require.Equal(t, test.inputs[0].StagedAt, approval.DecidedAt, "when it was decided, not when it was judged")
			}
			if step.Approved == nil {
				require.Nil(t, task.DispatchedAt)
				require.Equal(t, deadline, *task.DeadlineAt)
				return
			}
			require.Equal(t, now, *task.DispatchedAt, "its own clock starts when it is judged")
			require.Equal(t, now.Add(holdTimeout), *task.DeadlineAt)
		})
	}
}

func TestAnEditedInputIsKeptAsItWasWritten(t *testing.T) {
	t.Parallel()
	task := held()
	step := park.Judge(task, at(-time.Second), []toolpark.Input{edit(-time.Second)}, evidence)
	require.Equal(t, `{"n":1.50}`, string(step.Approved.Input))
	require.True(t, task.Approval.Edited)
}

// TestOneDecisionStands draws decisions, cancels and clocks at random.
func TestOneDecisionStands(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		made := []func(time.Duration) toolpark.Input{approve, edit, deny, byAgent, stop}
		stamp := time.Duration(rapid.IntRange(-20, 20).Draw(t, "first"))
		inputs := make([]toolpark.Input, rapid.IntRange(0, 8).Draw(t, "inputs"))
		for i := range inputs {
			stamp += time.Duration(rapid.IntRange(0, 5).Draw(t, "pause"))
			inputs[i] = rapid.SampledFrom(made).Draw(t, "input")(stamp)
			inputs[i].Seq, inputs[i].Generation = i+1, rapid.IntRange(1, 2).Draw(t, "generation")
		}
		now := at(stamp + time.Duration(rapid.IntRange(0, 10).Draw(t, "later")))
		gone := rapid.Bool().Draw(t, "gone")
		task := held()
		if gone {
			task.ToolName = new("gone")
		}
		before := *task
		step := park.Judge(task, now, inputs, evidence)

		// What wins is the first input of this generation before the end of the hold, and else the clock.
		var winner *toolpark.Input
		for i := range inputs {
			if winner == nil && inputs[i].Generation == 2 && inputs[i].StagedAt.Before(deadline) {
				winner = &inputs[i]
			}
		}
		taken := 0
		for i, v := range step.Verdicts {
			decides := inputs[i].Kind != toolpark.InputCancel
			if v.Code == "" && decides {
				taken++
				require.Equal(t, winner.Seq, v.Seq)
			}
		}
		require.LessOrEqual(t, taken, 1, "one decision stands")
		require.Len(t, step.Verdicts, len(inputs))
		approved := winner != nil && winner.Kind == toolpark.InputApprove && !gone
		require.Equal(t, approved, step.Approved != nil, "it runs if, and only if, an approval came first and in time")
		require.Equal(t, approved, task.DispatchedAt != nil)
		switch {
		case winner == nil && now.Before(deadline):
			require.Equal(t, before, *task)
			require.Nil(t, step.Outcome)
		case winner == nil:
			require.Equal(t, toolpark.ErrApprovalExpired, step.Outcome.Error.Key)
		case winner.Kind == toolpark.InputDeny:
			require.Equal(t, toolpark.ErrApprovalDenied, step.Outcome.Error.Key)
		case winner.Kind == toolpark.InputCancel:
			require.Equal(t, toolpark.ErrTaskCanceled, step.Outcome.Error.Key)
		case gone:
			require.Equal(t, toolpark.ErrToolNotServed, step.Outcome.Error.Key)
		}

		// A worker may come at any time: judging in two looks lets the same calls run.
		cut := rapid.IntRange(0, len(inputs)).Draw(t, "cut")
		twice := before
		var parts park.Step
		for i, part := range [][]toolpark.Input{inputs[:cut], inputs[cut:]} {
			look := now
			if i == 0 && cut > 0 {
				look = inputs[cut-1].StagedAt
			} else if i == 0 {
				continue
			}
			if parts.Outcome != nil {
				return // whoever stages after a settlement is refused under the lock
			}
			next := park.Judge(&twice, look, part, evidence)
			parts.Outcome = next.Outcome
			if next.Approved != nil {
				parts.Approved = next.Approved
			}
		}
		require.Equal(t, step.Approved, parts.Approved)
		require.Equal(t, step.Outcome, parts.Outcome)
	})
}
