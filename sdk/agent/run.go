package agent

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"net/http"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/sdk/internal/rest"
)

// Run is a host for work with one frozen context.
type Run struct {
	PublicID     string             `json:"public_id"`
	Status       toolpark.RunStatus `json:"status"`
	ApprovalMode string             `json:"approval_mode"`
	Label        string             `json:"label"`
	Metadata     jsontext.Value     `json:"metadata"`
	Refusal      *Refusal           `json:"refusal"` // set when the status is refused

	Raw jsontext.Value `json:"-"` // the whole object as the server sent it
}

// Refusal is why a run was not accepted.
type Refusal struct {
	Code    toolpark.Code `json:"code"`
	Message string        `json:"message"`
}

// UnmarshalJSON reads the object and keeps it whole in Raw.
func (r *Run) UnmarshalJSON(b []byte) error {
	type plain Run
	if err := json.Unmarshal(b, (*plain)(r), verbatim); err != nil {
		return err
	}
	r.Raw = jsontext.Value(b).Clone()
	return nil
}

// verbatim reads values of tools without judging them: the server did.
var verbatim = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// NewRun is what a run is created from.
type NewRun struct {
	DefaultRunner  string         // executor id; "" selects no runner
	Configuration  *Configuration // nil: the agent's profile
	ToolNames      []string       // narrows what that declares; nil keeps all
	Label          string         // one line, at most 256 bytes
	Metadata       jsontext.Value // an object, at most 16 KiB; it rides every claim as the session
	IdempotencyKey string         // 1–64 printable ASCII characters; "" sends none
}

// Configuration says which tools work may call and who decides about its calls.
type Configuration struct {
	ToolDefinitions []jsontext.Value `json:"tool_definitions,omitzero"`           // functions (see Executor.Declare), kernel tools, aliases of them
	KernelTools     []string         `json:"kernel_tools,omitzero"`               // canonical names, such as "nexus.tools.search"
	Runners         []string         `json:"runner_executor_public_ids,omitzero"` // candidates, in order; the default runner's tools are imported
	RunnerToolNames *[]string        `json:"runner_tool_names,omitzero"`          // of what is imported; nil: all
	ApprovalMode    string           `json:"approval_mode,omitzero"`              // "bypass", "ask" or "rules"; required when there are tools
	ApprovalRules   []ApprovalRule   `json:"approval_rules,omitzero"`             // what may run, needs approval, or must not run
}

// CreateRun accepts a run. Its status is "accepting" when no worker decided in time: read it again. A
// declaration that cannot be assembled is an error with the refusal's code.
func (c *Client) CreateRun(ctx context.Context, n NewRun) (Run, error) {
	var runner *string // the selector is required and nullable
	if n.DefaultRunner != "" {
		runner = &n.DefaultRunner
	}
	body := struct {
		DefaultRunner *string        `json:"default_runner_executor_public_id"`
		Configuration *Configuration `json:"configuration,omitzero"`
		ToolNames     []string       `json:"tool_names,omitzero"`
		Label         string         `json:"label,omitzero"`
		Metadata      jsontext.Value `json:"metadata,omitzero"`
	}{runner, n.Configuration, n.ToolNames, n.Label, n.Metadata}
	return c.run(func(out any) error {
		return c.create(ctx, rest.Path("runs"), n.IdempotencyKey, body, out)
	})
}

// Run reads a run.
func (c *Client) Run(ctx context.Context, run string) (Run, error) {
	return c.run(func(out any) error { return c.get(ctx, rest.Path("runs", run), nil, 0, out) })
}

// CompleteRun ends a run that has no live task; otherwise the code is run_busy.
func (c *Client) CompleteRun(ctx context.Context, run string) (Run, error) {
	return c.run(func(out any) error {
		return c.create(ctx, rest.Path("runs", run, "complete"), "", nil, out)
	})
}

// StopRun refuses new work and ends the run as canceled. With force every live task is canceled; without
// it live tasks may still be claimed and finish.
func (c *Client) StopRun(ctx context.Context, run string, force bool) (Run, error) {
	body := struct {
		Force bool `json:"force,omitzero"`
	}{force}
	return c.run(func(out any) error {
		return c.create(ctx, rest.Path("runs", run, "stop"), "", body, out)
	})
}

// run unpacks {"run":{…}}.
func (c *Client) run(call func(out any) error) (Run, error) {
	var answer struct {
		Run Run `json:"run"`
	}
	err := call(&answer)
	return answer.Run, err
}

// CancelTask cancels a live task. The answer is a zero Task when no worker settled it in time; then it
// will be, and Task reads it. A settled task is an error with the code already_settled.
func (c *Client) CancelTask(ctx context.Context, run, key string) (Task, error) {
	var answer taskAnswer
	_, err := c.do(ctx, rest.Request{Method: http.MethodPost, Path: rest.Path("runs", run, "tasks", key, "cancel")}, &answer)
	return answer.Task, err
}
