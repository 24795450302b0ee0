package postgres

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"time"
	"uuid"

	"github.com/jackc/pgx/v5"

	"github.com/toolpark/toolpark"
)

// Details of a run are pruned in two steps, so that nobody reads a part of them: first the run is marked, and from
// then on its details are refused to whoever asks; whoever asked before that has been answered when they are deleted.

// PruneGrace is how long whoever reads a run's details when it is marked has to end: longer than the statements of a
// request may take.
const PruneGrace = 10 * time.Second

const (
	pruneRuns    = 100 // runs whose details are deleted in one transaction
	pruneNarrow  = 500 // events or rounds deleted in one transaction
	expiredBatch = 500 // runs marked by one statement
)

// SetRetention sets for how many days after its end the details of a run are kept, 1 to 36 500; nil keeps them.
func (db *DB) SetRetention(ctx context.Context, account uuid.UUID, days *int) (Account, error) {
	rows, _ := db.Pool.Query(ctx, `
		UPDATE accounts SET execution_details_retention_days = $2
		WHERE id = $1
		RETURNING `+accountColumns, account, days)
	set, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Account])
	return set, mapError(err, "set the retention of account %s", account)
}

// ExpireDetails marks runs that ended longer ago than their account keeps details. More tells that there may be
// others.
func (db *DB) ExpireDetails(ctx context.Context) (more bool, err error) {
	// now() and not the clock: an index is only searched for what stays the same throughout the statement.
	tag, err := db.Pool.Exec(ctx, `
		WITH expired AS (
			SELECT r.id
			FROM accounts a
			CROSS JOIN LATERAL (
				SELECT id FROM runs
				WHERE account_id = a.id AND status IN ('completed', 'canceled') AND details_pruned_at IS NULL
					AND ended_at < now() - make_interval(days => a.execution_details_retention_days)
				ORDER BY ended_at
				LIMIT $1
				FOR NO KEY UPDATE SKIP LOCKED
			) r
			WHERE a.execution_details_retention_days IS NOT NULL
			LIMIT $1
		)
		UPDATE runs SET details_pruned_at = clock_timestamp(), pruned_tasks = '{}', metadata = '{}', context_hash = NULL
		FROM expired
		WHERE runs.id = expired.id`, expiredBatch)
	return tag.RowsAffected() == expiredBatch, mapError(err, "look for runs to prune")
}

