package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/internal/visibility"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/workflows"
)

// ask puts a question to a person.
func (s *shop) ask(prompt string) *kerneltest.Task {
	s.T.Helper()
	return s.Append(s.run, s.runner, agent.Step{Ask: &agent.Question{Prompt: prompt}})
}

// waitFor waits for a task.
func (s *shop) waitFor(target *kerneltest.Task) *kerneltest.Task {
	s.T.Helper()
	return s.Append(s.run, s.runner, agent.Step{WaitFor: target.Key})
}

func (s *shop) summary(task *kerneltest.Task) string {
	s.T.Helper()
	summary, err := s.describe(task.WorkflowID()).GetStaticSummary()
	require.NoError(s.T, err)
	return summary
}

func TestOperatorsSeeAQuestion(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	question := s.ask("a secret question")
	s.started(question)

	seen := s.describe(question.WorkflowID())
	require.Equal(t, map[string]string{
		"ToolparkAccount": s.ID.String(), "ToolparkTool": "ask", "ToolparkState": "awaiting_input", "ToolparkExecutor": s.AgentAt.ID.String(),
	}, keywords(seen))
	require.WithinDuration(t, *question.Row().DeadlineAt, shownDeadline(t, seen), time.Millisecond)
	require.Equal(t, "ask → a person", s.summary(question))
	require.Contains(t, s.staticDetails(question), "/tasks/"+question.Key+"/resolution")
	require.NotContains(t, s.staticDetails(question), "secret")
	s.found(`ToolparkState = "awaiting_input" AND ToolparkTool = "ask"`, question)

	_, err := s.Agent.Resolve(t.Context(), s.run, question.Key, agent.Answer{Text: "an answer"})
	require.NoError(t, err)
	seen = s.closed(question.WorkflowID(), enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
	require.Equal(t, "completed", keywords(seen)["ToolparkState"])
	signaled := false
	for _, e := range s.history(question.WorkflowID()) {
		if signal := e.GetWorkflowExecutionSignaledEventAttributes(); signal != nil {
			require.Equal(t, string(workflows.SignalResolution), signal.GetSignalName())
			signaled = true
		}
	}
	require.True(t, signaled)
}

func TestOperatorsSeeAnAskAndItsQuestion(t *testing.T) {
	t.Parallel()
	s, work := kernelShop(t)
	work()
	call := s.Call(s.run, s.runner, "ask", `{"prompt":"Which?"}`)
	question := call.Question()
	s.made(question)
	s.started(question)
	require.Equal(t, "ask → kernel", s.summary(call))
	require.Equal(t, "ask → a person", s.summary(question))
	_, has := s.describe(call.WorkflowID()).TypedSearchAttributes.GetTime(visibility.Deadline)
	require.False(t, has, "the question's deadline is the only one")
	s.Eventually("the details name the question", func() bool { return s.currentDetails(call) != "" })
	require.Contains(t, s.currentDetails(call), "Waits for task "+question.Key)

	require.NoError(t, s.Temporal.CancelWorkflow(t.Context(), question.WorkflowID(), ""))
	for _, task := range []*kerneltest.Task{question, call} {
		require.Equal(t, toolpark.Canceled, task.Settled().Status)
		s.closed(task.WorkflowID(), enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
	}
}

func TestOperatorsSeeAWait(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	target := s.echo(time.Hour)
	wait := s.waitFor(target)
	s.started(wait)
	require.Equal(t, map[string]string{
		"ToolparkAccount": s.ID.String(), "ToolparkTool": "wait", "ToolparkState": "running",
	}, keywords(s.describe(wait.WorkflowID())))
	require.Equal(t, "wait → "+target.Key, s.summary(wait))
	require.Contains(t, s.staticDetails(wait), "Waits until task "+target.Key+" of the same run has settled")

	require.NoError(t, s.Temporal.CancelWorkflow(t.Context(), target.WorkflowID(), ""))
	settled := wait.Settled()
	require.Equal(t, toolpark.Completed, settled.Status)
	require.Contains(t, string(settled.StructuredContent), `"status":"canceled"`)
	s.closed(wait.WorkflowID(), enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)

	t.Run("canceled from the Web UI", func(t *testing.T) {
		other := s.echo(time.Hour)
		wait := s.waitFor(other)
		s.started(wait)
		require.NoError(t, s.Temporal.CancelWorkflow(t.Context(), wait.WorkflowID(), ""))
		require.Equal(t, toolpark.Canceled, wait.Settled().Status)
		require.Equal(t, toolpark.Dispatched, other.Row().Status)
	})
}

// TestAWaitWhoseNudgeWasLostIsFoundByItsAlarm settles the target by a step that tells nobody.
func TestAWaitWhoseNudgeWasLostIsFoundByItsAlarm(t *testing.T) {
	t.Parallel()
	s := closedShop(t)
	stop := s.StartWorker()
	target := s.Unstarted(s.run, s.runner, "echo", time.Hour, 1)[0]
	wait := s.waitFor(target)
	s.Eventually("it has looked", func() bool { return target.Row().Watched })
	stop()
	_, err := s.Park.StageCommit(t.Context(), s.runner.As(s.Account), target.TaskID, target.Claim(), text("done"))
	require.NoError(t, err)
	_, err = s.Park.Advance(t.Context(), target.TaskID, 1, false)
	require.NoError(t, err)
	require.Equal(t, toolpark.Running, wait.Row().Status)
	s.StartWorker()
	require.Equal(t, toolpark.Completed, wait.Settled().Status)
}
