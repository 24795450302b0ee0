package main

import (
	"cmp"
	"context"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"

	"github.com/toolpark/toolpark/internal/devstack"
	"github.com/toolpark/toolpark/internal/kernel"
	"github.com/toolpark/toolpark/internal/visibility"
	"github.com/toolpark/toolpark/schema/migrations"
	"github.com/toolpark/toolpark/sdk/agent"
)

// DevCmd runs the whole stack on one machine: Postgres, Temporal with its Web UI, the API, the worker,
// and a runner that serves a scratch directory. Its state is kept between starts.
type DevCmd struct {
	Dir    string `default:".toolpark" type:"path" placeholder:"DIR" help:"Where state, logs and the credentials file are kept."`
	Listen string `default:"127.0.0.1:8080" help:"Address of the API; a free port is taken when this one is in use."`
	Reset  bool   `help:"Forget everything of earlier starts first."`
	Once   bool   `help:"Stop after the demonstration."`
}

// devConnections is the database pool of a development process.
const devConnections = 20

// Run starts everything, shows one round of calls from end to end, and serves until ctx ends.
func (c *DevCmd) Run(ctx context.Context) error {
	d := &dev{dir: c.Dir, state: filepath.Join(c.Dir, "dev")}
	if err := os.MkdirAll(d.dir, 0o755); err != nil {
		return err
	}
	lock, err := devstack.Lock(ctx, d.dir, os.Stdout) // before anything is reset
	if err != nil {
		return err
	}
	defer lock.Close()
	if c.Reset {
		if err := d.reset(); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(d.workspace(), 0o755); err != nil {
		return err
	}
	logFile, err := os.OpenFile(d.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer logFile.Close()
	d.log = slog.New(slog.NewJSONHandler(logFile, nil))

	fmt.Println("starting Postgres and Temporal")
	stack, err := devstack.Start(ctx, devstack.Options{Dir: d.state, Progress: os.Stdout})
	if err != nil {
		return err
	}
	defer func() {
		fmt.Println("stopping Postgres and Temporal")
		if err := stack.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "toolpark:", err)
		}
	}()
	if err := d.prepare(ctx, stack); err != nil {
		return err
	}
	return d.serve(ctx, c, stack)
}

// dev is the stack as it is being started.
type dev struct {
	dir   string // the credentials file
	state string // everything else
	log   *slog.Logger
}

func (d *dev) workspace() string   { return filepath.Join(d.state, "workspace") }
func (d *dev) runnerState() string { return filepath.Join(d.state, "runner") }
func (d *dev) logFile() string     { return filepath.Join(d.state, "toolpark.log") }
func (d *dev) credentials() string { return filepath.Join(d.dir, "credentials.json") }

func (d *dev) reset() error {
	return errors.Join(os.RemoveAll(d.state), os.RemoveAll(d.credentials()))
}

// prepare brings the database and Temporal up to date.
func (d *dev) prepare(ctx context.Context, stack *devstack.Stack) error {
	applied, err := migrations.Up(ctx, stack.Postgres.URL)
	if err != nil {
		return err
	}
	if len(applied) > 0 {
		fmt.Printf("applied %d migrations\n", len(applied))
	}
	temporal, err := client.DialContext(ctx, client.Options{HostPort: stack.Temporal.Address, Logger: d.log})
	if err != nil {
		return fmt.Errorf("reach Temporal at %s: %w", stack.Temporal.Address, err)
	}
	defer temporal.Close()
	ctx, cancel := context.WithTimeout(ctx, registerTime)
	defer cancel()
	return visibility.Register(ctx, temporal, client.DefaultNamespace)
}

// serve runs the API, the worker and the runner until ctx ends or one of them fails. They stop in the
// reverse order of what they depend on: the runner drains while the API still answers.
func (d *dev) serve(ctx context.Context, c *DevCmd, stack *devstack.Stack) error {
	secret, err := d.claimSecret()
	if err != nil {
		return err
	}
	k, err := kernel.Open(ctx, kernel.Config{
		DatabaseURL: stack.Postgres.URL, Connections: devConnections,
		Temporal: client.Options{HostPort: stack.Temporal.Address}, TaskQueue: "toolpark",
		Tokens: secret, Log: d.log,
	})
	if err != nil {
		return err
	}
	defer k.Close()
	listener, err := listenNear(c.Listen)
	if err != nil {
		return err
	}
	url := "http://" + listener.Addr().String()
	access, err := d.introduce(ctx, k.DB, url, privateDatabase(stack))
	if err != nil {
		return errors.Join(err, listener.Close())
	}

	kernelCtx, stopKernel := context.WithCancel(context.WithoutCancel(ctx))
	defer stopKernel()
	serving, servingCtx := errgroup.WithContext(kernelCtx)
	serving.Go(func() error { return k.Worker().Run(servingCtx) })
	serving.Go(func() error {
		return serveOn(servingCtx, listener, k.API(), ListenConfig{ShutdownTime: 10 * time.Second}, d.log)
	})

	runnerCtx, stopRunner := context.WithCancel(ctx)
	defer stopRunner()
	context.AfterFunc(servingCtx, stopRunner)
	running, runnerCtx := errgroup.WithContext(runnerCtx)
	running.Go(func() error { return d.runRunner(runnerCtx, url, access.RunnerToken) })
	running.Go(func() error {
		if err := d.demonstrate(runnerCtx, url, access); err != nil {
			return err
		}
		if c.Once {
			stopRunner()
			return nil
		}
		d.invite(url, stack)
		return nil
	})
	err = running.Wait()
	if ctx.Err() != nil || c.Once {
		fmt.Println("\nstopping the runner, the API and the worker")
	}
	stopKernel()
	return errors.Join(err, serving.Wait())
}

