package proctest_test

import (
	"context"
	"fmt"
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

// TestWaitingHoldsNoConnection has many more requests wait than there are database connections, and wants
// others to be answered promptly: a request that had to wait for one of these would take a minute.
func TestWaitingHoldsNoConnection(t *testing.T) {
	t.Parallel()
	skipShort(t)
	waiters, prompt := 50, 5*time.Second
	if full() {
		waiters, prompt = 200, time.Second
	}
	s := newScene(t, servers{})
	api := s.APIs[0]
	b := s.newBox("box", proctest.Entry("look", proctest.ReadOnly))
	run := s.openRun()
	awaited := b.step(run, "look", `{}`, time.Hour)
	awaitedToken := b.claim(awaited).Token // its row is claimed, so that polls for unclaimed ones wait

	waiting, cancel := context.WithCancel(t.Context())
	var (
		polls   sync.WaitGroup
		settled atomic.Int64
	)
	for i := range waiters {
		idle := s.newBox(fmt.Sprintf("idle-%d", i))
		polls.Go(func() {
			box, err := idle.at(api).Inbox(waiting, runner.InboxQuery{Wait: time.Minute})
			if waiting.Err() == nil {
				t.Errorf("an empty inbox was answered: %v %v", box, err)
			}
		})
		polls.Go(func() {
			task, err := s.Agent.At(api).Task(t.Context(), awaited.Run, awaited.TaskKey, time.Minute)
			if err == nil && task.Status.Settled() {
				settled.Add(1)
			}
		})
	}
	time.Sleep(time.Second) // let them all wait

	promptly := func(what string, do func() error) {
		began := time.Now()
		require.NoError(t, do(), what)
		require.Less(t, time.Since(began), prompt, "%s beside %d requests that wait", what, 2*waiters)
	}
	var ref runner.Ref
	promptly("authoring", func() error { ref = b.step(run, "look", `{}`, time.Hour); return nil })
	var grant runner.Grant
	promptly("claiming", func() (err error) {
		grant, err = b.at(api).Claim(t.Context(), ref, "claim")
		return err
	})
	for ref, token := range map[runner.Ref]string{ref: grant.Token, awaited: awaitedToken} {
		promptly("committing", func() error {
			judged, err := b.at(api).Commit(t.Context(), ref, token, runner.Text("seen"))
			require.True(t, judged)
			return err
		})
	}
	s.eventually("those who waited for the task are told", func() bool { return settled.Load() == int64(waiters) })
	cancel()
	polls.Wait()
	var task agent.Task
	promptly("reading", func() (err error) {
		task, err = s.Agent.At(api).Task(t.Context(), ref.Run, ref.TaskKey, 0)
		return err
	})
	require.Equal(t, toolpark.Completed, task.Status)
	s.over(run)
}
