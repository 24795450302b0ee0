package proctest_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/catalog"
	"github.com/toolpark/toolpark/internal/proctest"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
)

// Questions, and what waits for their answers, outlive the end of every process there is, and so does an answer that
// nobody has judged yet.
func TestQuestionsOutliveEverything(t *testing.T) {
	t.Parallel()
	skipShort(t)
	temporal, database := ownTemporal(t), ownPostgres(t)
	s := newScene(t, servers{temporal: temporal, postgres: database})
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	person := &proctest.Agent{APIs: s.APIs, Token: s.Account.HumanToken}
	run, err := s.Agent.OpenRunAs(ctx, agent.Configuration{ApprovalMode: "bypass", KernelTools: []string{catalog.HumanAsk}})
	require.NoError(t, err)
	round, err := s.Agent.PostRound(ctx, run, []agent.Call{{ID: "asks", Name: "ask", Arguments: `{"prompt":"Which colour?"}`}})
	require.NoError(t, err)
	var steps []agent.Task
	require.NoError(t, s.Agent.Try(ctx, func(c *agent.Client) (err error) {
		steps, err = c.AppendTasks(ctx, run, []agent.Step{
			{Ask: &agent.Question{Prompt: "Which size?", Options: []string{"S", "L"}, Strict: true}, Key: "size"},
			{WaitFor: "size", Key: "after-size"},
			{WaitFor: round.Tasks[0].Key, Key: "after-colour"},
		}, "")
		return err
	}))
	require.Len(t, steps, 3)
	colour, size := runner.Ref{Run: run, TaskKey: round.Tasks[0].Key + "-ask-1"}, runner.Ref{Run: run, TaskKey: "size"}
	asked := func() (keys []string) {
		var waiting []agent.Waiting
		require.NoError(t, person.Try(ctx, func(c *agent.Client) (err error) {
			waiting, err = c.Asks(ctx, agent.WaitingFilter{})
			return err
		}))
		for _, w := range waiting {
			keys = append(keys, w.TaskKey)
		}
		return keys
	}
	s.eventually("both questions are asked", func() bool { return len(asked()) == 2 })

	kill(append(s.APIs, s.Workers...)...)
	require.NoError(t, temporal.Kill())
	require.NoError(t, database.Kill())
	require.NoError(t, database.Restart(t.Context()))
	require.NoError(t, temporal.Restart(t.Context()))
	s.restart(s.APIs...)
	require.ElementsMatch(t, []string{colour.TaskKey, size.TaskKey}, asked())

	// Answered while no worker runs, by an API that is then killed with everything else.
	var answering sync.WaitGroup
	for ref, answer := range map[runner.Ref]string{colour: "red", size: "L"} {
		answering.Go(func() {
			judged, err := person.At(s.APIs[0]).Resolve(ctx, run, ref.TaskKey, agent.Answer{Text: answer})
			if err != nil || judged != nil {
				t.Errorf("an answer without a worker: %v, %v; want 202", judged, err)
			}
		})
	}
	answering.Wait()
	kill(s.APIs...)
	require.NoError(t, temporal.Kill())
	require.NoError(t, database.Kill())
	require.NoError(t, database.Restart(t.Context()))
	require.NoError(t, temporal.Restart(t.Context()))
	s.restart(append(s.APIs, s.Workers...)...)
	back := time.Now()
	for key, output := range map[string]string{round.Tasks[0].Key: "red", colour.TaskKey: "red", "size": "L"} {
		task := s.settled(runner.Ref{Run: run, TaskKey: key}, recovery)
		require.Equal(t, toolpark.Completed, task.Status)
		require.Equal(t, output, task.Output)
	}
	for _, key := range []string{"after-size", "after-colour"} {
		task := s.settled(runner.Ref{Run: run, TaskKey: key}, recovery)
		require.Equal(t, toolpark.Completed, task.Status)
		require.Contains(t, task.Output, `"status":"completed"`)
	}
	t.Logf("everything had settled %s after it was back", time.Since(back).Round(time.Millisecond))
	_, err = person.At(s.APIs[0]).Resolve(ctx, run, "size", agent.Answer{Text: "S"})
	requireCode(t, toolpark.CodeAlreadySettled, err)
	s.over(run)
}
