package postgres

import (
	"context"
	"encoding/json/jsontext"
	"uuid"

	"github.com/jackc/pgx/v5"

	"github.com/toolpark/toolpark"
)

// RunFacts is what a run's tasks say about it.
type RunFacts struct {
	Counts  map[toolpark.Status]int // deleted tasks included
	Touched []TouchedRunner         // by id
}

// TouchedRunner is evidence that an effect may have happened on a runner: it claimed calls that write.
type TouchedRunner struct {
	ExecutorID uuid.UUID
	Tasks      int            // that it claimed in any generation
	Checkpoint jsontext.Value // of the first call that it claimed; nil when that has none, or it was not asked for
}

// Calls of kind write that a runner claimed, settled or not, of the runs in $2. What another executor claimed, a
// provider or an agent's own application, is no runner's effect.
const (
	latestWrites = `
		SELECT run_id, key, generation, claimed_by AS runner, claimed_at FROM tasks
		WHERE account_id = $1 AND run_id = ANY($2) AND claimed_by IS NOT NULL AND addressed_role = 'runner'
			AND effect_profile->>'kind' = 'write'`

	// earlierWrites are those of generations that were retried.
	earlierWrites = `
		SELECT run_id, task_key AS key, generation, (facts->>'claimed_by')::uuid AS runner,
			(facts->>'claimed_at')::timestamptz AS claimed_at
		FROM task_generations
		WHERE account_id = $1 AND run_id = ANY($2) AND facts->>'claimed_by' IS NOT NULL
			AND facts->>'addressed_role' = 'runner' AND facts->'effect_profile'->>'kind' = 'write'`
)

// RunFacts counts the tasks of each run by status, and those of its claimed writes by runner, for all of the given
// runs in one statement. Checkpoints may be 64 KiB each: a list does without.
func (db *DB) RunFacts(ctx context.Context, account uuid.UUID, runs []uuid.UUID, checkpoints bool) (map[uuid.UUID]*RunFacts, error) {
	facts := make(map[uuid.UUID]*RunFacts, len(runs))
	for _, id := range runs {
		facts[id] = &RunFacts{Counts: map[toolpark.Status]int{}}
	}
	// The first branch reads each task once; the second finds something only where a task was retried.
	rows, _ := db.Pool.Query(ctx, `
		SELECT run_id, status, runner, count(*) AS tasks, NULL::json AS checkpoint
		FROM (
			SELECT run_id, status,
				CASE WHEN addressed_role = 'runner' AND effect_profile->>'kind' = 'write' THEN claimed_by END AS runner
			FROM tasks
			WHERE account_id = $1 AND run_id = ANY($2)
		) t
		GROUP BY run_id, status, runner
		UNION ALL
		SELECT g.run_id, NULL, g.runner, count(DISTINCT g.key), NULL
		FROM (`+earlierWrites+`) g
		WHERE NOT EXISTS (SELECT FROM tasks t WHERE t.run_id = g.run_id AND t.key = g.key AND t.claimed_by = g.runner)
		GROUP BY g.run_id, g.runner
		UNION ALL
		SELECT r.id, p.key, NULL, p.value::bigint, NULL
		FROM runs r
		CROSS JOIN LATERAL json_each_text(r.pruned_tasks) p
		WHERE r.account_id = $1 AND r.id = ANY($2) AND r.pruned_tasks IS NOT NULL
		UNION ALL
		SELECT f.run_id, NULL, f.runner, 0, (
			SELECT s.metadata->'checkpoint' FROM task_results s
			WHERE s.run_id = f.run_id AND s.task_key = f.key AND s.generation = f.generation)
		FROM (
			SELECT DISTINCT ON (w.run_id, w.runner) w.*
			FROM (`+latestWrites+` UNION ALL `+earlierWrites+`) w
			WHERE $3
			ORDER BY w.run_id, w.runner, w.claimed_at, w.key, w.generation
		) f
		ORDER BY run_id, runner`, account, runs, checkpoints)
	var (
		run        uuid.UUID
		status     *toolpark.Status
		runner     *uuid.UUID
		tasks      int
		checkpoint jsontext.Value
	)
	_, err := pgx.ForEachRow(rows, []any{&run, &status, &runner, &tasks, &checkpoint}, func() error {
		f := facts[run]
		if status != nil {
			f.Counts[*status] += tasks
		}
		if runner != nil {
			f.touch(*runner, tasks, checkpoint)
		}
		return nil
	})
	return facts, mapError(err, "count tasks")
}

// touch adds evidence of one runner. Runners come one after another.
func (f *RunFacts) touch(runner uuid.UUID, tasks int, checkpoint jsontext.Value) {
	n := len(f.Touched)
	if n == 0 || f.Touched[n-1].ExecutorID != runner {
		f.Touched = append(f.Touched, TouchedRunner{ExecutorID: runner})
		n++
	}
	f.Touched[n-1].Tasks += tasks
	if checkpoint != nil {
		f.Touched[n-1].Checkpoint = checkpoint
	}
}
