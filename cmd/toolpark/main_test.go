package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json/v2"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark/internal/credential"
	"github.com/toolpark/toolpark/internal/devstack"
	"github.com/toolpark/toolpark/internal/devstack/devtest"
	"github.com/toolpark/toolpark/internal/postgres"
)

// asToolpark makes the test binary behave as the toolpark binary: the tests run the true command line.
const asToolpark = "TOOLPARK_TEST_RUN_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asToolpark) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// newCommand is toolpark with an environment of the test's own.
func newCommand(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), self, args...)
	command.Env = append([]string{asToolpark + "=1", "PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, env...)
	return command
}

// run runs toolpark to its end.
func run(t *testing.T, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	command := newCommand(t, env, args...)
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); err != nil {
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
	}
	return out.String(), errs.String(), command.ProcessState.ExitCode()
}

func TestWrongSettingsStopTheStart(t *testing.T) {
	t.Parallel()
	secret := "TOOLPARK_CLAIM_SECRET=" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("s"), 32))
	database := "DATABASE_URL=postgres://nobody@127.0.0.1:1/none"
	for name, test := range map[string]struct {
		env  []string
		args []string
		want string
	}{
		"no command":         {nil, nil, "expected one of"},
		"an unknown flag":    {nil, []string{"approvals", "--nonsense"}, "--nonsense"},
		"no argument":        {nil, []string{"approvals", "approve"}, "<call>"},
		"half a reference":   {nil, []string{"asks", "answer", "one", "two"}, "expected RUN/KEY"},
		"no number":          {[]string{database, secret, "TOOLPARK_DATABASE_CONNECTIONS=many"}, []string{"api"}, "many"},
		"no database":        {[]string{secret}, []string{"api"}, "--database-url"},
		"no claim secret":    {[]string{database}, []string{"api"}, "TOOLPARK_CLAIM_SECRET"},
		"a short secret":     {[]string{database, "TOOLPARK_CLAIM_SECRET=c2hvcnQ="}, []string{"api"}, "32 bytes"},
		"no connections":     {[]string{database, secret}, []string{"api", "--database-connections=0"}, "at least 1"},
		"an unknown level":   {[]string{database, secret, "TOOLPARK_LOG_LEVEL=loud"}, []string{"api"}, "log-level"},
		"no bearer":          {nil, []string{"runner", "--dir=.", "--url=http://127.0.0.1:1"}, "TOOLPARK_EXECUTOR_TOKEN"},
		"a bearer in sight":  {nil, []string{"runner", "--dir=.", "--url=http://127.0.0.1:1", "--token=x"}, "--token"},
		"an agent alone":     {[]string{database}, []string{"admin", "member", "create", "agent", "bot"}, "--steward"},
		"an unknown command": {nil, []string{"fly"}, "fly"},
		"two owners":         {[]string{database}, []string{"admin", "credential", "create", "--member=a", "--executor=b"}, "--member"},
		"no retention":       {[]string{database}, []string{"admin", "retention", "set"}, "--days N, or --keep"},
		"two retentions":     {[]string{database}, []string{"admin", "retention", "set", "--days=3", "--keep"}, "--keep"},
		"no day kept":        {[]string{database}, []string{"admin", "retention", "set", "--days=0"}, "1 to 36500"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stdout, stderr, code := run(t, test.env, test.args...)
			require.Equal(t, exitMisused, code)
			require.Empty(t, stdout)
			require.Contains(t, stderr, test.want)
			require.Equal(t, 1, strings.Count(stderr, "\n"), "one sentence:\n%s", stderr)
		})
	}
}

func TestAnAbsentDatabaseIsNoMisuse(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://%zz", "postgres://nobody@127.0.0.1:1/none"} {
		stdout, stderr, code := run(t, []string{"DATABASE_URL=" + url}, "admin", "account", "list")
		require.Equal(t, 1, code)
		require.Empty(t, stdout)
		require.Contains(t, stderr, "toolpark: error: ")
	}
}

func TestConfigMasksSecrets(t *testing.T) {
	t.Parallel()
	secret := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("s"), 32))
	for _, url := range []string{"postgres://u:hunter2@h/db", "host=h password=hunter2", "postgres://h/db?password=hunter2"} {
		stdout, stderr, code := run(t, []string{
			"DATABASE_URL=" + url, "TOOLPARK_CLAIM_SECRET=" + secret, "TOOLPARK_LISTEN=:9", "TEMPORAL_ADDRESS=there:7233",
			"TEMPORAL_API_KEY=hunter2",
		}, "config")
		require.Zero(t, code, stderr)
		require.NotContains(t, stdout, "hunter2")
		require.NotContains(t, stdout, secret)
		require.Contains(t, stdout, ":9")
		require.Contains(t, stdout, "there:7233")
	}
}

