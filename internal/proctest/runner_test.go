package proctest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/proctest"
	"github.com/toolpark/toolpark/sdk/runner"
)

// hold starts a runner with a step of a command that runs forever in its first generation, and kills it while the
// command runs. The command writes what it knows of each of its runs.
func (s *scene) hold(run, name string, timeout time.Duration) (*proctest.Process, *box, runner.Ref) {
	t := s.T
	t.Helper()
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
	ref := b.step(run, "bash", `{"command":"`+
		`echo $TOOLPARK_TASK_KEY $TOOLPARK_GENERATION $TOOLPARK_REDELIVERY >> ran; echo $TOOLPARK_IDEMPOTENCY_KEY >> keys; `+
		`[ $TOOLPARK_GENERATION = 1 ] || exit 0; while :; do echo >> beats; sleep 0.1; done"}`, timeout)
	s.eventually("the command runs", func() bool { return commandRan(s, name) == firstRun(ref) })
	process.Kill()
	s.eventually("the command ends with its runner", func() bool {
		before := beats(s, name)
		time.Sleep(time.Second)
		return beats(s, name) == before
	})
	return process, b, ref
}

// firstRun is what the command of hold writes at first.
func firstRun(ref runner.Ref) string { return ref.TaskKey + " 1 false\n" }

func TestARunnerDiesHoldingAClaim(t *testing.T) {
	t.Parallel()
	skipShort(t)
	s := newScene(t, servers{})
	run := s.openRun()
	back, b, interrupted := s.hold(run, "back", time.Hour)
	_, _, lost := s.hold(run, "away", 3*time.Second)

	s.restart(back)
	task := s.settled(interrupted, recovery)
	require.Equal(t, toolpark.Completed, task.Status)
	require.True(t, task.IsError)
	require.Equal(t, "interrupted; effects unknown", task.Output)
	require.Equal(t, firstRun(interrupted), commandRan(s, "back"), "the command did not run again")

	task = s.settled(lost, recovery)
	require.Equal(t, toolpark.Uncertain, task.Status)
	require.Equal(t, toolpark.ErrToolUncertain, task.Error.Key)

	// The one that came back goes on serving.
	next := b.step(run, "bash", `{"command":"echo again"}`, time.Hour)
	require.NoError(t, proctest.Completed("again")(s.settled(next, patience)))
	s.over(run)
}

func TestARetryOfWhatARunnerLost(t *testing.T) {
	t.Parallel()
	skipShort(t)
	s := newScene(t, servers{})
	run := s.openRun()
	retry := func(ref runner.Ref) {
		begun, err := s.Agent.At(s.APIs[1]).Retry(t.Context(), run, ref.TaskKey)
		require.NoError(t, err)
		require.Equal(t, 2, begun.Generation)
		require.Equal(t, toolpark.Dispatched, begun.Status)
	}
	for _, while := range []string{"away", "back"} {
		process, b, ref := s.hold(run, while, 3*time.Second)
		require.Equal(t, toolpark.Uncertain, s.settled(ref, recovery).Status)
		if while == "away" {
			retry(ref) // the runner's journal holds the claim of the generation before
			s.restart(process)
		} else {
			s.restart(process)
			next := b.step(run, "bash", `{"command":"true"}`, time.Hour)
			require.Equal(t, toolpark.Completed, s.settled(next, patience).Status)
			require.Equal(t, firstRun(ref), commandRan(s, while), "nothing runs again by itself")
			retry(ref)
		}
		again := s.settled(ref, patience)
		require.Equal(t, toolpark.Completed, again.Status, "%s", again.Raw)
		require.False(t, again.IsError, "%s", again.Raw)
		require.Equal(t, firstRun(ref)+ref.TaskKey+" 2 true\n", commandRan(s, while))
		keys, err := os.ReadFile(filepath.Join(s.Dir, while, "keys"))
		require.NoError(t, err)
		require.Equal(t, strings.Repeat(run+"/"+ref.TaskKey+"\n", 2), string(keys))
		before, err := s.Agent.At(s.APIs[0]).TaskGeneration(t.Context(), run, ref.TaskKey, 1)
		require.NoError(t, err)
		require.Equal(t, toolpark.Uncertain, before.Status)
	}
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
