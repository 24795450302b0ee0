package workflows_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/worker"

	"github.com/toolpark/toolpark/workflows"
)

// TestReplay runs the workflows of today over the histories of before. When it fails, an open park would
// too: keep the old way behind workflow.GetVersion.
func TestReplay(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(filepath.Join("testdata", "replay", "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	recorded := map[string]bool{}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		recorded[name] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			replayer := worker.NewWorkflowReplayer()
			replayer.RegisterWorkflow(workflows.ToolTask)
			replayer.RegisterWorkflow(workflows.Run)
			replayer.RegisterWorkflow(workflows.Prune)
			require.NoError(t, replayer.ReplayWorkflowHistoryFromJSONFile(silent{}, path))
		})
	}
	for name := range histories {
		require.True(t, recorded[name], "%s is not recorded: TOOLPARK_RECORD=1 go test ./workflows -run TestRecordHistories", name)
	}
}
