package park_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kerneltest"
)

func TestAStartThatIsKnownMovesTheAlarmToTheDeadline(t *testing.T) {
	t.Parallel()
	l := newLot(t)
	tasks := l.Unstarted(l.run, l.runner, "echo", time.Hour, 4)
	waiting, claimed, canceled, settled := tasks[0], tasks[1], tasks[2], tasks[3]
	token := l.claim(claimed)
	_, err := l.Park.StageCancel(t.Context(), l.Member(), canceled.TaskID)
	require.NoError(t, err)
	require.NoError(t, l.stage(settled, l.claim(settled), "done"))
	require.NoError(t, l.advance(settled))
	var ids []toolpark.GenerationID
	for _, task := range tasks {
		ids = append(ids, first(task))
	}
	needed, err := l.DB.Unstarted(t.Context(), ids)
	require.NoError(t, err)
	require.ElementsMatch(t, []toolpark.GenerationID{first(waiting), first(claimed)}, needed, "what was staged starts the workflow itself")
	require.NoError(t, l.DB.Started(t.Context(), ids))

	require.InDelta(t, time.Hour+5*time.Second, l.alarm(waiting), float64(2*time.Second))
	require.Less(t, l.alarm(claimed), 6*time.Second, "the claim is still to be shown")
	require.Less(t, l.alarm(canceled), 6*time.Second, "the cancel is still to be judged")
	var none *time.Time
	require.NoError(t, l.DB.Pool.QueryRow(t.Context(), `SELECT wake_at FROM tasks WHERE run_id = $1 AND key = $2`,
		settled.Run, settled.Key).Scan(&none))
	require.Nil(t, none)

	// Once looked at, a claim is shown and sleeps until its deadline, wherever an extension moves it.
	require.NoError(t, l.advance(claimed))
	require.InDelta(t, time.Hour+5*time.Second, l.alarm(claimed), float64(5*time.Second))
	l.expireIn(claimed, 10*time.Minute)
	_, _, err = l.Park.Extend(t.Context(), l.runner.As(l.Account), claimed.TaskID, token, 30*time.Minute)
	require.NoError(t, err)
	require.InDelta(t, 30*time.Minute+5*time.Second, l.alarm(claimed), float64(5*time.Second))
}

// alarm is how far away a task's alarm is.
func (l *lot) alarm(task *kerneltest.Task) time.Duration {
	l.T.Helper()
	var left time.Duration
	require.NoError(l.T, l.DB.Pool.QueryRow(l.T.Context(), `
		SELECT wake_at - clock_timestamp() FROM tasks WHERE run_id = $1 AND key = $2`, task.Run, task.Key).Scan(&left))
	return left
}
