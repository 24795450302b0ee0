package postgres_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/devstack/devtest"
	"github.com/toolpark/toolpark/internal/postgres"
)

// statements keeps what a connection was asked.
type statements struct{ sql []string }

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s.sql = append(s.sql, data.SQL)
	return ctx
}

func (*statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// What waits for people is found by its index, whatever the parameters are and however many tasks of whichever
// accounts there are beside it.
func TestWhatWaitsForPeopleIsFoundByItsIndex(t *testing.T) {
	t.Parallel()
	opened, err := postgres.Open(t.Context(), devtest.Database(t), 1)
	require.NoError(t, err)
	t.Cleanup(opened.Close)
	asked := &statements{}
	config := opened.Pool.Config()
	config.ConnConfig.Tracer = asked
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	db := &postgres.DB{Pool: pool}
	_, err = db.ForPeople(t.Context(), toolpark.Member{}, postgres.PeopleFilter{Status: toolpark.NeedsApproval}, postgres.InboxPosition{}, 10)
	require.NoError(t, err)
	require.Len(t, asked.sql, 1)

	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	for _, sql := range []string{
		`SET plan_cache_mode = force_generic_plan`, `SET enable_seqscan = off`, // tables that are empty are read whole otherwise
		`PREPARE page AS ` + asked.sql[0],
	} {
		_, err = conn.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	rows, err := conn.Query(t.Context(), `EXPLAIN EXECUTE page(NULL, NULL, false, 'needs_approval', NULL, '', '0', now(), NULL, '', 10)`,
		pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Contains(t, strings.Join(plan, "\n"), "tasks_for_people")
}
