package park_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kerneltest"
)

// wrapper is a round of one tool_call of echo in a run that may call the kernel's tools.
type wrapper struct {
	*lot
	*kerneltest.Task
	child *kerneltest.Task // made by an advance of the wrapper
}

func newWrapper(t *testing.T) *wrapper {
	t.Helper()
	a := kerneltest.StartAPI(t).Account()
	patient(t, a.Kernel)
	l := &lot{Account: a, runner: a.Runner("box")}
	a.Serve(l.runner, kerneltest.Entry("echo", kerneltest.Writes))
	l.run = a.KernelRun(l.runner)
	return l.wrap()
}

func (l *lot) wrap() *wrapper {
	l.T.Helper()
	task := l.UnstartedCalls(l.run, l.runner, [2]string{"tool_call", `{"name":"echo","input":{}}`})[0]
	return &wrapper{lot: l, Task: task, child: task.Child()}
}

// newWaiting is a wrapper whose child has been made.
func newWaiting(t *testing.T) *wrapper {
	t.Helper()
	w := newWrapper(t)
	require.NoError(t, w.step())
	require.Equal(t, toolpark.Dispatched, w.child.Row().Status)
	return w
}

func (w *wrapper) step() error      { return w.advance(w.Task) }
func (w *wrapper) stepChild() error { return w.advance(w.child) }

func (w *wrapper) cancel(task *kerneltest.Task) error {
	_, err := w.Park.StageCancel(w.lot.T.Context(), w.Member(), task.TaskID)
	return err
}

func (w *wrapper) forceStop() error {
	return w.Park.Stop(w.lot.T.Context(), w.Member(), w.TaskID.Run, true)
}

func (w *wrapper) terminate(task *kerneltest.Task) error {
	return w.Park.StageTermination(w.lot.T.Context(), first(task))
}

// report stages a report of the child.
func (w *wrapper) report(token string) error { return w.stage(w.child, token, "done") }

// end takes the steps that are still to be taken, and wants one outcome of each task, once.
func (w *wrapper) end(want toolpark.Status) {
	t := w.lot.T
	t.Helper()
	for range 3 { // the wrapper ends its child, or the child tells the wrapper
		require.NoError(t, w.step())
		require.NoError(t, w.stepChild())
	}
	require.Equal(t, want, w.Row().Status)
	w.settledOnce()
}

// settledOnce holds the run against what is true of every run in which all work has settled.
func (w *wrapper) settledOnce() {
	t := w.lot.T
	t.Helper()
	for what, query := range map[string]string{
		"a task is live": `SELECT count(*) FROM tasks WHERE run_id = $1 AND settled_at IS NULL`,
		"a task settled more than once": `
			SELECT count(*) FROM (
				SELECT FROM events WHERE run_id = $1 AND type = 'task_status'
					AND data->>'status' IN ('completed', 'failed', 'canceled', 'timed_out', 'uncertain')
				GROUP BY data->>'task_key' HAVING count(*) > 1) AS settled`,
		"a settlement has no event": `
			SELECT count(*) FROM tasks t WHERE run_id = $1 AND NOT EXISTS (
				SELECT FROM events e WHERE e.run_id = $1 AND e.data->>'task_key' = t.key AND e.data->>'status' = t.status)`,
		"an input is not judged": `SELECT count(*) FROM task_inputs WHERE run_id = $1 AND judged_at IS NULL`,
		"an inbox lists a task":  `SELECT count(*) FROM deliveries WHERE run_id = $1`,
		"a call made more than one child": `
			SELECT count(*) FROM (
				SELECT FROM tasks WHERE run_id = $1 AND parent_key IS NOT NULL GROUP BY parent_key HAVING count(*) > 1) AS twins`,
		"a round has not settled once": `
			SELECT count(*) FROM rounds r WHERE run_id = $1 AND (settled_at IS NULL OR 1 <> (
				SELECT count(*) FROM events e
				WHERE e.run_id = $1 AND e.type = 'round_settled' AND (e.data->>'round')::int = r.number))`,
	} {
		var n int
		require.NoError(t, w.DB.Pool.QueryRow(t.Context(), query, w.TaskID.Run).Scan(&n))
		require.Zero(t, n, what)
	}
	w.events()
}

