package postgres

import (
	"context"
	"encoding/json/jsontext"

	"github.com/jackc/pgx/v5"

	"github.com/toolpark/toolpark"
)

// Asked is what a call was asked, and what it might have called.
type Asked struct {
	Input       jsontext.Value
	ContextHash []byte   // of what its round may call
	ToolNames   []string // the part of it that was offered; nil for all of it
}

// FindAsked reads what a call was asked, and what its round may call. A child sees what its
// parent's round may call.
func FindAsked(ctx context.Context, q Querier, id toolpark.TaskID) (Asked, error) {
	var a Asked
	err := q.QueryRow(ctx, `
		SELECT p.input, coalesce(n.context_hash, r.context_hash), n.tool_names
		FROM tasks t
		JOIN runs r ON r.id = t.run_id
		JOIN task_payloads p ON p.run_id = t.run_id AND p.task_key = t.key AND p.generation = t.generation
		LEFT JOIN tasks parent ON parent.run_id = t.run_id AND parent.key = t.parent_key
		LEFT JOIN rounds n ON n.run_id = t.run_id AND n.number = coalesce(t.round, parent.round)
		WHERE t.account_id = $1 AND t.run_id = $2 AND t.key = $3`, id.Account, id.Run, id.Key).
		Scan(&a.Input, &a.ContextHash, &a.ToolNames)
	return a, mapError(err, "read what task %s asks", id)
}

// AwaitChild takes a locked task's own clock away: from now on its child's is the only one.
func AwaitChild(tx *Tx, task *LockedTask) {
	tx.Later().Queue(`
		UPDATE tasks SET deadline_at = NULL, revision = revision + 1
		WHERE account_id = $1 AND run_id = $2 AND key = $3`, task.AccountID, task.RunID, task.Key)
	task.DeadlineAt = nil
}

// LockParent locks, and reads into parent, the task that made this one, before this one is locked: tasks are
// locked in the order of their keys, and a child's sorts after its parent's. A task of its own leaves parent as it is.
func LockParent(tx *Tx, id toolpark.TaskID, parent **toolpark.Task) {
	tx.Later().Queue(`
		SELECT `+taskColumns+`
		FROM tasks t
		WHERE t.account_id = $1 AND t.run_id = $2
			AND t.key = (SELECT c.parent_key FROM tasks c WHERE c.account_id = $1 AND c.run_id = $2 AND c.key = $3)
		FOR NO KEY UPDATE OF t`, id.Account, id.Run, id.Key).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[toolpark.Task])
		if len(found) == 1 {
			*parent = found[0]
		}
		return err
	})
}

// TellParent stages, for the parent of a locked task, that this one settles. The parent is locked, too. One
// that has settled, or that has gone on without this child, is not told.
func TellParent(tx *Tx, child *LockedTask) {
	id := child.ID()
	const waiting = `account_id = $1 AND run_id = $2 AND key = $3 AND settled_at IS NULL
		AND $4::text IN (key || '-call-' || generation, key || '-ask-' || generation)`
	tx.Later().Queue(`
		INSERT INTO task_inputs (account_id, run_id, task_key, seq, generation, kind, staged_at)
		SELECT account_id, run_id, key, next_input, generation, 'child', clock_timestamp()
		FROM tasks WHERE `+waiting, id.Account, id.Run, *child.ParentKey, id.Key)
	tx.Later().Queue(`
		UPDATE tasks SET next_input = next_input + 1, wake_at = least(wake_at, clock_timestamp() + $5::interval), wake_attempts = 0
		WHERE `+waiting, id.Account, id.Run, *child.ParentKey, id.Key, wakeGrace)
}

// ChildOutcome is how a settled task ended, as the outcome of the task that made it.
func ChildOutcome(ctx context.Context, tx *Tx, id toolpark.TaskID) (Outcome, error) {
	var (
		o           Outcome
		key, detail *string
	)
	err := tx.QueryRow(ctx, `
		SELECT t.status, t.is_error, t.error_key, r.error_detail, r.content, r.structured_content, r.title, r.metadata,
			r.rejected_result
		FROM tasks t
		LEFT JOIN task_results r ON r.run_id = t.run_id AND r.task_key = t.key AND r.generation = t.generation
		WHERE t.account_id = $1 AND t.run_id = $2 AND t.key = $3 AND t.settled_at IS NOT NULL`, id.Account, id.Run, id.Key).
		Scan(&o.Status, &o.IsError, &key, &detail, &o.Content, &o.StructuredContent, &o.Title, &o.Metadata, &o.Rejected)
	o.By = toolpark.ByKernel
	if key != nil {
		o.Error = &toolpark.TaskError{Key: *key}
		if detail != nil {
			o.Error.Detail = *detail
		}
	}
	return o, mapError(err, "read the outcome of task %s", id)
}
