package park_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kerneltest"
)

func TestARetryMeetsALateReport(t *testing.T) {
	t.Parallel()

	t.Run("the retry is first", func(t *testing.T) {
		t.Parallel()
		l := newLot(t)
		task := l.author(time.Hour)
		token := l.uncertain(task)
		retried, staged := l.atTask(task,
			func() error { return l.retry(task) },
			func() error { return l.stage(task, token, "late") })
		require.NoError(t, retried)
		require.Equal(t, toolpark.CodeStaleClaim, code(staged))
		l.nothingStaged(task)
	})

	t.Run("the report is first", func(t *testing.T) {
		t.Parallel()
		l := newLot(t)
		task := l.author(time.Hour)
		token := l.uncertain(task)
		staged, retried := l.atTask(task,
			func() error { return l.stage(task, token, "late") },
			func() error { return l.retry(task) })
		require.Equal(t, toolpark.CodeClaimExpired, code(staged))
		require.NoError(t, retried)
		require.Equal(t, toolpark.Dispatched, task.Row().Status)
		l.nothingStaged(task)
	})
}

func TestRetriesMeet(t *testing.T) {
	t.Parallel()
	l := newLot(t)
	task := l.author(time.Hour)
	l.uncertain(task)
	first, second := l.atTask(task,
		func() error { return l.retry(task) },
		func() error { return l.retry(task) })
	require.NoError(t, first)
	require.Equal(t, toolpark.CodeNotRetryable, code(second))
	require.Equal(t, 2, task.Row().Generation)
}

func TestARetryMeetsAnAbandonment(t *testing.T) {
	t.Parallel()

	t.Run("the retry is first", func(t *testing.T) {
		t.Parallel()
		l := newLot(t)
		task := l.author(time.Hour)
		l.uncertain(task)
		retried, abandoned := l.atTask(task,
			func() error { return l.retry(task) },
			func() error { return l.abandon(task) })
		require.NoError(t, retried)
		require.Equal(t, toolpark.CodeNotAbandonable, code(abandoned))
		require.Nil(t, task.Row().AbandonedAt)
	})

	t.Run("the abandonment is first", func(t *testing.T) {
		t.Parallel()
		l := newLot(t)
		task := l.author(time.Hour)
		l.uncertain(task)
		abandoned, retried := l.atTask(task,
			func() error { return l.abandon(task) },
			func() error { return l.retry(task) })
		require.NoError(t, abandoned)
		require.Equal(t, toolpark.CodeNotRetryable, code(retried))
		require.Equal(t, 1, task.Row().Generation)
	})
}

func TestARetryMeetsTheEndOfItsRun(t *testing.T) {
	t.Parallel()
	ends := map[string]func(l *lot, task *kerneltest.Task) error{
		"stop": func(l *lot, task *kerneltest.Task) error {
			return l.Park.Stop(l.T.Context(), l.Member(), task.Run, false)
		},
		"forced stop": func(l *lot, task *kerneltest.Task) error {
			return l.Park.Stop(l.T.Context(), l.Member(), task.Run, true)
		},
		"complete": func(l *lot, task *kerneltest.Task) error { return l.Park.Complete(l.T.Context(), l.ID, task.Run) },
	}
	for name, end := range ends {
		t.Run(name+" after the retry", func(t *testing.T) {
			t.Parallel()
			l := newLot(t)
			task := l.author(time.Hour)
			l.uncertain(task)
			retried, ended := l.atRun(task, func() error { return l.retry(task) }, func() error { return end(l, task) })
			require.NoError(t, retried)
			row := task.Row()
			require.Equal(t, toolpark.Dispatched, row.Status)
			run, err := l.DB.Run(t.Context(), l.Member(), task.Run)
			require.NoError(t, err)
			if name == "complete" {
				require.Equal(t, toolpark.CodeRunBusy, code(ended))
				require.Equal(t, toolpark.RunRunning, run.Status)
				return
			}
			require.NoError(t, ended)
			require.Equal(t, toolpark.RunStopping, run.Status)
			if name == "stop" {
				require.Nil(t, row.CancelRequestedAt, "it may still finish")
				require.NoError(t, l.stage(task, l.claim(task), "done"))
			}
			require.NoError(t, l.stepOf(task, 2))
			run, err = l.DB.Run(t.Context(), l.Member(), task.Run)
			require.NoError(t, err)
			require.Equal(t, toolpark.RunCanceled, run.Status)
		})

		t.Run(name+" before the retry", func(t *testing.T) {
			t.Parallel()
			l := newLot(t)
			task := l.author(time.Hour)
			l.uncertain(task)
			ended, retried := l.atRun(task, func() error { return end(l, task) }, func() error { return l.retry(task) })
			require.NoError(t, ended)
			require.Equal(t, toolpark.CodeRunSettled, code(retried))
			require.Equal(t, 1, task.Row().Generation)
		})
	}
}

func TestARetryMeetsTheLastSettleOfItsRound(t *testing.T) {
	t.Parallel()
	for _, retryFirst := range []bool{true, false} {
		a := kerneltest.StartAPI(t).Account()
		patient(t, a.Kernel)
		l := &lot{Account: a, runner: a.Runner("box")}
		a.Serve(l.runner, kerneltest.Entry("echo", kerneltest.Writes))
		l.run = a.KernelRun(l.runner)
		tasks := l.UnstartedCalls(l.run, l.runner, [2]string{"echo", `{}`}, [2]string{"echo", `{}`})
		l.uncertain(tasks[0])
		require.NoError(t, l.stage(tasks[1], l.claim(tasks[1]), "done"))
		retry, settle := func() error { return l.retry(tasks[0]) }, func() error { return l.advance(tasks[1]) }
		before := len(l.events())
		if retryFirst {
			retried, settled := l.atRun(tasks[0], retry, settle)
			require.NoError(t, retried)
			require.NoError(t, settled)
			require.Equal(t, []string{"task_status", "task_status"}, l.events()[before:], "the round never settled")
		} else {
			settled, retried := l.atRun(tasks[0], settle, retry)
			require.NoError(t, settled)
			require.NoError(t, retried)
			require.Equal(t, []string{"task_status", "round_settled", "round_reopened", "task_status"}, l.events()[before:])
		}
		require.NoError(t, l.stage(tasks[0], l.claim(tasks[0]), "done"))
		require.NoError(t, l.stepOf(tasks[0], 2))
		events := l.events()
		require.Equal(t, "round_settled", events[len(events)-1])
	}
}

// A retry that was asked for while the task lived has not crossed the stage of approval: it must not go on.
func TestARetryMeetsTheFailureOfItsTask(t *testing.T) {
	t.Parallel()
	l := newLot(t)
	task := l.author(time.Hour)
	l.claim(task)
	l.expireIn(task, 0)
	settled, retried := l.atTask(task, func() error { return l.advance(task) }, func() error { return l.retry(task) })
	require.NoError(t, settled)
	require.Equal(t, toolpark.CodeNotRetryable, code(retried))
	require.Equal(t, toolpark.Uncertain, task.Row().Status)
	require.NoError(t, l.retry(task))
}
