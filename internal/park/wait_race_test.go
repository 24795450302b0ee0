package park_test

import (
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/envelope"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/internal/park"
)

// waitFor authors a wait for a task. Nobody starts its workflow.
func (l *lot) waitFor(target *kerneltest.Task) *kerneltest.Task {
	l.T.Helper()
	return l.UnstartedSteps(l.run, l.runner, park.NewStep{Wait: &park.WaitStep{Task: target.Key}})[0]
}

// question authors an ask. Nobody starts its workflow.
func (l *lot) question() *kerneltest.Task {
	l.T.Helper()
	return l.UnstartedSteps(l.run, l.runner, park.NewStep{Ask: &park.AskStep{Question: jsontext.Value(`{"prompt":"Which?"}`)}})[0]
}

func (l *lot) resolve(task *kerneltest.Task, text string) error {
	_, err := l.Park.StageResolution(l.T.Context(), l.Member(), task.TaskID, textReport(text))
	return err
}

func (l *lot) cancelTask(task *kerneltest.Task) error {
	_, err := l.Park.StageCancel(l.T.Context(), l.Member(), task.TaskID)
	return err
}

// reported is a claimed task whose report is staged: its next step settles it.
func (l *lot) reported() *kerneltest.Task {
	l.T.Helper()
	task := l.author(time.Hour)
	require.NoError(l.T, l.stage(task, l.claim(task), "done"))
	return task
}

// stepping takes a step of a task.
func (l *lot) stepping(task *kerneltest.Task) func() error {
	return func() error { return l.advance(task) }
}

// tells requires that a wait has ended and tells of its task's completion.
func (l *lot) tells(wait, target *kerneltest.Task) {
	l.T.Helper()
	row := wait.Row()
	require.Equal(l.T, toolpark.Completed, row.Status)
	require.Equal(l.T, toolpark.ByKernel, *row.SettledBy)
	require.Equal(l.T, fmt.Sprintf(`{"generation":1,"is_error":false,"status":"completed","task":%q}`, target.Key), string(row.StructuredContent))
}

// due tells whether the alarm of a task rings now.
func (l *lot) due(task *kerneltest.Task) (due bool) {
	l.T.Helper()
	require.NoError(l.T, l.DB.Pool.QueryRow(l.T.Context(), `
		SELECT wake_at <= clock_timestamp() FROM tasks WHERE run_id = $1 AND key = $2`, task.Run, task.Key).Scan(&due))
	return due
}

