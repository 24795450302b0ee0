package devstack

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// errNoPostgres lists every way to get a server.
var errNoPostgres = errors.New(`no Postgres server found and none could be installed. Do one of these:
  - set DATABASE_URL to a server you have (14 or newer)
  - install it: apt install postgresql, brew install postgresql@18, or another package with initdb and postgres on PATH
  - start Docker`)

// findPostgres returns the directory of initdb and postgres: installed ones, else ones it installs.
func findPostgres(ctx context.Context, progress io.Writer) (string, error) {
	if bin, ok := installedPostgres(ctx); ok {
		return bin, nil
	}
	return "", errNoPostgres
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
