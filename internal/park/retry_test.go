package park_test

import (
	"encoding/json/jsontext"
	"testing"
	"time"
	"uuid"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/envelope"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/internal/park"
	"github.com/toolpark/toolpark/sdk/agent"
)

// retry begins the next generation of a task.
func (l *lot) retry(task *kerneltest.Task) error {
	_, err := l.Park.Retry(l.T.Context(), task.TaskID)
	return err
}

func (l *lot) abandon(task *kerneltest.Task) error {
	return l.Park.Abandon(l.T.Context(), l.Member(), task.TaskID)
}

// stepOf is advance for a later generation.
func (l *lot) stepOf(task *kerneltest.Task, generation int) error {
	_, err := l.Park.Advance(l.T.Context(), task.TaskID, generation, false)
	return err
}

// uncertain is a task whose claim ran out, and the token that held it.
func (l *lot) uncertain(task *kerneltest.Task) (token string) {
	l.T.Helper()
	token = l.claim(task)
	l.expireIn(task, 0)
	require.NoError(l.T, l.advance(task))
	require.Equal(l.T, toolpark.Uncertain, task.Row().Status)
	return token
}

func TestARetryBeginsATaskAgain(t *testing.T) {
	t.Parallel()
	l := newLot(t)
	task := l.author(time.Hour)
	token := l.uncertain(task)
	before := task.Row()
	told := len(l.events())
	begun, err := l.Park.Retry(t.Context(), task.TaskID)
	require.NoError(t, err)
	require.Equal(t, toolpark.GenerationID{TaskID: task.TaskID, Generation: 2}, begun.GenerationID())
	require.Equal(t, toolpark.Dispatched, begun.Status)

	now := task.Row()
	require.Equal(t, 2, now.Generation)
	require.Equal(t, toolpark.Dispatched, now.Status)
	require.Equal(t, before.Input, now.Input)
	require.Equal(t, before.AddressedTo, now.AddressedTo)
	require.Equal(t, before.EffectProfile, now.EffectProfile)
	require.Equal(t, before.TimeoutMS, now.TimeoutMS)
	require.Nil(t, now.ClaimedBy)
	require.Nil(t, now.ErrorKey)
	require.Nil(t, now.SettledAt)
	require.WithinDuration(t, now.BeganAt.Add(time.Hour), *now.DeadlineAt, 0)
	require.True(t, now.BeganAt.After(before.BeganAt))
	require.Equal(t, []string{"task_status"}, l.events()[told:])

	earlier, err := l.DB.GenerationDetail(t.Context(), task.TaskID, 1)
	require.NoError(t, err)
	require.Equal(t, before, earlier, "what was is kept whole")
	newest, err := l.DB.GenerationDetail(t.Context(), task.TaskID, 2)
	require.NoError(t, err)
	require.Equal(t, now, newest)
	_, err = l.DB.GenerationDetail(t.Context(), task.TaskID, 3)
	require.Equal(t, toolpark.CodeNotFound, code(err))

	inbox, err := l.DB.Inbox(t.Context(), l.ID, l.runner.ID, noPlace, 10)
	require.NoError(t, err)
	require.Len(t, inbox, 1)
	require.Equal(t, 2, inbox[0].Generation)
	require.True(t, inbox[0].Redelivery())
	require.Equal(t, l.run+"/"+task.Key, inbox[0].IdempotencyKey())

	// What held the claim before is worth nothing, while nobody holds it, while the same executor does, and afterwards.
	require.Equal(t, toolpark.CodeStaleClaim, code(l.stage(task, token, "late")))
	active, _, err := l.Park.ClaimState(t.Context(), l.runner.As(l.Account), task.TaskID, token)
	require.NoError(t, err)
	require.False(t, active)
	again := l.claim(task) // by the same claim_key
	require.NotEqual(t, token, again)
	require.Equal(t, toolpark.CodeStaleClaim, code(l.stage(task, token, "late")))
	_, _, err = l.Park.Extend(t.Context(), l.runner.As(l.Account), task.TaskID, token, time.Minute)
	require.Equal(t, toolpark.CodeNotClaimant, code(err))
	_, err = l.Park.Progress(t.Context(), l.runner.As(l.Account), task.TaskID, token, []byte(`1`))
	require.Equal(t, toolpark.CodeNotClaimant, code(err))
	require.NoError(t, l.stage(task, again, "done"))
	require.NoError(t, l.advance(task)) // of the generation before: it touches nothing
	require.Equal(t, toolpark.Dispatched, task.Row().Status)
	require.NoError(t, l.stepOf(task, 2))
	require.Equal(t, toolpark.Completed, task.Row().Status)
	require.Equal(t, toolpark.CodeStaleClaim, code(l.stage(task, token, "late")))
	require.Equal(t, toolpark.CodeNotRetryable, code(l.retry(task)))

	facts, err := l.DB.RunFacts(t.Context(), l.ID, []uuid.UUID{task.Run}, false)
	require.NoError(t, err)
	require.Equal(t, map[toolpark.Status]int{toolpark.Completed: 1}, facts[task.Run].Counts)
	require.Len(t, facts[task.Run].Touched, 1)
	require.Equal(t, 1, facts[task.Run].Touched[0].Tasks)
}

