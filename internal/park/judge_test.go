package park_test

import (
	"testing"
	"time"
	"uuid"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/park"
	"github.com/toolpark/toolpark/internal/postgres"
)

var deadline = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// at is a moment by the database's clock, relative to the deadline.
func at(d time.Duration) time.Time { return deadline.Add(d) }

// parked is a task of generation 2, claimed, whose effect may have happened.
func parked() *toolpark.Task {
	holder := uuid.NewV7()
	return &toolpark.Task{
		Generation: 2, Status: toolpark.Dispatched, DeadlineAt: &deadline, ClaimedBy: &holder,
		EffectProfile: &toolpark.EffectProfile{Kind: toolpark.EffectWrite, Idempotency: toolpark.IdempotentNone},
	}
}

var evidence = park.Evidence{Report: judged, Dispatchable: dispatchable}

// judged reads a report's body as the name of what becomes of it.
func judged(_ *toolpark.Task, in toolpark.Input) (postgres.Outcome, *toolpark.Error) {
	switch string(in.Body) {
	case "refused":
		return postgres.Outcome{}, toolpark.Errorf(toolpark.CodeInvalidContent, "content is a number")
	case "unstorable":
		return postgres.Outcome{Status: toolpark.Failed, By: toolpark.ByCommit, Error: &toolpark.TaskError{
			Key: toolpark.ErrResultUnstorable, Detail: "unsupported_text: content",
		}}, nil
	case "failed":
		return postgres.Outcome{Status: toolpark.Failed, By: toolpark.ByCommit, Error: &toolpark.TaskError{
			Key: toolpark.ErrToolFailed,
		}}, nil
	}
	return postgres.Outcome{Status: toolpark.Completed, By: toolpark.ByCommit, Content: in.Body}, nil
}

// dispatchable lets everybody take a call whom it is addressed to, unless its tool is called "gone".
func dispatchable(task *toolpark.Task) ([]uuid.UUID, *toolpark.TaskError) {
	if task.ToolName != nil && *task.ToolName == "gone" {
		return nil, &toolpark.TaskError{Key: toolpark.ErrToolNotServed}
	}
	return task.AddressedTo, nil
}

