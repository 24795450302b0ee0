// Package devstack runs what Toolpark needs on one machine: a private Postgres and a Temporal
// development server. `toolpark dev` and the tests use it; nothing in production does.
//
// It takes what the environment names (DATABASE_URL, TEMPORAL_ADDRESS), else what is installed,
// else fetches or builds it, and says which. Everything it starts ends with this program, however
// the program ends.
package devstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"golang.org/x/sync/errgroup"
)

// The environment variables that name servers shared by several test binaries: teststack sets them
// and package devtest reads them.
const (
	TestDatabaseVariable = "TOOLPARK_TEST_DATABASE_URL"
	TestTemporalVariable = "TOOLPARK_TEST_TEMPORAL"
)

// Options say what kind of stack to start.
type Options struct {
	// Dir keeps the state between starts. Empty makes a throwaway stack for tests: fast,
	// not durable, without a Web UI, and gone when it stops.
	Dir string
	// Production runs Temporal's production server on the same Postgres, instead of a development server.
	Production bool
	// Progress receives a line about each thing found, fetched, built or awaited; nil discards.
	Progress io.Writer
}

// Stack is a running Postgres and Temporal.
type Stack struct {
	Postgres *Postgres
	Temporal *Temporal
}

// Start starts both, side by side where it can, and returns once both answer.
func Start(ctx context.Context, options Options) (*Stack, error) {
	temporalOptions := TemporalOptions{Progress: options.Progress}
	postgresOptions := PostgresOptions{Progress: options.Progress}
	if options.Dir != "" {
		dir, err := filepath.Abs(options.Dir)
		if err != nil {
			return nil, err
		}
		postgresOptions.Dir = filepath.Join(dir, "postgres")
		temporalOptions.Dir = filepath.Join(dir, "temporal")
		temporalOptions.WebUI = true
	}
	stack := new(Stack)
	var err error
	if options.Production { // one needs the other
		if stack.Postgres, err = StartPostgres(ctx, postgresOptions); err != nil {
			return nil, err
		}
		temporalOptions.Postgres = stack.Postgres
		if stack.Temporal, err = StartTemporal(ctx, temporalOptions); err != nil {
			return nil, errors.Join(err, stack.Stop())
		}
		return stack, nil
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		stack.Postgres, err = StartPostgres(groupCtx, postgresOptions)
		return err
	})
	group.Go(func() (err error) {
		stack.Temporal, err = StartTemporal(groupCtx, temporalOptions)
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, errors.Join(err, stack.Stop())
	}
	return stack, nil
}

// Stop ends both, Temporal first. What runs elsewhere is left alone.
func (s *Stack) Stop() error {
	var errs []error
	if s.Temporal != nil {
		errs = append(errs, s.Temporal.Stop())
	}
	if s.Postgres != nil {
		errs = append(errs, s.Postgres.Stop())
	}
	return errors.Join(errs...)
}

// sayf writes one line of progress.
func sayf(w io.Writer, format string, args ...any) {
	if w != nil {
		fmt.Fprintf(w, format+"\n", args...)
	}
}
