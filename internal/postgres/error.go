package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/toolpark/toolpark"
)

// mapError says what was attempted. What the database cannot do now but may do later becomes
// unavailable; an error of package toolpark, or none, passes as it is.
func mapError(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*toolpark.Error](err); ok {
		return err
	}
	err = fmt.Errorf(format+": %w", append(args, err)...)
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		if message, ok := broken[pgErr.ConstraintName]; ok {
			return toolpark.Errorf(toolpark.CodeValidationFailed, "%s", message).Because(err)
		}
	}
	if transient(err) {
		return toolpark.Errorf(toolpark.CodeUnavailable, "The database does not answer now; try again.").Because(err)
	}
	return err
}

// rowError is mapError for one row that may be missing: pgx.ErrNoRows passes, for the caller to
// decide what that means.
func rowError(err error, format string, args ...any) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return pgx.ErrNoRows
	}
	return mapError(err, format, args...)
}

// broken says, per constraint, what its breaker should do instead.
var broken = map[string]string{
	"accounts_name_check":                            "An account needs a name.",
	"members_account_id_handle_key":                  "This handle is taken in the account; choose another.",
	"members_handle_check":                           "A handle is 2 to 32 of a-z, 0-9, _ and -, and starts with a letter or digit.",
	"executors_account_id_manager_id_identifier_key": "This manager has an executor with this identifier already; choose another.",
}

// transient tells whether the same statement may work later: the server is away, full, restarting or
// busy. A caller that went away is not the database's fault.
func transient(err error) bool {
	if errors.Is(err, context.Canceled) {
		return false
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pgErr.Code {
		case "40001", // serialization_failure
			"40P01", // deadlock_detected
			"55P03", // lock_not_available: lock_timeout
			"57014", // query_canceled: statement_timeout
			"57P01", // admin_shutdown
			"57P02", // crash_shutdown
			"57P03", // cannot_connect_now
			"57P05", // idle_session_timeout
			"25P03", // idle_in_transaction_session_timeout
			"25006": // read_only_sql_transaction: a standby that is not promoted yet
			return true
		}
		class := pgErr.Code[:2]
		return class == "08" || class == "53" // connection exceptions, insufficient resources
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok { // context.DeadlineExceeded is one, too
		return true
	}
	for _, lost := range []error{pgconn.ErrConnClosed, net.ErrClosed, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, lost) {
			return true
		}
	}
	return false
}