func TestJudge(t *testing.T) {
	t.Parallel()
	const (
		accepted = toolpark.Code("")
		second   = time.Second
	)
	commit := func(d time.Duration, body string) toolpark.Input {
		return toolpark.Input{Kind: toolpark.InputCommit, StagedAt: at(d), Body: []byte(body), Generation: 2}
	}
	cancel := func(d time.Duration) toolpark.Input {
		return toolpark.Input{Kind: toolpark.InputCancel, StagedAt: at(d), Generation: 2}
	}
	terminated := func(d time.Duration) toolpark.Input {
		return toolpark.Input{Kind: toolpark.InputTerminated, StagedAt: at(d), Generation: 2}
	}
	settlement := func(d time.Duration) toolpark.Input { // of the task that is waited for
		return toolpark.Input{Kind: toolpark.InputTarget, StagedAt: at(d), Body: []byte("ok"), Generation: 2}
	}
	earlier := func(in toolpark.Input) toolpark.Input {
		in.Generation = 1
		return in
	}
	for _, test := range []struct {
		name     string
		now      time.Duration
		inputs   []toolpark.Input
		status   toolpark.Status // empty: the park stands
		by       toolpark.SettledBy
		errorKey string
		verdicts []toolpark.Code
	}{
		{name: "nothing staged", now: -second},
		{name: "the last moment before the deadline", now: -time.Nanosecond},
		{name: "at the deadline", now: 0, status: toolpark.Uncertain, by: toolpark.ByExpiry, errorKey: toolpark.ErrToolUncertain},
		{name: "after the deadline", now: second, status: toolpark.Uncertain, by: toolpark.ByExpiry, errorKey: toolpark.ErrToolUncertain},

		{
			name: "a report in time", now: -second, inputs: []toolpark.Input{commit(-2*second, "ok")},
			status: toolpark.Completed, by: toolpark.ByCommit, verdicts: []toolpark.Code{accepted},
		},
		{
			name: "a report in time, judged late", now: time.Hour, inputs: []toolpark.Input{commit(-time.Nanosecond, "ok")},
			status: toolpark.Completed, by: toolpark.ByCommit, verdicts: []toolpark.Code{accepted},
		},
		{
			name: "a report stamped at the deadline is late", now: 0, inputs: []toolpark.Input{commit(0, "ok")},
			status: toolpark.Uncertain, by: toolpark.ByExpiry, errorKey: toolpark.ErrToolUncertain,
			verdicts: []toolpark.Code{toolpark.CodeClaimExpired},
		},
		{
			name: "a failed call", now: -second, inputs: []toolpark.Input{commit(-second, "failed")},
			status: toolpark.Failed, by: toolpark.ByCommit, errorKey: toolpark.ErrToolFailed, verdicts: []toolpark.Code{accepted},
		},
		{
			name: "a refused report leaves the park standing", now: -second, inputs: []toolpark.Input{commit(-second, "refused")},
			verdicts: []toolpark.Code{toolpark.CodeInvalidContent},
		},
		{
			name: "a refused report, and then a good one", now: -second,
			inputs: []toolpark.Input{commit(-2*second, "refused"), commit(-second, "ok")},
			status: toolpark.Completed, by: toolpark.ByCommit, verdicts: []toolpark.Code{toolpark.CodeInvalidContent, accepted},
		},
		{
			name: "a refused report, and then the deadline", now: second, inputs: []toolpark.Input{commit(-second, "refused")},
			status: toolpark.Uncertain, by: toolpark.ByExpiry, errorKey: toolpark.ErrToolUncertain,
			verdicts: []toolpark.Code{toolpark.CodeInvalidContent},
		},
		{
			name: "what cannot be stored settles the task and is refused", now: -second,
			inputs: []toolpark.Input{commit(-second, "unstorable")},
			status: toolpark.Failed, by: toolpark.ByCommit, errorKey: toolpark.ErrResultUnstorable,
			verdicts: []toolpark.Code{toolpark.CodeResultUnstorable},
		},
		{
			name: "the first of two reports wins and is the answer to both", now: -second,
			inputs: []toolpark.Input{commit(-2*second, "ok"), commit(-second, "other")},
			status: toolpark.Completed, by: toolpark.ByCommit, verdicts: []toolpark.Code{accepted, accepted},
		},

		{
			name: "a cancel", now: -second, inputs: []toolpark.Input{cancel(-second)},
			status: toolpark.Canceled, by: toolpark.ByCancel, errorKey: toolpark.ErrTaskCanceled, verdicts: []toolpark.Code{accepted},
		},
		{
			name: "a cancel before a report", now: -second, inputs: []toolpark.Input{cancel(-2 * second), commit(-second, "ok")},
			status: toolpark.Canceled, by: toolpark.ByCancel, errorKey: toolpark.ErrTaskCanceled,
			verdicts: []toolpark.Code{accepted, toolpark.CodeClaimCanceled},
		},
		{
			name: "a report before a cancel", now: -second, inputs: []toolpark.Input{commit(-2*second, "ok"), cancel(-second)},
			status: toolpark.Completed, by: toolpark.ByCommit, verdicts: []toolpark.Code{accepted, toolpark.CodeAlreadySettled},
		},
		{
			name: "a cancel after the deadline is late", now: second, inputs: []toolpark.Input{cancel(second)},
			status: toolpark.Uncertain, by: toolpark.ByExpiry, errorKey: toolpark.ErrToolUncertain,
			verdicts: []toolpark.Code{toolpark.CodeAlreadySettled},
		},
		{
			name: "a termination", now: -second, inputs: []toolpark.Input{terminated(-second), commit(-second, "ok")},
			status: toolpark.Failed, by: toolpark.ByTermination, errorKey: toolpark.ErrWorkflowTerminated,
			verdicts: []toolpark.Code{accepted, toolpark.CodeStaleClaim},
		},

		{
			name: "the end of what is waited for has no verdict", now: -second, inputs: []toolpark.Input{settlement(-second)},
			status: toolpark.Completed, by: toolpark.ByCommit,
		},
		{
			name: "in time, judged late", now: time.Hour, inputs: []toolpark.Input{settlement(-time.Nanosecond)},
			status: toolpark.Completed, by: toolpark.ByCommit,
		},
		{
			name: "too late", now: second, inputs: []toolpark.Input{settlement(0)},
			status: toolpark.Uncertain, by: toolpark.ByExpiry, errorKey: toolpark.ErrToolUncertain,
		},

		{
			name: "what an earlier generation was sent changes nothing", now: -second,
			inputs:   []toolpark.Input{earlier(commit(-second, "ok")), earlier(cancel(-second)), earlier(terminated(-second))},
			verdicts: []toolpark.Code{toolpark.CodeStaleClaim, toolpark.CodeStaleClaim, toolpark.CodeStaleClaim},
		},
		{
			name: "an earlier generation's late report does not let the deadline ring early", now: -second,
			inputs:   []toolpark.Input{earlier(commit(second, "ok"))},
			verdicts: []toolpark.Code{toolpark.CodeStaleClaim},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for i := range test.inputs {
				test.inputs[i].Seq = i + 1 // that of a settlement that is waited for stands for none
			}
			step := park.Judge(parked(), at(test.now), test.inputs, evidence)
			var codes []toolpark.Code
			for i, v := range step.Verdicts {
				require.Equal(t, i+1, v.Seq)
				codes = append(codes, v.Code)
			}
			require.Equal(t, test.verdicts, codes)
			if test.status == "" {
				require.Nil(t, step.Outcome)
				require.Equal(t, -test.now, step.Wake)
				return
			}
			require.NotNil(t, step.Outcome)
			require.Zero(t, step.Wake)
			require.Equal(t, test.status, step.Outcome.Status)
			require.Equal(t, test.by, step.Outcome.By)
			if test.errorKey == "" {
				require.Nil(t, step.Outcome.Error)
			} else {
				require.Equal(t, test.errorKey, step.Outcome.Error.Key)
			}
		})
	}
}

