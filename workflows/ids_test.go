package workflows_test

import (
	"testing"
	"uuid"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/workflows"
)

func TestWorkflowIDsReadBack(t *testing.T) {
	t.Parallel()
	run := uuid.NewV7()
	task, ok := workflows.TaskOfWorkflow(workflows.TaskWorkflowID(run, "r12t3", 4))
	require.True(t, ok)
	require.Equal(t, toolpark.GenerationID{Run: run, Key: "r12t3", Generation: 4}, task)
	back, ok := workflows.RunOfWorkflow(workflows.RunWorkflowID(run))
	require.True(t, ok)
	require.Equal(t, run, back)

	for _, foreign := range []string{
		"", "task", "task/x/r1t0/1", "task/" + run.String() + "/r1t0", "task/" + run.String() + "/r1t0/x",
		"task/" + run.String() + "/r1t0/1/1", "other/" + run.String() + "/r1t0/1", "run/" + run.String(),
	} {
		_, ok := workflows.TaskOfWorkflow(foreign)
		require.False(t, ok, foreign)
	}
	for _, foreign := range []string{"", "run", "run/x", "task/" + run.String()} {
		_, ok := workflows.RunOfWorkflow(foreign)
		require.False(t, ok, foreign)
	}
}
