package declaration_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRunnersList(t *testing.T) {
	t.Parallel()
	const runners = `"runners":[{"display_name":"box b","environment":{},"runner_executor_public_id":"01900000-0000-7000-8000-00000000000b"},` +
		`{"display_name":"box a","environment":{"cpus":2.0,"os":"linux"},"runner_executor_public_id":"01900000-0000-7000-8000-00000000000a"}]}`
	list, err := assemble(t, importing(""), &runnerA, snapshot()).RunnersList()
	require.NoError(t, err)
	require.Equal(t, `{"current_runner_executor_public_id":"01900000-0000-7000-8000-00000000000a",`+runners, string(list), "in the order declared")

	list, err = assemble(t, importing(""), nil, snapshot()).RunnersList()
	require.NoError(t, err)
	require.Equal(t, `{"current_runner_executor_public_id":null,`+runners, string(list))

	list, err = assemble(t, bypass(routed("look", runnerB, "read")), &runnerA, snapshot()).RunnersList()
	require.NoError(t, err)
	require.Equal(t, `{"current_runner_executor_public_id":"01900000-0000-7000-8000-00000000000a","runners":[]}`, string(list),
		"candidates are declared, never derived from routes")
}