func TestExpiryFollowsTheEffect(t *testing.T) {
	t.Parallel()
	profile := func(kind, idempotency string) *toolpark.EffectProfile {
		return &toolpark.EffectProfile{Kind: kind, Idempotency: idempotency}
	}
	for _, test := range []struct {
		name    string
		claimed bool
		effect  *toolpark.EffectProfile
		status  toolpark.Status
	}{
		{"never claimed", false, profile(toolpark.EffectWrite, toolpark.IdempotentNone), toolpark.TimedOut},
		{"never claimed, effect unknown", false, nil, toolpark.TimedOut},
		{"pure", true, profile(toolpark.EffectPure, toolpark.IdempotentNone), toolpark.TimedOut},
		{"read only", true, profile(toolpark.EffectReadOnly, toolpark.IdempotentNone), toolpark.TimedOut},
		{"intrinsic write", true, profile(toolpark.EffectWrite, toolpark.IdempotentBy), toolpark.TimedOut},
		{"keyed write", true, profile(toolpark.EffectWrite, toolpark.IdempotentKeyed), toolpark.Uncertain},
		{"plain write", true, profile(toolpark.EffectWrite, toolpark.IdempotentNone), toolpark.Uncertain},
		{"effect unknown", true, nil, toolpark.Uncertain},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			task := parked()
			task.EffectProfile = test.effect
			if !test.claimed {
				task.ClaimedBy = nil
			}
			step := park.Judge(task, deadline, nil, evidence)
			require.Equal(t, test.status, step.Outcome.Status)
			require.Equal(t, map[toolpark.Status]string{
				toolpark.TimedOut: toolpark.ErrToolTimeout, toolpark.Uncertain: toolpark.ErrToolUncertain,
			}[test.status], step.Outcome.Error.Key)
		})
	}
}

func TestATaskWithoutADeadlineSleepsAndNeverExpires(t *testing.T) {
	t.Parallel()
	task := parked()
	task.DeadlineAt = nil
	step := park.Judge(task, at(0), []toolpark.Input{
		{Seq: 1, Generation: 2, Kind: toolpark.InputCommit, StagedAt: at(0), Body: []byte("refused")},
	}, evidence)
	require.Nil(t, step.Outcome)
	require.Positive(t, step.Wake)
}