func (d *dev) runRunner(ctx context.Context, url, token string) error {
	r := RunnerCmd{Dir: d.workspace(), State: d.runnerState(), Slots: 16, Grace: 5 * time.Second, URL: url, Token: token}
	err := r.serve(ctx, d.log)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// demonstration is the round that a newcomer sees run: calls that succeed, one that reports an error to
// the model, and one that nobody serves.
var demonstration = []agent.Call{
	{ID: "call_1", Name: "write", Arguments: jsontext.Value(`{"path":"hello.txt","content":"Hello from a durable tool call.\n"}`)},
	{ID: "call_2", Name: "bash", Arguments: jsontext.Value(`{"command":"uname -sm"}`)},
	{ID: "call_3", Name: "read", Arguments: jsontext.Value(`{"path":"no-such-file.txt"}`)},
	{ID: "call_4", Name: "teleport", Arguments: jsontext.Value(`{"to":"Mars"}`)},
}

func (d *dev) demonstrate(ctx context.Context, url string, access credentials) error {
	agentClient := &agent.Client{BaseURL: url, Token: access.AgentToken}
	executor, err := d.awaitRunner(ctx, agentClient, access.RunnerID)
	if err != nil {
		return err
	}
	if err := furnish(ctx, agentClient, access.RunnerID); err != nil {
		return fmt.Errorf("give the demo agent its profile: %w", err)
	}
	fmt.Printf("\nA demonstration: a model made %d calls in one round.\n\n", len(demonstration))
	calls := append([]agent.Call{}, demonstration...)
	configuration, err := declare(executor, calls, approvalBypass) // nobody is there yet to decide
	if err != nil {
		return err
	}
	results, err := callRound(ctx, agentClient, configuration, calls)
	if err != nil {
		return fmt.Errorf("the demonstration did not run: %w", err)
	}
	return printResults(os.Stdout, calls, results)
}

// furnish gives the agent a profile, unless somebody has: a run without a configuration may call what the runner
// serves, under the rules for its tools.
func furnish(ctx context.Context, agentClient *agent.Client, runner string) error {
	profile, err := agentClient.Profile(ctx)
	if err != nil || !profile.UpdatedAt.IsZero() {
		return err
	}
	_, err = agentClient.PutConfiguration(ctx, agent.Configuration{
		Runners: []string{runner}, ApprovalMode: approvalRules, ApprovalRules: sandboxRules(),
	})
	return err
}

// awaitRunner waits until the runner has announced its tools.
func (d *dev) awaitRunner(ctx context.Context, agentClient *agent.Client, id string) (agent.Executor, error) {
	for {
		executor, err := agentClient.Executor(ctx, id)
		if err == nil && len(executor.ServedTools) > 0 {
			return executor, nil
		}
		if err != nil && !agent.Retryable(err) {
			return executor, err
		}
		select {
		case <-ctx.Done():
			return executor, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (d *dev) invite(url string, stack *devstack.Stack) {
	ui := "(the Web UI of the server at TEMPORAL_ADDRESS)"
	if stack.Temporal.WebUI != "" {
		ui = stack.Temporal.WebUI + "/namespaces/default/workflows"
	}
	database := cmp.Or(privateDatabase(stack), "(the one in DATABASE_URL)")
	fmt.Printf(`
Toolpark is running.

  API           %s
  Temporal UI   %s
  Temporal      %s
  database      %s
  credentials   %s
  workspace     %s
  log           %s

Try, in another terminal, a call that runs at once, and one that waits for a person:

  bin/toolpark call read '{"path":"hello.txt"}'
  bin/toolpark call bash '{"command":"ls -la"}'

and, in a third one, be that person:

  bin/toolpark approvals

Ctrl-C stops it; the state is kept. 'bin/toolpark dev --reset' begins afresh.
`, url, ui, stack.Temporal.Address, database, d.credentials(), d.workspace(), d.logFile())
}

// privateDatabase is the address of the stack's own Postgres. It is empty when DATABASE_URL names another
// one, whose address may hold a password.
func privateDatabase(stack *devstack.Stack) string {
	if os.Getenv("DATABASE_URL") != "" {
		return ""
	}
	return stack.Postgres.URL
}

// listenNear listens on the address, or on a free port of its host when the port is in use.
func listenNear(address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if err == nil {
		return listener, nil
	}
	host, _, splitErr := net.SplitHostPort(address)
	if splitErr != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	fmt.Printf("%s is in use; taking a free port\n", address)
	return net.Listen("tcp", net.JoinHostPort(host, "0"))
}
