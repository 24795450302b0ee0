package workflows_test

import (
	"encoding/json/jsontext"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/workflows"
)

// held makes a call that waits for approval, for a day or for the hold of the rule, and whose workflow has been started.
func (s *shop) held(input string, rules ...agent.ApprovalRule) *kerneltest.Task {
	s.T.Helper()
	box := s.runner.ID.String()
	run, err := s.Agent.CreateRun(s.T.Context(), agent.NewRun{DefaultRunner: box, Configuration: &agent.Configuration{
		Runners: []string{box}, ApprovalMode: "ask", ApprovalRules: rules,
	}})
	require.NoError(s.T, err)
	require.Equal(s.T, toolpark.RunRunning, run.Status)
	s.run = run.PublicID
	task := s.Call(s.run, s.runner, "echo", input)
	s.started(task)
	require.Equal(s.T, toolpark.NeedsApproval, task.Row().Status)
	return task
}

func (s *shop) approve(task *kerneltest.Task, input jsontext.Value) {
	s.T.Helper()
	approved, err := s.Admin.Approve(s.T.Context(), s.run, task.Key, "", input)
	require.NoError(s.T, err)
	require.NotNil(s.T, approved, "nobody judged the approval in time")
	require.Equal(s.T, toolpark.Dispatched, approved.Status)
}

func TestOperatorsSeeACallThatWaitsForApproval(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	task := s.held(`{}`)
	seen := s.describe(task.WorkflowID())
	require.Equal(t, map[string]string{
		"ToolparkAccount": s.ID.String(), "ToolparkTool": "echo", "ToolparkExecutor": s.runner.ID.String(),
		"ToolparkState": "needs_approval",
	}, keywords(seen))
	until := *task.Row().DeadlineAt
	require.WithinDuration(t, until, shownDeadline(t, seen), time.Millisecond)
	require.Equal(t, "Waits for a person, until "+until.UTC().Format(time.RFC3339)+", to allow this call for box: "+
		"POST /agent_api/v1/runs/"+s.run+"/tasks/"+task.Key+"/approve or …/deny, or `toolpark approvals`. "+
		"Whoever may read the run may decide, agents only with may_decide. "+
		"Request cancellation of this workflow to settle the task as canceled.", s.staticDetails(task))
	require.Zero(t, countOf(s.history(task.WorkflowID()), enumspb.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED), "waiting costs nothing")
	s.found(`ToolparkState = "needs_approval" AND ToolparkTool = "echo" AND ToolparkAccount = "`+s.ID.String()+`"`, task)

	s.approve(task, nil)
	s.Eventually("the approval is shown", func() bool { return keywords(s.describe(task.WorkflowID()))["ToolparkState"] == "dispatched" })
	due := *task.Row().DeadlineAt
	require.WithinDuration(t, due, shownDeadline(t, s.describe(task.WorkflowID())), time.Millisecond)
	require.Equal(t, "Approved, and parked for whom it is addressed to until "+due.UTC().Format(time.RFC3339)+". "+
		"Request cancellation of this workflow to settle the task as canceled.", s.currentDetails(task))
	s.found(`ToolparkState = "dispatched" AND ToolparkAccount = "`+s.ID.String()+`" AND WorkflowType = "ToolTask"`, task)

	task.Commit(task.Claim(), "done")
	require.Equal(t, "completed", keywords(s.closed(task.WorkflowID(), enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED))["ToolparkState"])

	denied := s.held(`{}`)
	_, err := s.Admin.Deny(t.Context(), s.run, denied.Key, "no")
	require.NoError(t, err)
	require.Equal(t, "failed", keywords(s.closed(denied.WorkflowID(), enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED))["ToolparkState"])
	require.Equal(t, "Settled: failed.", s.currentDetails(denied))
	require.Equal(t, 1, countOf(s.history(denied.WorkflowID()), enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED))
}

// An operator ends a call that waits for approval as any other.
func TestOperatorsEndACallThatWaitsForApproval(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	terminated := s.held(`{}`)
	s.Eventually("no alarm nudges it before the end of its hold", func() bool {
		var quiet bool
		require.NoError(t, s.DB.Pool.QueryRow(t.Context(), `SELECT wake_at > now() + interval '1 hour' FROM tasks WHERE run_id = $1 AND key = $2`,
			terminated.Run, terminated.Key).Scan(&quiet))
		return quiet
	})
	require.NoError(t, s.Temporal.TerminateWorkflow(t.Context(), terminated.WorkflowID(), "", "by hand"))

	canceled := s.held(`{}`)
	require.NoError(t, s.Temporal.CancelWorkflow(t.Context(), canceled.WorkflowID(), ""))
	settled := canceled.Settled()
	require.Equal(t, toolpark.Canceled, settled.Status)
	require.Nil(t, settled.DispatchedAt)
	_, err := s.Admin.Approve(t.Context(), s.run, canceled.Key, "", nil)
	requireCode(t, toolpark.CodeNotAwaitingApproval, err)

	settled = terminated.Settled()
	require.Equal(t, toolpark.Failed, settled.Status)
	require.Equal(t, toolpark.ErrWorkflowTerminated, *settled.ErrorKey)
	require.Nil(t, settled.DispatchedAt)
	_, err = s.Admin.Approve(t.Context(), terminated.TaskID.Run.String(), terminated.Key, "", nil)
	requireCode(t, toolpark.CodeNotAwaitingApproval, err)
}

// Nothing of what was asked, edited, or said in a decision is in any history.
func TestADecisionLeavesNoPayloadInTheHistory(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	const asked = `{"secret":"payload-of-the-call"}`
	edited := s.held(asked)
	s.approve(edited, jsontext.Value(`{"secret":"payload-of-the-approver"}`))
	edited.Commit(edited.Claim(), "payload-of-the-result")
	denied := s.held(asked)
	_, err := s.Admin.Deny(t.Context(), s.run, denied.Key, "payload-of-the-reason")
	require.NoError(t, err)
	expired := s.held(asked, agent.ApprovalRule{
		Tool: "echo", Path: "secret", Match: new("payload-of-*"), Verdict: "ask", HoldMS: time.Second.Milliseconds(),
	})
	require.Equal(t, toolpark.ErrApprovalExpired, *expired.Settled().ErrorKey)
	for _, task := range []*kerneltest.Task{edited, denied, expired} {
		s.closed(task.WorkflowID(), enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
		requireAbsent(t, s.history(task.WorkflowID()), "payload-of-")
		requireAbsent(t, s.history(workflows.RunWorkflowID(task.Run)), "payload-of-")
	}
}
