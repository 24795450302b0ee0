package main

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark/internal/kerneltest"
)

// terminal is a whole installation with a runner over a directory, and what calls its tools.
type terminal struct {
	t       *testing.T
	account *kerneltest.Account
	box     kerneltest.Executor
	dir     string // that the runner serves
	call    CallCmd
}

func setupCalls(t *testing.T) *terminal {
	t.Helper()
	account := kerneltest.Start(t).Account()
	box := account.Runner("box")
	b := &terminal{t: t, account: account, box: box, dir: t.TempDir(), call: callAs(account, box)}
	runner := RunnerCmd{
		Dir: b.dir, State: t.TempDir(), Slots: 4, Grace: time.Second, URL: account.URL, Token: box.Token,
		LogLevel: slog.LevelWarn, LogFormat: "text",
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	announced(account, box)
	return b
}

// callAs calls the runner's tools as the agent, and asks nobody.
func callAs(account *kerneltest.Account, box kerneltest.Executor) CallCmd {
	return CallCmd{
		URL: account.URL, Token: account.Agent.Token,
		Runner: box.ID.String(), Approval: approvalBypass,
	}
}

// announced waits until a runner serves its tools.
func announced(account *kerneltest.Account, box kerneltest.Executor) {
	account.T.Helper()
	account.Eventually("the runner serves its tools", func() bool {
		served, err := account.Agent.Executor(account.T.Context(), box.ID.String())
		return err == nil && len(served.ServedTools) == 6
	})
}

// run makes the calls and returns what was printed and which calls failed.
func (b *terminal) run(call CallCmd) (out string, failed error) {
	b.t.Helper()
	var printed bytes.Buffer
	failed, err := call.run(b.t.Context(), &printed)
	require.NoError(b.t, err)
	return printed.String(), failed
}

func (b *terminal) one(name, arguments string) (out string, failed error) {
	call := b.call
	call.Name, call.Arguments = name, arguments
	return b.run(call)
}

func (b *terminal) batch(calls string) (out string, failed error) {
	call := b.call
	call.File = filepath.Join(b.t.TempDir(), "calls.json")
	require.NoError(b.t, os.WriteFile(call.File, []byte(calls), 0o600))
	return b.run(call)
}

func TestCallsOfARunner(t *testing.T) {
	t.Parallel()
	b := setupCalls(t)

	t.Run("one call prints its output", func(t *testing.T) {
		out, failed := b.one("bash", `{"command":"echo hello"}`)
		require.NoError(t, failed)
		require.Equal(t, "hello\n", out)
	})
	t.Run("a tool's error", func(t *testing.T) {
		out, failed := b.one("bash", `{"command":"echo bad; exit 3"}`)
		require.EqualError(t, failed, "bash: completed with an error")
		require.Equal(t, "bad\n\nThe command ended with exit status 3.\n", out)
	})
	t.Run("a tool that nobody serves", func(t *testing.T) {
		_, failed := b.one("no_such", "")
		require.ErrorContains(t, failed, "no_such: failed: ")
		require.ErrorContains(t, failed, "unknown_tool")
	})
	t.Run("arguments that are cut", func(t *testing.T) {
		_, failed := b.one("bash", `{"command":`)
		require.ErrorContains(t, failed, "(invalid_tool_arguments: ")
	})
	t.Run("a batch is paired in order, bad calls and all", func(t *testing.T) {
		out, failed := b.batch(`[
			{"id":"w","name":"write","arguments":{"path":"d/a.txt","content":"héllo 12345678901234567890\n"}},
			{"id":"n","name":"no_such"},
			{"id":"d","name":"bash","arguments":{"command":"true","command":"false"}},
			{"id":"s","name":"bash","arguments":"{\"command\":\"sleep 0.3; cat d/a.txt\"}"}]`)
		require.EqualError(t, failed, "2 of 4 calls did not succeed")
		lines := strings.Split(strings.TrimSpace(out), "\n")
		require.Len(t, lines, 6)
		require.Equal(t, "--- w write: completed", lines[0])
		require.Contains(t, lines[2], "--- n no_such: failed: ")
		require.Contains(t, lines[3], "--- d bash: failed: The arguments were not one JSON object")
		require.Equal(t, []string{"--- s bash: completed", "héllo 12345678901234567890"}, lines[4:])
	})
	t.Run("as JSON", func(t *testing.T) {
		call := b.call
		call.JSON, call.Name, call.Arguments = true, "glob", `{"pattern":"d/*"}`
		out, failed := b.run(call)
		require.NoError(t, failed)
		var tasks []struct {
			Key    string `json:"task_key"`
			Output string `json:"output"`
		}
		require.NoError(t, json.Unmarshal([]byte(out), &tasks))
		require.Len(t, tasks, 1)
		require.Equal(t, "r1t0", tasks[0].Key)
		require.Equal(t, "d/a.txt", tasks[0].Output)
	})
	t.Run("the only runner is found", func(t *testing.T) {
		call := b.call
		call.Runner, call.Name, call.Arguments = "", "read", `{"path":"d/a.txt"}`
		out, failed := b.run(call)
		require.NoError(t, failed)
		require.Contains(t, out, "héllo")
	})
	t.Run("an interrupted call is canceled", func(t *testing.T) {
		call := b.call
		call.Name, call.Arguments = "bash", `{"command":"touch started; sleep 60"}`
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer cancel()
			for range 1000 {
				if _, err := os.Stat(filepath.Join(b.dir, "started")); err == nil {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		}()
		err := call.Run(ctx)
		var exit exitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, exitNotCalled, exit.ExitCode())
		require.ErrorContains(t, err, "interrupted")
	})
}

func TestCallsThatCannotBeMade(t *testing.T) {
	t.Parallel()
	list := filepath.Join(t.TempDir(), "calls.json")
	require.NoError(t, os.WriteFile(list, []byte(`[{"id":"a","tool":"bash"}]`), 0o600))
	nobody := httptest.NewServer(http.NotFoundHandler())
	nobody.Close()
	for name, test := range map[string]struct {
		call CallCmd
		want string
	}{
		"nothing to call":         {CallCmd{}, "say what to call"},
		"both ways":               {CallCmd{Name: "bash", File: list}, "not both"},
		"no such file":            {CallCmd{File: "/no/such/file"}, "no such file"},
		"a file of no calls":      {CallCmd{File: list}, "{id?, name, arguments}"},
		"no credentials":          {CallCmd{Name: "bash", Credentials: "/no/such/file"}, "there is no credentials file /no/such/file"},
		"bad credentials":         {CallCmd{Name: "bash", Credentials: list}, "read the credentials"},
		"an absent server":        {CallCmd{Name: "bash", URL: nobody.URL, Token: "x"}, "connection refused"},
		"an address that is none": {CallCmd{Name: "bash", URL: "http://no host", Token: "x"}, "unusable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := test.call.Run(t.Context())
			var exit exitError
			require.ErrorAs(t, err, &exit)
			require.Equal(t, exitNotCalled, exit.ExitCode())
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestCredentialsOfTheFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "credentials.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"url":"http://dev","agent_token":"of the file","member_token":"m",
		"runner_token":"r","runner_public_id":"the runner","agent_public_id":"a"}`), 0o600))
	for name, test := range map[string]struct {
		connection         Connection
		url, agent, person string
		runner             string
	}{
		"everything":      {Connection{}, "http://dev", "of the file", "m", "the runner"},
		"its own server":  {Connection{URL: "http://dev"}, "http://dev", "of the file", "m", "the runner"},
		"a token of mine": {Connection{Token: "mine"}, "http://dev", "mine", "mine", ""},
		"all of my own":   {Connection{URL: "http://prod", Token: "mine"}, "http://prod", "mine", "mine", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.connection.Credentials = file
			client, used, err := test.connection.client(agentOf)
			require.NoError(t, err)
			require.Equal(t, test.url, client.BaseURL)
			require.Equal(t, test.agent, client.Token)
			require.Equal(t, test.runner, used.RunnerID)
			client, _, err = test.connection.client(personOf)
			require.NoError(t, err)
			require.Equal(t, test.person, client.Token)
		})
	}
}

func TestWhatIsMissingToConnect(t *testing.T) {
	t.Parallel()
	absent := filepath.Join(t.TempDir(), "absent.json")
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "credentials.json")
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	for name, test := range map[string]struct {
		connection   Connection
		says, silent string
	}{
		"nothing is given":            {Connection{Credentials: absent}, "no credentials file " + absent + ": toolpark dev writes one", ""},
		"an address, and no file":     {Connection{Credentials: absent, URL: "http://prod"}, "bearer for http://prod; give a member's bearer", "--url"},
		"a bearer, and no file":       {Connection{Credentials: absent, Token: "mine"}, "give the API's address", "--token"},
		"another server's file":       {Connection{Credentials: file(`{"url":"http://dev","agent_token":"x"}`), URL: "http://prod"}, "are for http://dev, and go to no other server; for http://prod give", "--url"},
		"a file without this bearer":  {Connection{Credentials: file(`{"url":"http://dev","member_token":"x"}`)}, "no bearer for this command", "--url"},
		"a file without an address":   {Connection{Credentials: file(`{"agent_token":"x"}`)}, "has no url", "--token"},
		"a file that serves no token": {Connection{Credentials: file(`{}`), URL: "http://prod"}, "for http://prod give a member's bearer", "--url"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := test.connection.client(agentOf)
			require.ErrorContains(t, err, test.says)
			if test.silent != "" {
				require.NotContains(t, err.Error(), test.silent, "it was given, or is no help")
			}
		})
	}
}

func TestACallSpeaksEverMoreRarely(t *testing.T) {
	t.Parallel()
	var silences []string
	for silence := 2 * time.Second; len(silences) < 7; silence = longer(silence) {
		silences = append(silences, silence.String())
	}
	require.Equal(t, []string{"2s", "10s", "20s", "40s", "1m20s", "2m0s", "2m0s"}, silences)
}

func TestStateOfARunner(t *testing.T) {
	t.Parallel()
	outer, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	served := filepath.Join(outer, "served")
	require.NoError(t, os.MkdirAll(filepath.Join(served, "deep"), 0o755))
	require.NoError(t, os.Symlink(filepath.Join(served, "deep"), filepath.Join(outer, "alias")))
	require.NoError(t, os.Symlink(filepath.Join(outer, "gone"), filepath.Join(outer, "dangling")))
	for name, test := range map[string]struct{ state, want, refused string }{
		"beside":            {filepath.Join(outer, "served-state", "new"), filepath.Join(outer, "served-state", "new"), ""},
		"the directory":     {served, "", "inside"},
		"below":             {filepath.Join(served, "new", "er"), "", "inside"},
		"below by a link":   {filepath.Join(outer, "alias", "new"), "", "inside"},
		"through dots":      {filepath.Join(outer, "x") + "/../served/deep", "", "inside"},
		"a link to nowhere": {filepath.Join(outer, "dangling", "new"), "", "nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, err := (&RunnerCmd{State: test.state}).state(served)
			if test.refused != "" {
				require.ErrorContains(t, err, test.refused)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, dir)
		})
	}
	_, err = os.Stat(filepath.Join(served, "new"))
	require.ErrorIs(t, err, os.ErrNotExist, "refusing leaves no trace")
}