func TestAClaimOfAnEarlierGenerationIsEvidence(t *testing.T) {
	t.Parallel()
	l := newLot(t)
	task := l.author(time.Hour)
	l.uncertain(task)
	require.NoError(t, l.retry(task))
	facts, err := l.DB.RunFacts(t.Context(), l.ID, []uuid.UUID{task.Run}, false)
	require.NoError(t, err)
	require.Len(t, facts[task.Run].Touched, 1, "the runner may have been touched, though nobody holds the call now")
	require.Equal(t, l.runner.ID, facts[task.Run].Touched[0].ExecutorID)
}

func TestAReportOfEachGenerationKeepsItsAnswer(t *testing.T) {
	t.Parallel()
	l := newLot(t)
	task := l.author(time.Hour)
	staged, err := l.Park.StageCommit(t.Context(), l.runner.As(l.Account), task.TaskID, l.claim(task), failure)
	require.NoError(t, err)
	require.NoError(t, l.advance(task))
	require.NoError(t, l.retry(task))
	verdict, judged, err := l.DB.Verdict(t.Context(), task.TaskID, staged.Seq)
	require.NoError(t, err)
	require.Empty(t, verdict.Code)
	require.Equal(t, 1, judged.Generation, "whoever reported reads what became of that report")
	require.Equal(t, toolpark.Failed, judged.Status)

	second, err := l.Park.StageCommit(t.Context(), l.runner.As(l.Account), task.TaskID, l.claim(task), textReport("done"))
	require.NoError(t, err)
	require.Nil(t, second.Verdict)
	require.NoError(t, l.stepOf(task, 2))
	verdict, judged, err = l.DB.Verdict(t.Context(), task.TaskID, second.Seq)
	require.NoError(t, err)
	require.Empty(t, verdict.Code)
	require.Equal(t, 2, judged.Generation)
	require.Equal(t, toolpark.Completed, judged.Status)
}

var failure = envelope.Fields{Content: jsontext.Value(`"broken"`), Outcome: jsontext.Value(`"failed"`)}

