package worker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kerneltest"
)

// yard is a run with a runner that serves echo.
type yard struct {
	*kerneltest.Account
	runner kerneltest.Executor
	run    string
}

func (y *yard) open() {
	y.T.Helper()
	y.runner, y.run = y.Runner("box"), y.BareRun()
	y.Serve(y.runner, kerneltest.Entry("echo", kerneltest.ReadOnly))
}

// newYard opens a yard without a worker.
func newYard(t *testing.T) *yard {
	t.Helper()
	y := &yard{Account: kerneltest.StartAPI(t).Account()}
	y.open()
	return y
}

// echo authors a step whose workflow has been started.
func (y *yard) echo() *kerneltest.Task {
	y.T.Helper()
	task := y.Step(y.run, y.runner, "echo", `{}`, time.Hour)
	y.Eventually("the workflow is started", func() bool {
		_, err := y.Temporal.DescribeWorkflow(y.T.Context(), task.WorkflowID(), "")
		return err == nil
	})
	return task
}

// due lets the alarms of the tasks ring now.
func (y *yard) due(which string, args ...any) {
	y.T.Helper()
	_, err := y.DB.Pool.Exec(y.T.Context(), `UPDATE tasks SET wake_at = clock_timestamp() - interval '1 second' WHERE `+which, args...)
	require.NoError(y.T, err)
}

// quiet lets no alarm ring for an hour.
func (y *yard) quiet() {
	y.T.Helper()
	_, err := y.DB.Pool.Exec(y.T.Context(), `
		UPDATE tasks SET wake_at = clock_timestamp() + interval '1 hour' WHERE settled_at IS NULL`)
	require.NoError(y.T, err)
}

func (y *yard) counted(which string) (n int) {
	y.T.Helper()
	require.NoError(y.T, y.DB.Pool.QueryRow(y.T.Context(), `SELECT count(*) FROM tasks WHERE `+which).Scan(&n))
	return n
}

func requireCode(t *testing.T, code toolpark.Code, err error) {
	t.Helper()
	var refusal *toolpark.Error
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, code, refusal.Code)
}
