package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
	"uuid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/sdk/agent"
)

// CallCmd runs one tool call, or a batch, through the API and prints the paired results.
type CallCmd struct {
	Name      string `arg:"" optional:"" help:"The tool, as the runner serves it."`
	Arguments string `arg:"" optional:"" help:"Its arguments as a JSON object. Default: {}"`
	File      string `placeholder:"FILE" help:"Instead, run a batch: a JSON list of {id?, name, arguments}. - reads standard input."`

	Connection `embed:""`
	Runner     string `placeholder:"ID" help:"The runner to call. Default: that of the credentials file, or the only eligible one."`
	Approval   string `enum:"bypass,ask,rules" default:"rules" help:"Whether calls run at once: bypass, all do; ask, each waits for a decision (see toolpark approvals); rules (the default), those do that only look or write plain files in the workspace, what destroys more is denied, and the rest waits."`
	JSON       bool   `name:"json" help:"Print the task objects."`
}

// exitError ends the process with a status of its own.
type exitError struct {
	code int
	err  error
}

// Statuses of toolpark call beside 0: every call completed without an error.
const (
	exitCallFailed = 1 // a call failed, or its tool reported an error
	exitNotCalled  = 2 // wrong usage (exitMisused), or the API refused or could not be reached
)

func (e exitError) Error() string { return e.err.Error() }

func (e exitError) Unwrap() error { return e.err }

// ExitCode is the process's exit status.
func (e exitError) ExitCode() int { return e.code }

// Run makes the calls in a run of their own and prints what became of them.
func (c *CallCmd) Run(ctx context.Context) error {
	failed, err := c.run(ctx, os.Stdout)
	switch {
	case ctx.Err() != nil:
		return exitError{exitNotCalled, errors.New("interrupted: what was still running is canceled")}
	case err != nil:
		return exitError{exitNotCalled, err}
	case failed != nil:
		return exitError{exitCallFailed, failed}
	}
	return nil
}

// run returns in failed that calls did not succeed, and in err that they could not be made.
func (c *CallCmd) run(ctx context.Context, out io.Writer) (failed, err error) {
	calls, err := c.calls()
	if err != nil {
		return nil, err
	}
	client, file, err := c.client(agentOf)
	if err != nil {
		return nil, err
	}
	executor, err := chooseRunner(ctx, client, cmp.Or(c.Runner, file.RunnerID))
	if err != nil {
		return nil, err
	}
	if len(executor.ServedTools) == 0 {
		return nil, fmt.Errorf("runner %s serves no tools now: has it announced them?", executor.DisplayName)
	}
	configuration, err := declare(executor, calls, c.Approval)
	if err != nil {
		return nil, err
	}
	results, err := callRound(ctx, client, configuration, calls)
	if err != nil {
		return nil, err
	}
	if c.JSON {
		err = printTasks(out, results)
	} else {
		err = printResults(out, calls, results)
	}
	return failure(calls, results), err
}

// chooseRunner finds the runner by its id or, without one, the only runner there is.
func chooseRunner(ctx context.Context, client *agent.Client, id string) (agent.Executor, error) {
	if id != "" {
		executor, err := client.Executor(ctx, id)
		if err != nil {
			return agent.Executor{}, fmt.Errorf("look up runner %s (by its public id, as `toolpark admin executor list` shows it): %w", id, err)
		}
		return executor, nil
	}
	all, err := client.Executors(ctx, toolpark.Runner)
	switch {
	case err != nil:
		return agent.Executor{}, fmt.Errorf("look up the runners: %w", err)
	case len(all) == 1:
		return all[0], nil
	case len(all) == 0:
		return agent.Executor{}, errors.New("no runner is eligible; start one with: toolpark runner --dir DIR")
	}
	var b strings.Builder
	for _, e := range all {
		fmt.Fprintf(&b, "\n  %s  %s", e.PublicID, e.DisplayName)
	}
	return agent.Executor{}, fmt.Errorf("%d runners are eligible; choose one with --runner ID:%s", len(all), b.String())
}

// callableName is what a provider accepts as a function's name.
var callableName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// declare routes each called name to the runner, and gives calls whose served name is no callable name
// one that is. A name that the runner does not serve is called undeclared: its result says so.
func declare(executor agent.Executor, calls []agent.Call, approval string) (*agent.Configuration, error) {
	configuration := &agent.Configuration{ApprovalMode: approval}
	if approval == approvalRules {
		configuration.ApprovalRules = sandboxRules()
	}
	callables := map[string]string{}
	for i, call := range calls {
		name, ok := callables[call.Name]
		if !ok {
			served := slices.IndexFunc(executor.ServedTools, func(t agent.ServedTool) bool {
				return t.Name == call.Name && t.ModelVisible()
			})
			if served < 0 {
				continue
			}
			if name = call.Name; !callableName.MatchString(name) {
				name = fmt.Sprintf("tool_%d", i+1)
			}
			definition, err := executor.Declare(name, executor.ServedTools[served])
			if err != nil {
				return nil, fmt.Errorf("declare %s: %w", call.Name, err)
			}
			callables[call.Name] = name
			if approval == approvalRules && !slices.Contains(sandboxTools, call.Name) {
				configuration.ApprovalRules = append(configuration.ApprovalRules, askFor(call.Name))
			}
			configuration.ToolDefinitions = append(configuration.ToolDefinitions, definition)
		}
		calls[i].Name = name
	}
	return configuration, nil
}

