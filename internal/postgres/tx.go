package postgres

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// rollbackTime bounds the undoing of a transaction whose caller may be gone.
const rollbackTime = 5 * time.Second

// errAborted is the end of a transaction in which something failed that nobody minded.
var errAborted = errors.New("the transaction was rolled back")

// Tx is one READ COMMITTED transaction that takes as few round trips as it can: it begins together with
// its first statement, and what is only written goes out together with the commit. It is for one goroutine.
type Tx struct {
	conn  *pgx.Conn
	later *pgx.Batch
	begun bool
	err   error // the first failure: nothing runs after it
}

// Tx runs do in a transaction: it commits when do returns nil and rolls back otherwise. An error of
// package toolpark passes as it is.
func (db *DB) Tx(ctx context.Context, do func(tx *Tx) error) error {
	conn, err := db.Pool.Acquire(ctx)
	if err != nil {
		return mapError(err, "take a connection")
	}
	defer conn.Release() // one that is still in a transaction is closed by this
	tx := &Tx{conn: conn.Conn(), later: &pgx.Batch{}}
	defer tx.undo(ctx)
	if err := do(tx); err != nil {
		return mapError(err, "transaction")
	}
	return mapError(tx.commit(ctx), "commit")
}

// Later is where statements are queued that need no answer before the transaction ends. They run in their
// order, before any other statement that follows and at the latest with the commit. One that fails fails the
// transaction; an answer that a statement reads has it only once the transaction has committed.
func (tx *Tx) Later() *pgx.Batch { return tx.later }

// Send runs what was queued for later, then the batch, in one round trip, and has the batch's own functions
// read its answers.
func (tx *Tx) Send(ctx context.Context, batch *pgx.Batch) error {
	if tx.err != nil {
		return tx.err
	}
	all := &pgx.Batch{}
	if !tx.begun {
		all.Queue("begin isolation level read committed")
	}
	all.QueuedQueries = append(all.QueuedQueries, tx.later.QueuedQueries...)
	all.QueuedQueries = append(all.QueuedQueries, batch.QueuedQueries...)
	tx.begun, tx.later = true, &pgx.Batch{}
	err := tx.conn.SendBatch(ctx, all).Close()
	if tx.conn.IsClosed() || tx.conn.PgConn().TxStatus() == 'E' {
		tx.err = cmp.Or(err, errAborted)
	}
	return err
}

// Exec runs one statement.
func (tx *Tx) Exec(ctx context.Context, sql string, args ...any) (tag pgconn.CommandTag, err error) {
	if err := tx.flush(ctx); err != nil {
		return tag, err
	}
	return tx.conn.Exec(ctx, sql, args...)
}

// Query runs one query.
func (tx *Tx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := tx.flush(ctx); err != nil {
		return failedRows{err: err}, err
	}
	return tx.conn.Query(ctx, sql, args...)
}

// QueryRow runs one query for one row.
func (tx *Tx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if err := tx.flush(ctx); err != nil {
		return failedRows{err: err}
	}
	return tx.conn.QueryRow(ctx, sql, args...)
}

func (tx *Tx) flush(ctx context.Context) error {
	if tx.begun && tx.later.Len() == 0 {
		return nil
	}
	return tx.Send(ctx, &pgx.Batch{})
}

func (tx *Tx) commit(ctx context.Context) error {
	if !tx.begun && tx.later.Len() == 0 {
		return nil
	}
	end := &pgx.Batch{}
	end.Queue("commit").Exec(func(tag pgconn.CommandTag) error {
		if tag.String() != "COMMIT" { // of a transaction that had failed before
			return errAborted
		}
		return nil
	})
	return tx.Send(ctx, end)
}

// undo rolls back what was neither committed nor broken off with its connection.
func (tx *Tx) undo(ctx context.Context) {
	if tx.conn.IsClosed() || tx.conn.PgConn().TxStatus() == 'I' {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
	defer stop()
	_, _ = tx.conn.Exec(ctx, "rollback") // a connection that cannot is closed when it is released
}

// failedRows is the answer to a query that was not sent.
type failedRows struct {
	pgx.Rows
	err error
}

func (r failedRows) Close()            {}
func (r failedRows) Err() error        { return r.err }
func (r failedRows) Next() bool        { return false }
func (r failedRows) Scan(...any) error { return r.err }
