package proctest_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/proctest"
	"github.com/toolpark/toolpark/sdk/runner"
)

func TestARunnerDiesHoldingAClaim(t *testing.T) {
	t.Parallel()
	skipShort(t)
	s := newScene(t, servers{})
	run := s.openRun()

	hold := func(name string, timeout time.Duration) (*proctest.Process, *box, runner.Ref) {
		made, err := s.Account.Runner(t.Context(), name)
		require.NoError(t, err)
		process, err := s.Runner(name, s.APIs[0].URL, made.Token, 4)
		require.NoError(t, err)
		s.start(process)
		b := &box{Executor: made, s: s}
		s.eventually("the runner has announced", func() bool {
			served, err := s.Agent.At(s.APIs[0]).Executor(t.Context(), made.ID.String())
			return err == nil && len(served.ServedTools) > 0
		})
		ref := b.step(run, "bash", `{"command":"echo ran >> ran; while :; do echo >> beats; sleep 0.1; done"}`, timeout)
		s.eventually("the command runs", func() bool { return commandRan(s, name) == "ran\n" })
		process.Kill()
		s.eventually("the command ends with its runner", func() bool {
			before := beats(s, name)
			time.Sleep(time.Second)
			return beats(s, name) == before
		})
		return process, b, ref
	}
	back, b, interrupted := hold("back", time.Hour)
	_, _, lost := hold("away", 3*time.Second)

	s.restart(back)
	task := s.settled(interrupted, recovery)
	require.Equal(t, toolpark.Completed, task.Status)
	require.True(t, task.IsError)
	require.Equal(t, "interrupted; effects unknown", task.Output)
	require.Equal(t, "ran\n", commandRan(s, "back"), "the command did not run again")

	task = s.settled(lost, recovery)
	require.Equal(t, toolpark.Uncertain, task.Status)
	require.Equal(t, toolpark.ErrToolUncertain, task.Error.Key)

	// The one that came back goes on serving.
	next := b.step(run, "bash", `{"command":"echo again"}`, time.Hour)
	require.NoError(t, proctest.Completed("again")(s.settled(next, patience)))
	s.over(run)
}

// commandRan is what the command wrote in the runner's directory.
func commandRan(s *scene, name string) string {
	text, err := os.ReadFile(filepath.Join(s.Dir, name, "ran"))
	if err != nil {
		return ""
	}
	return string(text)
}

// beats is how far the command has come.
func beats(s *scene, name string) int64 {
	info, err := os.Stat(filepath.Join(s.Dir, name, "beats"))
	if err != nil {
		return 0
	}
	return info.Size()
}
