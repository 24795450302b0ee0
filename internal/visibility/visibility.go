// Package visibility holds the Temporal search attributes that operators filter parks by.
//
// SQL visibility stores allow ten Keywords and three Datetimes a namespace, shared with whatever
// else runs there, so these five are all: a task's run and key are found by its workflow id.
package visibility

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
)

// The search attributes of every park.
var (
	Account  = temporal.NewSearchAttributeKeyKeyword("ToolparkAccount")  // the tenant's id
	Tool     = temporal.NewSearchAttributeKeyKeyword("ToolparkTool")     // the name of the called tool, or ask or wait
	Executor = temporal.NewSearchAttributeKeyKeyword("ToolparkExecutor") // who is addressed, or who claimed it
	State    = temporal.NewSearchAttributeKeyKeyword("ToolparkState")    // the task's status, or "claimed"
	Deadline = temporal.NewSearchAttributeKeyTime("ToolparkDeadline")    // when the park ends by itself
)

// StateClaimed is the value of State while an executor holds the park.
const StateClaimed = "claimed"

// Attributes lists them all.
func Attributes() []temporal.SearchAttributeKey {
	return []temporal.SearchAttributeKey{Account, Tool, Executor, State, Deadline}
}

// Missing returns the names that the namespace lacks, in the order of [Attributes]; none when the
// namespace is ready. A name that is registered with another type is an error: a workflow could
// not be started with it, and only its owner can decide what to do.
func Missing(ctx context.Context, c client.Client, namespace string) ([]string, error) {
	registered, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{
		Namespace: namespace,
	})
	if err != nil {
		return nil, fmt.Errorf("list the search attributes of namespace %q: %w", namespace, err)
	}
	var missing []string
	for _, want := range Attributes() {
		got, ok := registered.GetCustomAttributes()[want.GetName()]
		if !ok {
			missing = append(missing, want.GetName())
		} else if got != want.GetValueType() {
			return nil, fmt.Errorf("search attribute %s of namespace %q has type %s and must be %s: remove it with `temporal operator search-attribute remove`",
				want.GetName(), namespace, got, want.GetValueType())
		}
	}
	return missing, nil
}

// Register adds what [Missing] finds and returns when the frontend accepts all of it, which on a
// cluster takes as long as its caches: give ctx a deadline of a minute. It may run in several
// processes at once.
func Register(ctx context.Context, c client.Client, namespace string) error {
	missing, err := Missing(ctx, c, namespace)
	if err != nil {
		return err
	}
	add := make(map[string]enumspb.IndexedValueType, len(missing))
	for _, attribute := range Attributes() {
		for _, name := range missing {
			if attribute.GetName() == name {
				add[name] = attribute.GetValueType()
			}
		}
	}
	if len(add) > 0 {
		_, err := c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
			Namespace: namespace, SearchAttributes: add,
		})
		var exists *serviceerror.AlreadyExists // another process was faster
		if err != nil && !errors.As(err, &exists) {
			return fmt.Errorf("register search attributes in namespace %q: %w", namespace, err)
		}
	}
	return waitUsable(ctx, c, namespace)
}

// waitUsable polls a query that names every attribute: being listed comes before being usable.
func waitUsable(ctx context.Context, c client.Client, namespace string) error {
	var conditions []string
	for _, attribute := range Attributes() {
		conditions = append(conditions, attribute.GetName()+" IS NULL")
	}
	query := strings.Join(conditions, " AND ")
	for {
		_, err := c.WorkflowService().CountWorkflowExecutions(ctx, &workflowservice.CountWorkflowExecutionsRequest{
			Namespace: namespace, Query: query,
		})
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("search attributes of namespace %q are registered but not usable yet: %w", namespace, err)
		case <-time.After(250 * time.Millisecond):
		}
	}
}