func TestAChildsSettlementMeetsACancelOfItsCall(t *testing.T) {
	t.Parallel()

	t.Run("the cancel is staged first", func(t *testing.T) {
		t.Parallel()
		w := newWaiting(t)
		require.NoError(t, w.report(w.claim(w.child)))
		canceled, settled := w.atTask(w.Task, func() error { return w.cancel(w.Task) }, w.stepChild)
		require.NoError(t, canceled)
		require.NoError(t, settled)
		w.end(toolpark.Canceled)
		require.Equal(t, toolpark.Completed, w.child.Row().Status, "what ran has run")
	})

	t.Run("the child settles first", func(t *testing.T) {
		t.Parallel()
		w := newWaiting(t)
		require.NoError(t, w.report(w.claim(w.child)))
		settled, canceled := w.atTask(w.Task, w.stepChild, func() error { return w.cancel(w.Task) })
		require.NoError(t, settled)
		require.NoError(t, canceled)
		w.end(toolpark.Completed)
		verdict, _, err := w.DB.Verdict(t.Context(), w.TaskID, 2)
		require.NoError(t, err)
		require.Equal(t, toolpark.CodeAlreadySettled, verdict.Code, "the cancel came too late")
	})

	t.Run("the call is settled as canceled first", func(t *testing.T) {
		t.Parallel()
		w := newWaiting(t)
		require.NoError(t, w.report(w.claim(w.child)))
		require.NoError(t, w.cancel(w.Task))
		ended, settled := w.atTask(w.Task, w.step, w.stepChild)
		require.NoError(t, ended)
		require.NoError(t, settled)
		w.end(toolpark.Canceled)
		require.Equal(t, toolpark.Completed, w.child.Row().Status, "a report that was staged before the cancel counts")
	})

	t.Run("both are canceled", func(t *testing.T) {
		t.Parallel()
		w := newWaiting(t)
		require.NoError(t, w.cancel(w.Task))
		require.NoError(t, w.cancel(w.child))
		settled, ended := w.atTask(w.Task, w.stepChild, w.step)
		require.NoError(t, settled)
		require.NoError(t, ended)
		w.end(toolpark.Canceled)
		require.Equal(t, toolpark.ByCancel, *w.Row().SettledBy)
		require.Equal(t, toolpark.Canceled, w.child.Row().Status)
	})
}

func TestACancelOfACallMeetsTheClaimOfItsChild(t *testing.T) {
	t.Parallel()
	claim := func(w *wrapper, token *string) func() error {
		return func() error {
			_, claim, err := w.Park.Claim(w.lot.T.Context(), w.runner.As(w.Account), w.child.TaskID, "key")
			*token = claim.Token
			return err
		}
	}

	t.Run("nobody claims after the call was canceled", func(t *testing.T) {
		t.Parallel()
		w := newWaiting(t)
		require.NoError(t, w.cancel(w.Task))
		canceled, claimed := w.atTask(w.child, w.step, claim(w, new(string)))
		require.NoError(t, canceled)
		require.Equal(t, toolpark.CodeTaskNotClaimable, code(claimed))
		w.end(toolpark.Canceled)
		require.Equal(t, toolpark.Canceled, w.child.Row().Status)
		require.Nil(t, w.child.Row().ClaimedBy)
	})

	t.Run("who claimed before is told", func(t *testing.T) {
		t.Parallel()
		w := newWaiting(t)
		require.NoError(t, w.cancel(w.Task))
		var token string
		claimed, canceled := w.atTask(w.child, claim(w, &token), w.step)
		require.NoError(t, claimed)
		require.NoError(t, canceled)
		w.end(toolpark.Canceled)
		require.NotNil(t, w.child.Row().ClaimedBy)
		require.Equal(t, toolpark.CodeClaimCanceled, code(w.report(token)))
	})
}

