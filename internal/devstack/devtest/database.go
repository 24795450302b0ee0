package devtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"uuid"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark/internal/devstack"
	"github.com/toolpark/toolpark/schema/migrations"
)

// templateLock is the advisory lock under which one test binary makes the template for all.
const templateLock = 0x746f6f6c7061726b // "toolpark"

// sharedPostgres is kept for the life of the test binary.
var sharedPostgres = sync.OnceValues(func() (*devstack.Postgres, error) {
	return devstack.StartPostgres(context.Background(), devstack.PostgresOptions{Progress: os.Stderr})
})

// server is where databases are made: a URL, and the migrated database they are copied from.
type server struct {
	url      string
	template string
}

var sharedServer = sync.OnceValues(func() (server, error) {
	s := server{url: os.Getenv(devstack.TestDatabaseVariable)}
	if s.url == "" {
		postgres, err := sharedPostgres()
		if err != nil {
			return s, err
		}
		s.url = postgres.URL
	}
	var err error
	s.template, err = makeTemplate(context.Background(), s.url)
	return s, err
})

// Database returns the URL of a database of the test's own with the newest schema, some tens of
// milliseconds' work. It is dropped when the test ends.
func Database(t testing.TB) string {
	t.Helper()
	s, err := sharedServer()
	require.NoError(t, err)
	return s.copyOf(t, s.template)
}

// EmptyDatabase returns the URL of a database of the test's own without any schema.
func EmptyDatabase(t testing.TB) string {
	t.Helper()
	s, err := sharedServer()
	require.NoError(t, err)
	return s.copyOf(t, "template0")
}

// copyOf makes a database from a template and drops it when the test ends.
func (s server) copyOf(t testing.TB, template string) string {
	t.Helper()
	name := "test_" + strings.ReplaceAll(uuid.NewV7().String(), "-", "")
	execute(t, s.url, fmt.Sprintf(`CREATE DATABASE %s TEMPLATE %s`, name, template))
	t.Cleanup(func() {
		execute(t, s.url, fmt.Sprintf(`DROP DATABASE %s WITH (FORCE)`, name))
	})
	return withDatabase(t, s.url, name)
}

// execute runs one statement on a connection of its own.
func execute(t testing.TB, url, statement string) {
	t.Helper()
	ctx := context.Background() // a test's own context is over when its cleanups run
	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, statement)
	require.NoError(t, err)
}

// withDatabase replaces the database that a URL names.
func withDatabase(t testing.TB, serverURL, name string) string {
	t.Helper()
	u, err := url.Parse(serverURL)
	require.NoError(t, err)
	u.Path = "/" + name
	return u.String()
}

// makeTemplate makes the migrated database that all others are copied from, once per schema: its
// name is the hash of the migrations. Nobody can connect to it, as copying requires.
func makeTemplate(ctx context.Context, serverURL string) (string, error) {
	hash, err := hashMigrations()
	if err != nil {
		return "", err
	}
	conn, err := pgx.Connect(ctx, serverURL)
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, int64(templateLock)); err != nil {
		return "", err
	}
	template := "template_" + hash
	var exists bool
	err = conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, template).Scan(&exists)
	if err != nil || exists {
		return template, err
	}
	// Made under another name and renamed when it is whole: a run that dies here leaves no trap.
	unfinished := template + "_unfinished"
	for _, statement := range []string{
		`DROP DATABASE IF EXISTS ` + unfinished + ` WITH (FORCE)`,
		`CREATE DATABASE ` + unfinished + ` TEMPLATE template0`,
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return "", err
		}
	}
	u, err := url.Parse(serverURL)
	if err != nil {
		return "", err
	}
	u.Path = "/" + unfinished
	if _, err := migrations.Up(ctx, u.String()); err != nil {
		return "", err
	}
	for _, statement := range []string{
		`ALTER DATABASE ` + unfinished + ` WITH ALLOW_CONNECTIONS false`,
		`ALTER DATABASE ` + unfinished + ` RENAME TO ` + template,
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return "", err
		}
	}
	return template, nil
}

// hashMigrations names the schema by its files.
func hashMigrations() (string, error) {
	names, err := fs.Glob(migrations.Files, "*.sql")
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	for _, name := range names {
		body, err := migrations.Files.ReadFile(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(hash, "%s %d\n%s", name, len(body), body)
	}
	return hex.EncodeToString(hash.Sum(nil)[:8]), nil
}
