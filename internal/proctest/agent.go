package proctest

import (
	"context"
	"encoding/json/jsontext"
	"errors"
	"sync/atomic"
	"time"
	"uuid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/catalog"
	"github.com/toolpark/toolpark/sdk/agent"
)

const (
	retryPause = 100 * time.Millisecond
	pollWait   = 10 * time.Second
)

// Agent acts for a member as a careful client does: what got no answer, or was told to come again, it
// repeats at the next API under the same idempotency key.
type Agent struct {
	APIs  []*Process
	Token string

	turn atomic.Int64
}

// At is the client of one API, without retries.
func (a *Agent) At(api *Process) *agent.Client {
	return &agent.Client{BaseURL: api.URL, Token: a.Token}
}

// Try makes a request until it is answered for good.
func (a *Agent) Try(ctx context.Context, request func(*agent.Client) error) error {
	for {
		api := a.APIs[int(a.turn.Add(1))%len(a.APIs)]
		err := request(a.At(api))
		if err == nil || !agent.Retryable(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(retryPause):
		}
	}
}

// OpenRun creates a run that may call what is declared and the kernel's tools, and waits until it is accepted.
func (a *Agent) OpenRun(ctx context.Context, definitions ...jsontext.Value) (string, error) {
	return a.OpenRunAs(ctx, agent.Configuration{ToolDefinitions: definitions, ApprovalMode: "bypass"})
}

// OpenRunAs is OpenRun with more in its configuration.
func (a *Agent) OpenRunAs(ctx context.Context, c agent.Configuration) (string, error) {
	c.KernelTools = append([]string{catalog.ToolsSearch, catalog.ToolsCall}, c.KernelTools...)
	request := agent.NewRun{Configuration: &c, IdempotencyKey: uuid.NewV7().String()}
	for {
		var run agent.Run
		err := a.Try(ctx, func(c *agent.Client) (err error) {
			run, err = c.CreateRun(ctx, request)
			return err
		})
		if err != nil || run.Status == toolpark.RunRunning {
			return run.PublicID, err
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(retryPause): // repeating the request renders the run as it is now
		}
	}
}

// PostRound authors a round.
func (a *Agent) PostRound(ctx context.Context, run string, calls []agent.Call) (round agent.Round, err error) {
	request := agent.NewRound{Calls: calls, IdempotencyKey: uuid.NewV7().String()}
	err = a.Try(ctx, func(c *agent.Client) (err error) {
		round, err = c.PostRound(ctx, run, request)
		return err
	})
	return round, err
}

// Await waits until a round has settled and reads its results.
func (a *Agent) Await(ctx context.Context, run string, number int) (round agent.Round, err error) {
	for err == nil && !round.Settled {
		err = a.Try(ctx, func(c *agent.Client) (err error) {
			round, err = c.Round(ctx, run, number, pollWait)
			return err
		})
	}
	return round, err
}

// Complete ends a run.
func (a *Agent) Complete(ctx context.Context, run string) error {
	return a.Try(ctx, func(c *agent.Client) error {
		_, err := c.CompleteRun(ctx, run)
		return err
	})
}
