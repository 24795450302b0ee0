package park_test

import (
	"testing"
	"time"
	"uuid"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/park"
)

func TestAnIdleRunCompletes(t *testing.T) {
	t.Parallel()
	l := newLot(t)
	run := uuid.MustParse(l.run)
	look := func() park.AdvancedRun {
		advanced, err := l.Park.AdvanceRun(t.Context(), l.ID, run, false)
		require.NoError(t, err)
		return advanced
	}
	idleFor := func(d time.Duration) {
		_, err := l.DB.Pool.Exec(t.Context(), `UPDATE runs SET authored_at = clock_timestamp() - $2::interval WHERE id = $1`, run, d)
		require.NoError(t, err)
	}

	idleFor(20 * time.Hour)
	advanced := look()
	require.False(t, advanced.Over)
	require.InDelta(t, 4*time.Hour, advanced.Wake, float64(time.Minute), "it looks again when the day is over")

	task := l.author(time.Hour)
	require.InDelta(t, 24*time.Hour, look().Wake, float64(time.Minute), "authoring begins the day anew")

	idleFor(25 * time.Hour)
	advanced = look()
	require.False(t, advanced.Over, "a run with a live task is not idle")
	require.Positive(t, advanced.Wake)

	require.NoError(t, l.stage(task, l.claim(task), "done"))
	require.NoError(t, l.advance(task))
	require.True(t, look().Over)
	ended, err := l.DB.Run(t.Context(), l.Member(), run)
	require.NoError(t, err)
	require.Equal(t, toolpark.RunCompleted, ended.Status)
	before := l.events()
	require.True(t, look().Over, "looking again changes nothing")
	require.Equal(t, before, l.events())
	require.Equal(t, 1, count(before, "run_status"))
}

func TestWhatTheDatabaseDoesNotKnowIsOver(t *testing.T) {
	t.Parallel()
	l := newLot(t)
	unknown := toolpark.TaskID{Account: l.ID, Run: uuid.NewV7(), Key: "r1t0"}
	task, err := l.Park.Advance(t.Context(), unknown, 1, true)
	require.NoError(t, err)
	require.Equal(t, park.Advanced{Over: true}, task)
	run, err := l.Park.AdvanceRun(t.Context(), l.ID, unknown.Run, true)
	require.NoError(t, err)
	require.True(t, run.Over)
	require.NoError(t, l.Park.Assemble(t.Context(), l.ID, unknown.Run))

	// Another account's task is as unknown.
	own := l.author(time.Hour)
	foreign := l.Kernel.Account()
	stolen, err := l.Park.Advance(t.Context(), toolpark.TaskID{Account: foreign.ID, Run: own.Run, Key: own.Key}, 1, true)
	require.NoError(t, err)
	require.True(t, stolen.Over)
	require.Equal(t, toolpark.Dispatched, own.Row().Status)
	require.Nil(t, own.Row().CancelRequestedAt)

	// So is a generation that is over.
	earlier, err := l.Park.Advance(t.Context(), own.TaskID, 2, true)
	require.NoError(t, err)
	require.True(t, earlier.Over)
	require.Equal(t, toolpark.Dispatched, own.Row().Status)
}

func TestEqualReportsAreOneInput(t *testing.T) {
	t.Parallel()
	l := newLot(t)
	task := l.author(time.Hour)
	token := l.claim(task)
	staged, err := l.Park.StageCommit(t.Context(), l.runner.As(l.Account), task.TaskID, token, textReport("done"))
	require.NoError(t, err)
	again, err := l.Park.StageCommit(t.Context(), l.runner.As(l.Account), task.TaskID, token, textReport("done"))
	require.NoError(t, err)
	require.Equal(t, staged.Seq, again.Seq)
	for i := range toolpark.MaxReportsPerClaim - 1 {
		require.NoError(t, l.stage(task, token, time.Duration(i).String()))
	}
	require.Equal(t, toolpark.CodeRateLimited, code(l.stage(task, token, "one too many")))
	require.NoError(t, l.stage(task, token, "done"), "a repeat is never too many")

	require.NoError(t, l.advance(task))
	row := task.Row()
	require.Equal(t, toolpark.Completed, row.Status)
	require.JSONEq(t, `[{"type":"text","text":"done"}]`, string(row.Content), "the first wins")
	l.nothingStaged(task)
	repeated, err := l.Park.StageCommit(t.Context(), l.runner.As(l.Account), task.TaskID, token, textReport("done"))
	require.NoError(t, err)
	require.Empty(t, repeated.Verdict.Code)
	var kept int
	require.NoError(t, l.DB.Pool.QueryRow(t.Context(), `SELECT count(*) FROM task_inputs WHERE body IS NOT NULL`).Scan(&kept))
	require.Zero(t, kept, "a judged report's body is dropped")
}
