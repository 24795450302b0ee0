package devstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// DatabaseName is the database that [Postgres.URL] names.
const DatabaseName = "toolpark"

// PostgresOptions say what kind of Postgres to start.
type PostgresOptions struct {
	// Dir keeps the cluster between starts. Empty makes a throwaway one that does not survive
	// a crash of the machine and is removed by Stop.
	Dir string
	// Progress receives lines about what is being done; nil discards.
	Progress io.Writer
}

// Postgres is a running server. Its methods are not for concurrent use.
type Postgres struct {
	// URL connects as a superuser to a database of our own. It stays the same over restarts.
	URL string

	cluster *cluster // nil when the server is not ours to stop
	server  *Child
}

// errNotOurs is the answer to stopping a server that the environment named.
var errNotOurs = errors.New("this server was not started here, so it cannot be stopped from here")

// StartPostgres returns a server that accepts connections: the one DATABASE_URL names, else a
// private cluster on a unix socket.
func StartPostgres(ctx context.Context, options PostgresOptions) (*Postgres, error) {
	if url := os.Getenv("DATABASE_URL"); url != "" {
		sayf(options.Progress, "postgres: using DATABASE_URL")
		return &Postgres{URL: url}, awaitPostgres(ctx, url, nil)
	}
	bin, err := findPostgres(ctx, options.Progress)
	if err != nil {
		return nil, err
	}
	cluster, err := newCluster(ctx, bin, options)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	p := &Postgres{URL: cluster.url(DatabaseName), cluster: cluster}
	if err := p.start(ctx); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

// Stop ends the server cleanly and for good, and removes a throwaway cluster. A server that was
// not started here is left alone.
func (p *Postgres) Stop() error {
	if p.cluster == nil {
		return nil
	}
	p.shutDown()
	return p.cluster.close()
}

// Kill ends the server as a crash would. Restart brings it back.
func (p *Postgres) Kill() error {
	if p.cluster == nil {
		return errNotOurs
	}
	p.server.Kill()
	return nil
}

// Restart starts the server again on the same data, after stopping it if it runs.
func (p *Postgres) Restart(ctx context.Context) error {
	if p.cluster == nil {
		return errNotOurs
	}
	p.shutDown()
	return p.start(ctx)
}

// shutDown asks for a fast shutdown: sessions are ended, nothing committed is lost.
func (p *Postgres) shutDown() {
	if p.server != nil {
		p.server.Stop(syscall.SIGINT)
	}
}

// start runs the server and waits until it answers. After a kill, the old server's sessions may
// hold the shared memory for some moments more, and the new one refuses to start beside them.
func (p *Postgres) start(ctx context.Context) error {
	deadline := time.Now().Add(10 * time.Second)
	for {
		server, err := StartChild(p.cluster.serve(), p.cluster.logFile(), syscall.SIGINT, p.cluster.lock)
		if err != nil {
			return fmt.Errorf("postgres: %w", err)
		}
		p.server = server
		err = awaitPostgres(ctx, p.cluster.url("postgres"), server)
		if err == nil {
			return p.createDatabase(ctx)
		}
		crowded := strings.Contains(err.Error(), "pre-existing shared memory block")
		if !crowded || time.Now().After(deadline) {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// createDatabase makes our own database on the first start.
func (p *Postgres) createDatabase(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, p.cluster.url("postgres"))
	if err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var exists bool
	err = conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, DatabaseName).Scan(&exists)
	if err == nil && !exists {
		_, err = conn.Exec(ctx, `CREATE DATABASE `+DatabaseName)
	}
	if err != nil {
		return fmt.Errorf("postgres: create database %s: %w", DatabaseName, err)
	}
	return nil
}

// awaitPostgres waits until a server answers a query, at most a minute: recovery after a crash
// takes its time. It gives up early when the server process, if we have one, ends.
func awaitPostgres(ctx context.Context, url string, server *Child) error {
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	for {
		conn, err := pgx.Connect(ctx, url)
		if err == nil {
			err = conn.Ping(ctx)
			_ = conn.Close(ctx)
		}
		if err == nil {
			return nil
		}
		if server == nil {
			return fmt.Errorf("postgres: connect to DATABASE_URL: %w", err)
		}
		select {
		case <-server.exited:
			return fmt.Errorf("postgres: %w", server.Failure())
		case <-ctx.Done():
			return fmt.Errorf("postgres does not answer: %w\n%s", err, tail(filepath.Clean(server.logFile), 2000))
		case <-time.After(20 * time.Millisecond):
		}
	}
}
