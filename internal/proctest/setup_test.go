package proctest_test

import (
	"context"
	"encoding/json/jsontext"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"uuid"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/devstack"
	"github.com/toolpark/toolpark/internal/devstack/devtest"
	"github.com/toolpark/toolpark/internal/postgres"
	"github.com/toolpark/toolpark/internal/proctest"
	"github.com/toolpark/toolpark/schema/migrations"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
)

const (
	// patience is how long a test waits for what must come. It passes only when something is wrong.
	patience = 90 * time.Second
	// recovery is how long everything may take to move on once what was down is back.
	recovery = 30 * time.Second
	// connections is the database pool of each process: small, since many share one server.
	connections = 4
)

var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		os.Exit(m.Run()) // which skips everything
	}
	dir, err := os.MkdirTemp("", "toolpark-proctest-")
	if err != nil {
		panic(err)
	}
	code := 1
	if binary, err = proctest.Build(context.Background(), dir); err == nil {
		code = m.Run()
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// full tells whether the long forms are wanted.
func full() bool { return os.Getenv("TOOLPARK_FULL") == "1" }

// scene is an installation of two APIs and two workers, a tenant, and its agent.
type scene struct {
	*testing.T
	*proctest.Site
	DB      *postgres.DB
	Account *proctest.Account
	Agent   *proctest.Agent
	APIs    []*proctest.Process
	Workers []*proctest.Process
}

// servers are what a scene stands on: the shared ones, unless a test brings its own to kill.
type servers struct {
	postgres *devstack.Postgres
	temporal *devstack.Temporal
}

// ownTemporal starts a server that keeps its workflows over kills.
func ownTemporal(t *testing.T) *devstack.Temporal {
	t.Helper()
	if os.Getenv("TEMPORAL_ADDRESS") != "" {
		t.Skip("this test kills Temporal, and TEMPORAL_ADDRESS names one that is not ours")
	}
	server, err := devstack.StartTemporal(t.Context(), devstack.TemporalOptions{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	return server
}

// ownPostgres starts a server that may be killed.
func ownPostgres(t *testing.T) *devstack.Postgres {
	t.Helper()
	if os.Getenv("DATABASE_URL") != "" {
		t.Skip("this test kills Postgres, and DATABASE_URL names one that is not ours")
	}
	server, err := devstack.StartPostgres(t.Context(), devstack.PostgresOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	_, err = migrations.Up(t.Context(), server.URL)
	require.NoError(t, err)
	return server
}

func newScene(t *testing.T, own servers) *scene {
	t.Helper()
	site := &proctest.Site{Binary: binary, Dir: t.TempDir(), Queue: devtest.TaskQueue(t), Connections: connections}
	if own.postgres != nil {
		site.Database = own.postgres.URL
	} else {
		site.Database = devtest.Database(t)
	}
	if own.temporal != nil {
		site.Temporal = own.temporal.Address
	} else {
		site.Temporal = devtest.Temporal(t)
	}
	db, err := postgres.Open(t.Context(), site.Database, 4)
	require.NoError(t, err)
	t.Cleanup(db.Close)
	account, err := proctest.NewAccount(t.Context(), db)
	require.NoError(t, err)
	s := &scene{T: t, Site: site, DB: db, Account: account}
	for i := range 2 {
		api, worker := site.API(fmt.Sprintf("api-%d", i)), site.Worker(fmt.Sprintf("worker-%d", i))
		s.APIs, s.Workers = append(s.APIs, api), append(s.Workers, worker)
		s.start(api, worker)
	}
	s.Agent = &proctest.Agent{APIs: s.APIs, Token: account.AgentToken}
	return s
}

// start starts processes, which end with the test; their logs are printed if it failed.
func (s *scene) start(processes ...*proctest.Process) {
	s.Helper()
	for _, p := range processes {
		s.Cleanup(func() {
			p.Kill()
			if s.Failed() {
				s.Logf("%s logged:\n%s", p.Name, p.Log())
			}
		})
		require.NoError(s, p.Start(s.Context()))
	}
}

func kill(processes ...*proctest.Process) {
	for _, p := range processes {
		p.Kill()
	}
}

func (s *scene) restart(processes ...*proctest.Process) {
	s.Helper()
	for _, p := range processes {
		require.NoError(s, p.Start(s.Context()))
	}
}

// openRun makes a run that may call what is declared.
func (s *scene) openRun(definitions ...jsontext.Value) string {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	run, err := s.Agent.OpenRun(ctx, definitions...)
	require.NoError(s, err)
	return run
}

// settled waits until a task has settled and reads it.
func (s *scene) settled(ref runner.Ref, within time.Duration) agent.Task {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), within)
	defer cancel()
	var task agent.Task
	for !task.Status.Settled() {
		err := s.Agent.Try(ctx, func(c *agent.Client) (err error) {
			task, err = c.Task(ctx, ref.Run, ref.TaskKey, time.Second)
			return err
		})
		require.NoError(s, err, "task %s does not settle", ref.TaskKey)
	}
	return task
}

// eventually waits until a condition holds.
func (s *scene) eventually(what string, holds func() bool) {
	s.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(20 * time.Millisecond) {
		require.False(s, time.Now().After(end), "this did not come true: %s", what)
	}
}

// staged counts what was staged for a task.
func (s *scene) staged(ref runner.Ref) (n int) {
	s.Helper()
	err := s.DB.Pool.QueryRow(s.Context(), `SELECT count(*) FROM task_inputs WHERE run_id = $1 AND task_key = $2`,
		uuid.MustParse(ref.Run), ref.TaskKey).Scan(&n)
	require.NoError(s, err)
	return n
}

// over completes the runs and audits everything.
func (s *scene) over(runs ...string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	for _, run := range runs {
		require.NoError(s, s.Agent.Complete(ctx, run))
	}
	s.DB.Pool.Reset() // a server that was killed has left connections behind that are of no use
	require.NoError(s, proctest.AuditDatabase(ctx, s.DB))
	temporal, err := client.DialContext(ctx, client.Options{HostPort: s.Temporal, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	require.NoError(s, err)
	defer temporal.Close()
	require.NoError(s, proctest.AuditWorkflows(ctx, temporal, s.Queue, recovery))
}

// requireCode wants a refusal.
func requireCode(t *testing.T, code toolpark.Code, err error) {
	t.Helper()
	var refusal *toolpark.Error
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, code, refusal.Code)
}

// underway runs a load beside the test. end lets no more rounds begin and returns what was finished.
func underway(ctx context.Context, load proctest.Load) (end func() ([]proctest.Finished, error)) {
	var (
		stopped  atomic.Bool
		running  sync.WaitGroup
		finished []proctest.Finished
		err      error
	)
	next := load.Round
	load.Round = func() []proctest.Expected {
		if stopped.Load() {
			return nil
		}
		return next()
	}
	running.Go(func() { finished, err = load.Run(ctx) })
	return func() ([]proctest.Finished, error) {
		stopped.Store(true)
		running.Wait()
		return finished, err
	}
}
