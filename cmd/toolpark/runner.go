package main

import (
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/toolpark/toolpark/internal/sandbox"
	"github.com/toolpark/toolpark/sdk/runner"
)

// RunnerCmd serves a directory's files and a shell as tools.
type RunnerCmd struct {
	Dir   string        `required:"" placeholder:"DIR" help:"Directory that the tools work in. bash can leave it: run this as a user that may do no harm."`
	State string        `env:"TOOLPARK_STATE" placeholder:"DIR" help:"Where claims are remembered across restarts, outside --dir. Default: toolpark in the user's state directory."`
	Slots int           `env:"TOOLPARK_SLOTS" default:"16" help:"Calls at once."`
	Grace time.Duration `env:"TOOLPARK_GRACE" default:"30s" help:"How long running calls may finish at shutdown."`
	URL   string        `name:"url" env:"TOOLPARK_URL" required:"" placeholder:"URL" help:"The API's address."`
	Token string        `kong:"-"` // from the environment alone: bash's commands could read a flag

	LogConfig `embed:""`
}

// Help says what no flag does.
func (*RunnerCmd) Help() string {
	return "The runner's bearer is read from TOOLPARK_EXECUTOR_TOKEN, never from a flag. On Linux the commands that bash " +
		"runs cannot read it from this process, unless they run as root; elsewhere they can."
}

// AfterApply takes the bearer from the environment.
func (c *RunnerCmd) AfterApply() error {
	if c.Token = os.Getenv("TOOLPARK_EXECUTOR_TOKEN"); c.Token == "" {
		return errors.New("set TOOLPARK_EXECUTOR_TOKEN to the runner's bearer")
	}
	return nil
}

// Validate refuses settings that no runner can work with.
func (c *RunnerCmd) Validate() error {
	if c.Slots < 1 {
		return errors.New("--slots must be at least 1")
	}
	if c.Grace <= 0 {
		return errors.New("--grace must be more than 0")
	}
	return nil
}

// Run serves until ctx ends, then drains.
func (c *RunnerCmd) Run(ctx context.Context) error {
	if err := sandbox.HideProcess(); err != nil {
		return err
	}
	return c.serve(ctx, c.Logger())
}

func (c *RunnerCmd) serve(ctx context.Context, log *slog.Logger) error {
	box, err := sandbox.Open(c.Dir, os.Getenv("PATH"))
	if err != nil {
		return err
	}
	defer box.Close()
	client := &runner.Client{BaseURL: c.URL, Token: c.Token}
	state, err := c.state(box.Dir())
	if err != nil {
		return err
	}
	self, err := identify(ctx, client)
	if err != nil {
		return err
	}
	// Claims belong to one executor: two runners may share a state directory.
	journal, err := runner.OpenJournal(filepath.Join(state, self.PublicID))
	if err != nil {
		return err
	}
	defer journal.Close()
	environment, err := json.Marshal(map[string]string{
		"os": runtime.GOOS, "arch": runtime.GOARCH, "working_directory": box.Dir(),
	}, json.Deterministic(true))
	if err != nil {
		return err
	}
	log.Info("serving", "dir", box.Dir(), "state", state, "slots", c.Slots)
	w := runner.Worker{
		Client: client, Tools: box.Tools(), Environment: environment, Slots: c.Slots, Grace: c.Grace,
		Journal: journal, Log: log,
	}
	return w.Run(ctx)
}

// identify asks who the bearer is, until the server has answered.
func identify(ctx context.Context, client *runner.Client) (runner.Executor, error) {
	for {
		self, err := client.Self(ctx)
		if err == nil {
			return self, nil
		}
		if !runner.Retryable(err) {
			return runner.Executor{}, fmt.Errorf("the server does not accept this runner: %w", err)
		}
		fmt.Fprintf(os.Stderr, "toolpark: the server does not answer yet: %v\n", err)
		select {
		case <-ctx.Done():
			return runner.Executor{}, ctx.Err()
		case <-time.After(2 * time.Second):
		}
	}
}

// state is the directory of the claims. What a tool could change must not tell this runner what it did.
func (c *RunnerCmd) state(served string) (string, error) {
	dir := c.State
	if dir == "" {
		base := os.Getenv("XDG_STATE_HOME")
		if base == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return "", fmt.Errorf("say where to keep state with --state DIR: %w", err)
			}
			base = filepath.Join(home, ".local", "state")
		}
		dir = filepath.Join(base, "toolpark")
	}
	dir, err := resolve(dir)
	if err != nil {
		return "", err
	}
	if rel, err := filepath.Rel(served, dir); err == nil && filepath.IsLocal(rel) {
		return "", fmt.Errorf("the state directory %s is inside %s, which the tools may change; choose another with --state DIR", dir, served)
	}
	return dir, nil
}

// resolve is a path without symbolic links, as far as it exists.
func resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	found, err := filepath.EvalSymlinks(path)
	if !errors.Is(err, os.ErrNotExist) {
		return found, err
	}
	if _, err := os.Lstat(path); err == nil {
		return "", fmt.Errorf("%s is a symbolic link to nowhere", path)
	}
	parent, err := resolve(filepath.Dir(path))
	return filepath.Join(parent, filepath.Base(path)), err
}
