package agent

import (
	"context"
	"encoding/json/jsontext"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/toolpark/toolpark/sdk/internal/rest"
)

// Call is one call that a model made.
type Call struct {
	ID   string `json:"id,omitzero"` // the provider's pairing key; "" has the server mint one
	Name string `json:"name"`
	// Arguments are what the provider gave: a string that holds JSON, or a jsontext.Value with an object.
	// nil means {}. Arguments that are no object fail their own call and no other.
	Arguments any `json:"arguments,omitzero"`
}

// NewRound is one batch of calls.
type NewRound struct {
	Calls          []Call   `json:"calls"`               // 1–128, with distinct ids
	ToolNames      []string `json:"tool_names,omitzero"` // narrows the declaration; nil keeps all
	Offered        string   `json:"offered,omitzero"`    // the digest of the Projection that the model was offered
	IdempotencyKey string   `json:"-"`                   // "" sends none

	// What this round alone may call, instead of what its run may. All nil: what the run may.
	Tools           []jsontext.Value `json:"tools,omitzero"`
	KernelTools     []string         `json:"kernel_tools,omitzero"`
	Runners         []string         `json:"runner_executor_public_ids,omitzero"`
	RunnerToolNames *[]string        `json:"runner_tool_names,omitzero"`
}

// Round is the calls of one batch and, once read, their results.
type Round struct {
	Number  int    `json:"number"`
	Settled bool   `json:"settled"`
	Tasks   []Task `json:"tasks"`   // from PostRound: as they were born, in call order
	Results []Task `json:"results"` // from Round: one per call, in call order
}

type roundAnswer struct {
	Round Round `json:"round"`
}

// PostRound authors a task for every call. A call that cannot run is a failed task and no error here.
func (c *Client) PostRound(ctx context.Context, run string, n NewRound) (Round, error) {
	var answer roundAnswer
	err := c.create(ctx, rest.Path("runs", run, "rounds"), n.IdempotencyKey, n, &answer)
	return answer.Round, err
}

// Round reads a round. With a wait, at most a minute, it answers once every task has settled or the time
// is up; Settled tells which.
func (c *Client) Round(ctx context.Context, run string, number int, wait time.Duration) (Round, error) {
	var answer roundAnswer
	err := c.get(ctx, rest.Path("runs", run, "rounds", strconv.Itoa(number)), nil, wait, &answer)
	return answer.Round, err
}

// Messages renders a settled round as provider messages, ready to append. The format is
// "chat_completions", "responses" or "anthropic"; acceptMedia lists what the model takes, of "image" and
// "pdf".
func (c *Client) Messages(ctx context.Context, run string, number int, format string, acceptMedia ...string) ([]jsontext.Value, error) {
	query := url.Values{"format": {format}}
	if len(acceptMedia) > 0 {
		query.Set("accept_media", strings.Join(acceptMedia, ","))
	}
	var answer struct {
		Messages []jsontext.Value `json:"messages"`
	}
	err := c.get(ctx, rest.Path("runs", run, "rounds", strconv.Itoa(number), "messages"), query, 0, &answer)
	return answer.Messages, err
}
