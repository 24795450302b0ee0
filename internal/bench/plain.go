package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"
	"uuid"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

const plainQueue = "bench-plain"

// plain is what Temporal costs without Toolpark.
type plain struct {
	client client.Client
	worker worker.Worker
	tokens chan []byte // tasks that the executor of the by-hand column picks up
	end    context.CancelFunc
}

func startPlain(address string, logger *slog.Logger) (*plain, error) {
	c, err := client.Dial(client.Options{HostPort: address, Logger: log.NewStructuredLogger(logger)})
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	p := &plain{client: c, tokens: make(chan []byte, 1024), end: end}
	p.worker = worker.New(c, plainQueue, worker.Options{})
	p.worker.RegisterWorkflow(bareWorkflow)
	p.worker.RegisterWorkflow(handWorkflow)
	p.worker.RegisterActivityWithOptions(p.park, activity.RegisterOptions{Name: "park"})
	for range 16 {
		go p.execute(ctx)
	}
	return p, p.worker.Start()
}

func (p *plain) stop() {
	p.end()
	p.worker.Stop()
	p.client.Close()
}

// bareWorkflow waits for one signal.
func bareWorkflow(ctx workflow.Context) error {
	workflow.GetSignalChannel(ctx, "done").Receive(ctx, nil)
	return nil
}

// bare starts a workflow, signals it, and waits for its end.
func (p *plain) bare(ctx context.Context, _ int) error {
	run, err := p.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: "bare/" + uuid.NewV7().String(), TaskQueue: plainQueue,
	}, bareWorkflow)
	if err != nil {
		return err
	}
	if err := p.client.SignalWorkflow(ctx, run.GetID(), run.GetRunID(), "done", nil); err != nil {
		return err
	}
	return run.Get(ctx, nil)
}

// handWorkflow is a tool call as a Temporal user would write it: one activity that an executor
// elsewhere completes by its task token.
func handWorkflow(ctx workflow.Context, input string) (string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 10 * time.Minute})
	var result string
	err := workflow.ExecuteActivity(ctx, "park", input).Get(ctx, &result)
	return result, err
}

// park hands its task token to the executor.
func (p *plain) park(ctx context.Context, _ string) (string, error) {
	p.tokens <- activity.GetInfo(ctx).TaskToken
	return "", activity.ErrResultPending
}

func (p *plain) execute(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case token := <-p.tokens:
			if err := p.client.CompleteActivity(ctx, token, result, nil); err != nil && ctx.Err() == nil {
				panic(fmt.Errorf("complete an activity: %w", err)) // the call would hang
			}
		}
	}
}

func (p *plain) byHand(ctx context.Context, _ int) error {
	run, err := p.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: "hand/" + uuid.NewV7().String(), TaskQueue: plainQueue,
	}, handWorkflow, input)
	if err != nil {
		return err
	}
	var got string
	return run.Get(ctx, &got)
}
