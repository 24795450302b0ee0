package proctest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/toolpark/toolpark/internal/postgres"
)

// facts are what holds of every database in which all work has settled: each query lists the breaches.
var facts = []struct{ fact, breaches string }{
	{"every task has settled", `
		SELECT run_id || ' ' || key || ' ' || status FROM tasks WHERE settled_at IS NULL`},
	{"every generation of a task settled exactly once", `
		SELECT t.run_id || ' ' || t.key || '/' || n || ': ' || count(e.seq) FROM tasks t
		CROSS JOIN generate_series(1, t.generation) n
		LEFT JOIN events e ON e.run_id = t.run_id AND e.type = 'task_status' AND e.data->>'task_key' = t.key
			AND (e.data->>'generation')::int = n
			AND e.data->>'status' IN ('completed', 'failed', 'canceled', 'timed_out', 'uncertain')
		GROUP BY t.run_id, t.key, n
		HAVING count(e.seq) <> 1`},
	{"every earlier generation of a task is kept", `
		SELECT t.run_id || ' ' || t.key FROM tasks t
		WHERE t.generation - 1 <> (SELECT count(*) FROM task_generations g WHERE g.run_id = t.run_id AND g.task_key = t.key)`},
	{"a call is dispatched once at most after it was approved", `
		SELECT run_id || ' ' || (data->>'task_key') || ': ' || count(*) FROM events
		WHERE type = 'task_status' AND data->>'status' IN ('dispatched', 'running')
		GROUP BY run_id, data->>'task_key', data->>'generation'
		HAVING count(*) > 1`},
	{"one decision at most stands of every generation of a task", `
		SELECT run_id || ' ' || task_key || ': ' || count(*) FROM task_inputs
		WHERE kind IN ('approve', 'deny') AND verdict->>'code' = ''
		GROUP BY run_id, task_key, generation
		HAVING count(*) > 1`},
	{"every settled task has one result", `
		SELECT t.run_id || ' ' || t.key FROM tasks t
		LEFT JOIN task_results r ON r.run_id = t.run_id AND r.task_key = t.key AND r.generation = t.generation
		WHERE r.run_id IS NULL`},
	{"each generation of a tool_call made one child at most, and ended as it did unless something else ended it first", `
		SELECT p.run_id || ' ' || p.key || ': ' || count(c.key) FROM tasks p
		JOIN tasks c ON c.run_id = p.run_id AND c.parent_key = p.key
		GROUP BY p.run_id, p.key
		HAVING count(c.key) > p.generation OR p.settled_by = 'kernel'
			AND min(c.status || c.is_error) FILTER (WHERE c.key = p.key || '-call-' || p.generation AND c.generation = 1)
				<> p.status || p.is_error`},
	{"no input outlives a settlement", `
		SELECT run_id || ' ' || task_key || ' ' || kind FROM task_inputs WHERE judged_at IS NULL`},
	{"no inbox lists a settled task", `
		SELECT run_id || ' ' || task_key FROM deliveries`},
	{"every round has settled, once and after each time it was opened again", `
		SELECT r.run_id || ' ' || r.number || ': ' || count(e.seq) FROM rounds r
		LEFT JOIN events e ON e.run_id = r.run_id AND e.type IN ('round_settled', 'round_reopened') AND (e.data->>'round')::int = r.number
		GROUP BY r.run_id, r.number
		HAVING count(e.seq) FILTER (WHERE e.type = 'round_settled') <> 1 + count(e.seq) FILTER (WHERE e.type = 'round_reopened')
			OR r.settled_at IS NULL`},
	{"events are numbered from 1 without gaps", `
		SELECT r.id || ': ' || count(e.seq) || ' of ' || r.event_seq FROM runs r LEFT JOIN events e ON e.run_id = r.id
		WHERE r.details_pruned_at IS NULL
		GROUP BY r.id
		HAVING count(e.seq) <> r.event_seq OR coalesce(min(e.seq), 1) <> 1 OR coalesce(max(e.seq), 0) <> r.event_seq`},
	{"every run is over", `
		SELECT id || ' ' || status FROM runs WHERE status NOT IN ('completed', 'canceled', 'refused')`},
}

// shown is how many breaches of one fact an error names.
const shown = 5

// AuditDatabase holds the database against what is true when all work has settled and every run was
// completed.
func AuditDatabase(ctx context.Context, db *postgres.DB) error {
	var errs []error
	for _, f := range facts {
		var (
			breaches []string
			all      int
		)
		err := db.Pool.QueryRow(ctx, `
			WITH breach(text) AS (`+f.breaches+`)
			SELECT coalesce((SELECT array_agg(text) FROM (SELECT text FROM breach LIMIT $1) AS few), '{}'), (SELECT count(*) FROM breach)`,
			shown).Scan(&breaches, &all)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("audit whether %s: %w", f.fact, err))
		case all > 0:
			errs = append(errs, fmt.Errorf("not so that %s: %d breaches, such as %q", f.fact, all, breaches))
		}
	}
	return errors.Join(errs...)
}

// AuditWorkflows waits until no workflow of the queue is open, and tells whether one ended otherwise than
// by completing. Visibility lags a little behind.
func AuditWorkflows(ctx context.Context, c client.Client, queue string, patience time.Duration) error {
	for end := time.Now().Add(patience); ; {
		open, err := listWorkflows(ctx, c, queue, `ExecutionStatus = 'Running'`)
		switch {
		case err != nil:
			return err
		case len(open) > 0 && time.Now().After(end):
			return fmt.Errorf("%d workflows are still open, such as %q", len(open), open[:min(len(open), shown)])
		case len(open) == 0:
			bad, err := listWorkflows(ctx, c, queue, `ExecutionStatus IN ('Failed', 'TimedOut', 'Terminated', 'Canceled')`)
			if err == nil && len(bad) > 0 {
				err = fmt.Errorf("%d workflows did not complete, such as %q", len(bad), bad[:min(len(bad), shown)])
			}
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// listWorkflows are the ids of at most a page of the queue's workflows.
func listWorkflows(ctx context.Context, c client.Client, queue, condition string) ([]string, error) {
	page, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		PageSize: 1000, Query: fmt.Sprintf(`TaskQueue = '%s' AND %s`, queue, condition),
	})
	if err != nil {
		return nil, fmt.Errorf("list workflows: %w", err)
	}
	var ids []string
	for _, execution := range page.GetExecutions() {
		ids = append(ids, execution.GetExecution().GetWorkflowId())
	}
	return ids, nil
}