func TestWhatCannotBeRetried(t *testing.T) {
	t.Parallel()
	l := newLot(t)

	t.Run("a live task", func(t *testing.T) {
		task := l.author(time.Hour)
		require.Equal(t, toolpark.CodeNotRetryable, code(l.retry(task)))
		require.Equal(t, toolpark.CodeNotAbandonable, code(l.abandon(task)))
	})

	t.Run("a canceled task", func(t *testing.T) {
		task := l.author(time.Hour)
		_, err := l.Park.StageCancel(t.Context(), l.Member(), task.TaskID)
		require.NoError(t, err)
		require.NoError(t, l.advance(task))
		require.Equal(t, toolpark.CodeNotRetryable, code(l.retry(task)))
		require.Equal(t, toolpark.CodeNotAbandonable, code(l.abandon(task)))
	})

	t.Run("an abandoned failure", func(t *testing.T) {
		task := l.author(time.Hour)
		l.uncertain(task)
		require.NoError(t, l.abandon(task))
		first := task.Row()
		require.NotNil(t, first.AbandonedAt)
		require.Equal(t, l.Member().ID, *first.AbandonedBy)
		require.Equal(t, toolpark.Uncertain, first.Status, "it is no outcome")
		require.NoError(t, l.abandon(task))
		require.Equal(t, first.AbandonedAt, task.Row().AbandonedAt, "the first stamp stays")
		require.Equal(t, toolpark.CodeNotRetryable, code(l.retry(task)))
	})

	t.Run("a call whose runner went away", func(t *testing.T) {
		task := l.author(time.Hour)
		l.uncertain(task)
		l.Serve(l.runner, kerneltest.Entry("other", kerneltest.Writes))
		require.Equal(t, toolpark.CodeToolNotServed, code(l.retry(task)))
		require.NoError(t, l.runner.Shutdown(t.Context()))
		require.Equal(t, toolpark.CodeRunnerNotEligible, code(l.retry(task)))
		require.Equal(t, 1, task.Row().Generation, "nothing changed")
		_, err := l.DB.GenerationDetail(t.Context(), task.TaskID, 2)
		require.Equal(t, toolpark.CodeNotFound, code(err))
		l.Serve(l.runner, kerneltest.Entry("echo", kerneltest.Writes))
		require.NoError(t, l.retry(task))
		require.Equal(t, toolpark.Dispatched, task.Row().Status)
	})

	t.Run("anything in a run that is over", func(t *testing.T) {
		l := newLot(t)
		task := l.author(time.Hour)
		l.uncertain(task)
		require.NoError(t, l.Park.Complete(t.Context(), l.ID, task.Run))
		require.Equal(t, toolpark.CodeRunSettled, code(l.retry(task)))
		require.NoError(t, l.abandon(task), "a failure may be given up at any time")
	})

	t.Run("anything in a run that stops", func(t *testing.T) {
		l := newLot(t)
		task, live := l.author(time.Hour), l.author(time.Hour)
		l.uncertain(task)
		require.NoError(t, l.Park.Stop(t.Context(), l.Member(), live.Run, false))
		require.Equal(t, toolpark.CodeRunStopping, code(l.retry(task)))
	})
}

func TestARetryReopensItsRound(t *testing.T) {
	t.Parallel()
	a := kerneltest.StartAPI(t).Account()
	patient(t, a.Kernel)
	l := &lot{Account: a, runner: a.Runner("box")}
	a.Serve(l.runner, kerneltest.Entry("echo", kerneltest.Writes))
	l.run = a.KernelRun(l.runner)
	tasks := l.UnstartedCalls(l.run, l.runner, [2]string{"echo", `{}`}, [2]string{"echo", `{}`}, [2]string{"nothing", `{}`})
	l.uncertain(tasks[0])

	told := len(l.events())
	require.NoError(t, l.retry(tasks[0]))
	require.Equal(t, []string{"task_status"}, l.events()[told:], "the round was open still")
	require.Equal(t, toolpark.CodeNotRetryable, code(l.retry(tasks[2])), "it failed at birth")
	require.NoError(t, l.abandon(tasks[2]), "and may be given up")

	require.NoError(t, l.stage(tasks[0], l.claim(tasks[0]), "done"))
	require.NoError(t, l.stepOf(tasks[0], 2))
	l.uncertain(tasks[1])
	require.Equal(t, 1, count(l.events(), "round_settled"))
	require.Empty(t, l.frames())

	told = len(l.events())
	require.NoError(t, l.retry(tasks[1]))
	require.Equal(t, []string{"round_reopened", "task_status"}, l.events()[told:])
	token := l.claim(tasks[1])
	require.NoError(t, l.stage(tasks[1], token, "done"))
	require.NoError(t, l.stepOf(tasks[1], 2))
	require.Equal(t, []string{"round_reopened", "task_status", "task_status", "round_settled"}, l.events()[told:])
	results, err := l.DB.RoundDetail(t.Context(), l.ID, tasks[0].Run, 1)
	require.NoError(t, err)
	require.Equal(t, []int{2, 2, 1}, []int{results[0].Generation, results[1].Generation, results[2].Generation})
}

