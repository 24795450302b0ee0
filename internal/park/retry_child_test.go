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

func TestAChildRetriedBesideItsCallTellsItNothing(t *testing.T) {
	t.Parallel()
	w := newWaiting(t)
	w.uncertain(w.child)
	require.NoError(t, w.step())
	require.NoError(t, w.retry(w.child))
	require.NoError(t, w.retry(w.Task))
	require.NoError(t, w.stepOf(w.Task, 2))
	require.NoError(t, w.report(w.claim(w.child)))
	require.NoError(t, w.stepOf(w.child, 2))
	require.Equal(t, toolpark.Completed, w.child.Row().Status)
	w.nothingStaged(w.Task)
	require.NoError(t, w.stepOf(w.Task, 2))
	require.Equal(t, toolpark.Running, w.Row().Status, "it waits for the child of its own generation")
}
