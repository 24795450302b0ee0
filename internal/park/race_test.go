package park_test

import (
	"sync"
	"testing"
	"time"
	"uuid"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/internal/postgres"
	"github.com/toolpark/toolpark/sdk/agent"
)

func TestStageMeetsAdvance(t *testing.T) {
	t.Parallel()

	t.Run("an advance behind a stage sees what it staged", func(t *testing.T) {
		t.Parallel()
		l := newLot(t)
		task := l.author(time.Hour)
		token := l.claim(task)
		staged, advanced := l.atTask(task,
			func() error { return l.stage(task, token, "done") },
			func() error { return l.advance(task) })
		require.NoError(t, staged)
		require.NoError(t, advanced)
		require.Equal(t, toolpark.Completed, task.Row().Status)
	})

	t.Run("an advance before a stage leaves it for the next", func(t *testing.T) {
		t.Parallel()
		l := newLot(t)
		task := l.author(time.Hour)
		token := l.claim(task)
		advanced, staged := l.atTask(task,
			func() error { return l.advance(task) },
			func() error { return l.stage(task, token, "done") })
		require.NoError(t, advanced)
		require.NoError(t, staged)
		require.Equal(t, toolpark.Dispatched, task.Row().Status)
		require.NoError(t, l.advance(task))
		require.Equal(t, toolpark.Completed, task.Row().Status)
	})

	t.Run("a report staged in time wins, judged after the deadline", func(t *testing.T) {
		t.Parallel()
		l := newLot(t)
		task := l.author(time.Hour)
		token := l.claim(task)
		l.expireIn(task, time.Second)
		require.NoError(t, l.stage(task, token, "done"))
		l.afterDeadline(task)
		require.NoError(t, l.advance(task))
		require.Equal(t, toolpark.Completed, task.Row().Status)
	})

	t.Run("a report that waits for the lock over the deadline is late", func(t *testing.T) {
		t.Parallel()
		l := newLot(t)
		task := l.author(time.Hour)
		token := l.claim(task)
		l.expireIn(task, 400*time.Millisecond)
		staged, _ := l.inOrder(lockTask, []any{task.Run, task.Key}, 700*time.Millisecond,
			func() error { return l.stage(task, token, "done") }, nil)
		require.NoError(t, staged)
		require.NoError(t, l.advance(task))
		row := task.Row()
		require.Equal(t, toolpark.Uncertain, row.Status)
		verdict, _, err := l.DB.Verdict(t.Context(), task.TaskID, 1)
		require.NoError(t, err)
		require.Equal(t, toolpark.CodeClaimExpired, verdict.Code)
	})

	t.Run("no report outlives an expiry", func(t *testing.T) {
		t.Parallel()
		l := newLot(t)
		task := l.author(time.Hour)
		token := l.claim(task)
		l.expireIn(task, 0)
		advanced, staged := l.atTask(task,
			func() error { return l.advance(task) },
			func() error { return l.stage(task, token, "done") })
		require.NoError(t, advanced)
		require.Equal(t, toolpark.CodeClaimExpired, code(staged))
		require.Equal(t, toolpark.Uncertain, task.Row().Status)
		l.nothingStaged(task)
	})

	t.Run("two advances settle once", func(t *testing.T) {
		t.Parallel()
		l := newLot(t)
		task := l.author(time.Hour)
		l.expireIn(task, 0)
		before := len(l.events())
		first, second := l.atTask(task,
			func() error { return l.advance(task) },
			func() error { return l.advance(task) })
		require.NoError(t, first)
		require.NoError(t, second)
		require.Equal(t, []string{"task_status"}, l.events()[before:])
	})
}

// afterDeadline returns when the database's clock has passed the task's deadline.
func (l *lot) afterDeadline(task *kerneltest.Task) {
	l.T.Helper()
	l.Eventually("the deadline passes", func() bool {
		var over bool
		err := l.DB.Pool.QueryRow(l.T.Context(), `
			SELECT clock_timestamp() >= deadline_at FROM tasks WHERE run_id = $1 AND key = $2`, task.Run, task.Key).Scan(&over)
		return err == nil && over
	})
}

