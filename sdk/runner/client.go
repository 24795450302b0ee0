// Package runner serves tools to Toolpark: it takes the calls that are addressed to one executor, runs
// them and reports their results.
//
// Worker is the loop most programs want: give it a Client and some Tools. Client is the executor plane
// itself, one method a route, for programs that write their own loop.
package runner

import (
	"context"
	"encoding/json/jsontext"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/sdk/internal/rest"
)

// Client acts for one executor. It holds no state and may be used by many goroutines. A method makes one
// request and does not repeat it; what the server refused is a *ResponseError.
type Client struct {
	BaseURL string       // the server's address, e.g. "https://toolpark.example.com"
	Token   string       // an executor's bearer
	HTTP    *http.Client // nil: a client shared by the process. One with a Timeout cuts long polls and streams
}

// ResponseError is a failure that the server answered, with its HTTP status. It unwraps to a
// *toolpark.Error whose Details hold jsontext.Value.
type ResponseError = rest.Error

// Retryable tells whether a failed request may succeed when it is made again: the server could not be
// reached, was not ready or asked to slow down.
func Retryable(err error) bool { return err != nil && !rest.Final(err) }

// Executor is what the server knows of this executor.
type Executor struct {
	PublicID     string                `json:"public_id"`
	Kind         toolpark.ExecutorKind `json:"kind"`
	DisplayName  string                `json:"display_name"`
	ShuttingDown bool                  `json:"shutting_down"`
}

// Announcement is the whole of what an executor serves; it replaces the one before.
type Announcement struct {
	Tools       []Entry        `json:"tools"`
	Environment jsontext.Value `json:"environment,omitzero"` // an object; nil means {}
	Documents   []Document     `json:"documents,omitzero"`
}

// Entry announces one tool. An entry without description and input schema is an operator capability: a
// person's client may call it, a model is never offered it.
type Entry struct {
	Name          string                 `json:"name"` // 1–128 printable characters
	EffectProfile toolpark.EffectProfile `json:"effect_profile"`
	TimeoutMS     int64                  `json:"timeout_ms,omitzero"` // a call's deadline when it names none; 0 leaves the server's default
	Title         string                 `json:"title,omitzero"`
	Description   string                 `json:"description,omitzero"`
	InputSchema   jsontext.Value         `json:"input_schema,omitzero"`
	OutputSchema  jsontext.Value         `json:"output_schema,omitzero"`
}

// Document is a skill that the executor's tool "skill" can load.
type Document struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// Ref names one generation of a task.
type Ref struct {
	Run        string `json:"run_public_id"`
	TaskKey    string `json:"task_key"`
	Generation int    `json:"generation"`
}

// Row is one live piece of work at this executor's address.
type Row struct {
	Ref
	Kind           string                 `json:"kind"` // tool_call, or ask and approval, which are never claimed
	Redelivery     bool                   `json:"redelivery"`
	ToolName       string                 `json:"tool_name"`
	ToolInput      jsontext.Value         `json:"tool_input"`
	ToolCallID     string                 `json:"tool_call_id"`
	EffectProfile  toolpark.EffectProfile `json:"effect_profile"`
	IdempotencyKey string                 `json:"idempotency_key"` // the same in every generation
	Session        jsontext.Value         `json:"session"`         // the run's metadata
	DeadlineAt     time.Time              `json:"deadline_at"`
	TimeoutMS      int64                  `json:"timeout_ms"`
	Claimed        bool                   `json:"claimed"`
}

// Inbox is one page of the complete list of live work.
type Inbox struct {
	Version string // changes whenever a task, its generation or its claim does
	Rows    []Row
	Next    string // cursor of the next page; "" when this was the last
}

// InboxQuery says which page to read and what to wait for.
type InboxQuery struct {
	After  string        // a cursor; "" for the first page
	Wait   time.Duration // at most a minute; 0 answers at once
	Unless string        // wait until the version differs from this; "" waits for an unclaimed row
}

// Grant is a live claim and the work it is for.
type Grant struct {
	Task       Row
	Token      string        // proves the claim in every later request
	DeadlineAt time.Time     // by the server's clock
	Remaining  time.Duration // until the deadline, as of the answer
}

// Self reads who this credential is.
func (c *Client) Self(ctx context.Context) (Executor, error) {
	return c.executor(ctx, rest.Request{Method: http.MethodGet, Path: rest.Path("executor")})
}

// Announce replaces what this executor serves. A refusal leaves the announcement before it standing.
func (c *Client) Announce(ctx context.Context, a Announcement) (Executor, error) {
	return c.executor(ctx, rest.Request{Method: http.MethodPut, Path: rest.Path("executor", "announcement"), Body: a})
}

// Shutdown says that this executor goes down for good: it gets no new work and may finish what it
// claimed. A mere restart does not need it. The next announcement takes it back.
func (c *Client) Shutdown(ctx context.Context) error {
	_, err := c.do(ctx, rest.Request{Method: http.MethodPost, Path: rest.Path("executor", "shutdown")}, nil)
	return err
}

