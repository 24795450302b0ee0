// Package migrations holds the database schema: numbered SQL files, embedded in the binary and
// applied forward only.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"fmt"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver goose talks through
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// Files are the migrations, in the order of their numbers.
//
//go:embed *.sql
var Files embed.FS

// A starter polls for the migration lock this often and this many times: five minutes in all,
// longer than any migration may take.
const (
	lockPeriodSeconds = 1
	lockAttempts      = 300
)

// Up brings the database to the newest schema and returns the names of the files it applied.
// Any number of processes may call it at once: a session lock lets one work while the others
// wait, and they then find nothing left to do. A database that is newer than this binary is left
// as it is.
func Up(ctx context.Context, databaseURL string) ([]string, error) {
	db, err := sql.Open("pgx", databaseURL)
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	defer db.Close()

	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(lockPeriodSeconds, lockAttempts))
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, Files,
		goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	results, err := provider.Up(ctx)
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	applied := make([]string, len(results))
	for i, result := range results {
		applied[i] = result.Source.Path
	}
	return applied, nil
}
