// Package worker builds the Temporal worker: what is registered, on which queue, with which limits,
// and the recovery loop that runs beside it.
package worker

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/toolpark/toolpark/activities"
	"github.com/toolpark/toolpark/internal/park"
	"github.com/toolpark/toolpark/internal/visibility"
	"github.com/toolpark/toolpark/workflows"
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
}

// Run works until ctx ends, then drains: steps under way finish, and open parks stay in the Temporal
// server for the next worker.
func (w *Worker) Run(ctx context.Context) error {
	missing, err := visibility.Missing(ctx, w.Client, w.Namespace)
	if err != nil {
		return fmt.Errorf("check search attributes: %w", err)
	}
	if len(missing) > 0 {
		return fmt.Errorf("namespace %s lacks the search attributes %s: run `toolpark migrate`",
			w.Namespace, strings.Join(missing, ", "))
	}
	wk := worker.New(w.Client, w.Queue, worker.Options{
		MaxConcurrentLocalActivityExecutionSize: w.Connections,
		DisableRegistrationAliasing:             true,
		LocalActivityWorkerOnly:                 true,
	})
	wk.RegisterWorkflow(workflows.ToolTask)
	wk.RegisterWorkflow(workflows.Run)
	wk.RegisterActivity(&activities.Tasks{Park: w.Park})
	wk.RegisterActivity(&activities.Runs{Park: w.Park})
	if err := wk.Start(); err != nil {
		return fmt.Errorf("start the worker: %w", err)
	}
	recovery := &recovery{worker: w}
	recovery.run(ctx)
	wk.Stop()
	return nil
}
