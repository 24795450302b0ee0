package visibility_test

import (
	"context"
	"testing"
	"time"
	"uuid"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toolpark/toolpark/internal/devstack/devtest"
	"github.com/toolpark/toolpark/internal/visibility"
)

func TestRegister(t *testing.T) {
	t.Parallel()
	namespace, c := newNamespace(t)

	missing, err := visibility.Missing(t.Context(), c, namespace)
	require.NoError(t, err)
	require.Equal(t, []string{
		"ToolparkAccount", "ToolparkTool", "ToolparkExecutor", "ToolparkState", "ToolparkDeadline",
	}, missing)

	// Several processes migrate at once, and one migrates again.
	var group errgroup.Group
	for range 3 {
		group.Go(func() error { return visibility.Register(t.Context(), c, namespace) })
	}
	require.NoError(t, group.Wait())
	require.NoError(t, visibility.Register(t.Context(), c, namespace))

	missing, err = visibility.Missing(t.Context(), c, namespace)
	require.NoError(t, err)
	require.Empty(t, missing)

	_, err = c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		TaskQueue: devtest.TaskQueue(t),
		TypedSearchAttributes: temporal.NewSearchAttributes(
			visibility.Account.ValueSet(uuid.NewV7().String()),
			visibility.Tool.ValueSet("bash"),
			visibility.Executor.ValueSet("build-box"),
			visibility.State.ValueSet("dispatched"),
			visibility.Deadline.ValueSet(time.Now().Add(time.Hour)),
		),
	}, "Nothing")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		found, err := c.CountWorkflow(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{
			Query: `ToolparkState = "dispatched" AND ToolparkDeadline > "2020-01-01T00:00:00Z"`,
		})
		return err == nil && found.GetCount() == 1
	}, 10*time.Second, 50*time.Millisecond)
}

func TestMissingRefusesAnotherType(t *testing.T) {
	t.Parallel()
	namespace, c := newNamespace(t)
	_, err := c.OperatorService().AddSearchAttributes(t.Context(), &operatorservice.AddSearchAttributesRequest{
		Namespace:        namespace,
		SearchAttributes: map[string]enumspb.IndexedValueType{"ToolparkState": enumspb.INDEXED_VALUE_TYPE_INT},
	})
	require.NoError(t, err)
	_, err = visibility.Missing(t.Context(), c, namespace)
	require.ErrorContains(t, err, "ToolparkState")
	require.ErrorContains(t, err, "must be Keyword")
}

// newNamespace makes a namespace without search attributes and waits until the server knows it.
func newNamespace(t *testing.T) (string, client.Client) {
	t.Helper()
	namespace := "visibility-" + uuid.NewV7().String()
	c, err := client.DialContext(t.Context(), client.Options{HostPort: devtest.Temporal(t), Namespace: namespace})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	_, err = c.WorkflowService().RegisterNamespace(t.Context(), &workflowservice.RegisterNamespaceRequest{
		Namespace: namespace, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
	require.NoError(t, err)
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	require.Eventually(t, func() bool {
		_, err := c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{})
		return err == nil
	}, 30*time.Second, 100*time.Millisecond)
	return namespace, c
}
