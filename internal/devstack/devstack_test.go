package devstack_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/toolpark/toolpark/internal/devstack"
)

// childDir makes this test binary start a stack there, print its URL, and wait to be killed.
const childDir = "TOOLPARK_TEST_CHILD_DIR"

func TestMain(m *testing.M) {
	// What a developer's shell names is not what these tests are about.
	os.Unsetenv("DATABASE_URL")
	os.Unsetenv("TEMPORAL_ADDRESS")
	if dir := os.Getenv(childDir); dir != "" {
		stack, err := devstack.Start(context.Background(), devstack.Options{Dir: dir})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(stack.Postgres.URL)
		select {}
	}
	os.Exit(m.Run())
}

func TestKeptStackKeepsItsState(t *testing.T) {
	t.Parallel()
	dir := openDir(t)

	first := start(t, dir)
	execute(t, first.Postgres.URL, `CREATE TABLE kept (id int)`)
	signalWorkflow(t, first.Temporal.Address, "kept")
	page, err := http.Get(first.Temporal.WebUI)
	require.NoError(t, err)
	page.Body.Close()
	require.Equal(t, http.StatusOK, page.StatusCode)
	require.NoError(t, first.Stop())
	requirePostgresGone(t, first.Postgres.URL)

	second := start(t, dir)
	require.Equal(t, first.Postgres.URL, second.Postgres.URL)
	execute(t, second.Postgres.URL, `INSERT INTO kept VALUES (1)`)
	describeWorkflow(t, second.Temporal.Address, "kept")
	require.NoError(t, second.Stop())
}

func TestNamedServersAreUsedAndLeftAlone(t *testing.T) {
	ours := start(t, "")
	t.Setenv("DATABASE_URL", ours.Postgres.URL)
	t.Setenv("TEMPORAL_ADDRESS", ours.Temporal.Address)

	named := start(t, "")
	require.Equal(t, ours.Postgres.URL, named.Postgres.URL)
	require.Equal(t, ours.Temporal.Address, named.Temporal.Address)
	require.Error(t, named.Postgres.Kill())
	require.Error(t, named.Temporal.Pause())
	require.NoError(t, named.Stop())
	execute(t, ours.Postgres.URL, `SELECT 1`)
	signalWorkflow(t, ours.Temporal.Address, "left alone")

	t.Setenv("DATABASE_URL", "postgres://127.0.0.1:1/nothing?connect_timeout=1")
	_, err := devstack.StartPostgres(t.Context(), devstack.PostgresOptions{})
	require.ErrorContains(t, err, "DATABASE_URL")
}

func TestKilledTemporalComesBack(t *testing.T) {
	t.Parallel()
	temporal, err := devstack.StartTemporal(t.Context(), devstack.TemporalOptions{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, temporal.Stop()) })
	signalWorkflow(t, temporal.Address, "survives")

	require.NoError(t, temporal.Kill())
	requireTemporalGone(t, temporal.Address)

	require.NoError(t, temporal.Restart(t.Context()))
	describeWorkflow(t, temporal.Address, "survives")
}

func TestKilledPostgresComesBack(t *testing.T) {
	t.Parallel()
	postgres, err := devstack.StartPostgres(t.Context(), devstack.PostgresOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, postgres.Stop()) })
	execute(t, postgres.URL, `CREATE TABLE survives (id int)`)
	for range 3 {
		conn, err := pgx.Connect(t.Context(), postgres.URL)
		require.NoError(t, err)
		slow := make(chan error, 1)
		go func() {
			_, err := conn.Exec(context.Background(), `SELECT pg_sleep(30)`)
			slow <- err
		}()
		require.NoError(t, postgres.Kill())
		require.NoError(t, postgres.Restart(t.Context()))
		require.Error(t, <-slow)
		execute(t, postgres.URL, `INSERT INTO survives VALUES (1)`)
	}
}

func TestPausedTemporalAnswersLater(t *testing.T) {
	t.Parallel()
	temporal, err := devstack.StartTemporal(t.Context(), devstack.TemporalOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, temporal.Stop()) })
	c := dial(t, temporal.Address)

	require.NoError(t, temporal.Pause())
	require.Eventually(t, func() bool { // the signal takes a moment to stop every thread
		ctx, stop := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer stop()
		_, err := c.WorkflowService().GetSystemInfo(ctx, &workflowservice.GetSystemInfoRequest{})
		return err != nil && strings.Contains(err.Error(), "deadline")
	}, 10*time.Second, 10*time.Millisecond)

	require.NoError(t, temporal.Resume())
	_, err = c.WorkflowService().GetSystemInfo(t.Context(), &workflowservice.GetSystemInfoRequest{})
	require.NoError(t, err)
}

func TestThrowawayStackLeavesNothing(t *testing.T) {
	t.Parallel()
	stack := start(t, "")
	dir := socketDir(t, stack.Postgres.URL)
	require.DirExists(t, dir)
	require.NoError(t, stack.Stop())
	require.NoDirExists(t, filepath.Dir(dir))
	requirePostgresGone(t, stack.Postgres.URL)
	requireTemporalGone(t, stack.Temporal.Address)
}

func TestServersEndWithAKilledProgram(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	program := exec.Command(os.Args[0])
	program.Env = append(os.Environ(), childDir+"="+dir)
	program.Stderr = os.Stderr
	output, err := program.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, program.Start())
	url, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)

	require.NoError(t, program.Process.Kill())
	_ = program.Wait() // "signal: killed"

	// The next start waits until nothing of the first holds the directory, so it may come at once.
	next := start(t, dir)
	require.Equal(t, strings.TrimSpace(url), next.Postgres.URL)
}

func TestOneProgramADirectory(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	start(t, dir)
	ctx, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	_, err := devstack.Start(ctx, devstack.Options{Dir: dir})
	require.ErrorContains(t, err, "another program uses")
}

func start(t *testing.T, dir string) *devstack.Stack {
	t.Helper()
	stack, err := devstack.Start(t.Context(), devstack.Options{Dir: dir, Progress: t.Output()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, stack.Stop()) })
	return stack
}

// openDir is a temporary directory that the account Postgres runs as can enter.
func openDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	return dir
}

func execute(t *testing.T, url, statement string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), statement)
	require.NoError(t, err)
}

func socketDir(t *testing.T, url string) string {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	return config.Host
}

func dial(t *testing.T, address string) client.Client {
	t.Helper()
	c, err := client.DialContext(t.Context(), client.Options{HostPort: address})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// signalWorkflow leaves an open workflow that no worker runs.
func signalWorkflow(t *testing.T, address, id string) {
	t.Helper()
	_, err := dial(t, address).SignalWithStartWorkflow(t.Context(), id, "nudge", nil,
		client.StartWorkflowOptions{ID: id, TaskQueue: "nobody"}, "Nothing")
	require.NoError(t, err)
}

func describeWorkflow(t *testing.T, address, id string) {
	t.Helper()
	_, err := dial(t, address).DescribeWorkflow(t.Context(), id, "")
	require.NoError(t, err)
}

func requirePostgresGone(t *testing.T, url string) {
	t.Helper()
	_, err := pgx.Connect(t.Context(), url)
	require.Error(t, err)
}

func requireTemporalGone(t *testing.T, address string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err == nil {
		conn.Close()
	}
	require.Error(t, err)
}
