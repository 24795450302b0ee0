package workflows_test

import (
	"bytes"
	"encoding/json/jsontext"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/proto"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/internal/visibility"
	"github.com/toolpark/toolpark/sdk/runner"
	"github.com/toolpark/toolpark/workflows"
)

func TestAQuickCallCostsOneWorkflowTask(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	s.run = s.RunOf(s.Agent, s.runner)
	const asked, told, structure, title = "payload-of-the-call", "payload-of-the-text", "payload-of-the-structure", "payload-of-the-title"
	task := s.Call(s.run, s.runner, "echo", `{"secret":"`+asked+`"}`)
	token := task.Claim()
	judged, err := s.runner.Commit(t.Context(), task.Ref, token, runner.Result{
		Text: told, StructuredContent: jsontext.Value(`{"x":"` + structure + `"}`), Title: title,
		Metadata: jsontext.Value(`{"m":"` + structure + `"}`),
	})
	require.NoError(t, err)
	require.True(t, judged)
	s.closed(task.WorkflowID(), enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
	events := s.history(task.WorkflowID())
	require.Equal(t, 1, countOf(events, enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED))
	require.Equal(t, 1, countOf(events, enumspb.EVENT_TYPE_MARKER_RECORDED), "one local activity")
	require.Zero(t, countOf(events, enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED))
	require.Zero(t, countOf(events, enumspb.EVENT_TYPE_TIMER_STARTED))
	for _, payload := range []string{asked, told, structure, title, token} {
		requireAbsent(t, events, payload)
	}
	var bytes int
	for _, e := range events {
		bytes += proto.Size(e)
	}
	t.Logf("a quick call: %d events, %d bytes, %d workflow task", len(events), bytes, countOf(events, enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED))
}

func requireAbsent(t *testing.T, events []*historypb.HistoryEvent, payload string) {
	t.Helper()
	for _, e := range events {
		raw, err := proto.Marshal(e)
		require.NoError(t, err)
		require.False(t, bytes.Contains(raw, []byte(payload)), "%s holds %q", e.GetEventType(), payload)
	}
}

func TestAFailureLeavesNoPayloadInTheHistory(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	task := s.Step(s.run, s.runner, "echo", `{"secret":"payload-of-the-call"}`, time.Hour)
	token := task.Claim()
	judged, err := s.runner.Commit(t.Context(), task.Ref, token, runner.Result{Text: "payload-of-the-failure", Failed: true})
	require.NoError(t, err)
	require.True(t, judged)
	s.closed(task.WorkflowID(), enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
	require.Equal(t, toolpark.Failed, task.Row().Status)
	requireAbsent(t, s.history(task.WorkflowID()), "payload-of-")
}

func TestSignalsThatWaitForAWorkerAreOneLook(t *testing.T) {
	t.Parallel()
	s := closedShop(t)
	task := s.echo(time.Hour)
	row := &task.Row().Task
	for range 30 {
		require.NoError(t, s.Delivery.Nudge(t.Context(), row, workflows.SignalWake))
	}
	s.StartWorker()
	s.Eventually("the workflow looks and sleeps", func() bool {
		return countOf(s.history(task.WorkflowID()), enumspb.EVENT_TYPE_TIMER_STARTED) > 0
	})
	events := s.history(task.WorkflowID())
	require.Equal(t, 30, countOf(events, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED))
	require.Equal(t, 1, countOf(events, enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED))
	require.Equal(t, 1, countOf(events, enumspb.EVENT_TYPE_MARKER_RECORDED))
}

func TestAReportStagedInTimeWinsWhenTheWorkerComesLate(t *testing.T) {
	t.Parallel()
	s := closedShop(t)
	row := func(timeout time.Duration) *kerneltest.Task {
		task := s.echo(timeout)
		token := task.Claim()
		_, err := s.Park.StageCommit(t.Context(), s.runner.As(s.Account), task.TaskID, token, text("in time"))
		require.NoError(t, err)
		require.NoError(t, s.Delivery.Nudge(t.Context(), &task.Row().Task, workflows.SignalCommit))
		return task
	}
	task := row(2 * time.Second)
	silent := s.echo(2 * time.Second)
	s.Eventually("the deadlines pass", func() bool {
		var over bool
		err := s.DB.Pool.QueryRow(t.Context(), `
			SELECT bool_and(deadline_at < clock_timestamp()) FROM tasks WHERE run_id = $1`, task.Run).Scan(&over)
		return err == nil && over
	})
	s.StartWorker()
	settled := task.Settled()
	require.Equal(t, toolpark.Completed, settled.Status)
	require.Equal(t, toolpark.ByCommit, *settled.SettledBy)
	require.True(t, settled.SettledAt.After(*settled.DeadlineAt))
	require.Equal(t, toolpark.TimedOut, silent.Settled().Status, "who said nothing in time is late")
}

func TestOperatorsSeeAPark(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	task := s.echo(time.Hour)

	seen := s.describe(task.WorkflowID())
	require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, seen.Status)
	want := map[string]string{
		"ToolparkAccount": s.ID.String(), "ToolparkTool": "echo", "ToolparkExecutor": s.runner.ID.String(),
		"ToolparkState": "dispatched",
	}
	require.Equal(t, want, keywords(seen))
	row := task.Row()
	require.WithinDuration(t, *row.DeadlineAt, shownDeadline(t, seen), time.Millisecond)
	summary, err := seen.GetStaticSummary()
	require.NoError(t, err)
	require.Equal(t, "echo → box", summary)
	details, err := seen.GetStaticDetails()
	require.NoError(t, err)
	require.Contains(t, details, "the first deadline is "+row.DeadlineAt.UTC().Format(time.RFC3339))
	require.Contains(t, details, "Request cancellation of this workflow")
	s.found(`ToolparkState = "dispatched" AND ToolparkTool = "echo" AND ToolparkExecutor = "`+s.runner.ID.String()+`"`, task)

	// A claim that lasts is shown: who holds it and until when.
	token := task.Claim()
	s.Eventually("the claim is shown", func() bool {
		return keywords(s.describe(task.WorkflowID()))["ToolparkState"] == visibility.StateClaimed
	})
	row = task.Row()
	require.True(t, row.ClaimShown)
	seen = s.describe(task.WorkflowID())
	require.WithinDuration(t, *row.DeadlineAt, shownDeadline(t, seen), time.Millisecond)
	current := s.currentDetails(task)
	require.Contains(t, current, "Claimed by executor "+s.runner.ID.String())
	require.Contains(t, current, "until "+row.DeadlineAt.UTC().Format(time.RFC3339))
	s.found(`ToolparkState = "claimed" AND ToolparkTool = "echo" AND ToolparkAccount = "`+s.ID.String()+`"`, task)

	task.Commit(token, "done")
	seen = s.closed(task.WorkflowID(), enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
	require.Equal(t, "completed", keywords(seen)["ToolparkState"])
	require.Equal(t, "Settled: completed.", s.currentDetails(task))
	s.found(`ToolparkState = "completed" AND ExecutionStatus = "Completed" AND ToolparkAccount = "`+s.ID.String()+`"`, task)
}

func TestAWorkflowStartsHoweverLongTheNamesAre(t *testing.T) {
	t.Parallel()
	s := closedShop(t)
	// The longest names that the doors take, in the script that needs the most bytes.
	name := strings.Repeat("𝒯", toolpark.MaxServedName)
	box := s.Executor(toolpark.Runner, strings.Repeat("箱", 200), toolpark.AccountWide)
	s.Serve(box, kerneltest.Entry(name, kerneltest.ReadOnly))
	task := s.Step(s.run, box, name, `{}`, time.Hour)
	s.started(task)
	summary, err := s.describe(task.WorkflowID()).GetStaticSummary()
	require.NoError(t, err)
	require.Contains(t, summary, "𝒯𝒯𝒯")
	require.Contains(t, summary, " → 箱箱箱")
	require.LessOrEqual(t, len(summary), 400, "what servers keep of a summary")
}

// The Web UI shows summaries and details as Markdown.
func TestNoNameIsMarkup(t *testing.T) {
	t.Parallel()
	s := closedShop(t)
	const name = "[free](https://evil.example)<b>`x`"
	box := s.Executor(toolpark.Runner, "![box](https://evil.example/?leak)", toolpark.AccountWide)
	s.Serve(box, kerneltest.Entry(name, kerneltest.ReadOnly))
	task := s.Step(s.run, box, name, `{}`, time.Hour)
	s.started(task)
	seen := s.describe(task.WorkflowID())
	summary, err := seen.GetStaticSummary()
	require.NoError(t, err)
	details, err := seen.GetStaticDetails()
	require.NoError(t, err)
	for _, text := range []string{summary, details} {
		require.NotContains(t, text, "](")
		require.NotContains(t, text, "https://")
		require.NotContains(t, text, "<b>")
	}
	require.Equal(t, name, keywords(seen)["ToolparkTool"], "what is searched for is spelled as it is served")
}

// found waits until a visibility query finds exactly the task, and nothing else of its queue.
func (s *shop) found(query string, task *kerneltest.Task) {
	s.T.Helper()
	s.Eventually("the query finds it: "+query, func() bool {
		page, err := s.Temporal.ListWorkflow(s.T.Context(), &workflowservice.ListWorkflowExecutionsRequest{
			Query: query + ` AND TaskQueue = "` + s.Queue + `"`,
		})
		require.NoError(s.T, err)
		return len(page.GetExecutions()) == 1 && page.GetExecutions()[0].GetExecution().GetWorkflowId() == task.WorkflowID()
	})
}

func keywords(d *client.WorkflowExecutionDescription) map[string]string {
	values := map[string]string{}
	for key, value := range d.TypedSearchAttributes.GetUntypedValues() {
		if text, ok := value.(string); ok && strings.HasPrefix(key.GetName(), "Toolpark") {
			values[key.GetName()] = text
		}
	}
	return values
}

func shownDeadline(t *testing.T, d *client.WorkflowExecutionDescription) time.Time {
	t.Helper()
	deadline, ok := d.TypedSearchAttributes.GetTime(visibility.Deadline)
	require.True(t, ok)
	return deadline
}

// currentDetails asks the workflow what the Web UI shows.
func (s *shop) currentDetails(task *kerneltest.Task) string {
	s.T.Helper()
	answer, err := s.Temporal.QueryWorkflow(s.T.Context(), task.WorkflowID(), "", "__temporal_workflow_metadata")
	require.NoError(s.T, err)
	metadata := &sdkpb.WorkflowMetadata{}
	require.NoError(s.T, answer.Get(metadata))
	return metadata.GetCurrentDetails()
}
