package runner_test

import (
	"context"
	"testing"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/sdk/runner"
)

func contextOf(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}

// tool is a tool with no more announcement than its name.
func tool(name string, run func(context.Context, runner.Call) (runner.Result, error)) runner.Tool {
	return runner.Tool{Run: run, Name: name, EffectProfile: toolpark.EffectProfile{
		Kind: toolpark.EffectPure, EffectScope: toolpark.ScopeClosed, Idempotency: toolpark.IdempotentBy,
		Reconciliation: toolpark.ReconcileNone,
	}}
}

var echo = tool("echo", func(_ context.Context, call runner.Call) (runner.Result, error) {
	return runner.Text(string(call.Input)), nil
})

// blocker is a tool that reports when it starts and waits for its context's end.
func blocker(started chan<- runner.Call) runner.Tool {
	return tool("block", func(ctx context.Context, call runner.Call) (runner.Result, error) {
		started <- call
		<-ctx.Done()
		return runner.Result{}, ctx.Err()
	})
}