// TestJudgeHoldsForAnyInputs draws tasks, clocks and inputs at random.
func TestJudgeHoldsForAnyInputs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		task := parked()
		task.EffectProfile.Kind = rapid.SampledFrom([]string{"pure", "read_only", "write"}).Draw(t, "kind")
		task.EffectProfile.Idempotency = rapid.SampledFrom([]string{"intrinsic", "keyed", "none"}).Draw(t, "idempotency")
		if rapid.Bool().Draw(t, "unclaimed") {
			task.ClaimedBy = nil
		}
		// Stamps are taken under one lock, so they never fall; now is read after the last of them.
		stamp := time.Duration(rapid.IntRange(-20, 20).Draw(t, "first"))
		inputs := make([]toolpark.Input, rapid.IntRange(0, 8).Draw(t, "inputs"))
		for i := range inputs {
			stamp += time.Duration(rapid.IntRange(0, 5).Draw(t, "pause"))
			inputs[i] = toolpark.Input{
				Seq: i + 1, StagedAt: at(stamp), Generation: rapid.IntRange(1, 2).Draw(t, "generation"),
				Kind: rapid.SampledFrom([]toolpark.InputKind{
					toolpark.InputCommit, toolpark.InputCancel, toolpark.InputTerminated,
				}).Draw(t, "input"),
				Body: []byte(rapid.SampledFrom([]string{"ok", "refused", "unstorable", "failed"}).Draw(t, "body")),
			}
		}
		now := at(stamp + time.Duration(rapid.IntRange(0, 10).Draw(t, "later")))

		step := park.Judge(task, now, inputs, evidence)
		require.Equal(t, step, park.Judge(task, now, inputs, evidence), "the same facts are judged the same way")

		require.Len(t, step.Verdicts, len(inputs), "every input has one verdict")
		for i, v := range step.Verdicts {
			require.Equal(t, inputs[i].Seq, v.Seq, "verdicts come in the order of staging")
		}
		require.Equal(t, step.Outcome == nil, step.Wake > 0, "a task either settles or sleeps")
		if step.Outcome == nil {
			require.Equal(t, deadline, now.Add(step.Wake), "it sleeps until its deadline")
		} else {
			require.True(t, step.Outcome.Status.Settled())
		}

		// What wins is the first input of this generation in time that can settle, and else the clock.
		var winner *toolpark.Input
		for i := range inputs {
			in := &inputs[i]
			refused := in.Kind == toolpark.InputCommit && string(in.Body) == "refused"
			if in.Generation == 2 && in.StagedAt.Before(deadline) && !refused {
				winner = in
				break
			}
		}
		switch {
		case winner != nil:
			require.NotNil(t, step.Outcome)
			require.Equal(t, map[toolpark.InputKind]toolpark.SettledBy{
				toolpark.InputCommit: toolpark.ByCommit, toolpark.InputCancel: toolpark.ByCancel,
				toolpark.InputTerminated: toolpark.ByTermination,
			}[winner.Kind], step.Outcome.By)
		case now.Before(deadline):
			require.Nil(t, step.Outcome)
		default:
			require.Equal(t, toolpark.ByExpiry, step.Outcome.By, "a late input never settles a task")
		}

		// Judging in two looks is judging in one: a worker may come at any time.
		cut := rapid.IntRange(0, len(inputs)).Draw(t, "cut")
		if cut > 0 && winner == nil && inputs[cut-1].StagedAt.Before(deadline) {
			first := park.Judge(task, inputs[cut-1].StagedAt, inputs[:cut], evidence)
			require.Nil(t, first.Outcome)
			second := park.Judge(task, now, inputs[cut:], evidence)
			require.Equal(t, step.Outcome, second.Outcome)
			require.Equal(t, step.Verdicts, append(first.Verdicts, second.Verdicts...))
		}
	})
}

func TestWhatALateCommitReads(t *testing.T) {
	t.Parallel()
	for by, code := range map[toolpark.SettledBy]toolpark.Code{
		toolpark.ByCommit:      "",
		toolpark.ByExpiry:      toolpark.CodeClaimExpired,
		toolpark.ByCancel:      toolpark.CodeClaimCanceled,
		toolpark.ByTermination: toolpark.CodeStaleClaim,
	} {
		require.Equal(t, code, park.LateCommit(by), by)
	}
	for _, code := range []toolpark.Code{toolpark.CodeClaimExpired, toolpark.CodeClaimCanceled, toolpark.CodeStaleClaim} {
		require.Equal(t, code, park.LateCommitError(code).Code)
	}
}
