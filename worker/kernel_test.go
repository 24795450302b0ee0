package worker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kerneltest"
)

// wrap is a call of echo by way of tool_call, in a run that may call the kernel's tools. Nobody starts its workflow:
// its child has been made by a step that the test took, as by a worker that died right after.
func (y *yard) wrap() (call, child *kerneltest.Task) {
	y.T.Helper()
	call = y.UnstartedCalls(y.KernelRun(y.runner), y.runner, [2]string{"tool_call", `{"name":"echo","input":{}}`})[0]
	y.step(call)
	return call, call.Child()
}

// step takes one step of a task and tells nobody what is now due elsewhere.
func (y *yard) step(task *kerneltest.Task) {
	y.T.Helper()
	_, err := y.Park.Advance(y.T.Context(), task.TaskID, 1, false)
	require.NoError(y.T, err)
}

func TestAKernelCallWhoseStartWasLostIsWorkedOut(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	task := y.UnstartedCalls(y.KernelRun(y.runner), y.runner, [2]string{"tool_search", `{"query":"echo"}`})[0]
	y.StartWorker()
	require.Equal(t, toolpark.Completed, task.Settled().Status)
}

func TestAChildWhoseStartWasLostIsStarted(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	call, child := y.wrap()
	y.StartWorker()
	y.Eventually("the workflow is started", func() bool {
		_, err := y.Temporal.DescribeWorkflow(t.Context(), child.WorkflowID(), "")
		return err == nil
	})
	child.Commit(child.Claim(), "done")
	require.Equal(t, toolpark.Completed, call.Settled().Status)
}

func TestACallThatWasNeverToldOfItsChildsEndSettles(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	call, child := y.wrap()
	y.stage(child, "done")
	y.step(child)
	require.Equal(t, toolpark.Running, call.Row().Status)
	y.StartWorker()
	require.Equal(t, toolpark.Completed, call.Settled().Status)
}

func TestAChildThatWasNeverToldOfItsCallsEndSettles(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	call, child := y.wrap()
	_, err := y.Park.StageCancel(t.Context(), y.Member(), call.TaskID)
	require.NoError(t, err)
	y.step(call)
	require.Equal(t, toolpark.Canceled, call.Row().Status)
	require.Equal(t, toolpark.Dispatched, child.Row().Status)
	y.StartWorker()
	require.Equal(t, toolpark.Canceled, child.Settled().Status)
}

func TestACallTerminatedByHandEndsWithItsChild(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T) (y *yard, call, child *kerneltest.Task) {
		y = newYard(t)
		y.StartWorker()
		call = y.Call(y.KernelRun(y.runner), y.runner, "tool_call", `{"name":"echo","input":{}}`)
		child = call.Child()
		y.Eventually("the child's workflow is started", func() bool {
			_, err := y.Temporal.DescribeWorkflow(t.Context(), child.WorkflowID(), "")
			return err == nil
		})
		y.quiet() // a nudge that comes first would let the park go on
		return y, call, child
	}

	t.Run("the call", func(t *testing.T) {
		t.Parallel()
		y, call, child := setup(t)
		y.terminate(call)
		began := time.Now()
		settled := call.Settled()
		require.Less(t, time.Since(began), 15*time.Second)
		require.Equal(t, toolpark.Failed, settled.Status)
		require.Equal(t, toolpark.ErrWorkflowTerminated, *settled.ErrorKey)
		require.Equal(t, toolpark.Canceled, child.Settled().Status)
	})

	t.Run("its child", func(t *testing.T) {
		t.Parallel()
		y, call, child := setup(t)
		y.terminate(child)
		for _, task := range []*kerneltest.Task{child, call} {
			settled := task.Settled()
			require.Equal(t, toolpark.Failed, settled.Status)
			require.Equal(t, toolpark.ErrWorkflowTerminated, *settled.ErrorKey)
		}
	})
}
