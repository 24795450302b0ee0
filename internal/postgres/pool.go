// Package postgres is where all SQL lives: one file a table or a feature, hand-written, next to the
// function that runs it. It turns what the database says into the errors of package toolpark.
package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// connectTimeout bounds one attempt to reach the server, so that a request finds out that the
// database is down before its caller gives up.
const connectTimeout = 5 * time.Second

// DB is the database. Its methods may be called from any goroutine.
type DB struct {
	Pool *pgxpool.Pool
}

// Querier is what one statement needs: the pool, or a transaction.
type Querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Open reads the URL and makes a pool of at most maxConns connections. It does not connect: the
// first query does, so that a process may start before its database and report it by Ping.
func Open(ctx context.Context, url string, maxConns int32) (*DB, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err // pgx leaves the password out of this message
	}
	config.MaxConns = maxConns
	config.ConnConfig.ConnectTimeout = connectTimeout
	params := config.ConnConfig.RuntimeParams
	params["application_name"] = "toolpark"
	// Short clocks everywhere: nobody may hold a row that the rest of the system waits for, not even
	// a process that was stopped in the middle of a transaction.
	// Every statement is keyed: a plan for its parameters is no better than one for any, and costs as much as running it.
	params["plan_cache_mode"] = "force_generic_plan"
	params["lock_timeout"] = "2s"
	params["statement_timeout"] = "5s"
	params["idle_in_transaction_session_timeout"] = "10s"
	config.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		registerTypes(conn.TypeMap())
		return nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return &DB{Pool: pool}, nil
}

// Close waits for the connections in use and closes them all.
func (db *DB) Close() { db.Pool.Close() }

// Ping tells whether the database answers.
func (db *DB) Ping(ctx context.Context) error {
	return mapError(db.Pool.Ping(ctx), "reach the database")
}
