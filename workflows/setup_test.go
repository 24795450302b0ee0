package workflows_test

import (
	"encoding/json/jsontext"
	"testing"
	"time"
	"uuid"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/toolpark/toolpark/internal/envelope"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/workflows"
)

// shop is a kernel with a runner that serves echo, and a run to author steps in.
type shop struct {
	*kerneltest.Account
	runner kerneltest.Executor
	run    string
}

// openShop opens a shop whose worker is at work.
func openShop(t *testing.T) *shop {
	t.Helper()
	s := closedShop(t)
	s.StartWorker()
	return s
}

// closedShop opens a shop without a worker: what is staged waits.
func closedShop(t *testing.T) *shop {
	t.Helper()
	a := kerneltest.StartAPI(t).Account()
	s := &shop{Account: a, runner: a.Runner("box"), run: a.BareRun()}
	a.Serve(s.runner, kerneltest.Entry("echo", kerneltest.ReadOnly))
	return s
}

// echo authors a step whose workflow has been started.
func (s *shop) echo(timeout time.Duration) *kerneltest.Task {
	s.T.Helper()
	task := s.Step(s.run, s.runner, "echo", `{}`, timeout)
	s.started(task)
	return task
}

func (s *shop) started(task *kerneltest.Task) {
	s.T.Helper()
	s.Eventually("the workflow is started", func() bool {
		_, err := s.Temporal.DescribeWorkflow(s.T.Context(), task.WorkflowID(), "")
		return err == nil
	})
}

// prune prunes as the schedule does, and returns the id of the workflow.
func (s *shop) prune() string {
	s.T.Helper()
	id := workflows.PruneID("toolpark") + "-" + uuid.NewV7().String()
	_, err := s.Temporal.ExecuteWorkflow(s.T.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: s.Queue},
		workflows.Prune, workflows.PruneInput{})
	require.NoError(s.T, err)
	return id
}

// describe reads the newest run of a workflow.
func (s *shop) describe(workflowID string) *client.WorkflowExecutionDescription {
	s.T.Helper()
	described, err := s.Temporal.DescribeWorkflow(s.T.Context(), workflowID, "")
	require.NoError(s.T, err)
	return described
}

// closed waits until the newest run of a workflow is closed.
func (s *shop) closed(workflowID string, as enumspb.WorkflowExecutionStatus) *client.WorkflowExecutionDescription {
	s.T.Helper()
	s.Eventually("the workflow is "+as.String(), func() bool { return s.describe(workflowID).Status == as })
	return s.describe(workflowID)
}

// history reads the newest run of a workflow.
func (s *shop) history(workflowID string) []*historypb.HistoryEvent {
	s.T.Helper()
	var events []*historypb.HistoryEvent
	for i := s.Temporal.GetWorkflowHistory(s.T.Context(), workflowID, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); i.HasNext(); {
		event, err := i.Next()
		require.NoError(s.T, err)
		events = append(events, event)
	}
	return events
}

// runs lists the ids of all runs of a workflow, once the visibility store knows of them.
func (s *shop) runs(workflowID string) (ids []string) {
	s.T.Helper()
	s.Eventually("the workflow is listed", func() bool {
		page, err := s.Temporal.ListWorkflow(s.T.Context(), &workflowservice.ListWorkflowExecutionsRequest{
			Query: `WorkflowId = "` + workflowID + `"`,
		})
		require.NoError(s.T, err)
		ids = nil
		for _, execution := range page.GetExecutions() {
			ids = append(ids, execution.GetExecution().GetRunId())
		}
		return len(ids) > 0
	})
	return ids
}

func countOf(events []*historypb.HistoryEvent, what enumspb.EventType) (n int) {
	for _, e := range events {
		if e.GetEventType() == what {
			n++
		}
	}
	return n
}

func text(s string) envelope.Fields {
	return envelope.Fields{Content: jsontext.Value(`"` + s + `"`)}
}
