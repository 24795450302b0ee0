package park_test

import (
	"encoding/json/jsontext"
	"errors"
	"strconv"
	"testing"
	"time"
	"uuid"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/envelope"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/internal/park"
	"github.com/toolpark/toolpark/internal/postgres"
)

// lot is a run with a runner that serves echo. No worker runs: the tests take its steps themselves.
type lot struct {
	*kerneltest.Account
	runner kerneltest.Executor
	run    string
}

func newLot(t *testing.T) *lot {
	t.Helper()
	a := kerneltest.StartAPI(t).Account()
	patient(t, a.Kernel)
	l := &lot{Account: a, runner: a.Runner("box"), run: a.BareRun()}
	a.Serve(l.runner, kerneltest.Entry("echo", kerneltest.Writes))
	return l
}

// patient gives the park's transactions as long as they need to meet at a lock on a busy machine.
func patient(t *testing.T, k *kerneltest.Kernel) {
	t.Helper()
	config := k.DB.Pool.Config()
	milliseconds := strconv.FormatInt(kerneltest.Patience.Milliseconds(), 10)
	config.ConnConfig.RuntimeParams["lock_timeout"] = milliseconds
	config.ConnConfig.RuntimeParams["statement_timeout"] = milliseconds
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	k.Park = &park.Park{DB: &postgres.DB{Pool: pool}, Hub: k.Hub, Schemas: k.Park.Schemas, Tokens: k.Park.Tokens}
}

func (l *lot) author(timeout time.Duration) *kerneltest.Task {
	l.T.Helper()
	return l.Unstarted(l.run, l.runner, "echo", timeout, 1)[0]
}

func (l *lot) claim(task *kerneltest.Task) string {
	l.T.Helper()
	_, claim, err := l.Park.Claim(l.T.Context(), l.runner.As(l.Account), task.TaskID, "key")
	require.NoError(l.T, err)
	return claim.Token
}

func (l *lot) stage(task *kerneltest.Task, token, text string) error {
	_, err := l.Park.StageCommit(l.T.Context(), l.runner.As(l.Account), task.TaskID, token, textReport(text))
	return err
}

func (l *lot) advance(task *kerneltest.Task) error {
	_, err := l.Park.Advance(l.T.Context(), task.TaskID, 1, false)
	return err
}

// noPlace is where an inbox begins.
var noPlace postgres.InboxPosition

// first names the first generation of a task.
func first(task *kerneltest.Task) toolpark.GenerationID {
	return toolpark.GenerationID{TaskID: task.TaskID, Generation: 1}
}

func textReport(text string) envelope.Fields {
	return envelope.Fields{Content: jsontext.Value(`"` + text + `"`)}
}

// inOrder makes first and second meet at a lock: it takes the lock, lets first wait for it, then
// second, does what is to be done meanwhile, and releases it when during is over. Postgres serves them in this order.
func (l *lot) inOrder(
	lock string, args []any, during time.Duration, first, second func() error, meanwhile ...func(),
) (firstErr, secondErr error) {
	l.T.Helper()
	ctx := l.T.Context()
	conn, err := pgx.Connect(ctx, l.Database)
	require.NoError(l.T, err)
	defer conn.Close(ctx)
	tx, err := conn.Begin(ctx)
	require.NoError(l.T, err)
	_, err = tx.Exec(ctx, lock, args...)
	require.NoError(l.T, err)
	began := time.Now()
	one, two := make(chan error, 1), make(chan error, 1)
	go func() { one <- first() }()
	l.waiting(1, one)
	if second != nil {
		go func() { two <- second() }()
		l.waiting(2, two)
	} else {
		two <- nil
	}
	for _, do := range meanwhile {
		do()
	}
	if left := during - time.Since(began); left > 0 {
		time.Sleep(left) // the clock itself is what the test is about
	}
	require.NoError(l.T, tx.Commit(ctx))
	return <-one, <-two
}

// waiting returns once n connections of the test's database wait for a lock. The last of them must not
// end before. (A transaction would read pg_stat_activity once only.)
func (l *lot) waiting(n int, last <-chan error) {
	l.T.Helper()
	l.Eventually("they wait for the lock", func() bool {
		select {
		case err := <-last:
			require.FailNow(l.T, "it did not wait for the lock", "%v", err)
		default:
		}
		var found int
		err := l.DB.Pool.QueryRow(l.T.Context(), `
			SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&found)
		require.NoError(l.T, err)
		return found >= n
	})
}

func (l *lot) atTask(task *kerneltest.Task, first, second func() error) (firstErr, secondErr error) {
	l.T.Helper()
	return l.inOrder(lockTask, []any{task.Run, task.Key}, 0, first, second)
}

func (l *lot) atRun(task *kerneltest.Task, first, second func() error) (firstErr, secondErr error) {
	l.T.Helper()
	return l.inOrder(`SELECT FROM runs WHERE id = $1 FOR NO KEY UPDATE`, []any{task.Run}, 0, first, second)
}

const lockTask = `SELECT FROM tasks WHERE run_id = $1 AND key = $2 FOR NO KEY UPDATE`

// expireIn moves the deadline of a task, as a short claim would have set it.
func (l *lot) expireIn(task *kerneltest.Task, d time.Duration) {
	l.T.Helper()
	_, err := l.DB.Pool.Exec(l.T.Context(), `
		UPDATE tasks SET deadline_at = clock_timestamp() + $3::interval WHERE run_id = $1 AND key = $2`, task.Run, task.Key, d)
	require.NoError(l.T, err)
}

// events reads what happened in the run and checks that the sequence starts at 1 and has no gap.
func (l *lot) events() (types []string) {
	l.T.Helper()
	run := uuid.MustParse(l.run)
	events, err := l.DB.Events(l.T.Context(), l.ID, run, 0, 10_000)
	require.NoError(l.T, err)
	for i, e := range events {
		require.Equal(l.T, int64(i+1), e.Seq)
		types = append(types, e.Type)
	}
	return types
}

func count(list []string, what string) (n int) {
	for _, s := range list {
		if s == what {
			n++
		}
	}
	return n
}

func code(err error) toolpark.Code {
	if refusal, ok := errors.AsType[*toolpark.Error](err); ok {
		return refusal.Code
	}
	return ""
}

func withTokens(k *kerneltest.Kernel, tokens park.Tokens) *park.Park {
	return &park.Park{DB: k.DB, Hub: k.Hub, Schemas: k.Park.Schemas, Tokens: tokens}
}