func (l *lot) nothingStaged(task *kerneltest.Task) {
	l.T.Helper()
	var unjudged int
	require.NoError(l.T, l.DB.Pool.QueryRow(l.T.Context(), `
		SELECT count(*) FROM task_inputs WHERE run_id = $1 AND task_key = $2 AND judged_at IS NULL`,
		task.Run, task.Key).Scan(&unjudged))
	require.Zero(l.T, unjudged)
}

func TestCancelMeetsClaim(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T) (l *lot, task *kerneltest.Task, cancel, claim func() error) {
		l = newLot(t)
		task = l.author(time.Hour)
		return l, task,
			func() error {
				_, err := l.Park.StageCancel(t.Context(), l.Member(), task.TaskID)
				return err
			},
			func() error {
				_, _, err := l.Park.Claim(t.Context(), l.runner.As(l.Account), task.TaskID, "key")
				return err
			}
	}

	t.Run("nobody claims after a cancel", func(t *testing.T) {
		t.Parallel()
		l, task, cancel, claim := setup(t)
		canceled, claimed := l.atTask(task, cancel, claim)
		require.NoError(t, canceled)
		require.Equal(t, toolpark.CodeTaskNotClaimable, code(claimed))
		require.NoError(t, l.advance(task))
		require.Equal(t, toolpark.Canceled, task.Row().Status)
		require.Nil(t, task.Row().ClaimedBy)
	})

	t.Run("a cancel after a claim ends it", func(t *testing.T) {
		t.Parallel()
		l, task, cancel, claim := setup(t)
		claimed, canceled := l.atTask(task, claim, cancel)
		require.NoError(t, claimed)
		require.NoError(t, canceled)
		require.NoError(t, l.advance(task))
		require.Equal(t, toolpark.Canceled, task.Row().Status)
		require.NotNil(t, task.Row().ClaimedBy)
	})
}

func TestTheLastTwoSettlesOfARound(t *testing.T) {
	t.Parallel()
	a := kerneltest.StartAPI(t).Account()
	patient(t, a.Kernel)
	l := &lot{Account: a, runner: a.Runner("box")}
	a.Serve(l.runner, kerneltest.Entry("echo", kerneltest.ReadOnly))
	stop := a.StartWorker()
	l.run = a.Run(l.runner)
	stop()
	for round := range 8 {
		made, err := a.Agent.PostRound(t.Context(), l.run, agent.NewRound{Calls: []agent.Call{
			{ID: "a", Name: "echo", Arguments: `{}`}, {ID: "b", Name: "echo", Arguments: `{}`},
		}})
		require.NoError(t, err)
		var tasks []*kerneltest.Task
		for _, born := range made.Tasks {
			task := l.task(born.Key)
			require.NoError(t, l.stage(task, l.claim(task), "done"))
			tasks = append(tasks, task)
		}
		advance := func(i int) func() error {
			return func() error { return l.advance(tasks[i]) }
		}
		// Each holds its own task's row; they meet at the run's.
		first, second := l.atRun(tasks[0], advance(round%2), advance(1-round%2))
		require.NoError(t, first)
		require.NoError(t, second)
		require.Equal(t, round+1, count(l.events(), "round_settled"))
		var over bool
		_, err = a.DB.Run(t.Context(), a.Member(), tasks[0].Run, postgres.ReadRoundSettled(tasks[0].Run, made.Number, &over))
		require.NoError(t, err)
		require.True(t, over)
	}
}

func (l *lot) task(key string) *kerneltest.Task {
	return &kerneltest.Task{
		Kernel: l.Kernel, TaskID: toolpark.TaskID{Account: l.ID, Run: uuid.MustParse(l.run), Key: key}, Runner: l.runner,
	}
}

