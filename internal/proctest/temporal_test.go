package proctest_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/proctest"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
)

func TestTemporalIsAway(t *testing.T) {
	t.Parallel()
	skipShort(t)
	away := 5 * time.Second
	if full() {
		away = 30 * time.Second
	}
	server := ownTemporal(t)
	s := newScene(t, servers{temporal: server})
	var ran atomic.Int64
	tool := echo("echo", &ran)
	served, b := s.newBox("served", tool.Entry), s.newBox("box", proctest.Entry("look", proctest.ReadOnly))
	run := s.openRun(served.declare(tool.Entry)...)
	served.work(s.APIs[0], proctest.NewLedger(), 16, tool)
	claimed := b.step(run, "look", `{}`, time.Hour)
	due := b.step(run, "look", `{}`, 2*time.Second)
	token := b.claim(claimed).Token

	require.NoError(t, server.Kill())
	killed := time.Now()
	var (
		asking   sync.WaitGroup
		accepted agent.Run
		rounds   []agent.Round
	)
	asking.Go(func() {
		var err error
		accepted, err = s.Agent.At(s.APIs[0]).CreateRun(t.Context(), agent.NewRun{IdempotencyKey: "while away"})
		if err != nil || accepted.Status != toolpark.RunAccepting {
			t.Errorf("a run without Temporal: %q, %v; want 202 accepting", accepted.Status, err)
		}
	})
	asking.Go(func() {
		judged, err := b.at(s.APIs[1]).Commit(t.Context(), claimed, token, runner.Text("seen"))
		if err != nil || judged {
			t.Errorf("a commit without Temporal: judged %v, %v; want 202", judged, err)
		}
	})
	for range 4 {
		began := time.Now()
		round, err := s.Agent.At(s.APIs[0]).PostRound(t.Context(), run, agent.NewRound{Calls: calls(4)})
		require.NoError(t, err, "a round without Temporal")
		require.Less(t, time.Since(began), 3*time.Second, "the answer does not wait for Temporal")
		rounds = append(rounds, round)
	}
	asking.Wait()
	time.Sleep(away - time.Since(killed))

	require.NoError(t, server.Restart(t.Context()))
	back := time.Now()
	for _, round := range rounds {
		s.requireEchoes(run, round)
	}
	require.NoError(t, proctest.Completed("seen")(s.settled(claimed, recovery)))
	require.Equal(t, toolpark.TimedOut, s.settled(due, recovery).Status)
	s.eventually("the run is accepted", func() bool {
		now, err := s.Agent.At(s.APIs[1]).Run(t.Context(), accepted.PublicID)
		return err == nil && now.Status == toolpark.RunRunning
	})
	require.Less(t, time.Since(back), recovery)
	t.Logf("all settled %.1f s after Temporal was back from %.1f s", time.Since(back).Seconds(), back.Sub(killed).Seconds())
	s.over(run, accepted.PublicID)
}

func TestAWorkerStartsBeforeTemporal(t *testing.T) {
	t.Parallel()
	skipShort(t)
	server := ownTemporal(t)
	s := newScene(t, servers{temporal: server})
	kill(s.Workers...)
	require.NoError(t, server.Kill())
	s.restart(s.Workers...)
	time.Sleep(3 * time.Second)
	for _, worker := range s.Workers {
		require.True(t, worker.Running(), "%s gave up: %s", worker.Name, worker.Log())
	}
	require.NoError(t, server.Restart(t.Context()))
	s.over(s.openRun())
}
