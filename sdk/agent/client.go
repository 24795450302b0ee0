// Package agent hands the calls that a model made to Toolpark and reads their results back, paired and
// in order.
//
//	c := agent.Client{BaseURL: "http://127.0.0.1:8080", Token: token}
//	executor, err := c.Executor(ctx, runner)
//	bash, err := executor.Declare("bash", executor.ServedTools[0])
//	run, err := c.CreateRun(ctx, agent.NewRun{Configuration: &agent.Configuration{
//		ToolDefinitions: []jsontext.Value{bash}, ApprovalMode: "bypass"}})
//	round, err := c.PostRound(ctx, run.PublicID, agent.NewRound{Calls: calls})
//	settled, err := c.Round(ctx, run.PublicID, round.Number, time.Minute)
//
// A method makes one request and does not repeat it. What the server refused is a *ResponseError, which
// unwraps to a *toolpark.Error with the code; Retryable tells whether the same request may be made again.
// JSON that belongs to tools (arguments, results, metadata) is jsontext.Value: it keeps every digit.
package agent

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/toolpark/toolpark/sdk/internal/rest"
)

// Client acts for one member. It holds no state and may be used by many goroutines.
type Client struct {
	BaseURL string       // the server's address, e.g. "https://toolpark.example.com"
	Token   string       // a member's bearer
	HTTP    *http.Client // nil: a client shared by the process. One with a Timeout cuts long polls and streams
}

// ResponseError is a failure that the server answered, with its HTTP status. It unwraps to a
// *toolpark.Error whose Details hold jsontext.Value.
type ResponseError = rest.Error

// Retryable tells whether a failed request may succeed when it is made again: the server could not be
// reached, was not ready or asked to slow down. Repeat what creates something under an idempotency key.
func Retryable(err error) bool { return err != nil && !rest.Final(err) }

func (c *Client) do(ctx context.Context, r rest.Request, out any) (rest.Answer, error) {
	return (&rest.Client{BaseURL: c.BaseURL, Token: c.Token, HTTP: c.HTTP}).Do(ctx, r, out)
}

func (c *Client) get(ctx context.Context, path string, query url.Values, wait time.Duration, out any) error {
	_, err := c.do(ctx, rest.Request{Method: http.MethodGet, Path: path, Query: query, Wait: wait}, out)
	return err
}

// create posts something that mints rows; key is its idempotency key, or "".
func (c *Client) create(ctx context.Context, path, key string, body, out any) error {
	header := http.Header{}
	if key != "" {
		header.Set("Idempotency-Key", key)
	}
	_, err := c.do(ctx, rest.Request{Method: http.MethodPost, Path: path, Header: header, Body: body}, out)
	return err
}