func TestAForcedStopMeetsTheMakingOfAChild(t *testing.T) {
	t.Parallel()
	ended := func(w *wrapper) {
		w.lot.T.Helper()
		run, err := w.DB.Run(w.lot.T.Context(), w.Member(), w.TaskID.Run)
		require.NoError(w.lot.T, err)
		require.Equal(w.lot.T, toolpark.RunCanceled, run.Status)
	}

	t.Run("a run that is stopped makes none", func(t *testing.T) {
		t.Parallel()
		w := newWrapper(t)
		stopped, made := w.atRun(w.Task, w.forceStop, w.step)
		require.NoError(t, stopped)
		require.NoError(t, made)
		require.Equal(t, toolpark.Canceled, w.Row().Status)
		require.Zero(t, w.children())
		w.settledOnce()
		ended(w)
	})

	t.Run("one that was made before is canceled", func(t *testing.T) {
		t.Parallel()
		w := newWrapper(t)
		made, stopped := w.atRun(w.Task, w.step, w.forceStop)
		require.NoError(t, made)
		require.NoError(t, stopped)
		w.end(toolpark.Canceled)
		require.Equal(t, toolpark.Canceled, w.child.Row().Status)
		require.Nil(t, w.child.Row().ClaimedBy)
		ended(w)
	})

	t.Run("its cancels come first to the call", func(t *testing.T) {
		t.Parallel()
		w := newWrapper(t)
		stopped, made := w.atTask(w.Task, w.forceStop, w.step)
		require.NoError(t, stopped)
		require.NoError(t, made)
		require.Equal(t, toolpark.Canceled, w.Row().Status)
		require.Zero(t, w.children())
		w.settledOnce()
		ended(w)
	})

	t.Run("its cancels find the call taking its step", func(t *testing.T) {
		t.Parallel()
		w := newWrapper(t)
		made, stopped := w.atTask(w.Task, w.step, w.forceStop)
		require.NoError(t, made)
		require.NoError(t, stopped)
		require.Equal(t, toolpark.Canceled, w.Row().Status)
		require.Zero(t, w.children())
		w.settledOnce()
		ended(w)
	})

	t.Run("a plain stop lets a call that is under way finish", func(t *testing.T) {
		t.Parallel()
		w := newWrapper(t)
		stopped, made := w.atRun(w.Task, func() error {
			return w.Park.Stop(t.Context(), w.Member(), w.TaskID.Run, false)
		}, w.step)
		require.NoError(t, stopped)
		require.NoError(t, made)
		require.NoError(t, w.report(w.claim(w.child)))
		w.end(toolpark.Completed)
		ended(w)
	})
}

// children counts what the run's calls made.
func (l *lot) children() (n int) {
	l.T.Helper()
	require.NoError(l.T, l.DB.Pool.QueryRow(l.T.Context(), `
		SELECT count(*) FROM tasks WHERE run_id = $1 AND parent_key IS NOT NULL`, l.run).Scan(&n))
	return n
}

func TestTwoAdvancesOfACallMakeOneChild(t *testing.T) {
	t.Parallel()
	w := newWrapper(t)
	before := len(w.events())
	first, second := w.atTask(w.Task, w.step, w.step)
	require.NoError(t, first)
	require.NoError(t, second)
	require.Equal(t, 1, w.children())
	require.Equal(t, []string{"task_status"}, w.events()[before:], "the child's birth")
	require.NoError(t, w.report(w.claim(w.child)))
	first, second = w.atTask(w.Task, w.stepChild, w.stepChild)
	require.NoError(t, first)
	require.NoError(t, second)
	first, second = w.atTask(w.Task, w.step, w.step)
	require.NoError(t, first)
	require.NoError(t, second)
	w.end(toolpark.Completed)
}

func TestAChildsSettlementMeetsATerminationByHand(t *testing.T) {
	t.Parallel()
	terminate := func(w *wrapper) func() error { return func() error { return w.terminate(w.Task) } }

	t.Run("the child settles first", func(t *testing.T) {
		t.Parallel()
		w := newWaiting(t)
		require.NoError(t, w.report(w.claim(w.child)))
		settled, terminated := w.atTask(w.Task, w.stepChild, terminate(w))
		require.NoError(t, settled)
		require.NoError(t, terminated)
		w.end(toolpark.Completed)
	})

	t.Run("the termination is found first", func(t *testing.T) {
		t.Parallel()
		w := newWaiting(t)
		require.NoError(t, w.report(w.claim(w.child)))
		terminated, settled := w.atTask(w.Task, terminate(w), w.stepChild)
		require.NoError(t, terminated)
		require.NoError(t, settled)
		w.end(toolpark.Failed)
		require.Equal(t, toolpark.ErrWorkflowTerminated, *w.Row().ErrorKey)
		require.Equal(t, toolpark.Completed, w.child.Row().Status)
	})

	t.Run("a child that waits ends with it", func(t *testing.T) {
		t.Parallel()
		w := newWaiting(t)
		w.claim(w.child)
		require.NoError(t, w.terminate(w.Task))
		w.end(toolpark.Failed)
		require.Equal(t, toolpark.Canceled, w.child.Row().Status)
	})

	t.Run("the child's own is the call's", func(t *testing.T) {
		t.Parallel()
		w := newWaiting(t)
		require.NoError(t, w.terminate(w.child))
		w.end(toolpark.Failed)
		require.Equal(t, toolpark.ErrWorkflowTerminated, *w.Row().ErrorKey)
	})
}