// Inbox reads one page of the live work.
func (c *Client) Inbox(ctx context.Context, q InboxQuery) (Inbox, error) {
	query := url.Values{"limit": {strconv.Itoa(toolpark.MaxPage)}}
	if q.After != "" {
		query.Set("after", q.After)
	}
	if q.Unless != "" {
		query.Set("unless", q.Unless)
	}
	var answer struct {
		Version    string `json:"version"`
		Inbox      []Row  `json:"inbox"`
		Pagination struct {
			NextAfter string `json:"next_after"`
		} `json:"pagination"`
	}
	_, err := c.do(ctx, rest.Request{
		Method: http.MethodGet, Path: rest.Path("executor", "inbox"), Query: query, Wait: q.Wait,
	}, &answer)
	return Inbox{answer.Version, answer.Inbox, answer.Pagination.NextAfter}, err
}

// Claim takes the work. The key, 1–64 characters, is fresh for each attempt; repeating it on the live
// claim gives the same grant, so a lost answer loses nothing.
func (c *Client) Claim(ctx context.Context, ref Ref, key string) (Grant, error) {
	return c.grant(ctx, ref, "claim", struct {
		ClaimKey string `json:"claim_key"`
	}{key})
}

// Extend moves the deadline to the later of what it is and now + d.
func (c *Client) Extend(ctx context.Context, ref Ref, token string, d time.Duration) (Grant, error) {
	return c.grant(ctx, ref, "extend", struct {
		Token     string `json:"claim_token"`
		TimeoutMS int64  `json:"timeout_ms"`
	}{token, d.Milliseconds()})
}

// ClaimActive tells whether the claim is still live.
func (c *Client) ClaimActive(ctx context.Context, ref Ref, token string) (bool, error) {
	header := http.Header{}
	header.Set("Claim-Token", token)
	var answer struct {
		Claim struct {
			Active bool `json:"active"`
		} `json:"claim"`
	}
	_, err := c.do(ctx, rest.Request{Method: http.MethodGet, Path: inboxPath(ref, "claim"), Header: header}, &answer)
	return answer.Claim.Active, err
}

// Commit reports the result. It returns false when the report is safe but nobody has judged it yet:
// repeating it tells the verdict. A refusal is an error; the codes claim_expired, claim_canceled and
// stale_claim say that the claim is over, the result codes leave it live for another report, and after
// result_unstorable the task has failed.
func (c *Client) Commit(ctx context.Context, ref Ref, token string, r Result) (judged bool, err error) {
	return c.commit(ctx, ref, token, r.report())
}

func (c *Client) commit(ctx context.Context, ref Ref, token string, r report) (judged bool, err error) {
	body := struct {
		Token string `json:"claim_token"`
		report
	}{token, r}
	answer, err := c.do(ctx, rest.Request{Method: http.MethodPost, Path: inboxPath(ref, "commit"), Body: body}, nil)
	return err == nil && answer.Status != http.StatusAccepted, err
}

// Progress sends an ephemeral frame, JSON of at most 4 KiB. The server drops what comes faster than one
// per 250 ms and task.
func (c *Client) Progress(ctx context.Context, ref Ref, token string, frame jsontext.Value) error {
	body := struct {
		Run     string         `json:"run_public_id"`
		TaskKey string         `json:"task_key"`
		Token   string         `json:"claim_token"`
		Frame   jsontext.Value `json:"frame"`
	}{ref.Run, ref.TaskKey, token, frame}
	_, err := c.do(ctx, rest.Request{Method: http.MethodPost, Path: rest.Path("executor", "progress"), Body: body}, nil)
	return err
}

func (c *Client) do(ctx context.Context, r rest.Request, out any) (rest.Answer, error) {
	return c.rest().Do(ctx, r, out)
}

func (c *Client) rest() *rest.Client {
	return &rest.Client{BaseURL: c.BaseURL, Token: c.Token, HTTP: c.HTTP}
}

// executor unpacks {"executor":{…}}.
func (c *Client) executor(ctx context.Context, r rest.Request) (Executor, error) {
	var answer struct {
		Executor Executor `json:"executor"`
	}
	_, err := c.do(ctx, r, &answer)
	return answer.Executor, err
}

// grant posts a verb that answers {"task":{…},"claim":{…}}.
func (c *Client) grant(ctx context.Context, ref Ref, verb string, body any) (Grant, error) {
	var answer struct {
		Task  Row `json:"task"`
		Claim struct {
			Token      string    `json:"claim_token"`
			DeadlineAt time.Time `json:"deadline_at"`
		} `json:"claim"`
	}
	a, err := c.do(ctx, rest.Request{Method: http.MethodPost, Path: inboxPath(ref, verb), Body: body}, &answer)
	if err != nil {
		return Grant{}, err
	}
	if answer.Claim.DeadlineAt.IsZero() {
		return Grant{}, errors.New("the server granted a claim without a deadline")
	}
	return Grant{
		Task: answer.Task, Token: answer.Claim.Token, DeadlineAt: answer.Claim.DeadlineAt,
		Remaining: remaining(answer.Claim.DeadlineAt, a.Date, time.Now()),
	}, nil
}

// remaining is how long a deadline by the server's clock is away. The server states its clock only to the
// second, so clocks within two seconds of each other are taken as equal.
func remaining(deadline, server, here time.Time) time.Duration {
	if !server.IsZero() && here.Sub(server).Abs() > 2*time.Second {
		here = server
	}
	return deadline.Sub(here)
}

func inboxPath(ref Ref, verb string) string {
	return rest.Path("executor", "inbox", ref.Run, ref.TaskKey, verb)
}
