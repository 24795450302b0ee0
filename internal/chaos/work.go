package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/proctest"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
)

const (
	width = 8 // calls of one round
	// shellName is the callable name of bash at the i-th runner process, echoName that of the echo tool of
	// the i-th worker inside this process.
	shellName = "bash_%d"
	echoName  = "echo_%d"
	ranFile   = "ran" // what the shell calls write, in the runner's directory
)

// interrupted is what a runner reports of a call that it was killed over.
const interrupted = "interrupted; effects unknown"

// work is the load: agents whose calls go to the runner processes, which may be killed over them, and to
// runners inside this process, whose requests are noted.
type work struct {
	load    *proctest.Load
	ledger  *proctest.Ledger
	ended   chan struct{} // closed when all agents are done, or one failed
	stop    func()
	began   time.Time
	took    time.Duration // once ended
	stopped atomic.Bool
	next    atomic.Int64 // the number of the next round

	interruptions atomic.Int64
	decisions     atomic.Int64
	finished      []proctest.Finished // once ended
	err           error               // once ended
}

func startWork(ctx context.Context, s *stack, agents int) (w *work, err error) {
	w = &work{ledger: proctest.NewLedger(), ended: make(chan struct{})}
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	w.stop = func() {
		cancel()
		running.Wait()
	}
	defer func() {
		if err != nil {
			w.stop()
		}
	}()
	w.load = &proctest.Load{
		Agent: &proctest.Agent{APIs: s.apis, Token: s.account.AgentToken}, Agents: agents, Round: w.round, Rules: held,
	}
	for i, shell := range s.shells {
		if err := w.declare(fmt.Sprintf(shellName, i), shell, proctest.Entry("bash", proctest.Writes)); err != nil {
			return w, err
		}
	}
	for i, api := range s.apis {
		executor, err := s.account.Runner(ctx, fmt.Sprintf("echo-%d", i))
		if err != nil {
			return w, err
		}
		tool := echo(fmt.Sprintf(echoName, i))
		if err := w.declare(tool.Name, executor, tool.Entry); err != nil {
			return w, err
		}
		serving := w.worker(api, executor, tool)
		running.Go(func() {
			if err := serving.Run(background); err != nil {
				fmt.Fprintln(os.Stderr, "chaos: runner:", err)
			}
		})
	}
	if err := awaitTools(ctx, w.load.Agent, len(w.load.Definitions)); err != nil {
		return w, err
	}
	w.began = time.Now()
	person := &proctest.Agent{APIs: s.apis, Token: s.account.HumanToken}
	running.Go(func() { w.decide(background, person) })
	running.Go(func() {
		defer close(w.ended)
		w.finished, w.err = w.load.Run(background)
		w.took = time.Since(w.began)
	})
	return w, nil
}

// declare lets the agents call a tool of an executor.
func (w *work) declare(callable string, e proctest.Executor, entry runner.Entry) error {
	definition, err := proctest.Declare(callable, e, entry)
	w.load.Definitions = append(w.load.Definitions, definition)
	return err
}

// worker serves a tool inside this process.
func (w *work) worker(api *proctest.Process, e proctest.Executor, tool runner.Tool) *runner.Worker {
	return &runner.Worker{
		Client: &runner.Client{BaseURL: api.URL, Token: e.Token, HTTP: w.ledger.Client(16)},
		Tools:  []runner.Tool{tool}, Grace: time.Second, Log: slog.New(slog.DiscardHandler),
	}
}

// awaitTools waits until so many executors have announced their tools.
func awaitTools(ctx context.Context, a *proctest.Agent, executors int) error {
	for {
		var served []agent.Executor
		err := a.Try(ctx, func(c *agent.Client) (err error) {
			served, err = c.Executors(ctx, toolpark.Runner)
			return err
		})
		if err != nil {
			return err
		}
		ready := 0
		for _, executor := range served {
			if len(executor.ServedTools) > 0 {
				ready++
			}
		}
		if ready == executors {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// echo answers its input after a moment, so that a kill finds calls under way.
func echo(name string) runner.Tool {
	return runner.Tool{
		Entry: proctest.Entry(name, proctest.Writes),
		Run: func(_ context.Context, call runner.Call) (runner.Result, error) {
			time.Sleep(20 * time.Millisecond)
			return runner.Text(string(call.Input)), nil
		},
	}
}

// round is the calls of the next round, each with an input of its own. Some go by way of tool_call, some wait for
// approval, and one is a search.
func (w *work) round() []proctest.Expected {
	if w.stopped.Load() {
		return nil
	}
	number := w.next.Add(1)
	calls := make([]proctest.Expected, width)
	for i := range calls {
		call := agent.Call{ID: fmt.Sprintf("call_%d", i)}
		which := i / 2 % 2
		text := fmt.Sprintf("%d.%d", number, i)
		if i%2 == 0 {
			call.Name, call.Arguments = fmt.Sprintf(shellName, which), fmt.Sprintf(`{"command":"echo %s | tee -a %s"}`, text, ranFile)
			calls[i] = proctest.Expected{Call: call, Check: w.completedOrInterrupted(text)}
		} else {
			input := fmt.Sprintf(`{"n":"%s"}`, text)
			call.Name, call.Arguments = fmt.Sprintf(echoName, which), input
			calls[i] = proctest.Expected{Call: call, Check: proctest.Completed(input)}
		}
		if (i == heldChild || i == heldCall) && !approved(number) {
			calls[i].Check = proctest.Denied
		}
		switch i {
		case 2, 3:
			calls[i] = calls[i].Called()
		case 7:
			calls[i] = proctest.Searched(call.ID, call.Name)
		}
	}
	return calls
}

// completedOrInterrupted expects the output, or the word of a runner that was killed over the call.
func (w *work) completedOrInterrupted(output string) func(agent.Task) error {
	return func(t agent.Task) error {
		if t.Status == toolpark.Completed && t.IsError && t.Output == interrupted {
			w.interruptions.Add(1)
			return nil
		}
		return proctest.Completed(output)(t)
	}
}

// finish lets the agents finish the rounds under way and complete their runs.
func (w *work) finish(ctx context.Context) ([]proctest.Finished, error) {
	w.stopped.Store(true)
	select {
	case <-w.ended:
		return w.finished, w.err
	case <-ctx.Done():
		return nil, errors.New("not everything settled in time")
	}
}

// checkShells tells whether a command ran twice.
func (w *work) checkShells(dir string) error {
	var errs []error
	files, err := filepath.Glob(filepath.Join(dir, "*", ranFile))
	if err != nil || len(files) == 0 {
		return errors.Join(err, errors.New("no command ran"))
	}
	ran := map[string]int{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for line := range bytes.Lines(text) {
			ran[string(line)]++
		}
	}
	for call, times := range ran {
		if times > 1 {
			errs = append(errs, fmt.Errorf("the command of call %q ran %d times", call, times))
		}
	}
	return errors.Join(errs...)
}

func (w *work) print(finished []proctest.Finished) {
	granted, answered := w.ledger.Counts()
	rounds := 0
	for _, f := range finished {
		rounds += len(f.Rounds)
	}
	took := w.took.Seconds()
	fmt.Printf("%d runs, %d rounds, %d calls in %.0f s: %.1f calls/s\n", len(finished), rounds, rounds*width, took, float64(rounds*width)/took)
	fmt.Printf("%d calls were interrupted with their runner; %d grants and %d answered commits were noted; %d decisions were answered\n",
		w.interruptions.Load(), granted, answered, w.decisions.Load())
}