// callRound makes the calls in one round of a new run and waits until all have settled.
func callRound(ctx context.Context, client *agent.Client, configuration *agent.Configuration, calls []agent.Call) (results []agent.Task, err error) {
	var run agent.Run
	newRun := agent.NewRun{Configuration: configuration, Label: "toolpark call", IdempotencyKey: uuid.NewV7().String()}
	err = persist(ctx, func() (err error) {
		run, err = client.CreateRun(ctx, newRun)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create a run: %w", err)
	}
	defer func() { endRun(context.WithoutCancel(ctx), client, run, err == nil) }()
	if run, err = accepted(ctx, client, run); err != nil {
		return nil, err
	}
	var round agent.Round
	newRound := agent.NewRound{Calls: calls, IdempotencyKey: uuid.NewV7().String()}
	err = persist(ctx, func() (err error) {
		round, err = client.PostRound(ctx, run.PublicID, newRound)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("post the calls: %w", err)
	}
	sayHeld(round.Tasks)
	return settledRound(ctx, client, run.PublicID, round.Number)
}

// sayHeld says how to let calls run that wait for a decision.
func sayHeld(tasks []agent.Task) {
	held := 0
	for _, task := range tasks {
		if task.Status == toolpark.NeedsApproval {
			held++
		}
	}
	switch held {
	case 0:
	case 1:
		fmt.Fprintf(os.Stderr, "toolpark: the call waits for approval; decide in another terminal with: %s approvals\n", os.Args[0])
	default:
		fmt.Fprintf(os.Stderr, "toolpark: %d calls wait for approval; decide in another terminal with: %s approvals\n", held, os.Args[0])
	}
}

// endRun completes the run, or stops one whose calls nobody waits for any more.
func endRun(ctx context.Context, client *agent.Client, run agent.Run, done bool) {
	if run.Status.Terminal() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	var err error
	if done {
		_, err = client.CompleteRun(ctx, run.PublicID)
	} else {
		_, err = client.StopRun(ctx, run.PublicID, true)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "toolpark: run %s was not ended: %v; end it with POST /agent_api/v1/runs/%s/stop\n",
			run.PublicID, err, run.PublicID)
	}
}

// accepted waits until a worker has accepted the run, and returns it as it is then.
func accepted(ctx context.Context, client *agent.Client, run agent.Run) (agent.Run, error) {
	for run.Status == toolpark.RunAccepting {
		fmt.Fprintf(os.Stderr, "toolpark: run %s waits for a worker to accept it\n", run.PublicID)
		if err := pause(ctx, 2*time.Second); err != nil {
			return run, err
		}
		err := persist(ctx, func() error {
			now, err := client.Run(ctx, run.PublicID)
			if err == nil {
				run = now
			}
			return err
		})
		if err != nil {
			return run, fmt.Errorf("read run %s: %w", run.PublicID, err)
		}
	}
	if run.Refusal != nil {
		return run, fmt.Errorf("the run was refused: %s: %s", run.Refusal.Code, run.Refusal.Message)
	}
	return run, nil
}

// settledRound waits for the results. After two seconds, and then ever more rarely, it says what it waits for.
func settledRound(ctx context.Context, client *agent.Client, run string, number int) ([]agent.Task, error) {
	began := time.Now()
	for silence := 2 * time.Second; ; silence = longer(silence) {
		var round agent.Round
		for until := time.Now().Add(silence); ; { // one long poll may be shorter
			err := persist(ctx, func() (err error) {
				round, err = client.Round(ctx, run, number, max(time.Until(until), 0))
				return err
			})
			if err != nil {
				return nil, fmt.Errorf("read the results: %w", err)
			}
			if round.Settled {
				return round.Results, nil
			}
			if !time.Now().Before(until) {
				break
			}
		}
		fmt.Fprintf(os.Stderr, "toolpark: %s, run %s waits for %s\n",
			time.Since(began).Round(time.Second), run, waitsFor(round.Results))
	}
}

// longer is how long to say nothing next: 10 seconds, then twice as long each time, up to 2 minutes.
func longer(silence time.Duration) time.Duration {
	return min(max(2*silence, 10*time.Second), 2*time.Minute)
}

// persist repeats a request while the server cannot answer it.
func persist(ctx context.Context, request func() error) error {
	for {
		err := request()
		if err == nil || ctx.Err() != nil || !agent.Retryable(err) {
			return err
		}
		fmt.Fprintf(os.Stderr, "toolpark: trying again: %v\n", err)
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
