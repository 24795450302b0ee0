package workflows_test

import (
	"context"
	"testing"
	"time"
	"uuid"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/activities"
	"github.com/toolpark/toolpark/workflows"
)

// These tests stand in for the steps, to see when a workflow takes them: the clock is virtual. What the
// steps do is tested over a real database.

var (
	steps    *activities.Tasks // nil: only name activities
	runSteps *activities.Runs
)

// look is one step that a workflow took.
type look struct {
	at       time.Time
	canceled bool
}

// clockwork is a workflow environment in which time passes by itself.
type clockwork struct {
	*testsuite.TestWorkflowEnvironment
	began time.Time
	looks []look
}

func newClockwork(t *testing.T) *clockwork {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(silent{})
	c := &clockwork{TestWorkflowEnvironment: suite.NewTestWorkflowEnvironment()}
	c.SetTestTimeout(time.Minute)
	c.RegisterActivity(&activities.Tasks{})
	c.RegisterActivity(&activities.Runs{})
	c.began = c.Now()
	return c
}

type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}

// advance answers the n-th step of a ToolTask, counted from 1.
func (c *clockwork) advance(answer func(n int, in activities.AdvanceInput) (activities.AdvanceResult, error)) {
	c.OnActivity(steps.Advance, mock.Anything, mock.Anything).Return(
		func(_ context.Context, in activities.AdvanceInput) (activities.AdvanceResult, error) {
			c.looks = append(c.looks, look{c.Now(), in.Canceled})
			return answer(len(c.looks), in)
		})
}

func (c *clockwork) advanceRun(answer func(n int) (activities.AdvanceRunResult, error)) {
	c.OnActivity(runSteps.AdvanceRun, mock.Anything, mock.Anything).Return(
		func(_ context.Context, in activities.AdvanceRunInput) (activities.AdvanceRunResult, error) {
			c.looks = append(c.looks, look{c.Now(), in.Canceled})
			return answer(len(c.looks))
		})
}

func (c *clockwork) task() {
	c.ExecuteWorkflow(workflows.ToolTask, workflows.ToolTaskInput{Account: uuid.NewV7(), Run: uuid.NewV7(), Key: "r1t0", Generation: 1})
}

func (c *clockwork) run() {
	c.ExecuteWorkflow(workflows.Run, workflows.RunInput{Account: uuid.NewV7(), Run: uuid.NewV7()})
}

// away is how a step ends while the database does not answer. It is taken once, without the tries that
// the retry policy adds within a second.
func away() error { return temporal.NewNonRetryableApplicationError("away", "unavailable", nil) }

func over() (activities.AdvanceResult, error) {
	return activities.AdvanceResult{Over: true, Status: toolpark.Completed}, nil
}

func asleep(d time.Duration) (activities.AdvanceResult, error) {
	return activities.AdvanceResult{Status: toolpark.Dispatched, Wake: d}, nil
}

func TestATaskLooksAgainWhenTheStepSays(t *testing.T) {
	t.Parallel()
	c := newClockwork(t)
	c.advance(func(n int, _ activities.AdvanceInput) (activities.AdvanceResult, error) {
		if n <= 2 {
			return asleep(time.Duration(n) * time.Hour)
		}
		return over()
	})
	c.task()
	require.NoError(t, c.GetWorkflowError())
	require.Len(t, c.looks, 3)
	require.Equal(t, 3*time.Hour, c.looks[2].at.Sub(c.began))
}

func TestASignalOrACancelMakesATaskLook(t *testing.T) {
	t.Parallel()
	for _, signal := range []workflows.Signal{
		workflows.SignalCommit, workflows.SignalCancel, workflows.SignalClaimed, workflows.SignalWake,
	} {
		t.Run(string(signal), func(t *testing.T) {
			t.Parallel()
			c := newClockwork(t)
			c.advance(func(n int, _ activities.AdvanceInput) (activities.AdvanceResult, error) {
				if n == 1 {
					return asleep(time.Hour)
				}
				return over()
			})
			c.RegisterDelayedCallback(func() { c.SignalWorkflow(string(signal), nil) }, time.Minute)
			c.task()
			require.NoError(t, c.GetWorkflowError())
			require.Equal(t, time.Minute, c.looks[1].at.Sub(c.began))
			require.False(t, c.looks[1].canceled)
		})
	}

	t.Run("a cancel request is told to every step from then on", func(t *testing.T) {
		t.Parallel()
		c := newClockwork(t)
		c.advance(func(n int, _ activities.AdvanceInput) (activities.AdvanceResult, error) {
			if n <= 2 {
				return asleep(time.Hour)
			}
			return over()
		})
		c.RegisterDelayedCallback(c.CancelWorkflow, time.Minute)
		c.task()
		require.NoError(t, c.GetWorkflowError(), "a canceled task's workflow completes: it settled the task")
		require.Equal(t, []look{
			{c.began, false}, {c.began.Add(time.Minute), true}, {c.began.Add(time.Hour + time.Minute), true},
		}, c.looks)
	})
}

