// Command toolpark makes an AI agent's tool calls durable: it serves the API, runs the worker, and
// administers both.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/toolpark/toolpark"
)

// cli is the whole command line. Each command is a struct in a file of its own name.
type cli struct {
	API       APICmd       `cmd:"" name:"api" help:"Serve the HTTP API. Run as many as you like."`
	Worker    WorkerCmd    `cmd:"" help:"Run the Temporal worker. Run as many as you like."`
	Dev       DevCmd       `cmd:"" help:"Run the whole stack on this machine, with a demonstration."`
	Runner    RunnerCmd    `cmd:"" help:"Serve a directory's files and a shell as tools."`
	Call      CallCmd      `cmd:"" help:"Run one tool call, or a batch, and print the paired results."`
	Approvals ApprovalsCmd `cmd:"" help:"Show the calls that wait for approval, and decide."`
	Asks      AsksCmd      `cmd:"" help:"Show the questions that wait for a person, and answer."`
	Migrate   MigrateCmd   `cmd:"" help:"Bring the database schema and Temporal's search attributes up to date."`
	Admin     AdminCmd     `cmd:"" help:"Manage accounts, members, executors and credentials."`
	Config    ConfigCmd    `cmd:"" help:"Print the settings in effect, with secrets masked."`
	Version   VersionCmd   `cmd:"" help:"Print the version."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	var c cli
	parser := kong.Must(&c,
		kong.Name("toolpark"),
		kong.Description("Durable tool calls for AI agents. The exit status is 2 when the command line or a setting is wrong."),
		kong.BindTo(ctx, (*context.Context)(nil)),
	)
	command, err := parser.Parse(os.Args[1:])
	parser.FatalIfErrorf(misused(err))
	parser.FatalIfErrorf(plain(command.Run()))
}

// exitMisused is the status of every command that is called in a wrong way.
const exitMisused = 2

// misused gives an error of the command line that status, unless a hook gave it another.
func misused(err error) error {
	if err == nil {
		return nil
	}
	if own, ok := errors.AsType[exitError](err); ok {
		return own
	}
	return exitError{exitMisused, err}
}

// plain leaves out the cause of a failure whose message says all that its reader can mend.
func plain(err error) error {
	if e, ok := errors.AsType[*toolpark.Error](err); ok && e.Code == toolpark.CodeValidationFailed && e.Err != nil {
		return errors.New(e.Message)
	}
	return err
}

// VersionCmd prints what was built.
type VersionCmd struct{}

// Run prints the module's version and the Go version it was built with.
func (VersionCmd) Run() error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return fmt.Errorf("this binary carries no build information")
	}
	fmt.Printf("toolpark %s (%s)\n", info.Main.Version, info.GoVersion)
	return nil
}