// noDeadlock requires that nobody was the victim of a deadlock in the test's database.
func (l *lot) noDeadlock(errs ...error) {
	l.T.Helper()
	for _, err := range errs {
		require.NotEqual(l.T, toolpark.CodeUnavailable, code(err), "%v", err)
	}
	var deadlocks int
	require.NoError(l.T, l.DB.Pool.QueryRow(l.T.Context(), `
		SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&deadlocks))
	require.Zero(l.T, deadlocks)
}

// atOnce has all begin at the same moment.
func atOnce(acts ...func() error) []error {
	var (
		barrier = make(chan struct{})
		wait    sync.WaitGroup
		errs    = make([]error, len(acts))
	)
	for i, act := range acts {
		wait.Go(func() { <-barrier; errs[i] = act() })
	}
	close(barrier)
	wait.Wait()
	return errs
}

func TestAWaitMeetsTheSettlementOfItsTask(t *testing.T) {
	t.Parallel()

	t.Run("the wait comes first", func(t *testing.T) {
		t.Parallel()
		l := newLot(t)
		target := l.reported()
		wait := l.waitFor(target)
		waited, settled := l.atTask(target, l.stepping(wait), l.stepping(target))
		require.NoError(t, errors.Join(waited, settled))
		require.Equal(t, toolpark.Completed, target.Row().Status)
		require.Equal(t, toolpark.Running, wait.Row().Status)
		require.True(t, l.due(wait), "it was woken")
		require.NoError(t, l.advance(wait))
		l.tells(wait, target)
		l.noDeadlock()
	})

	t.Run("the settlement comes first", func(t *testing.T) {
		t.Parallel()
		l := newLot(t)
		target := l.reported()
		wait := l.waitFor(target)
		settled, waited := l.atTask(target, l.stepping(target), l.stepping(wait))
		require.NoError(t, errors.Join(settled, waited))
		l.tells(wait, target)
		require.False(t, target.Row().Watched, "an unwatched task pays nothing")
	})

	t.Run("it is authored while the task settles", func(t *testing.T) {
		t.Parallel()
		l := newLot(t)
		target := l.reported()
		early := l.waitFor(target)
		require.NoError(t, l.advance(early))
		require.True(t, target.Row().Watched)
		var late *kerneltest.Task
		errs := atOnce(l.stepping(target), l.stepping(early), func() error {
			late = l.waitFor(target)
			return l.advance(late)
		})
		require.NoError(t, errors.Join(errs...))
		require.NoError(t, errors.Join(l.advance(early), l.advance(late)))
		l.tells(early, target)
		l.tells(late, target)
		l.noDeadlock()
	})

	t.Run("the nudges name those who wait, and none that has settled", func(t *testing.T) {
		t.Parallel()
		l := newLot(t)
		target := l.author(time.Hour)
		waits := []*kerneltest.Task{l.waitFor(target), l.waitFor(target), l.waitFor(target)}
		for _, wait := range waits {
			require.NoError(t, l.advance(wait))
		}
		require.NoError(t, l.cancelTask(waits[1]))
		require.NoError(t, l.advance(waits[1]))
		require.NoError(t, l.stage(target, l.claim(target), "done"))
		a, err := l.Park.Advance(t.Context(), target.TaskID, 1, false)
		require.NoError(t, err)
		var nudged []string
		for _, task := range a.Nudge {
			nudged = append(nudged, task.Key)
		}
		slices.Sort(nudged)
		require.Equal(t, []string{waits[0].Key, waits[2].Key}, nudged)
		require.Equal(t, toolpark.Canceled, waits[1].Row().Status)
	})
}

func TestAWaitMeetsItsDeadline(t *testing.T) {
	t.Parallel()

	t.Run("its task settled in time, it is judged late", func(t *testing.T) {
		t.Parallel()
		l := newLot(t)
		target := l.reported()
		wait := l.waitFor(target)
		require.NoError(t, l.advance(wait))
		require.NoError(t, l.advance(target))
		l.expireIn(wait, 0)
		require.NoError(t, l.advance(wait))
		l.tells(wait, target)
	})

	t.Run("its task settled too late", func(t *testing.T) {
		t.Parallel()
		l := newLot(t)
		target := l.reported()
		wait := l.waitFor(target)
		l.expireIn(wait, 0)
		require.NoError(t, l.advance(target))
		require.NoError(t, l.advance(wait))
		require.Equal(t, toolpark.TimedOut, wait.Row().Status)
		require.Equal(t, toolpark.ErrToolTimeout, *wait.Row().ErrorKey)
	})

	t.Run("a cancel before the settlement counts, one after it comes too late", func(t *testing.T) {
		t.Parallel()
		l := newLot(t)
		target := l.reported()
		before, after := l.waitFor(target), l.waitFor(target)
		require.NoError(t, l.cancelTask(before))
		require.NoError(t, l.advance(target))
		require.NoError(t, l.cancelTask(after))
		require.NoError(t, errors.Join(l.advance(before), l.advance(after)))
		require.Equal(t, toolpark.Canceled, before.Row().Status)
		l.tells(after, target)
		verdict, _, err := l.DB.Verdict(t.Context(), after.TaskID, 1)
		require.NoError(t, err)
		require.Equal(t, toolpark.CodeAlreadySettled, verdict.Code)
	})

	t.Run("its first start is noted after it was woken", func(t *testing.T) {
		t.Parallel()
		l := newLot(t)
		target := l.reported()
		wait := l.waitFor(target)
		require.NoError(t, l.advance(wait))
		require.NoError(t, l.advance(target))
		require.NoError(t, l.DB.Started(t.Context(), []toolpark.GenerationID{first(wait)}))
		require.True(t, l.due(wait), "its alarm still rings")
	})
}

// A wait that begins while the settlement of its task waits for the lock of another one is woken like the others.
func TestAWaitBeginsWhileItsTaskSettles(t *testing.T) {
	t.Parallel()
	l := newLot(t)
	target := l.reported()
	earlier := l.UnstartedSteps(l.run, l.runner, park.NewStep{Key: "a", Wait: &park.WaitStep{Task: target.Key}})[0]
	require.NoError(t, l.advance(earlier))
	var later *kerneltest.Task
	settled, _ := l.inOrder(lockTask, []any{earlier.Run, earlier.Key}, 0, l.stepping(target), nil, func() {
		later = l.UnstartedSteps(l.run, l.runner, park.NewStep{Key: "z", Wait: &park.WaitStep{Task: target.Key}})[0]
		require.NoError(t, l.advance(later))
	})
	require.NoError(t, settled)
	require.Equal(t, toolpark.Completed, target.Row().Status)
	require.True(t, l.due(earlier))
	require.True(t, l.due(later))
	require.NoError(t, l.advance(later))
	l.tells(later, target)
}

// A task that is retried before a wait has looked has settled all the same.
func TestATaskIsRetriedBeforeItsWaitLooks(t *testing.T) {
	t.Parallel()
	l := newLot(t)
	target := l.author(time.Hour)
	wait, unstarted := l.waitFor(target), l.waitFor(target)
	require.NoError(t, l.advance(wait))
	l.uncertain(target)
	require.True(t, l.due(wait))
	require.NoError(t, l.retry(target))
	later := l.waitFor(target)
	for _, task := range []*kerneltest.Task{wait, unstarted, later} {
		require.NoError(t, l.advance(task))
	}
	for _, task := range []*kerneltest.Task{wait, unstarted} {
		row := task.Row()
		require.Equal(t, toolpark.Completed, row.Status)
		require.Contains(t, string(row.StructuredContent), `"generation":1,"is_error":false,"status":"uncertain"`)
	}
	require.Equal(t, toolpark.Running, later.Row().Status, "it waits for the generation that it found")
	require.NoError(t, l.stage(target, l.claim(target), "done"))
	require.NoError(t, l.stepOf(target, 2))
	require.NoError(t, l.advance(later))
	require.Contains(t, string(later.Row().StructuredContent), `"generation":2,"is_error":false,"status":"completed"`)
}

// TestEverybodyWaitsForEverybody has tasks that wait for each other, in circles, in chains and above a tool_call, all
// take their steps and settle at the same moment, while a forced stop stages its cancels. Locks are taken in one
// order, so that nobody is the victim of a deadlock.
func TestEverybodyWaitsForEverybody(t *testing.T) {
	t.Parallel()
	w := newWrapper(t)
	l := w.lot
	require.NoError(t, w.step())
	round := 1
	for i := range 15 {
		round++
		wait := func(n int) [2]string { return [2]string{"wait", fmt.Sprintf(`{"task":"r%dt%d"}`, round, n)} }
		// 0 and 1 wait for each other, 2 for 1, 3 for the call 4, whose child waits for 3, and 5 for that child.
		tasks := l.UnstartedCalls(l.run, l.runner, wait(1), wait(0), wait(1), wait(4),
			[2]string{"tool_call", fmt.Sprintf(`{"name":"wait","input":{"task":"r%dt3"}}`, round)},
			[2]string{"wait", fmt.Sprintf(`{"task":"r%dt4-call-1"}`, round)})
		require.NoError(t, l.advance(tasks[4]))
		tasks = append(tasks, tasks[4].Child())
		for _, task := range tasks {
			require.NoError(t, l.advance(task))
		}
		var acts []func() error
		for n, task := range tasks {
			acts = append(acts, l.stepping(task), l.stepping(task))
			if (n+i)%2 == 0 {
				acts = append(acts, func() error { return l.cancelTask(task) })
			} else {
				acts = append(acts, func() error { return l.Park.StageTermination(t.Context(), first(task)) })
			}
		}
		stop := func() error { return l.DB.StageCancels(t.Context(), l.ID, w.TaskID.Run, nil) }
		acts = append(acts, stop, stop)
		errs := atOnce(acts...)
		for n, err := range errs {
			if err != nil {
				require.Equal(t, toolpark.CodeAlreadySettled, code(err), "act %d: %v", n, err)
			}
		}
		l.noDeadlock(errs...)
		for range 3 {
			for _, task := range append(tasks, w.Task, w.child) {
				require.NoError(t, l.advance(task))
			}
		}
	}
	w.settledOnce()
	l.noDeadlock()
}

// Two watched tasks, each of whose waiters is the other's, settle at the same moment.
func TestMutualSettlements(t *testing.T) {
	t.Parallel()
	l := newLot(t)
	for range 10 {
		a, b := l.reported(), l.reported()
		forA, forB := l.waitFor(a), l.waitFor(b)
		overA, overB := l.waitFor(forA), l.waitFor(forB)
		all := []*kerneltest.Task{a, b, forA, forB, overA, overB}
		require.NoError(t, errors.Join(l.advance(forA), l.advance(forB), l.advance(overA), l.advance(overB)))
		var acts []func() error
		for _, task := range all {
			acts = append(acts, l.stepping(task), l.stepping(task))
		}
		errs := atOnce(acts...)
		require.NoError(t, errors.Join(errs...))
		for range 2 {
			for _, task := range all {
				require.NoError(t, l.advance(task))
			}
		}
		l.tells(forA, a)
		l.tells(forB, b)
		l.tells(overA, forA)
		l.tells(overB, forB)
	}
	l.noDeadlock()
}

func TestAnswersMeet(t *testing.T) {
	t.Parallel()
	application := func(l *lot) toolpark.Executor {
		return toolpark.Executor{Account: l.ID, ID: l.AgentAt.ID, Kind: toolpark.AgentApplication}
	}

	t.Run("a member's and the application's", func(t *testing.T) {
		t.Parallel()
		l := newLot(t)
		question := l.question()
		member, committed := l.atTask(question, func() error { return l.resolve(question, "a") }, func() error {
			_, err := l.Park.StageCommit(t.Context(), application(l), question.TaskID, "", textReport("b"))
			return err
		})
		require.NoError(t, errors.Join(member, committed))
		require.NoError(t, l.advance(question))
		row := question.Row()
		require.Equal(t, toolpark.ByResolution, *row.SettledBy)
		require.JSONEq(t, `[{"type":"text","text":"a"}]`, string(row.Content))
		require.Equal(t, toolpark.CodeAlreadySettled, code(l.resolve(question, "c")))
	})

	t.Run("an answer and a cancel", func(t *testing.T) {
		t.Parallel()
		l := newLot(t)
		question := l.question()
		canceled, answered := l.atTask(question, func() error { return l.cancelTask(question) }, func() error { return l.resolve(question, "a") })
		require.NoError(t, errors.Join(canceled, answered))
		require.NoError(t, l.advance(question))
		require.Equal(t, toolpark.Canceled, question.Row().Status)
		verdict, _, err := l.DB.Verdict(t.Context(), question.TaskID, 2)
		require.NoError(t, err)
		require.Equal(t, toolpark.CodeAlreadySettled, verdict.Code)
	})

	t.Run("an answer that waits for the lock across the deadline", func(t *testing.T) {
		t.Parallel()
		l := newLot(t)
		question := l.question()
		l.expireIn(question, 500*time.Millisecond)
		answered, _ := l.inOrder(lockTask, []any{question.Run, question.Key}, time.Second, func() error { return l.resolve(question, "a") }, nil)
		require.NoError(t, answered)
		require.NoError(t, l.advance(question))
		require.Equal(t, toolpark.ErrAskTimeout, *question.Row().ErrorKey)
	})

	// The door refuses what cannot be stored; whoever gets past it leaves the question standing, too.
	t.Run("what cannot be stored", func(t *testing.T) {
		t.Parallel()
		l := newLot(t)
		question := l.question()
		_, err := l.Park.StageResolution(t.Context(), l.Member(), question.TaskID, envelope.Fields{Content: jsontext.Value(`"\u0000"`)})
		require.Equal(t, toolpark.CodeResultUnstorable, code(err))
		require.NoError(t, l.resolve(question, "a"))
		_, err = l.DB.Pool.Exec(t.Context(), `UPDATE task_inputs SET body = $3 WHERE run_id = $1 AND task_key = $2`,
			question.Run, question.Key, []byte(`{"content":"\u0000"}`))
		require.NoError(t, err)
		require.NoError(t, l.advance(question))
		require.Equal(t, toolpark.AwaitingInput, question.Row().Status)
		verdict, _, err := l.DB.Verdict(t.Context(), question.TaskID, 1)
		require.NoError(t, err)
		require.Equal(t, toolpark.CodeResultUnstorable, verdict.Code)
		require.NoError(t, l.resolve(question, "b"))
		require.NoError(t, l.advance(question))
		require.Equal(t, toolpark.Completed, question.Row().Status)
	})
}

// TestEverythingHappensToAnAskAtOnce has whoever may touch a call of ask and its question do so at the same moment.
func TestEverythingHappensToAnAskAtOnce(t *testing.T) {
	t.Parallel()
	w := newWrapper(t)
	require.NoError(t, w.step())
	l := w.lot
	for range 10 {
		call := l.UnstartedCalls(l.run, l.runner, [2]string{"ask", `{"prompt":"Which?"}`})[0]
		watcher := l.waitFor(call)
		require.NoError(t, errors.Join(l.advance(watcher), l.advance(call)))
		question := call.Question()
		errs := atOnce(
			l.stepping(call), l.stepping(question), l.stepping(watcher), l.stepping(call), l.stepping(question),
			func() error { return l.resolve(question, "a") },
			func() error { return l.resolve(question, "b") },
			func() error { return l.cancelTask(call) },
			func() error { return l.cancelTask(question) },
			func() error { return l.Park.StageTermination(t.Context(), first(call)) },
			func() error { return l.DB.StageCancels(t.Context(), l.ID, call.Run, nil) },
		)
		for n, err := range errs {
			if err != nil {
				require.Equal(t, toolpark.CodeAlreadySettled, code(err), "act %d: %v", n, err)
			}
		}
		for range 3 {
			require.NoError(t, errors.Join(l.advance(call), l.advance(question), l.advance(watcher)))
		}
		l.noDeadlock(errs...)
	}
	for range 3 {
		require.NoError(t, errors.Join(w.step(), w.stepChild()))
	}
	w.settledOnce()
}
