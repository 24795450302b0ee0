package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/toolpark/toolpark/internal/devstack"
	"github.com/toolpark/toolpark/internal/postgres"
	"github.com/toolpark/toolpark/internal/proctest"
	"github.com/toolpark/toolpark/schema/migrations"
	"github.com/toolpark/toolpark/workflows"
)

const queue = "chaos"

// stack is the installation: servers of its own, two APIs, two workers, two runner processes.
type stack struct {
	site     *proctest.Site
	postgres *devstack.Postgres
	temporal *devstack.Temporal
	db       *postgres.DB
	account  *proctest.Account
	apis     []*proctest.Process
	workers  []*proctest.Process
	runners  []*proctest.Process
	shells   []proctest.Executor // whom the runner processes act for
}

func startStack(ctx context.Context, dir string) (s *stack, err error) {
	s = &stack{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	if s.postgres, err = devstack.StartPostgres(ctx, devstack.PostgresOptions{Progress: os.Stdout}); err != nil {
		return s, err
	}
	if s.temporal, err = devstack.StartTemporal(ctx, devstack.TemporalOptions{Dir: filepath.Join(dir, "temporal"), Progress: os.Stdout}); err != nil {
		return s, err
	}
	if _, err := migrations.Up(ctx, s.postgres.URL); err != nil {
		return s, err
	}
	binary, err := proctest.Build(ctx, dir)
	if err != nil {
		return s, err
	}
	s.site = &proctest.Site{Binary: binary, Dir: dir, Database: s.postgres.URL, Connections: 8, Temporal: s.temporal.Address, Queue: queue}
	if s.db, err = postgres.Open(ctx, s.postgres.URL, 4); err != nil {
		return s, err
	}
	if s.account, err = proctest.NewAccount(ctx, s.db); err != nil {
		return s, err
	}
	return s, s.startProcesses(ctx)
}

func (s *stack) startProcesses(ctx context.Context) error {
	for i := range 2 {
		api, work := s.site.API(fmt.Sprintf("api-%d", i)), s.site.Worker(fmt.Sprintf("worker-%d", i))
		s.apis, s.workers = append(s.apis, api), append(s.workers, work)
		if err := errors.Join(api.Start(ctx), work.Start(ctx)); err != nil {
			return err
		}
	}
	for i, api := range s.apis {
		name := fmt.Sprintf("runner-%d", i)
		shell, err := s.account.Runner(ctx, name)
		if err != nil {
			return err
		}
		process, err := s.site.Runner(name, api.URL, shell.Token, 8)
		if err != nil {
			return err
		}
		s.runners, s.shells = append(s.runners, process), append(s.shells, shell)
		if err := process.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *stack) stop() error {
	for _, group := range [][]*proctest.Process{s.runners, s.apis, s.workers} {
		for _, p := range group {
			p.Kill()
		}
	}
	if s.db != nil {
		s.db.Close()
	}
	return (&devstack.Stack{Postgres: s.postgres, Temporal: s.temporal}).Stop()
}

// servers and processes are who may be killed.
func (s *stack) servers() []victim {
	return []victim{
		{name: "postgres", kill: s.postgres.Kill, start: s.postgres.Restart},
		{name: "temporal", kill: s.temporal.Kill, start: s.temporal.Restart},
	}
}

func (s *stack) processes() []victim {
	var victims []victim
	for _, group := range [][]*proctest.Process{s.apis, s.workers, s.runners} {
		for _, p := range group {
			victims = append(victims, victim{name: p.Name, start: p.Start, kill: func() error {
				p.Kill()
				return nil
			}})
		}
	}
	return victims
}

// audit holds everything that is left against what must be true.
func (s *stack) audit(ctx context.Context, w *work, finished []proctest.Finished) error {
	temporal, err := client.DialContext(ctx, client.Options{
		HostPort: s.temporal.Address, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
	if err != nil {
		return err
	}
	defer temporal.Close()
	reread, err := w.load.Agent.Reread(ctx, finished)
	if err != nil {
		return err
	}
	return errors.Join(
		proctest.AuditDatabase(ctx, s.db),
		proctest.AuditWorkflows(ctx, temporal, queue, 30*time.Second),
		w.ledger.Check(reread),
		w.checkShells(s.site.Dir),
		replay(ctx, temporal),
	)
}

// replayed is how many histories are replayed.
const replayed = 200

// replay runs today's workflow code over histories that the chaos made.
func replay(ctx context.Context, c client.Client) error {
	replayer := worker.NewWorkflowReplayer()
	replayer.RegisterWorkflow(workflows.ToolTask)
	replayer.RegisterWorkflow(workflows.Run)
	page, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		PageSize: replayed, Query: fmt.Sprintf(`TaskQueue = '%s'`, queue),
	})
	if err != nil {
		return fmt.Errorf("list workflows to replay: %w", err)
	}
	quiet := log.NewStructuredLogger(slog.New(slog.DiscardHandler))
	for _, execution := range page.GetExecutions() {
		id := execution.GetExecution()
		err := replayer.ReplayWorkflowExecution(ctx, c.WorkflowService(), quiet, client.DefaultNamespace, workflow.Execution{
			ID: id.GetWorkflowId(), RunID: id.GetRunId(),
		})
		if err != nil {
			return fmt.Errorf("replay %s: %w", id.GetWorkflowId(), err)
		}
	}
	return nil
}
