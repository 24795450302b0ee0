package worker_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
)

// full tells whether the long forms are wanted.
func full() bool { return os.Getenv("TOOLPARK_FULL") == "1" }

// slowest is how long one statement may take, of pruning or of anybody else, while 100 000 tasks are pruned.
const slowest = 200 * time.Millisecond

// largestStep is how many tasks one statement may delete.
const largestStep = 500

// A large run and many small ones are pruned while calls are made. Nobody waits for it: it takes as many statements as
// there are steps of largestStep, and in the long form, on a machine that is left alone, none takes longer than slowest.
func TestPruningBlocksNobody(t *testing.T) {
	t.Parallel()
	large, small := 2000, 10
	if full() {
		large, small = 50_000, 500
	}
	k := kerneltest.StartAPI(t)
	conn, err := pgx.Connect(t.Context(), k.Database)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), `CREATE EXTENSION pg_stat_statements`); err != nil {
		t.Skipf("this server does not measure statements: %v", err)
	}
	_, err = conn.Exec(t.Context(), `DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || ' SET pg_stat_statements.track = top'; END $$`)
	require.NoError(t, err)

	// Over connections that are new, and so are measured.
	measured := k.Another(t)
	y := &yard{Account: measured.Account()}
	y.open()
	var served atomic.Int64
	echo := runner.Tool{
		Entry: kerneltest.Entry("echo", kerneltest.ReadOnly),
		Run: func(_ context.Context, c runner.Call) (runner.Result, error) {
			served.Add(1)
			return runner.Result{Text: string(c.Input)}, nil
		},
	}
	fillRuns(t, conn, y.run, large, small)
	y.StartWorker()
	y.Work(y.runner, 8, echo)
	handle := y.schedule()

	ctx, stop := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for range 4 {
		run := y.Run(y.runner)
		callers.Go(func() {
			for ctx.Err() == nil {
				round, err := y.Agent.PostRound(t.Context(), run, agent.NewRound{Calls: []agent.Call{{Name: "echo"}, {Name: "echo"}}})
				if err == nil {
					_, err = y.Agent.Round(t.Context(), run, round.Number, time.Minute)
				}
				if err != nil {
					t.Errorf("a round: %v", err)
					return
				}
			}
		})
	}
	began := time.Now()
	result := y.trigger(handle)
	took := time.Since(began)
	stop()
	callers.Wait()
	require.Equal(t, small+1, result.Runs)
	require.Equal(t, large+small*100, result.Tasks)
	t.Logf("%d tasks pruned in %s, with %d calls meanwhile", result.Tasks, took.Round(time.Millisecond), served.Load())

	rows, err := conn.Query(t.Context(), `
		SELECT query, calls, rows, max_exec_time FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
		WHERE d.datname = current_database() AND query NOT LIKE '%fill%' AND query NOT LIKE '%pg_stat_statements%' AND toplevel
		ORDER BY max_exec_time DESC`)
	require.NoError(t, err)
	var (
		query        string
		calls, count int64
		ms           float64
		shown        int
		deletes      int64
	)
	_, err = pgx.ForEachRow(rows, []any{&query, &calls, &count, &ms}, func() error {
		query = strings.Join(strings.Fields(query), " ")
		if shown++; shown <= 8 || strings.Contains(query, "DELETE FROM tasks") {
			t.Logf("%7.1f ms at most, %6d calls, %7d rows: %.110s", ms, calls, count, query)
		}
		if strings.Contains(query, "DELETE FROM tasks") {
			deletes += calls
		}
		if full() && ms > float64(slowest.Milliseconds()) {
			t.Errorf("%.0f ms: %s", ms, query)
		}
		return nil
	})
	require.NoError(t, err)
	require.GreaterOrEqual(t, deletes*largestStep, int64(result.Tasks), "deleted in steps")
}

// fillRuns writes runs that ended long ago, with results of a kilobyte: old with so many steps, and others of a
// hundred calls in ten rounds each.
func fillRuns(t *testing.T, conn *pgx.Conn, old string, large, small int) {
	t.Helper()
	for _, statement := range []string{
		`INSERT INTO runs (id, account_id, creator_id, agent_id, status, approval_mode, context_hash) /* fill */
			SELECT gen_random_uuid(), account_id, creator_id, agent_id, status, approval_mode, context_hash
			FROM runs, generate_series(1, $2) WHERE id = $1::uuid`,
		`INSERT INTO tasks (run_id, key, account_id, position, kind, origin, status, tool_name, began_at, settled_at, settled_by) /* fill */
			SELECT id, 's' || n || '-tool-0', account_id, n, 'tool', 'author', 'completed', 'echo', now(), now(), 'commit'
			FROM runs, generate_series(1, $2) n WHERE id = $1::uuid`,
		`INSERT INTO rounds (run_id, number, account_id, settled_at) /* fill */
			SELECT id, n, account_id, now() FROM runs, generate_series(1, 10 + 0 * $2) n WHERE id <> $1::uuid`,
		`INSERT INTO tasks (run_id, key, account_id, round, position, kind, origin, status, tool_name, began_at, settled_at, settled_by) /* fill */
			SELECT run_id, 'r' || number || 't' || n, account_id, number, n, 'tool', 'model', 'completed', 'echo', now(), now(), 'commit'
			FROM rounds, generate_series(1, 10 + 0 * $2) n WHERE run_id <> $1::uuid`,
		`INSERT INTO task_payloads (run_id, task_key, generation, account_id, input) /* fill */
			SELECT run_id, key, 1, account_id, json_build_object('text', repeat('x', 200 + 0 * $2)) FROM tasks WHERE $1::uuid IS NOT NULL`,
		`INSERT INTO task_results (run_id, task_key, generation, account_id, content) /* fill */
			SELECT run_id, key, 1, account_id, json_build_array(json_build_object('kind', 'text', 'text', (SELECT string_agg(md5(key || i), '') FROM generate_series(1, 32 + 0 * $2) i)))
			FROM tasks WHERE $1::uuid IS NOT NULL`,
		`INSERT INTO task_inputs (run_id, task_key, seq, generation, account_id, kind, staged_at, verdict, judged_at) /* fill */
			SELECT run_id, key, 1 + 0 * $2, 1, account_id, 'commit', now(), '{"seq":1,"code":""}', now() FROM tasks WHERE $1::uuid IS NOT NULL`,
		`INSERT INTO events (run_id, seq, account_id, type, data) /* fill */
			SELECT run_id, 10 + row_number() OVER (PARTITION BY run_id), account_id, 'task_status', '{}' FROM tasks, generate_series(1, 2 + 0 * $2)
			WHERE $1::uuid IS NOT NULL`,
	} {
		args := []any{old, large}
		if strings.HasPrefix(statement, "INSERT INTO runs") {
			args[1] = small
		}
		_, err := conn.Exec(t.Context(), statement, args...)
		require.NoError(t, err, statement)
	}
	_, err := conn.Exec(t.Context(), `UPDATE runs SET status = 'completed', ended_at = now() - interval '1 year' /* fill */`)
	require.NoError(t, err)
}
