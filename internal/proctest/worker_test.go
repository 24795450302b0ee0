package proctest_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/proctest"
	"github.com/toolpark/toolpark/sdk/runner"
)

func TestAllWorkersDie(t *testing.T) {
	t.Parallel()
	skipShort(t)
	s := newScene(t, servers{})
	b := s.newBox("box", proctest.Entry("look", proctest.ReadOnly), proctest.Entry("change", proctest.Writes))
	run := s.openRun()

	const short = 4 * time.Second
	var (
		parked    = b.step(run, "look", `{}`, time.Hour)
		unclaimed = b.step(run, "look", `{}`, short)
		inTime    = b.step(run, "change", `{}`, short)
		late      = b.step(run, "look", `{}`, short)
		silent    = b.step(run, "change", `{}`, short)
		slow      = b.step(run, "change", `{}`, time.Hour)
	)
	tokens := map[runner.Ref]string{}
	for _, ref := range []runner.Ref{inTime, late, silent, slow} {
		tokens[ref] = b.claim(ref).Token
	}
	kill(s.Workers...)

	// What is reported while no worker runs is safe, and its stamp is what counts.
	var commits sync.WaitGroup
	commit := func(ref runner.Ref) {
		commits.Go(func() {
			judged, err := b.at(s.APIs[0]).Commit(t.Context(), ref, tokens[ref], runner.Text("done"))
			if err != nil || judged {
				t.Errorf("a commit without a worker: judged %v, %v; want 202", judged, err)
			}
		})
	}
	commit(inTime)
	commit(slow)
	time.Sleep(time.Until(*s.deadline(late)) + 100*time.Millisecond)
	commit(late)
	commits.Wait()
	for _, ref := range []runner.Ref{parked, unclaimed, inTime, late, silent, slow} {
		task, err := s.Agent.At(s.APIs[0]).Task(t.Context(), ref.Run, ref.TaskKey, 0)
		require.NoError(t, err)
		require.Equal(t, toolpark.Dispatched, task.Status, "only a worker settles")
	}

	s.restart(s.Workers...)
	for _, ref := range []runner.Ref{inTime, slow} {
		require.NoError(t, proctest.Completed("done")(s.settled(ref, recovery)), "staged before the deadline")
		judged, err := b.at(s.APIs[1]).Commit(t.Context(), ref, tokens[ref], runner.Text("done"))
		require.NoError(t, err)
		require.True(t, judged, "repeating a report tells its verdict")
	}
	for ref, want := range map[runner.Ref]toolpark.Status{
		unclaimed: toolpark.TimedOut, late: toolpark.TimedOut, silent: toolpark.Uncertain,
	} {
		require.Equal(t, want, s.settled(ref, recovery).Status)
	}
	_, err := b.at(s.APIs[1]).Commit(t.Context(), late, tokens[late], runner.Text("done"))
	requireCode(t, toolpark.CodeClaimExpired, err)

	judged, err := b.at(s.APIs[1]).Commit(t.Context(), parked, b.claim(parked).Token, runner.Text("done"))
	require.NoError(t, err)
	require.True(t, judged)
	s.over(run)
}