func TestStopMeetsTheLastSettle(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T, force bool) (l *lot, task *kerneltest.Task, stop, settle func() error) {
		l = newLot(t)
		task = l.author(time.Hour)
		require.NoError(t, l.stage(task, l.claim(task), "done"))
		return l, task,
			func() error { return l.Park.Stop(t.Context(), l.Member(), task.Run, force) },
			func() error { return l.advance(task) }
	}
	check := func(t *testing.T, l *lot, task *kerneltest.Task, statuses int) {
		require.Equal(t, toolpark.Completed, task.Row().Status)
		run, err := l.DB.Run(t.Context(), l.Member(), task.Run)
		require.NoError(t, err)
		require.Equal(t, toolpark.RunCanceled, run.Status)
		require.NotNil(t, run.EndedAt)
		require.Equal(t, statuses, count(l.events(), "run_status"))
		var canceled int
		require.NoError(t, l.DB.Pool.QueryRow(t.Context(), `
			SELECT count(*) FROM events WHERE run_id = $1 AND type = 'run_status' AND data->>'status' = 'canceled'`,
			task.Run).Scan(&canceled))
		require.Equal(t, 1, canceled)
	}
	for _, force := range []bool{false, true} {
		name := map[bool]string{false: "plain", true: "forced"}[force]

		t.Run(name+" stop first", func(t *testing.T) {
			t.Parallel()
			l, task, stop, settle := setup(t, force)
			stopped, settled := l.atRun(task, stop, settle)
			require.NoError(t, stopped)
			require.NoError(t, settled)
			check(t, l, task, 2) // stopping, canceled
		})

		t.Run(name+" settle first", func(t *testing.T) {
			t.Parallel()
			l, task, stop, settle := setup(t, force)
			settled, stopped := l.atRun(task, settle, stop)
			require.NoError(t, settled)
			require.NoError(t, stopped)
			check(t, l, task, 1) // canceled
		})
	}

	t.Run("a forced stop's cancel meets the settle at the task", func(t *testing.T) {
		t.Parallel()
		l, task, stop, settle := setup(t, true)
		stopped, settled := l.atTask(task, stop, settle)
		require.NoError(t, stopped)
		require.NoError(t, settled)
		check(t, l, task, 2)
		l.nothingStaged(task)
	})
}

func TestManyClaimsHaveOneWinner(t *testing.T) {
	t.Parallel()
	a := kerneltest.StartAPI(t).Account()
	patient(t, a.Kernel)
	var pool []kerneltest.Executor
	for _, name := range []string{"one", "two", "three", "four"} {
		provider := a.Executor(toolpark.ToolsProvider, name, toolpark.AccountWide)
		a.Serve(provider, kerneltest.Entry("echo", kerneltest.ReadOnly))
		pool = append(pool, provider)
	}
	l := &lot{Account: a, run: a.BareRun()}
	made, err := a.Agent.AppendTasks(t.Context(), l.run, []agent.Step{{Name: "echo", Key: "one"}}, "")
	require.NoError(t, err)
	task := l.task(made[0].Key)

	const claims = 40
	var (
		barrier = make(chan struct{})
		wait    sync.WaitGroup
		mu      sync.Mutex
		tokens  []string
		refused []toolpark.Code
	)
	for i := range claims {
		wait.Go(func() {
			<-barrier
			_, claim, err := a.Park.Claim(t.Context(), pool[i%len(pool)].As(a), task.TaskID, uuid.NewV7().String())
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				tokens = append(tokens, claim.Token)
			} else {
				refused = append(refused, code(err))
			}
		})
	}
	close(barrier)
	wait.Wait()
	require.Len(t, tokens, 1)
	require.Len(t, refused, claims-1)
	for _, c := range refused {
		require.Equal(t, toolpark.CodeAlreadyClaimed, c)
	}
	var listed int
	require.NoError(t, a.DB.Pool.QueryRow(t.Context(), `SELECT count(*) FROM deliveries WHERE run_id = $1`, task.Run).Scan(&listed))
	require.Equal(t, 1, listed, "the task is listed with its claimant only")
}