// frames are the progress frames of the run.
func (l *lot) frames() []int {
	l.T.Helper()
	frames, err := l.DB.Frames(l.T.Context(), l.ID, uuid.MustParse(l.run), time.Time{})
	require.NoError(l.T, err)
	var generations []int
	for _, f := range frames {
		generations = append(generations, f.Generation)
	}
	return generations
}

func TestNoFrameOutlivesItsGeneration(t *testing.T) {
	t.Parallel()
	l := newLot(t)
	task := l.author(time.Hour)
	l.uncertain(task)
	// One that came while the task was settling.
	_, err := l.DB.Pool.Exec(t.Context(), `
		INSERT INTO progress (account_id, run_id, task_key, generation, frame, updated_at)
		VALUES ($1, $2, $3, 1, '{}', clock_timestamp())`, l.ID, task.Run, task.Key)
	require.NoError(t, err)
	require.NoError(t, l.retry(task))
	require.Empty(t, l.frames())
}

func TestAPoolIsRetriedByThoseWhoStillServe(t *testing.T) {
	t.Parallel()
	a := kerneltest.StartAPI(t).Account()
	l := &lot{Account: a, run: a.BareRun()}
	one, two := a.Executor(toolpark.ToolsProvider, "one", toolpark.AccountWide), a.Executor(toolpark.ToolsProvider, "two", toolpark.AccountWide)
	for _, provider := range []kerneltest.Executor{one, two} {
		a.Serve(provider, kerneltest.Entry("echo", kerneltest.Writes))
	}
	made, err := a.Agent.AppendTasks(t.Context(), l.run, []agent.Step{{Name: "echo", Key: "one"}}, "")
	require.NoError(t, err)
	task := l.task(made[0].Key)
	l.runner = one
	l.uncertain(task)
	require.NoError(t, one.Shutdown(t.Context()))
	late := a.Executor(toolpark.ToolsProvider, "late", toolpark.AccountWide)
	a.Serve(late, kerneltest.Entry("echo", kerneltest.Writes))
	require.NoError(t, l.retry(task))
	require.Equal(t, []uuid.UUID{two.ID}, task.Row().AddressedTo, "who came later is not of its target")
	l.runner = two
	require.NoError(t, l.stage(task, l.claim(task), "done"))
}

