package postgres

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"uuid"

	"github.com/jackc/pgx/v5"

	"github.com/toolpark/toolpark"
)

// Outcome is how a task ends. It is written once.
type Outcome struct {
	Status            toolpark.Status
	By                toolpark.SettledBy
	IsError           bool
	Error             *toolpark.TaskError
	Content           jsontext.Value // a list of blocks; nil when blank
	StructuredContent jsontext.Value // nil when absent
	Title             *string
	Metadata          jsontext.Value
	Rejected          jsontext.Value     // a report that broke the announced output schema
	Approval          *toolpark.Approval // the decision that ended it; nil for none
	AnsweredBy        *uuid.UUID         // who answered an ask; nil for anything else
}

// Verdict is what became of one staged input. An empty code means that it was accepted.
type Verdict struct {
	Seq     int           `json:"seq"`
	Code    toolpark.Code `json:"code"`
	Message string        `json:"message,omitempty"`
}

// Settled is what else a settlement changed.
type Settled struct {
	RoundSettled bool
	RunEnded     bool
	Listed       []uuid.UUID // the executors whose inbox listed the task
}

// Settle ends a locked task in one transaction with everything that follows from it. The run's row is
// locked last, and whether the round is over is read after that lock; the run's counter moves in the
// last statement, so that events have no gaps and no commit waits longer than it must. What it returns is
// filled in by the commit.
func Settle(tx *Tx, task *LockedTask, o *Outcome, verdicts []Verdict) (*Settled, error) {
	id := task.ID()
	var errorKey, errorDetail *string
	if o.Error != nil {
		errorKey = &o.Error.Key
		if o.Error.Detail != "" {
			errorDetail = &o.Error.Detail
		}
	}
	batch := tx.Later()
	batch.Queue(`
		UPDATE tasks
		SET status = $4, settled_at = $5, settled_by = $6, is_error = $7, error_key = $8,
			approval = coalesce($9, approval), answered_by = $10, revision = revision + 1, wake_at = NULL
		WHERE account_id = $1 AND run_id = $2 AND key = $3 AND settled_at IS NULL`,
		id.Account, id.Run, id.Key, o.Status, task.Now, o.By, o.IsError, errorKey, o.Approval, o.AnsweredBy)
	batch.Queue(`
		INSERT INTO task_results (account_id, run_id, task_key, generation, content, structured_content, title,
			metadata, error_detail, rejected_result)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		id.Account, id.Run, id.Key, task.Generation, o.Content, o.StructuredContent, o.Title, o.Metadata,
		errorDetail, o.Rejected)
	if err := queueVerdicts(batch, id, verdicts); err != nil {
		return nil, err
	}
	batch.Queue(`DELETE FROM progress WHERE run_id = $1 AND task_key = $2`, id.Run, id.Key)
	settled := &Settled{}
	batch.Queue(`DELETE FROM deliveries WHERE run_id = $1 AND task_key = $2 RETURNING executor_id`, id.Run, id.Key).
		Query(func(rows pgx.Rows) error {
			var err error
			settled.Listed, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
			return err
		})
	batch.Queue(`SELECT FROM runs WHERE id = $1 FOR NO KEY UPDATE`, id.Run)
	batch.Queue(`
		WITH facts AS MATERIALIZED (
			SELECT r.event_seq,
				$3::int IS NOT NULL AND NOT EXISTS (
					SELECT FROM tasks WHERE run_id = $2 AND round = $3 AND settled_at IS NULL) AS round_over,
				r.status = 'stopping' AND NOT EXISTS (
					SELECT FROM tasks WHERE run_id = $2 AND settled_at IS NULL) AS run_over
			FROM runs r WHERE r.account_id = $1 AND r.id = $2
		), told AS (
			INSERT INTO events (account_id, run_id, seq, type, data)
			SELECT $1, $2, event_seq + 1, 'task_status', $4::json FROM facts
			UNION ALL
			SELECT $1, $2, event_seq + 2, 'round_settled', $5::json FROM facts WHERE round_over
			UNION ALL
			SELECT $1, $2, event_seq + 2 + round_over::int, 'run_status', $6::json FROM facts WHERE run_over
		), round_done AS (
			UPDATE rounds SET settled_at = clock_timestamp()
			FROM facts WHERE run_id = $2 AND number = $3 AND round_over
		)
		UPDATE runs SET
			event_seq = runs.event_seq + 1 + round_over::int + run_over::int,
			status = CASE WHEN run_over THEN 'canceled' ELSE status END,
			ended_at = CASE WHEN run_over THEN clock_timestamp() ELSE ended_at END,
			wake_at = CASE WHEN run_over THEN clock_timestamp() ELSE wake_at END
		FROM facts
		WHERE runs.account_id = $1 AND runs.id = $2
		RETURNING round_over, run_over`,
		id.Account, id.Run, task.Round, taskStatus(id.Key, task.Generation, o.Status).Data, roundData(task.Round),
		runStatus(toolpark.RunCanceled).Data).
		QueryRow(func(row pgx.Row) error { return row.Scan(&settled.RoundSettled, &settled.RunEnded) })
	return settled, nil
}

// queueVerdicts writes what became of staged inputs. A judged report's body is dropped: what was
// accepted of it is the result, and its hash still tells a repeat from another report.
func queueVerdicts(batch *pgx.Batch, id toolpark.TaskID, verdicts []Verdict) error {
	if len(verdicts) == 0 {
		return nil
	}
	judged, err := json.Marshal(verdicts)
	if err != nil {
		return err
	}
	batch.Queue(`
		UPDATE task_inputs i
		SET verdict = v.value, judged_at = clock_timestamp(), body = NULL
		FROM json_array_elements($4::json) AS v(value)
		WHERE i.account_id = $1 AND i.run_id = $2 AND i.task_key = $3 AND i.seq = (v.value->>'seq')::int`,
		id.Account, id.Run, id.Key, jsontext.Value(judged))
	return nil
}

// Sleep records that a locked task was looked at and goes on waiting: what was judged, whether the
// claim has been shown to operators, and when the recovery loop should look again.
func Sleep(tx *Tx, task *LockedTask, verdicts []Verdict, claimShown bool) error {
	id := task.ID()
	batch := tx.Later()
	if err := queueVerdicts(batch, id, verdicts); err != nil {
		return err
	}
	batch.Queue(`
		UPDATE tasks
		SET wake_at = coalesce(deadline_at, clock_timestamp() + interval '24 hours') + $4::interval, wake_attempts = 0,
			claim_shown = $5, revision = revision + $6
		WHERE account_id = $1 AND run_id = $2 AND key = $3 AND settled_at IS NULL`,
		id.Account, id.Run, id.Key, wakeGrace, claimShown, len(verdicts))
	return nil
}