func TestClaimSecretSpellings(t *testing.T) {
	t.Parallel()
	key := bytes.Repeat([]byte{0xfb, 0xff}, 16)
	for _, text := range []string{
		base64.StdEncoding.EncodeToString(key), base64.RawStdEncoding.EncodeToString(key),
		base64.URLEncoding.EncodeToString(key), strings.Repeat("fbff", 16), strings.Repeat("FBFF", 16),
	} {
		var secret ClaimSecret
		require.NoError(t, secret.UnmarshalText([]byte(text)))
		require.Equal(t, key, []byte(secret))
	}
}

func TestAdmin(t *testing.T) {
	t.Parallel()
	url := devtest.Database(t)
	db, err := postgres.Open(t.Context(), url, 2)
	require.NoError(t, err)
	t.Cleanup(db.Close)
	env := []string{"DATABASE_URL=" + url}

	admin := func(t *testing.T, args ...string) map[string]any {
		t.Helper()
		stdout, stderr, code := run(t, env, append([]string{"admin", "--json"}, args...)...)
		require.Zero(t, code, stderr)
		var value map[string]any
		require.NoError(t, json.Unmarshal([]byte(stdout), &value), stdout)
		return value
	}
	refused := func(t *testing.T, want string, args ...string) {
		t.Helper()
		_, stderr, code := run(t, env, append([]string{"admin"}, args...)...)
		require.NotZero(t, code)
		require.Contains(t, stderr, want)
		require.NotContains(t, stderr, "SQLSTATE")
	}
	works := func(t *testing.T, plane credential.Plane, bearer any) bool {
		t.Helper()
		hash, ok := credential.Hash(plane, bearer.(string))
		require.True(t, ok)
		if plane == credential.Executor {
			_, _, err := db.ExecutorByCredential(t.Context(), hash)
			return err == nil
		}
		_, err := db.MemberByCredential(t.Context(), hash)
		return err == nil
	}

	refused(t, "no account yet", "member", "list")
	account := admin(t, "account", "create", "acme")["id"].(string)
	admin(t, "member", "create", "human", "ada", "--admin")
	refused(t, "taken", "member", "create", "human", "ada")
	refused(t, "no member eve", "member", "create", "agent", "bot", "--steward=eve")
	agent := admin(t, "member", "create", "agent", "bot", "--steward=ada")
	admin(t, "executor", "create", "runner", "box", "--manager=ada")
	refused(t, "identifier already", "executor", "create", "runner", "box", "--manager=ada")

	member := admin(t, "credential", "create", "--member=bot", "--label=laptop")
	require.True(t, works(t, credential.Member, member["bearer"]))
	own := admin(t, "credential", "create", "--executor="+agent["executor_id"].(string))
	require.True(t, works(t, credential.Executor, own["bearer"]))
	runner := admin(t, "credential", "create", "--executor=box")
	require.True(t, works(t, credential.Executor, runner["bearer"]))

	repaired := admin(t, "executor", "repair-pairing", "box")
	require.False(t, works(t, credential.Executor, runner["bearer"]))
	require.True(t, works(t, credential.Executor, repaired["bearer"]))
	rotated := admin(t, "credential", "rotate", member["id"].(string))
	require.False(t, works(t, credential.Member, member["bearer"]))
	require.True(t, works(t, credential.Member, rotated["bearer"]))
	refused(t, "still works", "credential", "rotate", member["id"].(string))
	admin(t, "credential", "revoke", rotated["id"].(string))
	require.False(t, works(t, credential.Member, rotated["bearer"]))
	require.Equal(t, "revoked", admin(t, "executor", "revoke", "box")["status"])
	require.False(t, works(t, credential.Executor, repaired["bearer"]))
	refused(t, "revoked already", "executor", "revoke", "box")

	refused(t, "remove the agent first", "member", "remove", "ada")
	require.Equal(t, "removed", admin(t, "member", "remove", "bot")["status"])
	require.False(t, works(t, credential.Executor, own["bearer"]))

	t.Run("retention", func(t *testing.T) {
		const days = "execution_details_retention_days"
		require.EqualValues(t, 90, admin(t, "retention", "show")[days])
		require.EqualValues(t, 7, admin(t, "retention", "set", "--days=7")[days])
		require.EqualValues(t, 7, admin(t, "retention", "show")[days])
		require.Nil(t, admin(t, "retention", "set", "--keep")[days])
		shown, stderr, code := run(t, env, "admin", "retention", "show")
		require.Zero(t, code, stderr)
		require.Contains(t, shown, "for ever")
		refused(t, "no account 7", "--in=7", "retention", "set", "--days=1")
	})

	t.Run("tables never show a secret but once", func(t *testing.T) {
		stdout, _, _ := run(t, env, "admin", "credential", "create", "--member=ada")
		bearer := strings.TrimSpace(stdout[strings.LastIndex(stdout, "tp_member_"):])
		require.True(t, works(t, credential.Member, bearer))
		for _, list := range []string{"account", "member", "executor", "credential"} {
			stdout, stderr, code := run(t, env, "admin", list, "list")
			require.Zero(t, code, stderr)
			require.Greater(t, strings.Count(stdout, "\n"), 1)
			require.NotContains(t, stdout, "tp_")
		}
	})

	t.Run("several accounts must be told apart", func(t *testing.T) {
		admin(t, "account", "create", "acme")
		refused(t, "--in", "member", "list")
		stdout, stderr, code := run(t, env, "admin", "--in="+account, "member", "list")
		require.Zero(t, code, stderr)
		require.Contains(t, stdout, "ada")
	})
}