func TestARetriedCallMayNeedApprovalAgain(t *testing.T) {
	t.Parallel()
	l := newLot(t)
	task := l.author(time.Hour)
	l.uncertain(task)
	_, err := l.DB.Pool.Exec(t.Context(), `
		UPDATE task_payloads SET original_input = input, input = '{"a":"b"}' WHERE run_id = $1 AND task_key = $2`, task.Run, task.Key)
	require.NoError(t, err)
	l.rules(`[{"tool":"echo","origin":"author","path":"a","verdict":"ask","hold_ms":60000}]`)
	require.NoError(t, l.retry(task))
	held := task.Row()
	require.Equal(t, toolpark.NeedsApproval, held.Status)
	require.Nil(t, held.DispatchedAt)
	require.Nil(t, held.Approval)
	require.WithinDuration(t, held.BeganAt.Add(time.Minute), *held.DeadlineAt, 0)
	require.JSONEq(t, `{"a":"b"}`, string(held.Input))
	require.NotNil(t, held.OriginalInput)
	require.Equal(t, []string{"task_status", "approval_required"}, l.events()[len(l.events())-2:])
	run, err := l.DB.Run(t.Context(), l.Member(), task.Run)
	require.NoError(t, err)
	_, err = l.Park.StageDecision(t.Context(), l.Member(), run, task.Key, park.Decision{Approve: true})
	require.NoError(t, err)
	require.NoError(t, l.stepOf(task, 2))
	require.Equal(t, toolpark.Dispatched, task.Row().Status)
	require.Equal(t, toolpark.DecidedByHuman, task.Row().Approval.Origin)
	require.NoError(t, l.stage(task, l.claim(task), "done"))
	require.NoError(t, l.stepOf(task, 2))
	require.Equal(t, toolpark.Completed, task.Row().Status)

	denied := l.author(time.Hour)
	l.uncertain(denied)
	l.rules(`[{"tool":"echo","origin":"author","verdict":"deny","reason":"not this"}]`)
	require.Equal(t, toolpark.CodeApprovalDenied, code(l.retry(denied)))
	require.Equal(t, 1, denied.Row().Generation)
}

// rules gives the run approval rules, which it would have been accepted with.
func (l *lot) rules(rules string) {
	l.T.Helper()
	_, err := l.DB.Pool.Exec(l.T.Context(), `
		WITH frozen AS (
			INSERT INTO frozen_contexts (account_id, hash, document)
			SELECT c.account_id, sha256($3::bytea), (c.document::jsonb || jsonb_build_object('approval_rules', $2::jsonb))::json
			FROM frozen_contexts c JOIN runs r ON r.context_hash = c.hash AND r.account_id = c.account_id
			WHERE r.id = $1
			RETURNING hash
		)
		UPDATE runs SET context_hash = frozen.hash, approval_mode = 'bypass' FROM frozen WHERE id = $1`, uuid.MustParse(l.run), rules, []byte(rules))
	require.NoError(l.T, err)
}

func TestATerminationSaysNothingOfALaterGeneration(t *testing.T) {
	t.Parallel()
	l := newLot(t)
	task := l.author(time.Hour)
	l.uncertain(task)
	require.NoError(t, l.retry(task))
	require.NoError(t, l.Park.StageTermination(t.Context(), first(task)))
	l.nothingStaged(task)
	_, err := l.Park.Advance(t.Context(), task.TaskID, 1, true) // its workflow is asked to cancel
	require.NoError(t, err)
	l.nothingStaged(task)
	require.Equal(t, toolpark.Dispatched, task.Row().Status)
	live, err := l.DB.LiveTasks(t.Context(), []toolpark.GenerationID{first(task)})
	require.NoError(t, err)
	require.Empty(t, live)
}

func TestARetriedTaskIsStartedOnce(t *testing.T) {
	t.Parallel()
	l := newLot(t)
	task := l.author(time.Hour)
	l.uncertain(task)
	begun, err := l.Park.Retry(t.Context(), task.TaskID)
	require.NoError(t, err)
	both := []toolpark.GenerationID{first(task), begun.GenerationID()}
	needed, err := l.DB.Unstarted(t.Context(), both)
	require.NoError(t, err)
	require.Equal(t, both[1:], needed, "a start of the generation before that is late is none of this one")
	require.NoError(t, l.DB.Started(t.Context(), both[:1]))
	require.Less(t, l.alarm(task), 6*time.Second)
	require.NoError(t, l.DB.Started(t.Context(), both))
	require.InDelta(t, time.Hour+5*time.Second, l.alarm(task), float64(5*time.Second))
	require.NoError(t, l.stage(task, l.claim(task), "done"))
	needed, err = l.DB.Unstarted(t.Context(), both)
	require.NoError(t, err)
	require.Empty(t, needed, "what was staged starts the workflow itself")
}
