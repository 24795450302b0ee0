package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/toolpark/toolpark/activities"
)

var retention *activities.Retention // nil: only names activities

// PruneInput is empty: what is to be pruned, and for how long it is kept, is read from the database.
type PruneInput struct{}

// PruneResult is what was deleted, for the operator who reads the history.
type PruneResult struct {
	Runs   int `json:"runs"`   // whose details are gone
	Tasks  int `json:"tasks"`  // of those runs
	Shared int `json:"shared"` // contexts, projections and output schemas that nothing refers to any more
}

// Prune deletes the details of runs that ended longer ago than their account keeps them. What is left when it is
// broken off the next one finds.
func Prune(ctx workflow.Context, _ PruneInput) (PruneResult, error) {
	ctx = workflow.WithActivityOptions(ctx, upkeep)
	var (
		result  PruneResult
		expired activities.ExpireResult
		deleted activities.DeleteDetailsResult
		unused  activities.DeleteUnusedResult
	)
	if err := workflow.ExecuteActivity(ctx, retention.ExpireDetails, activities.ExpireInput{}).Get(ctx, &expired); err != nil {
		return result, err
	}
	if expired.Wait > 0 {
		if err := workflow.Sleep(ctx, expired.Wait+time.Second); err != nil {
			return result, err
		}
		if err := workflow.ExecuteActivity(ctx, retention.DeleteDetails, activities.DeleteDetailsInput{}).Get(ctx, &deleted); err != nil {
			return result, err
		}
		result.Runs, result.Tasks = deleted.Runs, deleted.Tasks
	}
	err := workflow.ExecuteActivity(ctx, retention.DeleteUnused, activities.DeleteUnusedInput{}).Get(ctx, &unused)
	result.Shared = unused.Rows
	return result, err
}