func TestAPIStopsWithoutCuttingAnyoneOff(t *testing.T) {
	t.Parallel()
	url := devtest.Database(t)
	env := []string{
		"DATABASE_URL=" + url, "TEMPORAL_ADDRESS=127.0.0.1:1", "TOOLPARK_LISTEN=127.0.0.1:0",
		"TOOLPARK_CLAIM_SECRET=" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("s"), 32)),
	}
	bearer := runnerBearer(t, url)
	command := newCommand(t, env, "api")
	stderr, err := command.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	base := "http://" + addressOf(t, stderr, "api started")

	get := func(path string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+bearer)
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		t.Cleanup(func() { response.Body.Close() })
		return response
	}
	ready, err := io.ReadAll(get("/readyz").Body)
	require.NoError(t, err)
	require.JSONEq(t, `{"status":"degraded"}`, string(ready), "Temporal is not there")
	events := get("/agent_api/v1/executor/events")
	require.Equal(t, http.StatusOK, events.StatusCode)

	poll := make(chan int, 1)
	go func() { poll <- get("/agent_api/v1/executor/inbox?wait_ms=60000").StatusCode }()
	time.Sleep(300 * time.Millisecond) // let the long poll begin: it has nothing to show for itself
	require.NoError(t, command.Process.Signal(syscall.SIGTERM))

	start := time.Now()
	require.Equal(t, http.StatusOK, <-poll)
	_, err = io.Copy(io.Discard, events.Body)
	require.NoError(t, err, "the stream ends, it is not cut off")
	require.NoError(t, command.Wait())
	require.Less(t, time.Since(start), 10*time.Second)
}

func TestAWorkerAnswersHealthChecks(t *testing.T) {
	t.Parallel()
	command := newCommand(t, []string{
		"DATABASE_URL=" + devtest.Database(t), "TEMPORAL_ADDRESS=" + devtest.Temporal(t), "TOOLPARK_TASK_QUEUE=" + devtest.TaskQueue(t),
	}, "worker", "--worker-listen", "127.0.0.1:0")
	stderr, err := command.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	base := "http://" + addressOf(t, stderr, "worker answers health checks")
	require.Eventually(t, func() bool {
		response, err := http.Get(base + "/readyz")
		require.NoError(t, err)
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	}, 20*time.Second, 50*time.Millisecond)
	require.NoError(t, command.Process.Signal(syscall.SIGTERM))
	require.NoError(t, command.Wait())
}

// addressOf reads the log until a process says where it listens, and goes on reading behind.
func addressOf(t *testing.T, log io.Reader, message string) string {
	t.Helper()
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		var line struct{ Msg, Address string }
		if json.Unmarshal(lines.Bytes(), &line, json.MatchCaseInsensitiveNames(true)) == nil && line.Msg == message {
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return line.Address
		}
	}
	t.Fatalf("nothing logged %q", message)
	return ""
}

func runnerBearer(t *testing.T, url string) string {
	t.Helper()
	for _, args := range [][]string{
		{"account", "create", "acme"},
		{"member", "create", "human", "ada"},
		{"executor", "create", "runner", "box", "--manager=ada"},
	} {
		_, stderr, code := run(t, []string{"DATABASE_URL=" + url}, append([]string{"admin"}, args...)...)
		require.Zero(t, code, stderr)
	}
	stdout, stderr, code := run(t, []string{"DATABASE_URL=" + url}, "admin", "--json", "credential", "create", "--executor=box")
	require.Zero(t, code, stderr)
	var made struct{ Bearer string }
	require.NoError(t, json.Unmarshal([]byte(stdout), &made, json.MatchCaseInsensitiveNames(true)))
	return made.Bearer
}

// A stack that runs keeps its state whatever another start asks for.
func TestDevResetsNothingOfARunningStack(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the second start waits for the first one to end, for 12 seconds")
	}
	dir := t.TempDir()
	lock, err := devstack.Lock(t.Context(), dir, io.Discard)
	require.NoError(t, err)
	defer lock.Close()
	kept := filepath.Join(dir, "credentials.json")
	require.NoError(t, os.WriteFile(kept, []byte("{}"), 0o600))
	_, stderr, code := run(t, nil, "dev", "--reset", "--dir", dir)
	require.NotZero(t, code)
	require.Contains(t, stderr, "another program uses "+dir)
	require.FileExists(t, kept)
}
