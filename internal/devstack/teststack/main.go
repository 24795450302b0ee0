// Command teststack runs `go test`, once or several times side by side, with one Postgres and one Temporal
// that all test binaries share, and ends with one count over all of it:
//
//	teststack ./a ./b -- -race ./c
//
// is `go test ./a ./b` and `go test -race ./c`. Without tests that ran, or with one that failed, it
// exits with 1.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"github.com/toolpark/toolpark/internal/devstack"
	"github.com/toolpark/toolpark/internal/devstack/testreport"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "teststack:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	stack, err := devstack.Start(ctx, devstack.Options{Progress: os.Stderr})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stack.Stop()) }()
	env := append(os.Environ(),
		devstack.TestDatabaseVariable+"="+stack.Postgres.URL,
		devstack.TestTemporalVariable+"="+stack.Temporal.Address,
	)
	report := &testreport.Report{Out: os.Stdout}
	groups := split(args)
	failures := make([]error, len(groups)) // a failing group does not end the others
	var running sync.WaitGroup
	for i, group := range groups {
		running.Go(func() { failures[i] = goTest(ctx, group, env, report) })
	}
	running.Wait()
	err = errors.Join(failures...)
	report.Summary()
	if err == nil && report.Passed == 0 {
		err = errors.New("no test ran")
	}
	return err
}

// goTest runs `go test` with the arguments and reports its events.
func goTest(ctx context.Context, args, env []string, report *testreport.Report) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...)
	cmd.Env = env
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	readErr := report.Read(events)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("go test: %w", err)
	}
	return readErr
}

// split cuts the arguments at each "--".
func split(args []string) [][]string {
	var groups [][]string
	for {
		i := slices.Index(args, "--")
		if i < 0 {
			return append(groups, args)
		}
		groups = append(groups, args[:i])
		args = args[i+1:]
	}
}
