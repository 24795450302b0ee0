package postgres

import (
	"context"
	"errors"
	"time"
	"uuid"

	"github.com/jackc/pgx/v5"
)

// Contexts, projections and output schemas are stored by content and shared. What nothing refers to is deleted once
// nobody has used it for unusedFor. Whoever is about to refer to a row first marks it as in use, then stores it if it
// is missing: the mark holds the row against deletion until the reference is there, and a row that was marked less
// than markUsed ago cannot be deleted before then, so that most uses write nothing.
const (
	unusedFor = 24 * time.Hour
	markUsed  = unusedFor / 2 // far longer than any transaction
)

// Shared is a kind of what is stored by content.
type Shared int

// In the order in which they are to be deleted: a context refers to output schemas.
const (
	SharedContexts Shared = iota
	SharedProjections
	SharedOutputSchemas
)

// SharedKinds are all kinds, in the order in which they are to be deleted.
var SharedKinds = []Shared{SharedContexts, SharedProjections, SharedOutputSchemas}

// SharedPlace is where a walk over rows of a kind stands. The zero value is the beginning.
type SharedPlace struct {
	Account uuid.UUID
	Key     []byte
}

// unusedQueries delete, of the $3 rows after the place ($1, $2), those that nobody has used for $4, and tell how many
// those were and where the next ones begin.
var unusedQueries = [...]string{
	SharedContexts: unusedQuery("frozen_contexts", "hash", "$2::bytea", "hash", `
		NOT EXISTS (SELECT FROM runs r WHERE r.account_id = s.account_id AND r.context_hash = s.hash)
		AND NOT EXISTS (SELECT FROM rounds n WHERE n.account_id = s.account_id AND n.context_hash = s.hash)`),
	SharedProjections: unusedQuery("projections", "digest", "convert_from($2, 'UTF8')", "convert_to(digest, 'UTF8')", `
		NOT EXISTS (SELECT FROM rounds n WHERE n.account_id = s.account_id AND n.offered = s.digest)`),
	SharedOutputSchemas: unusedQuery("output_schemas", "hash", "$2::bytea", "hash", `
		NOT EXISTS (SELECT FROM executor_tools e WHERE e.account_id = s.account_id AND e.output_schema_hash = s.hash)
		AND NOT EXISTS (SELECT FROM tasks t WHERE t.account_id = s.account_id AND t.output_schema_hash = s.hash)
		AND NOT EXISTS (SELECT FROM frozen_contexts c
			WHERE c.account_id = s.account_id AND c.output_schemas @> ARRAY[s.hash])`),
}

func unusedQuery(table, key, after, place, unreferenced string) string {
	return `
		WITH page AS MATERIALIZED (
			SELECT account_id, ` + key + `
			FROM ` + table + `
			WHERE (account_id, ` + key + `) > ($1, ` + after + `)
			ORDER BY account_id, ` + key + `
			LIMIT $3
		), unused AS MATERIALIZED (
			SELECT s.account_id, s.` + key + `
			FROM page
			JOIN ` + table + ` s USING (account_id, ` + key + `)
			WHERE s.used_at < now() - $4::interval AND ` + unreferenced + `
			FOR UPDATE OF s SKIP LOCKED
		), gone AS (
			DELETE FROM ` + table + ` s
			USING unused u
			WHERE s.account_id = u.account_id AND s.` + key + ` = u.` + key + `
			RETURNING s.account_id
		)
		SELECT account_id, ` + place + `, (SELECT count(*) FROM gone)
		FROM page
		ORDER BY account_id DESC, ` + key + ` DESC
		LIMIT 1`
}

// DeleteUnused looks at no more than limit rows of a kind, after the place, and deletes those that nobody uses any
// more. It returns where to go on, nil at the end.
func (db *DB) DeleteUnused(ctx context.Context, kind Shared, after SharedPlace, limit int) (next *SharedPlace, deleted int, err error) {
	if after.Key == nil {
		after.Key = []byte{}
	}
	next = &SharedPlace{}
	err = db.Pool.QueryRow(ctx, unusedQueries[kind], after.Account, after.Key, limit, unusedFor).
		Scan(&next.Account, &next.Key, &deleted)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, mapError(err, "delete what nobody uses")
	}
	return next, deleted, nil
}
