package proctest_test

import (
	"log/slog"
	"testing"
	"uuid"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/toolpark/toolpark"
)

// Workers die while they prune a large run. Whoever reads it sees nothing of that, and the next worker goes on.
func TestWorkersDieWhileTheyPrune(t *testing.T) {
	t.Parallel()
	skipShort(t)
	const tasks = 3000
	s := newScene(t, servers{})
	run := s.openRun()
	require.NoError(t, s.Agent.Complete(t.Context(), run))
	for _, statement := range []string{
		`INSERT INTO tasks (run_id, key, account_id, position, kind, origin, status, began_at, settled_at, settled_by)
			SELECT id, 's' || n || '-tool-0', account_id, n, 'tool', 'author', 'completed', now(), now(), 'commit'
			FROM runs, generate_series(1, 3000) n`,
		`UPDATE runs SET ended_at = ended_at - interval '91 days'`,
		// So slow that the workers are met at work.
		`CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.002); RETURN OLD; END'`,
		`CREATE TRIGGER dawdle BEFORE DELETE ON tasks FOR EACH ROW EXECUTE FUNCTION dawdle()`,
	} {
		_, err := s.DB.Pool.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	temporal, err := client.DialContext(t.Context(), client.Options{HostPort: s.Temporal, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	require.NoError(t, err)
	defer temporal.Close()
	schedule := temporal.ScheduleClient().GetHandle(t.Context(), "prune/"+s.Queue)
	s.eventually("the schedule is made and triggered", func() bool {
		return schedule.Trigger(t.Context(), client.ScheduleTriggerOptions{}) == nil
	})
	left := func() (n int) {
		require.NoError(t, s.DB.Pool.QueryRow(t.Context(), `SELECT count(*) FROM tasks`).Scan(&n))
		return n
	}
	s.eventually("the workers prune", func() bool { return left() < tasks })
	kill(s.Workers...)
	require.Positive(t, left(), "they died on the way")

	id := uuid.MustParse(run)
	refused := func() {
		_, err := s.Agent.At(s.APIs[0]).Task(t.Context(), run, "s1-tool-0", 0)
		requireCode(t, toolpark.CodeDetailsPruned, err)
		facts, err := s.DB.RunFacts(t.Context(), s.Account.ID, []uuid.UUID{id}, true)
		require.NoError(t, err)
		require.Equal(t, map[toolpark.Status]int{toolpark.Completed: tasks}, facts[id].Counts)
	}
	refused()
	_, err = s.DB.Pool.Exec(t.Context(), `DROP TRIGGER dawdle ON tasks`)
	require.NoError(t, err)
	s.restart(s.Workers...)
	s.eventually("the next worker prunes the rest", func() bool {
		var over bool
		err := s.DB.Pool.QueryRow(t.Context(), `SELECT details_gone_at IS NOT NULL FROM runs`).Scan(&over)
		require.NoError(t, err)
		return over
	})
	require.Zero(t, left())
	refused()
	require.NoError(t, schedule.Delete(t.Context()))
	s.over()
}
