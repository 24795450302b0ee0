package sandbox_test

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/sdk/runner"
)

func TestBash(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, command, text string
		isError             bool
	}{
		{"output", "echo out; echo err >&2", "out\nerr", false},
		{"directory", "touch here; ls", "here", false},
		{"no output", "true", "The command succeeded without output.", false},
		{"exit status", "echo bad; exit 3", "bad\n\nThe command ended with exit status 3.", true},
		{"killed by itself", "kill -KILL $$", "The command ended with exit status 137.", true},
		{"no such command", "nosuchcommand 2>/dev/null", "The command ended with exit status 127.", true},
		{"no input", "cat; echo done", "done", false},
		{"invalid text", `printf 'a\xff\x00b'`, "a\uFFFD\uFFFDb", false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := setup(t).call("bash", in{"command": c.command})
			require.Equal(t, c.text, r.Text)
			require.Equal(t, c.isError, r.IsError)
			require.Equal(t, c.command, r.Title)
			require.True(t, r.Metadata.IsValid())
		})
	}
}

func TestBashEnvironmentIsClean(t *testing.T) {
	t.Parallel()
	require.NotEmpty(t, os.Getenv("PATH"))
	b := setup(t)
	names := map[string]string{}
	for line := range strings.Lines(b.call("bash", in{"command": "env"}).Text) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		names[name] = value
	}
	require.Equal(t, b.dir, names["HOME"])
	require.Equal(t, b.dir, names["PWD"])
	for name := range names {
		require.Contains(t, []string{
			"PATH", "HOME", "PWD", "LANG", "TERM", "SHELL", "SHLVL", "_",
			"TOOLPARK_RUN", "TOOLPARK_TASK_KEY", "TOOLPARK_GENERATION", "TOOLPARK_REDELIVERY", "TOOLPARK_IDEMPOTENCY_KEY",
		}, name)
	}
}

func TestBashTellsACommandWhichCallItIs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	raw, err := json.Marshal(in{"command": "env | grep ^TOOLPARK_ | sort"})
	require.NoError(t, err)
	for redelivery, generation := range map[string]int{"false": 1, "true": 2} {
		r, err := b.tools["bash"].Run(t.Context(), runner.Call{
			Run: "run1", TaskKey: "r1t0", Generation: generation, Tool: "bash", Input: raw,
			IdempotencyKey: "run1/r1t0", Redelivery: generation > 1,
		})
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("TOOLPARK_GENERATION=%d\nTOOLPARK_IDEMPOTENCY_KEY=run1/r1t0\nTOOLPARK_REDELIVERY=%s\n"+
			"TOOLPARK_RUN=run1\nTOOLPARK_TASK_KEY=r1t0", generation, redelivery), r.Text)
	}
}

// alive tells whether the process that wrote its id to a file still runs.
func alive(t *testing.T, path string) bool {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat") // a zombie has ended, too
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

func TestBashTimeoutKillsTheWholeGroup(t *testing.T) {
	t.Parallel()
	b := setup(t)
	began := time.Now()
	r := b.call("bash", in{"timeout_ms": 700, "command": `
		echo before
		bash -c 'bash -c "echo \$\$ > grandchild; exec sleep 60" & wait' &
		(trap "" TERM; echo $BASHPID > deaf; while :; do sleep 0.2; done) &
		sleep 60`})
	require.Less(t, time.Since(began), 10*time.Second)
	require.True(t, r.IsError)
	require.Contains(t, r.Text, "before")
	require.Contains(t, r.Text, "killed after 700ms")
	for _, name := range []string{"grandchild", "deaf"} {
		require.Eventually(t, func() bool { return !alive(t, filepath.Join(b.dir, name)) },
			2*time.Second, 20*time.Millisecond, name)
	}
}

func TestBashCancelKills(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(300*time.Millisecond, cancel)
	began := time.Now()
	r := b.callWith(ctx, "bash", in{"command": "echo $$ > pid; sleep 60; echo after"}, nil)
	require.Less(t, time.Since(began), 10*time.Second)
	require.True(t, r.IsError)
	require.Contains(t, r.Text, "canceled")
	require.NotContains(t, r.Text, "after")
	require.False(t, alive(t, filepath.Join(b.dir, "pid")))
}

func TestBashLeavesNothingInTheBackground(t *testing.T) {
	t.Parallel()
	b := setup(t)
	began := time.Now()
	r := b.call("bash", in{"command": "sleep 60 & echo $! > pid; echo started"})
	require.Less(t, time.Since(began), 5*time.Second)
	require.Equal(t, "started", r.Text)
	require.Eventually(t, func() bool { return !alive(t, filepath.Join(b.dir, "pid")) }, 2*time.Second, 20*time.Millisecond)
}

func TestBashDoesNotWaitForWhatLeftTheGroup(t *testing.T) {
	t.Parallel()
	b := setup(t)
	began := time.Now()
	r := b.call("bash", in{"command": "setsid sleep 7 & sleep 0.3; echo started"})
	require.Less(t, time.Since(began), 5*time.Second)
	require.Equal(t, "started", r.Text)
}

func TestBashBoundsItsOutput(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"lines":        "echo first; yes 'a line of output' | head -c 10485760; echo; echo last",
		"one line":     "printf 'first'; head -c 10485760 /dev/zero | tr '\\0' x; printf 'last'",
		"binary":       "printf 'first'; head -c 10485760 /dev/urandom; printf 'last'",
		"wide letters": "printf 'first'; for i in $(seq 40000); do printf '🙂é'; done; printf 'last'",
	}
	for name, command := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := setup(t).call("bash", in{"command": command})
			require.False(t, r.IsError)
			require.True(t, strings.HasPrefix(r.Text, "first"))
			require.True(t, strings.HasSuffix(r.Text, "last"))
			require.Contains(t, r.Text, "bytes left out")
			require.Less(t, len(r.Text), toolpark.MaxResult/4)
			require.True(t, utf8.ValidString(r.Text))
			require.NotContains(t, r.Text, "\x00")
			if name == "wide letters" {
				require.NotContains(t, r.Text, "\uFFFD", "a cut never splits a character")
			}
		})
	}
}

func TestBashKeepsEverythingUpToItsBound(t *testing.T) {
	t.Parallel()
	r := setup(t).call("bash", in{"command": "seq 1 6500"}) // 31 393 bytes
	require.NotContains(t, r.Text, "left out")
	require.Len(t, strings.Split(r.Text, "\n"), 6500)
}

func TestBashShowsProgress(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var frames []jsontext.Value
	r := setup(t).callWith(context.Background(), "bash",
		in{"command": `for i in 1 2 3 4 5; do head -c 3000 /dev/zero | tr '\0' '\1'; echo; echo "step $i"; sleep 0.5; done`},
		func(frame jsontext.Value) {
			mu.Lock()
			defer mu.Unlock()
			frames = append(frames, frame.Clone())
		})
	require.False(t, r.IsError)
	mu.Lock()
	defer mu.Unlock()
	require.NotEmpty(t, frames)
	for _, frame := range frames {
		require.LessOrEqual(t, len(frame), toolpark.MaxProgressFrame)
		var shown struct {
			Output string `json:"output"`
		}
		require.NoError(t, json.Unmarshal(frame, &shown))
		require.Contains(t, shown.Output, "step ")
	}
}
