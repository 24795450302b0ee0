// Package worker builds the Temporal worker: what is registered, on which queue, with which limits,
// and the recovery loop that runs beside it.
package worker

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/toolpark/toolpark/activities"
	"github.com/toolpark/toolpark/internal/park"
	"github.com/toolpark/toolpark/internal/visibility"
	"github.com/toolpark/toolpark/workflows"
)

const (
	checkEvery   = time.Second
	checkTimeout = 5 * time.Second
	tellEvery    = 30 * time.Second // how often a server that stays away is told of
	upkeepAtOnce = 2                // long activities at once in one process; steps of tasks and runs are local ones
	drainTimeout = 5 * time.Second  // how long a stopping worker waits for the steps under way

	// taskPolls is how many polls for workflow tasks are open at once. The client gives half of them to its own
	// sticky queue; the other half covers the four partitions that the server keeps of a queue, with one to spare
	// for each while another brings its task home. A task that finds no open poll is written to the server's
	// database and read again.
	taskPolls = 16
)

// Worker runs the workflows and activities of one task queue. It is stateless: run as many as you like.
type Worker struct {
	Client    client.Client
	Namespace string
	Queue     string
	Park      *park.Park
	Delivery  *workflows.Delivery
	Log       *slog.Logger

	// Connections is the size of the database pool. A local activity holds one connection, so there are
	// as many slots: more would only wait for each other inside a workflow task.
	Connections int

	polling atomic.Bool // the queue is being polled
}

// Run works until ctx ends, then drains: steps under way finish, and open parks stay in the Temporal
// server for the next worker. A server that does not answer yet is waited for. What only an operator can
// mend is an error: search attributes that are missing, a namespace that does not exist.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.awaitServer(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	working, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	wk := worker.New(w.Client, w.Queue, worker.Options{
		MaxConcurrentWorkflowTaskPollers:        taskPolls,
		MaxConcurrentLocalActivityExecutionSize: w.Connections,
		DisableRegistrationAliasing:             true,
		MaxConcurrentActivityExecutionSize:      upkeepAtOnce,
		MaxConcurrentActivityTaskPollers:        1,
		DisableEagerActivities:                  true,
		WorkerStopTimeout:                       drainTimeout,
		OnFatalError:                            fail,
	})
	wk.RegisterWorkflow(workflows.ToolTask)
	wk.RegisterWorkflow(workflows.Run)
	wk.RegisterWorkflow(workflows.Prune)
	wk.RegisterActivity(&activities.Tasks{Park: w.Park, Delivery: w.Delivery, Log: w.Log})
	wk.RegisterActivity(&activities.Runs{Park: w.Park})
	wk.RegisterActivity(&activities.Retention{DB: w.Park.DB, Log: w.Log})
	if err := wk.Start(); err != nil {
		return fmt.Errorf("start the worker: %w", err)
	}
	w.polling.Store(true)
	recovery := &recovery{worker: w}
	recovery.run(working)
	w.polling.Store(false)
	wk.Stop()
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("the worker stopped: %w", context.Cause(working))
}

// awaitServer returns when the server answers and the namespace has our search attributes.
func (w *Worker) awaitServer(ctx context.Context) error {
	var told time.Time
	for {
		err := w.checkServer(ctx)
		if err == nil || !workflows.Unreachable(err) {
			return err
		}
		if time.Since(told) > tellEvery {
			told = time.Now()
			w.Log.Warn("the Temporal server does not answer; the worker waits for it", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(checkEvery):
		}
	}
}

func (w *Worker) checkServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	missing, err := visibility.Missing(ctx, w.Client, w.Namespace)
	if err != nil {
		return fmt.Errorf("check search attributes: %w", err)
	}
	if len(missing) > 0 {
		return fmt.Errorf("namespace %s lacks the search attributes %s: run `toolpark migrate`",
			w.Namespace, strings.Join(missing, ", "))
	}
	return nil
}
