package postgres

import (
	"context"
	"strconv"
	"strings"
	"uuid"

	"github.com/jackc/pgx/v5"

	"github.com/toolpark/toolpark/internal/notify"
)

// Recheck reads the state of every topic that somebody waits for, in one query (notify.Recheck).
func (db *DB) Recheck(ctx context.Context, topics []notify.Topic) (map[notify.Topic]string, error) {
	var (
		taskRuns, runs, roundRuns, inboxes []uuid.UUID
		taskKeys                           []string
		rounds                             []int
	)
	for _, topic := range topics {
		kind, rest, _ := strings.Cut(string(topic), "/")
		idText, tail, _ := strings.Cut(rest, "/")
		id, err := uuid.Parse(idText)
		if err != nil {
			continue
		}
		switch kind {
		case "task":
			taskRuns, taskKeys = append(taskRuns, id), append(taskKeys, tail)
		case "run":
			runs = append(runs, id)
		case "round":
			if number, err := strconv.Atoi(tail); err == nil {
				roundRuns, rounds = append(roundRuns, id), append(rounds, number)
			}
		case "inbox":
			inboxes = append(inboxes, id)
		}
	}
	rows, _ := db.Pool.Query(ctx, `
		SELECT 'task/' || t.run_id || '/' || t.key, t.revision::text
		FROM unnest($1::uuid[], $2::text[]) AS w(run_id, key) JOIN tasks t ON t.run_id = w.run_id AND t.key = w.key
		UNION ALL
		SELECT 'run/' || id, event_seq || status FROM runs WHERE id = ANY($3)
		UNION ALL
		SELECT 'round/' || r.run_id || '/' || r.number, (r.settled_at IS NOT NULL)::text
		FROM unnest($4::uuid[], $5::int[]) AS w(run_id, number)
		JOIN rounds r ON r.run_id = w.run_id AND r.number = w.number
		UNION ALL
		SELECT 'inbox/' || w.id, (SELECT `+inboxVersion+` FROM deliveries d WHERE d.executor_id = w.id)
		FROM unnest($6::uuid[]) AS w(id)`,
		taskRuns, taskKeys, runs, roundRuns, rounds, inboxes)
	tokens := make(map[notify.Topic]string, len(topics))
	var topic, token string
	_, err := pgx.ForEachRow(rows, []any{&topic, &token}, func() error {
		tokens[notify.Topic(topic)] = token
		return nil
	})
	return tokens, mapError(err, "recheck what is waited for")
}
