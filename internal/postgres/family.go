package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/toolpark/toolpark"
)

// Family is a task with those that its settlement may touch or be touched by: the task that made it, those that
// it made, the task that it waits for, and the live tasks that wait for it. All are locked.
type Family map[string]*toolpark.Task

// LockFamily locks and reads into family, in the order of their keys, a task and all that a step of it may touch,
// before anything else is locked. The statement sees no wait that began while it waited for a lock: see
// FamilyIsComplete.
func LockFamily(tx *Tx, id toolpark.TaskID, family Family) {
	tx.Later().Queue(`
		SELECT `+taskColumns+`
		FROM tasks t
		WHERE t.account_id = $1 AND t.run_id = $2 AND t.key = ANY(ARRAY(
			SELECT unnest(ARRAY[c.key, c.parent_key, c.waits_for, c.key || '-call-' || c.generation, c.key || '-ask-' || c.generation])
			FROM tasks c WHERE c.account_id = $1 AND c.run_id = $2 AND c.key = $3
			UNION ALL
			SELECT w.key FROM tasks w WHERE w.account_id = $1 AND w.run_id = $2 AND w.waits_for = $3 AND w.settled_at IS NULL))
		ORDER BY t.key
		FOR NO KEY UPDATE OF t`, id.Account, id.Run, id.Key).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[toolpark.Task])
		for _, task := range found {
			family[task.Key] = task
		}
		return err
	})
}

// FamilyIsComplete tells whether every live task that waits for a locked one is in its locked family. Whoever comes
// later finds the task's lock taken, and then how it ended.
func FamilyIsComplete(ctx context.Context, tx *Tx, id toolpark.TaskID, family Family) (bool, error) {
	if family == nil {
		return false, nil
	}
	var complete bool
	err := tx.QueryRow(ctx, `
		SELECT NOT EXISTS (
			SELECT FROM tasks
			WHERE account_id = $1 AND run_id = $2 AND waits_for = $3 AND settled_at IS NULL AND key <> ALL($4))`,
		id.Account, id.Run, id.Key, slices.Collect(maps.Keys(family))).Scan(&complete)
	return complete, mapError(err, "look for those that wait for task %s", id)
}

// Parent is the task that made this one; nil when it was authored by itself.
func (f Family) Parent(task *toolpark.Task) *toolpark.Task {
	if task.ParentKey == nil {
		return nil
	}
	return f[*task.ParentKey]
}

// Waiters are the live tasks that wait for this one.
func (f Family) Waiters(task *toolpark.Task) []*toolpark.Task {
	var waiters []*toolpark.Task
	for _, other := range f {
		if other.Key != task.Key && other.WaitsFor != nil && *other.WaitsFor == task.Key && !other.Status.Settled() {
			waiters = append(waiters, other)
		}
	}
	return waiters
}

// Watch marks a locked task as one that others wait for: its settlement tells them.
func Watch(tx *Tx, target *toolpark.Task) {
	tx.Later().Queue(`UPDATE tasks SET watched = true WHERE account_id = $1 AND run_id = $2 AND key = $3`,
		target.AccountID, target.RunID, target.Key)
	target.Watched = true
}

// WakeWaiters lets the alarms of locked tasks ring now, in case the nudges that follow are lost.
func WakeWaiters(tx *Tx, waiters []*toolpark.Task) {
	if len(waiters) == 0 {
		return
	}
	keys := make([]string, len(waiters))
	for i, waiter := range waiters {
		keys[i] = waiter.Key
	}
	tx.Later().Queue(`
		UPDATE tasks SET wake_at = clock_timestamp(), wake_attempts = 0
		WHERE account_id = $1 AND run_id = $2 AND key = ANY($3) AND settled_at IS NULL`,
		waiters[0].AccountID, waiters[0].RunID, keys)
}

// ErrorDetail is what a settled task says of its failure for a reader; empty when it says nothing.
func ErrorDetail(ctx context.Context, q Querier, task *toolpark.Task) (string, error) {
	var detail string
	err := q.QueryRow(ctx, `
		SELECT coalesce(error_detail, '') FROM task_results
		WHERE account_id = $1 AND run_id = $2 AND task_key = $3 AND generation = $4`,
		task.AccountID, task.RunID, task.Key, task.Generation).Scan(&detail)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return detail, mapError(err, "read why task %s ended", task.ID())
}