// HalfPruned tells whether there are runs that are marked and still have details.
func (db *DB) HalfPruned(ctx context.Context) (bool, error) {
	var half bool
	err := db.Pool.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM runs WHERE details_pruned_at IS NOT NULL AND details_gone_at IS NULL)`).Scan(&half)
	return half, mapError(err, "look for runs that are half pruned")
}

// Pruned is what one step of pruning deleted.
type Pruned struct {
	Runs  int  // whose last detail is gone
	Tasks int  //
	More  bool // there may be more to delete
}

// PruneDetails deletes details of runs that were marked PruneGrace ago: at most limit tasks with all that is theirs,
// and where no task is left, events and rounds. What was deleted is counted on the run in the same transaction, so
// that its overview is right at any moment. Several may prune at once: each takes runs that nobody else has.
func (db *DB) PruneDetails(ctx context.Context, limit int) (Pruned, error) {
	var pruned Pruned
	err := db.Tx(ctx, func(tx *Tx) error {
		pruned = Pruned{}
		runs, counts, err := lockHalfPruned(ctx, tx)
		if err != nil || len(runs) == 0 {
			return err
		}
		pruned.More = true
		changed, deleted, err := deleteTasks(ctx, tx, runs, limit, counts)
		if err != nil {
			return err
		}
		pruned.Tasks = deleted
		over := pruned.Tasks < limit
		// Rounds after the last task: deleting a round deletes its tasks.
		for _, table := range []string{"events", "rounds"} {
			if over {
				if over, err = deleteNarrow(ctx, tx, table, runs); err != nil {
					return err
				}
			}
		}
		if over {
			pruned.Runs, pruned.More = len(runs), len(runs) == pruneRuns
			changed = runs
		}
		return countPruned(tx, changed, counts, over)
	})
	return pruned, mapError(err, "prune details")
}

type taskCounts map[toolpark.Status]int

func lockHalfPruned(ctx context.Context, tx *Tx) (runs []uuid.UUID, counts map[uuid.UUID]taskCounts, err error) {
	rows, _ := tx.Query(ctx, `
		SELECT id, pruned_tasks FROM runs
		WHERE details_pruned_at < now() - $1::interval AND details_gone_at IS NULL
		ORDER BY details_pruned_at
		LIMIT $2
		FOR NO KEY UPDATE SKIP LOCKED`, PruneGrace, pruneRuns)
	counts = map[uuid.UUID]taskCounts{}
	var (
		id  uuid.UUID
		raw jsontext.Value
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &raw}, func() error {
		count := taskCounts{}
		runs, counts[id] = append(runs, id), count
		return json.Unmarshal(raw, &count)
	})
	return runs, counts, err
}

// deleteTasks deletes tasks of the runs and adds them to the counts, which change for some of the runs. Within a run the last keys go first: a task goes
// no later than the one that made it, whose deletion would take it along uncounted. Rows are found by where they are,
// which needs no plan that depends on how large the tables are.
func deleteTasks(ctx context.Context, tx *Tx, runs []uuid.UUID, limit int, counts map[uuid.UUID]taskCounts) (changed []uuid.UUID, deleted int, err error) {
	rows, _ := tx.Query(ctx, `
		WITH gone AS (
			DELETE FROM tasks WHERE ctid = ANY(ARRAY(
				SELECT t.ctid
				FROM unnest($1::uuid[]) AS r(id)
				CROSS JOIN LATERAL (SELECT ctid FROM tasks WHERE run_id = r.id ORDER BY key DESC LIMIT $2) t
				LIMIT $2))
			RETURNING run_id, status
		)
		SELECT run_id, status, count(*) FROM gone GROUP BY run_id, status ORDER BY run_id`, runs, limit)
	var (
		run    uuid.UUID
		status toolpark.Status
		count  int
	)
	_, err = pgx.ForEachRow(rows, []any{&run, &status, &count}, func() error {
		counts[run][status] += count
		deleted += count
		if n := len(changed); n == 0 || changed[n-1] != run {
			changed = append(changed, run)
		}
		return nil
	})
	return changed, deleted, err
}

// deleteNarrow deletes rows of the runs in a table whose rows are small. It tells whether none is left.
func deleteNarrow(ctx context.Context, tx *Tx, table string, runs []uuid.UUID) (over bool, err error) {
	tag, err := tx.Exec(ctx, `
		DELETE FROM `+table+` WHERE ctid = ANY(ARRAY(
			SELECT t.ctid
			FROM unnest($1::uuid[]) AS r(id)
			CROSS JOIN LATERAL (SELECT ctid FROM `+table+` WHERE run_id = r.id LIMIT $2) t
			LIMIT $2))`, runs, pruneNarrow)
	return tag.RowsAffected() < pruneNarrow, err
}

func countPruned(tx *Tx, runs []uuid.UUID, counts map[uuid.UUID]taskCounts, over bool) error {
	written := make([]jsontext.Value, len(runs))
	for i, id := range runs {
		raw, err := json.Marshal(counts[id], json.Deterministic(true))
		if err != nil {
			return err
		}
		written[i] = raw
	}
	tx.Later().Queue(`
		UPDATE runs SET pruned_tasks = p.counts, details_gone_at = CASE WHEN $3 THEN clock_timestamp() END
		FROM unnest($1::uuid[], $2::json[]) AS p(id, counts)
		WHERE runs.id = p.id`, runs, written, over)
	return nil
}