// TestAnAdvanceOfACallMeetsItsFirstStart: a call that waits for its child has no deadline for its alarm to
// follow, and must not keep its neighbours from theirs.
func TestAnAdvanceOfACallMeetsItsFirstStart(t *testing.T) {
	t.Parallel()
	alarm := func(w *wrapper, task *kerneltest.Task) (in time.Duration) {
		w.lot.T.Helper()
		var seconds float64
		require.NoError(w.lot.T, w.DB.Pool.QueryRow(w.lot.T.Context(), `
			SELECT extract(epoch FROM wake_at - clock_timestamp())::float8 FROM tasks WHERE run_id = $1 AND key = $2`,
			task.Run, task.Key).Scan(&seconds))
		return time.Duration(seconds * float64(time.Second))
	}
	setup := func(t *testing.T) (w *wrapper, neighbour *kerneltest.Task, started func() error) {
		w = newWrapper(t)
		neighbour = w.UnstartedCalls(w.run, w.runner, [2]string{"tool_search", `{"query":"echo"}`})[0]
		return w, neighbour, func() error {
			return w.DB.Started(t.Context(), []toolpark.GenerationID{first(w.Task), first(neighbour)})
		}
	}
	check := func(w *wrapper, neighbour *kerneltest.Task) {
		w.lot.T.Helper()
		require.Greater(w.lot.T, alarm(w, w.Task), 23*time.Hour)
		require.Greater(w.lot.T, alarm(w, neighbour), 30*time.Second, "its start is known, too")
		require.NoError(w.lot.T, w.advance(neighbour))
		require.NoError(w.lot.T, w.report(w.claim(w.child)))
		w.end(toolpark.Completed)
	}

	t.Run("the advance comes first", func(t *testing.T) {
		t.Parallel()
		w, neighbour, started := setup(t)
		require.NoError(t, w.step())
		require.NoError(t, started())
		check(w, neighbour)
	})

	t.Run("the start is noted first", func(t *testing.T) {
		t.Parallel()
		w, neighbour, started := setup(t)
		require.NoError(t, started())
		require.NoError(t, w.step())
		check(w, neighbour)
	})

	t.Run("both at once", func(t *testing.T) {
		t.Parallel()
		w, neighbour, started := setup(t)
		first, second := together(w.step, started)
		require.NoError(t, first)
		require.NoError(t, second)
		check(w, neighbour)
	})
}

// together lets two begin at the same moment.
func together(a, b func() error) (errA, errB error) {
	var (
		barrier = make(chan struct{})
		wait    sync.WaitGroup
	)
	wait.Go(func() { <-barrier; errA = a() })
	wait.Go(func() { <-barrier; errB = b() })
	close(barrier)
	wait.Wait()
	return errA, errB
}

// TestEverythingHappensToACallAtOnce has whoever may touch a call and its child do so at the same moment. Locks are
// taken in one order, so that nobody is the victim of a deadlock.
func TestEverythingHappensToACallAtOnce(t *testing.T) {
	t.Parallel()
	w := newWrapper(t)
	for i := range 12 {
		if i > 0 {
			w = w.wrap()
		}
		require.NoError(t, w.step())
		token := w.claim(w.child)
		acts := []func() error{
			w.step, w.stepChild, w.step, w.stepChild,
			func() error { return w.report(token) },
			func() error { return w.cancel(w.Task) },
			func() error { return w.cancel(w.child) },
			func() error { return w.terminate(w.Task) },
			func() error { return w.terminate(w.child) },
			func() error { return w.DB.StageCancels(t.Context(), w.ID, w.TaskID.Run, nil) },
		}
		var (
			barrier = make(chan struct{})
			wait    sync.WaitGroup
		)
		errs := make([]error, len(acts))
		for i, act := range acts {
			wait.Go(func() { <-barrier; errs[i] = act() })
		}
		close(barrier)
		wait.Wait()
		for i, err := range errs {
			if err != nil { // that it came too late is an answer
				require.Contains(t, []toolpark.Code{toolpark.CodeAlreadySettled, toolpark.CodeClaimCanceled, toolpark.CodeStaleClaim},
					code(err), "act %d: %v", i, err)
			}
		}
		for range 3 {
			require.NoError(t, w.step())
			require.NoError(t, w.stepChild())
		}
		w.settledOnce()
	}
}
