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

// Decision is an approval or a denial that was staged for the current generation of a task.
type Decision struct {
	Seq      int
	Kind     toolpark.InputKind
	BodyHash []byte
	Verdict  *Verdict // nil until it is judged
}

// FindDecisions reads the decisions on a task into found, in the order of their staging.
func FindDecisions(id toolpark.TaskID, found *[]Decision) Read {
	return func(batch *pgx.Batch) {
		batch.Queue(`
			SELECT i.seq, i.kind, i.body_hash, i.verdict
			FROM task_inputs i
			JOIN tasks t ON t.run_id = i.run_id AND t.key = i.task_key AND t.generation = i.generation
			WHERE i.account_id = $1 AND i.run_id = $2 AND i.task_key = $3 AND i.kind IN ('approve', 'deny')
			ORDER BY i.seq`, id.Account, id.Run, id.Key).Query(func(rows pgx.Rows) error {
			var (
				d   Decision
				raw []byte
			)
			_, err := pgx.ForEachRow(rows, []any{&d.Seq, &d.Kind, &d.BodyHash, &raw}, func() error {
				d.Verdict = nil
				if raw != nil {
					d.Verdict = new(Verdict)
					if err := json.Unmarshal(raw, d.Verdict); err != nil {
						return err
					}
				}
				*found = append(*found, d)
				return nil
			})
			return err
		})
	}
}

// ReadInput reads what a task runs with into input.
func ReadInput(id toolpark.TaskID, input *jsontext.Value) Read {
	return func(batch *pgx.Batch) {
		batch.Queue(`
			SELECT p.input
			FROM tasks t
			JOIN task_payloads p ON p.run_id = t.run_id AND p.task_key = t.key AND p.generation = t.generation
			WHERE t.account_id = $1 AND t.run_id = $2 AND t.key = $3`, id.Account, id.Run, id.Key).
			QueryRow(func(row pgx.Row) error { return row.Scan(input) })
	}
}

// Dispatch writes what an approval made of a locked task: it is parked for those whom it is addressed to, or the
// kernel works it out, with the input that the approver put in place of its own, if any. Its inbox rows move
// from the agent's own application to the addressees. unlisted is filled in by the commit.
func Dispatch(tx *Tx, task *LockedTask, edited jsontext.Value, unlisted *[]uuid.UUID) {
	id := task.ID()
	batch := tx.Later()
	batch.Queue(`
		UPDATE tasks
		SET status = $4, approval = $5, addressed_to = $6, dispatched_at = $7, deadline_at = $8, revision = revision + 1
		WHERE account_id = $1 AND run_id = $2 AND key = $3`,
		id.Account, id.Run, id.Key, task.Status, task.Approval, task.AddressedTo, task.DispatchedAt, task.DeadlineAt)
	if edited != nil {
		batch.Queue(`
			UPDATE task_payloads
			SET original_input = coalesce(original_input, input), input = $5
			WHERE account_id = $1 AND run_id = $2 AND task_key = $3 AND generation = $4`,
			id.Account, id.Run, id.Key, task.Generation, edited)
	}
	batch.Queue(`DELETE FROM deliveries WHERE run_id = $1 AND task_key = $2 RETURNING executor_id`, id.Run, id.Key).
		Query(func(rows pgx.Rows) (err error) {
			*unlisted, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
			return err
		})
	queueDelivery(batch, id, task.Generation, task.AddressedTo, *task.DispatchedAt)
	tellRun(batch, id, taskStatus(id.Key, task.Generation, task.Status))
}

// queueDelivery lists a generation of a task at executors, if there are any.
func queueDelivery(batch *pgx.Batch, id toolpark.TaskID, generation int, executors []uuid.UUID, at time.Time) {
	if len(executors) == 0 {
		return
	}
	batch.Queue(`
		INSERT INTO deliveries (executor_id, run_id, task_key, generation, account_id, dispatched_at)
		SELECT executor_id, $2, $3, $4, $1, $6 FROM unnest($5::uuid[]) AS d(executor_id)`,
		id.Account, id.Run, id.Key, generation, executors, at)
}

// tellRun writes an event of a task's run; it locks the run's row last.
func tellRun(batch *pgx.Batch, id toolpark.TaskID, event Event) {
	batch.Queue(`
		WITH run AS (
			UPDATE runs SET event_seq = event_seq + 1 WHERE account_id = $1 AND id = $2 RETURNING event_seq
		)
		INSERT INTO events (account_id, run_id, seq, type, data)
		SELECT $1, $2, event_seq, $3, $4 FROM run`, id.Account, id.Run, event.Type, event.Data)
}

// ApplicationOf is the executor of an agent's own application.
func ApplicationOf(ctx context.Context, q Querier, account, agent uuid.UUID) (uuid.UUID, error) {
	var id uuid.UUID
	err := q.QueryRow(ctx, `SELECT id FROM executors WHERE account_id = $1 AND agent_id = $2`, account, agent).Scan(&id)
	return id, mapError(err, "find the application of agent %s", agent)
}

// Lists tells whether an executor's inbox lists a task now.
func Lists(ctx context.Context, q Querier, id toolpark.TaskID, executor uuid.UUID) (bool, error) {
	var lists bool
	err := q.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM deliveries WHERE account_id = $1 AND run_id = $2 AND task_key = $3 AND executor_id = $4)`,
		id.Account, id.Run, id.Key, executor).Scan(&lists)
	return lists, mapError(err, "look for task %s in an inbox", id)
}

// PeopleFilter is which tasks that wait for a person are listed.
type PeopleFilter struct {
	Status toolpark.Status // needs_approval, awaiting_input
	Run    *uuid.UUID      // nil: of any run
	Tool   string          // the served or wire name; empty: any
	MinAge time.Duration   // those that wait for at least this long
}

// ForPeople lists what waits for a person in all runs that a member may read, the longest waiting first.
func (db *DB) ForPeople(ctx context.Context, m toolpark.Member, f PeopleFilter, after InboxPosition, limit int) ([]*InboxRow, error) {
	rows, _ := db.Pool.Query(ctx, inboxRows+`
		WHERE t.account_id = $1 AND t.status = $4
			AND t.status IN ('needs_approval', 'awaiting_input') -- said in full, so that any plan may use the index of these
			AND `+runReadable+`
			AND ($5::uuid IS NULL OR t.run_id = $5) AND ($6 = '' OR t.tool_name = $6)
			AND t.began_at <= clock_timestamp() - $7::interval
			AND (t.began_at, t.run_id, t.key) > ($8, $9, $10)
		ORDER BY t.began_at, t.run_id, t.key
		LIMIT $11`, m.Account, m.ID, readsAll(m), f.Status, f.Run, f.Tool, f.MinAge,
		after.DispatchedAt, after.RunID, after.TaskKey, limit)
	list, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[InboxRow])
	return list, mapError(err, "list what waits for a person")
}
