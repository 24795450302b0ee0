package sandbox_test

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark/internal/sandbox"
	"github.com/toolpark/toolpark/sdk/runner"
)

// What TestRunnerProcess is told.
const (
	runnerDir     = "TOOLPARK_TEST_DIR"
	runnerCommand = "TOOLPARK_TEST_COMMAND"
	runnerHides   = "TOOLPARK_TEST_HIDES"
	runnerToken   = "TOOLPARK_TEST_TOKEN"
)

// TestRunnerProcess is no test: it is the runner that other tests kill or spy on. It runs one command.
func TestRunnerProcess(t *testing.T) {
	dir := os.Getenv(runnerDir)
	if dir == "" {
		t.Skip("started by other tests")
	}
	if os.Getenv(runnerHides) != "" {
		require.NoError(t, sandbox.HideProcess())
	}
	s, err := sandbox.Open(dir, os.Getenv("PATH"))
	require.NoError(t, err)
	input, err := json.Marshal(in{"command": os.Getenv(runnerCommand)})
	require.NoError(t, err)
	for _, tool := range s.Tools() {
		if tool.Name == "bash" {
			result, err := tool.Run(context.Background(), runner.Call{Input: input, Progress: func(jsontext.Value) {}})
			require.NoError(t, err)
			fmt.Println(result.Text)
		}
	}
}

// runnerProcess is a runner that runs one command over a directory.
func runnerProcess(t *testing.T, binary, dir, command string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, "-test.run=^TestRunnerProcess$")
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), runnerDir + "=" + dir, runnerCommand + "=" + command}, env...)
	return cmd
}

func TestBashEndsWithAKilledRunner(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := runnerProcess(t, self, dir, `
		bash -c 'echo $$ > grandchild; sleep 60; :' &
		(trap "" TERM HUP; echo $BASHPID > deaf; while :; do sleep 0.2; done) &
		echo $$ > shell; sleep 60; echo after > after`)
	require.NoError(t, cmd.Start())
	pids := []string{"shell", "grandchild", "deaf"}
	for _, name := range pids {
		require.Eventually(t, func() bool {
			text, err := os.ReadFile(filepath.Join(dir, name))
			return err == nil && len(text) > 1
		}, 20*time.Second, 10*time.Millisecond, name)
		require.True(t, alive(t, filepath.Join(dir, name)), name)
	}
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	for _, name := range pids {
		require.Eventually(t, func() bool { return !alive(t, filepath.Join(dir, name)) },
			5*time.Second, 20*time.Millisecond, name)
	}
	require.NoFileExists(t, filepath.Join(dir, "after"))
}
