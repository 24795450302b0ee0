package workflows_test

import (
	"encoding/json/jsontext"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"google.golang.org/protobuf/proto"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/internal/visibility"
	"github.com/toolpark/toolpark/sdk/runner"
	"github.com/toolpark/toolpark/workflows"
)

// kernelShop is a shop whose run may call the runner's tools and the kernel's. Its worker starts when work says so.
func kernelShop(t *testing.T) (s *shop, work func()) {
	t.Helper()
	s = closedShop(t)
	s.run = s.KernelRun(s.runner)
	return s, func() { s.StartWorker() }
}

// wrap calls echo by way of tool_call and returns the call and the child that was made for it.
func (s *shop) wrap(arguments string) (call, child *kerneltest.Task) {
	s.T.Helper()
	call = s.Call(s.run, s.runner, "tool_call", arguments)
	child = call.Child()
	s.made(child)
	return call, child
}

// made waits until a task is there that a call makes.
func (s *shop) made(child *kerneltest.Task) {
	s.T.Helper()
	s.Eventually("the child is made", func() bool {
		_, err := s.DB.Task(s.T.Context(), child.TaskID)
		return err == nil
	})
}

func TestAKernelCallCostsOneWorkflowTask(t *testing.T) {
	t.Parallel()
	s, work := kernelShop(t)
	work()
	const asked = "payload-of-the-query"
	task := s.Call(s.run, s.runner, "tool_search", `{"query":"`+asked+`"}`)
	require.Equal(t, toolpark.Completed, task.Settled().Status)
	s.closed(task.WorkflowID(), enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
	s.requireHistory(task, 1)
	requireAbsent(t, s.history(task.WorkflowID()), asked)
}

func TestAToolCallCostsTwoWorkflowTasks(t *testing.T) {
	t.Parallel()
	s, work := kernelShop(t)
	work()
	const asked, told, structure, title = "payload-of-the-call", "payload-of-the-text", "payload-of-the-structure", "payload-of-the-title"
	call, child := s.wrap(`{"name":"echo","input":{"secret":"` + asked + `"}}`)
	// The call sleeps by now: its child's settlement is what wakes it.
	s.Eventually("the call sleeps", func() bool {
		return countOf(s.history(call.WorkflowID()), enumspb.EVENT_TYPE_TIMER_STARTED) == 1
	})
	judged, err := s.runner.Commit(t.Context(), child.Ref, child.Claim(), runner.Result{
		Text: told, StructuredContent: jsontext.Value(`{"x":"` + structure + `"}`), Title: title,
	})
	require.NoError(t, err)
	require.True(t, judged)
	settled := call.Settled()
	require.Equal(t, toolpark.Completed, settled.Status)
	require.Equal(t, title, *settled.Title)
	for task, workflowTasks := range map[*kerneltest.Task]int{call: 2, child: 1} {
		s.closed(task.WorkflowID(), enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
		s.requireHistory(task, workflowTasks)
		for _, payload := range []string{asked, told, structure, title} {
			requireAbsent(t, s.history(task.WorkflowID()), payload)
		}
	}
}

// requireHistory wants as many workflow tasks, each with one local activity and no regular one.
func (s *shop) requireHistory(task *kerneltest.Task, workflowTasks int) {
	s.T.Helper()
	events := s.history(task.WorkflowID())
	require.Equal(s.T, workflowTasks, countOf(events, enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED), task.Key)
	require.Equal(s.T, workflowTasks, countOf(events, enumspb.EVENT_TYPE_MARKER_RECORDED), "one local activity each")
	require.Zero(s.T, countOf(events, enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED))
	size := 0
	for _, e := range events {
		size += proto.Size(e)
	}
	s.T.Logf("%s %s: %d events, %d bytes, %d workflow tasks", *task.Row().ToolName, task.Key, len(events), size, workflowTasks)
}

func TestOperatorsSeeAKernelCall(t *testing.T) {
	t.Parallel()
	s, work := kernelShop(t)
	task := s.Call(s.run, s.runner, "tool_search", `{"query":"echo"}`)
	s.started(task)

	seen := s.describe(task.WorkflowID())
	require.Equal(t, map[string]string{
		"ToolparkAccount": s.ID.String(), "ToolparkTool": "tool_search", "ToolparkState": "running",
	}, keywords(seen), "nobody is addressed")
	deadline := *task.Row().DeadlineAt
	require.WithinDuration(t, deadline, shownDeadline(t, seen), time.Millisecond)
	summary, err := seen.GetStaticSummary()
	require.NoError(t, err)
	require.Equal(t, "tool_search → kernel", summary)
	require.Equal(t, "The kernel works this call out, until "+deadline.UTC().Format(time.RFC3339)+" at the latest; "+
		"no executor takes it. Request cancellation of this workflow to settle the task as canceled.", s.staticDetails(task))
	s.found(`ToolparkState = "running" AND ToolparkTool = "tool_search" AND ToolparkAccount = "`+s.ID.String()+`"`, task)

	work()
	seen = s.closed(task.WorkflowID(), enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
	require.Equal(t, "completed", keywords(seen)["ToolparkState"])
	require.Equal(t, "Settled: completed.", s.currentDetails(task))
}

func TestOperatorsSeeAToolCallAndItsChild(t *testing.T) {
	t.Parallel()
	s, work := kernelShop(t)
	work()
	call, child := s.wrap(`{"name":"echo","input":{}}`)
	s.started(child)

	seen := s.describe(call.WorkflowID())
	require.Equal(t, map[string]string{
		"ToolparkAccount": s.ID.String(), "ToolparkTool": "tool_call", "ToolparkState": "running",
	}, keywords(seen))
	_, has := seen.TypedSearchAttributes.GetTime(visibility.Deadline)
	require.False(t, has, "the child's deadline is the only one")
	summary, err := seen.GetStaticSummary()
	require.NoError(t, err)
	require.Equal(t, "tool_call → kernel", summary)
	require.Contains(t, s.staticDetails(call), "waits for that task, whose deadline is the only one")
	require.Equal(t, "Waits for task "+child.Key+" of the same run, whose outcome becomes its own. "+
		"Request cancellation of this workflow to settle both tasks as canceled.", s.currentDetails(call))

	seen = s.describe(child.WorkflowID())
	require.Equal(t, map[string]string{
		"ToolparkAccount": s.ID.String(), "ToolparkTool": "echo", "ToolparkExecutor": s.runner.ID.String(),
		"ToolparkState": "dispatched",
	}, keywords(seen))
	require.WithinDuration(t, *child.Row().DeadlineAt, shownDeadline(t, seen), time.Millisecond)
	summary, err = seen.GetStaticSummary()
	require.NoError(t, err)
	require.Equal(t, "echo → box", summary)

	// As the details say, one request ends both. The child's history says why it was woken.
	require.NoError(t, s.Temporal.CancelWorkflow(t.Context(), call.WorkflowID(), ""))
	for _, task := range []*kerneltest.Task{call, child} {
		require.Equal(t, toolpark.Canceled, task.Settled().Status)
		seen = s.closed(task.WorkflowID(), enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
		require.Equal(t, "canceled", keywords(seen)["ToolparkState"])
		require.Equal(t, "Settled: canceled.", s.currentDetails(task))
	}
	for _, e := range s.history(child.WorkflowID()) {
		if signaled := e.GetWorkflowExecutionSignaledEventAttributes(); signaled != nil {
			require.Equal(t, string(workflows.SignalCancel), signaled.GetSignalName())
		}
	}
}

func TestACancelFromTheWebUIOfAChildEndsItsCall(t *testing.T) {
	t.Parallel()
	s, work := kernelShop(t)
	work()
	call, child := s.wrap(`{"name":"echo","input":{}}`)
	s.started(child)
	require.NoError(t, s.Temporal.CancelWorkflow(t.Context(), child.WorkflowID(), ""))
	for _, task := range []*kerneltest.Task{child, call} {
		require.Equal(t, toolpark.Canceled, task.Settled().Status)
		require.Equal(t, toolpark.ErrTaskCanceled, *task.Row().ErrorKey)
	}
}

// TestOperatorsSeeAKernelCallThatIsAboutToSettle looks at a call whose start was lost: its cancel starts the workflow.
func TestOperatorsSeeAKernelCallThatIsAboutToSettle(t *testing.T) {
	t.Parallel()
	s, _ := kernelShop(t)
	task := s.UnstartedCalls(s.run, s.runner, [2]string{"tool_search", `{"query":"echo"}`})[0]
	require.NoError(t, s.Delivery.NudgeTo(t.Context(), &task.Row().Task, workflows.SignalCancel, toolpark.Canceled))
	require.Contains(t, s.staticDetails(task), "Was worked out by the kernel; a worker is about to settle it as canceled.")
}

func (s *shop) staticDetails(task *kerneltest.Task) string {
	s.T.Helper()
	details, err := s.describe(task.WorkflowID()).GetStaticDetails()
	require.NoError(s.T, err)
	return details
}

func TestALostEvaluationSettlesByTheSameExpiry(t *testing.T) {
	t.Parallel()

	t.Run("a kernel call that no worker got to", func(t *testing.T) {
		t.Parallel()
		s, work := kernelShop(t)
		search := s.Call(s.run, s.runner, "tool_search", `{"query":"echo"}`)
		call := s.Call(s.run, s.runner, "tool_call", `{"name":"echo","input":{}}`)
		for _, task := range []*kerneltest.Task{search, call} {
			s.started(task)
			s.expire(task)
		}
		work()
		for _, task := range []*kerneltest.Task{search, call} {
			settled := task.Settled()
			require.Equal(t, toolpark.TimedOut, settled.Status)
			require.Equal(t, toolpark.ErrToolTimeout, *settled.ErrorKey)
			require.Equal(t, toolpark.ByExpiry, *settled.SettledBy)
			s.closed(task.WorkflowID(), enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
		}
		_, err := s.DB.Task(t.Context(), call.Child().TaskID)
		requireCode(t, toolpark.CodeNotFound, err)
	})

	t.Run("a kernel call that cannot be worked out", func(t *testing.T) {
		t.Parallel()
		s, _ := kernelShop(t)
		task := s.Call(s.run, s.runner, "tool_search", `{"query":"echo"}`)
		s.started(task)
		_, err := s.DB.Pool.Exec(t.Context(), `UPDATE frozen_contexts SET document = '[]'`)
		require.NoError(t, err)
		s.Another(t).StartWorker() // whose memory holds no context
		s.Eventually("its step fails", func() bool {
			return countOf(s.history(task.WorkflowID()), enumspb.EVENT_TYPE_TIMER_STARTED) > 0
		})
		require.Equal(t, toolpark.Running, task.Row().Status)
		s.expire(task)
		settled := task.Settled()
		require.Equal(t, toolpark.TimedOut, settled.Status)
		require.Equal(t, toolpark.ErrToolTimeout, *settled.ErrorKey)
	})

	for name, c := range map[string]struct {
		tool   string
		effect toolpark.EffectProfile
		claims bool
		want   toolpark.Status
		key    string
	}{
		"a tool_call whose child nobody claimed":               {"echo", kerneltest.ReadOnly, false, toolpark.TimedOut, toolpark.ErrToolTimeout},
		"a tool_call whose child may be taken again":           {"echo", kerneltest.ReadOnly, true, toolpark.TimedOut, toolpark.ErrToolTimeout},
		"a tool_call whose child's effect may have happened":   {"change", kerneltest.Writes, true, toolpark.Uncertain, toolpark.ErrToolUncertain},
		"a tool_call whose child of any effect nobody claimed": {"change", kerneltest.Writes, false, toolpark.TimedOut, toolpark.ErrToolTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := closedShop(t)
			s.Serve(s.runner, kerneltest.Entry(c.tool, c.effect))
			s.run = s.KernelRun(s.runner)
			s.StartWorker()
			call, child := s.wrap(`{"name":"` + c.tool + `","input":{}}`)
			if c.claims {
				child.Claim()
			}
			s.expire(child)
			require.NoError(t, s.Delivery.Wake(t.Context(), &child.Row().Task))
			for _, task := range []*kerneltest.Task{child, call} {
				settled := task.Settled()
				require.Equal(t, c.want, settled.Status)
				require.Equal(t, c.key, *settled.ErrorKey)
			}
			require.Equal(t, toolpark.ByExpiry, *child.Row().SettledBy)
			require.Equal(t, toolpark.ByKernel, *call.Row().SettledBy)
		})
	}
}

// expire lets a task's deadline pass.
func (s *shop) expire(task *kerneltest.Task) {
	s.T.Helper()
	_, err := s.DB.Pool.Exec(s.T.Context(), `
		UPDATE tasks SET deadline_at = clock_timestamp() - interval '1 millisecond' WHERE run_id = $1 AND key = $2`,
		task.Run, task.Key)
	require.NoError(s.T, err)
}
