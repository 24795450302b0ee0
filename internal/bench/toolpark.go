package main

import (
	"context"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/credential"
	"github.com/toolpark/toolpark/internal/devstack"
	"github.com/toolpark/toolpark/internal/kernel"
	"github.com/toolpark/toolpark/internal/park"
	"github.com/toolpark/toolpark/internal/postgres"
	"github.com/toolpark/toolpark/schema/migrations"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
)

const (
	input       = `{"command":"uname -a"}`
	result      = "Linux bench 6.1.0 x86_64 GNU/Linux"
	connections = 20
)

// parked is Toolpark as its users meet it: an agent and a runner over HTTP, an API and a worker.
type parked struct {
	agent *agent.Client
	runs  []string // one a slot
	stop  func()
}

func startToolpark(ctx context.Context, stack *devstack.Stack, slots int, logger *slog.Logger) (*parked, error) {
	if _, err := migrations.Up(ctx, stack.Postgres.URL); err != nil {
		return nil, err
	}
	k, err := kernel.Open(ctx, kernel.Config{
		DatabaseURL: stack.Postgres.URL, Connections: connections,
		Temporal: client.Options{HostPort: stack.Temporal.Address}, TaskQueue: "bench-toolpark",
		Tokens: park.Tokens{Secret: make([]byte, 32)}, Log: logger,
	})
	if err != nil {
		return nil, err
	}
	server := k.API()
	listener := httptest.NewServer(server.Handler())
	background, end := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { logged(logger, "worker", k.Worker().Run(background)) })

	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 4 * slots
	p := &parked{agent: &agent.Client{BaseURL: listener.URL, HTTP: &http.Client{Transport: transport}}}
	runnerClient := &runner.Client{BaseURL: listener.URL, HTTP: p.agent.HTTP}
	p.stop = func() {
		end()
		server.Drain()
		running.Wait()
		listener.Close()
		k.Close()
	}
	served, err := p.introduce(ctx, k.DB, runnerClient)
	if err != nil {
		return nil, errors.Join(err, ctx.Err())
	}
	w := &runner.Worker{Client: runnerClient, Tools: []runner.Tool{bash()}, Slots: slots, Log: logger, Grace: time.Second}
	running.Go(func() { logged(logger, "runner", w.Run(background)) })
	return p, p.openRuns(ctx, served, slots)
}

func logged(logger *slog.Logger, what string, err error) {
	if err != nil {
		logger.Error(what+" stopped", "error", err)
	}
}

// introduce makes an account with an agent and a runner that serves one tool.
func (p *parked) introduce(ctx context.Context, db *postgres.DB, r *runner.Client) (string, error) {
	account, err := db.CreateAccount(ctx, "bench")
	if err != nil {
		return "", err
	}
	human, err := db.CreateHuman(ctx, account.ID, "bench", "Bench", toolpark.RoleAdmin)
	if err != nil {
		return "", err
	}
	robot, err := db.CreateAgent(ctx, account.ID, human.ID, "robot", "Robot", false)
	if err != nil {
		return "", err
	}
	box, err := db.CreateExecutor(ctx, account.ID, postgres.NewExecutor{
		Kind: toolpark.Runner, DisplayName: "box", Identifier: "box", AssignmentScope: toolpark.AccountWide, Manager: human.ID,
	})
	if err != nil {
		return "", err
	}
	if _, p.agent.Token, err = postgres.CreateCredential(ctx, db.Pool, account.ID, credential.Member, robot.ID, "", nil); err != nil {
		return "", err
	}
	if _, r.Token, err = postgres.CreateCredential(ctx, db.Pool, account.ID, credential.Executor, box.ID, "", nil); err != nil {
		return "", err
	}
	_, err = r.Announce(ctx, runner.Announcement{Tools: []runner.Entry{bash().Entry}})
	return box.ID.String(), err
}

// bash answers at once: what is measured is the way to it and back.
func bash() runner.Tool {
	return runner.Tool{
		Name: "bash", Description: "Run a shell command.",
		EffectProfile: toolpark.EffectProfile{
			Kind: toolpark.EffectWrite, Destructive: true, EffectScope: toolpark.ScopeOpen,
			Idempotency: toolpark.IdempotentNone, Reconciliation: toolpark.ReconcileNone,
		},
		InputSchema: jsontext.Value(`{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}`),
		Run:         func(context.Context, runner.Call) (runner.Result, error) { return runner.Text(result), nil },
	}
}

func (p *parked) openRuns(ctx context.Context, runnerID string, n int) error {
	served, err := p.agent.Executor(ctx, runnerID)
	if err != nil {
		return err
	}
	definition, err := served.Declare("bash", served.ServedTools[0])
	if err != nil {
		return err
	}
	for range n {
		run, err := p.agent.CreateRun(ctx, agent.NewRun{
			DefaultRunner: runnerID,
			Configuration: &agent.Configuration{ToolDefinitions: []jsontext.Value{definition}, ApprovalMode: "bypass"},
		})
		if err != nil {
			return err
		}
		p.runs = append(p.runs, run.PublicID)
	}
	return nil
}

// call authors a round of one call and waits for its result.
func (p *parked) call(ctx context.Context, slot int) error {
	round, err := p.agent.PostRound(ctx, p.runs[slot], agent.NewRound{Calls: []agent.Call{{ID: "c", Name: "bash", Arguments: input}}})
	if err != nil {
		return err
	}
	settled, err := p.agent.Round(ctx, p.runs[slot], round.Number, time.Minute)
	if err != nil {
		return err
	}
	if !settled.Settled || settled.Results[0].Output != result {
		return fmt.Errorf("round %d did not come back right", round.Number)
	}
	return nil
}
