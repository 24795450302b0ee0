package park_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
)

func TestAChildIsRetriedOnceItsCallHasSettled(t *testing.T) {
	t.Parallel()
	w := newWaiting(t)
	w.uncertain(w.child)
	require.Equal(t, toolpark.CodeNotRetryable, code(w.retry(w.child)), "the call is about to take its outcome")
	require.NoError(t, w.step())
	require.Equal(t, toolpark.Uncertain, w.Row().Status)
	before := w.Row()
	require.NoError(t, w.retry(w.child))
	require.NoError(t, w.report(w.claim(w.child)))
	require.NoError(t, w.stepOf(w.child, 2))
	require.Equal(t, toolpark.Completed, w.child.Row().Status)
	require.Equal(t, before, w.Row(), "what has settled does not change")

	// The call's next generation makes a child of its own, which the one before has nothing to tell.
	require.NoError(t, w.retry(w.Task))
	require.NoError(t, w.stepOf(w.Task, 2))
	second := w.lot.task(w.Key + "-call-2")
	require.Equal(t, toolpark.Dispatched, second.Row().Status)
	require.Equal(t, toolpark.Running, w.Row().Status)
	inbox, err := w.DB.Inbox(t.Context(), w.ID, w.runner.ID, noPlace, 10)
	require.NoError(t, err)
	require.Len(t, inbox, 1)
	require.True(t, inbox[0].Redelivery(), "the call's earlier child may have had an effect")
	require.Equal(t, w.lot.run+"/"+w.Key+"-call-1", inbox[0].IdempotencyKey())
	require.NoError(t, w.stage(second, w.claim(second), "done"))
	require.NoError(t, w.advance(second))
	require.NoError(t, w.stepOf(w.Task, 2))
	require.Equal(t, toolpark.Completed, w.Row().Status)
}

// A call and the call that it made would do the same work under the same idempotency key.
func TestACallAndWhatItMadeAreNotRetriedBesideEachOther(t *testing.T) {
	t.Parallel()
	failed := func(t *testing.T) *wrapper {
		w := newWaiting(t)
		w.uncertain(w.child)
		require.NoError(t, w.step())
		return w
	}

	t.Run("while what it made lives again", func(t *testing.T) {
		t.Parallel()
		w := failed(t)
		require.NoError(t, w.retry(w.child))
		require.Equal(t, toolpark.CodeNotRetryable, code(w.retry(w.Task)))
		require.NoError(t, w.report(w.claim(w.child)))
		require.NoError(t, w.stepOf(w.child, 2))
		w.nothingStaged(w.Task)
		require.NoError(t, w.retry(w.Task))
	})

	t.Run("at the same moment", func(t *testing.T) {
		t.Parallel()
		for _, childFirst := range []bool{true, false} {
			w := failed(t)
			first, second := func() error { return w.retry(w.child) }, func() error { return w.retry(w.Task) }
			if !childFirst {
				first, second = second, first
			}
			won, lost := w.atRun(w.Task, first, second)
			require.NoError(t, won)
			require.Equal(t, toolpark.CodeNotRetryable, code(lost))
		}
	})

	t.Run("once the call was given up", func(t *testing.T) {
		t.Parallel()
		w := failed(t)
		require.NoError(t, w.abandon(w.Task))
		require.Equal(t, toolpark.CodeNotRetryable, code(w.retry(w.child)))
	})
}