func TestAStepThatFailsIsTakenAgain(t *testing.T) {
	t.Parallel()

	t.Run("after one to five seconds, for as long as it takes", func(t *testing.T) {
		t.Parallel()
		c := newClockwork(t)
		c.advance(func(n int, _ activities.AdvanceInput) (activities.AdvanceResult, error) {
			if n <= 30 {
				return activities.AdvanceResult{}, away()
			}
			return over()
		})
		c.task()
		require.NoError(t, c.GetWorkflowError())
		require.Len(t, c.looks, 31)
		pauses := map[time.Duration]bool{}
		for i := 1; i < len(c.looks); i++ {
			pause := c.looks[i].at.Sub(c.looks[i-1].at)
			require.GreaterOrEqual(t, pause, time.Second)
			require.LessOrEqual(t, pause, 5*time.Second)
			pauses[pause] = true
		}
		require.Greater(t, len(pauses), 20, "the pauses are drawn, so that tasks do not come back in step")
	})

	t.Run("at once when a signal comes", func(t *testing.T) {
		t.Parallel()
		c := newClockwork(t)
		c.advance(func(n int, _ activities.AdvanceInput) (activities.AdvanceResult, error) {
			if n == 1 {
				return activities.AdvanceResult{}, away()
			}
			return over()
		})
		c.RegisterDelayedCallback(func() { c.SignalWorkflow(string(workflows.SignalCommit), nil) }, 300*time.Millisecond)
		c.task()
		require.Equal(t, 300*time.Millisecond, c.looks[1].at.Sub(c.began))
	})

	t.Run("at once when a cancel is requested, and then at the usual pace", func(t *testing.T) {
		t.Parallel()
		c := newClockwork(t)
		c.advance(func(n int, _ activities.AdvanceInput) (activities.AdvanceResult, error) {
			if n <= 4 {
				return activities.AdvanceResult{}, away()
			}
			return over()
		})
		c.RegisterDelayedCallback(c.CancelWorkflow, 300*time.Millisecond)
		c.task()
		require.Equal(t, look{c.began.Add(300 * time.Millisecond), true}, c.looks[1])
		for i := 2; i < len(c.looks); i++ {
			require.GreaterOrEqual(t, c.looks[i].at.Sub(c.looks[i-1].at), time.Second)
			require.True(t, c.looks[i].canceled)
		}
	})

	t.Run("in a new run when the history is long, which remembers the cancel", func(t *testing.T) {
		t.Parallel()
		c := newClockwork(t)
		c.SetContinueAsNewSuggested(true)
		c.advance(func(int, activities.AdvanceInput) (activities.AdvanceResult, error) {
			c.CancelWorkflow()
			return activities.AdvanceResult{}, away()
		})
		c.task()
		next := continued[workflows.ToolTaskInput](t, c)
		require.Equal(t, "r1t0", next.Key)
		require.False(t, next.Canceled, "this step did not know of the cancel; the server holds it for the next run")

		c = newClockwork(t)
		c.SetContinueAsNewSuggested(true)
		c.advance(func(int, activities.AdvanceInput) (activities.AdvanceResult, error) {
			return activities.AdvanceResult{}, away()
		})
		c.ExecuteWorkflow(workflows.ToolTask, workflows.ToolTaskInput{Key: "r1t0", Generation: 1, Canceled: true})
		require.True(t, c.looks[0].canceled)
		next = continued[workflows.ToolTaskInput](t, c)
		require.True(t, next.Canceled)
	})
}

// continued reads the input of the run that a workflow continued as.
func continued[T any](t *testing.T, c *clockwork) (input T) {
	t.Helper()
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, c.GetWorkflowError(), &next)
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &input))
	return input
}

func TestARunWaitsForADayOfIdleness(t *testing.T) {
	t.Parallel()
	c := newClockwork(t)
	c.OnActivity(runSteps.Assemble, mock.Anything, mock.Anything).Return(nil).Once()
	c.advanceRun(func(n int) (activities.AdvanceRunResult, error) {
		switch n {
		case 1:
			return activities.AdvanceRunResult{Wake: toolpark.RunIdleLimit}, nil
		case 2: // something was authored meanwhile
			return activities.AdvanceRunResult{Wake: 10 * time.Hour}, nil
		}
		return activities.AdvanceRunResult{Over: true}, nil
	})
	c.run()
	require.NoError(t, c.GetWorkflowError())
	require.Equal(t, []look{
		{c.began, false}, {c.began.Add(24 * time.Hour), false}, {c.began.Add(34 * time.Hour), false},
	}, c.looks)
}

func TestARunThatCannotBeDecidedIsTriedAgain(t *testing.T) {
	t.Parallel()
	c := newClockwork(t)
	var tries []time.Time
	c.OnActivity(runSteps.Assemble, mock.Anything, mock.Anything).Return(
		func(context.Context, activities.AssembleInput) error {
			tries = append(tries, c.Now())
			if c.Now().Sub(c.began) < time.Minute {
				return away()
			}
			return nil
		})
	c.advanceRun(func(int) (activities.AdvanceRunResult, error) { return activities.AdvanceRunResult{Over: true}, nil })
	c.RegisterDelayedCallback(c.CancelWorkflow, 200*time.Millisecond)
	c.run()
	require.NoError(t, c.GetWorkflowError())
	require.Equal(t, 200*time.Millisecond, tries[1].Sub(tries[0]), "the cancel request ends one wait")
	for i := 2; i < len(tries); i++ {
		require.GreaterOrEqual(t, tries[i].Sub(tries[i-1]), time.Second)
	}
	require.Equal(t, []look{{tries[len(tries)-1], true}}, c.looks, "a decided run is told of the cancel")
}
