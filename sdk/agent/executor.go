package agent

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"net/url"
	"time"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/sdk/internal/rest"
)

// Executor is a runner or a tools provider that this member may use.
type Executor struct {
	PublicID        string                `json:"public_id"`
	Kind            toolpark.ExecutorKind `json:"kind"`
	DisplayName     string                `json:"display_name"`
	AssignmentScope toolpark.Scope        `json:"assignment_scope"`
	ServedTools     []ServedTool          `json:"served_tools"`
	Environment     jsontext.Value        `json:"environment"`
	LastSeenAt      time.Time             `json:"last_seen_at"` // zero when it was never seen
}

// ServedTool is one tool that an executor announced.
type ServedTool struct {
	Name          string                 `json:"name"`
	EffectProfile toolpark.EffectProfile `json:"effect_profile"`
	TimeoutMS     int64                  `json:"timeout_ms"` // 0 when it announced none
	Title         string                 `json:"title"`
	Description   string                 `json:"description"`
	InputSchema   jsontext.Value         `json:"input_schema"`
	OutputSchema  jsontext.Value         `json:"output_schema"`
}

// ModelVisible tells whether a model may be offered the tool; the others are operator capabilities.
func (t ServedTool) ModelVisible() bool {
	return t.Description != "" && t.InputSchema.Kind() == jsontext.KindBeginObject
}

// Declare is the function definition, for Configuration.ToolDefinitions, whose calls go to this tool on
// this executor. The callable name is what the model says: ^[A-Za-z0-9_-]{1,64}$.
func (e Executor) Declare(callable string, t ServedTool) (jsontext.Value, error) {
	type function struct {
		Name        string         `json:"name"`
		Description string         `json:"description"`
		Parameters  jsontext.Value `json:"parameters"`
	}
	type route struct {
		Kind   string `json:"kind"`
		Runner string `json:"runner_executor_public_id"`
		Tool   string `json:"tool_name"`
	}
	return json.Marshal(struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
		Route    route    `json:"route"`
	}{"function", function{callable, t.Description, t.InputSchema}, route{"runner", e.PublicID, t.Name}})
}

// Executors lists the eligible executors of a kind, or of both kinds for "".
func (c *Client) Executors(ctx context.Context, kind toolpark.ExecutorKind) ([]Executor, error) {
	query := url.Values{}
	if kind != "" {
		query.Set("kind", string(kind))
	}
	var all []Executor
	for {
		var page struct {
			Executors  []Executor `json:"executors"`
			Pagination pagination `json:"pagination"`
		}
		if err := c.get(ctx, rest.Path("executors"), query, 0, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Executors...)
		if page.Pagination.NextAfter == "" {
			return all, nil
		}
		query.Set("after", page.Pagination.NextAfter)
	}
}

// Executor reads one eligible executor; any other is not_found.
func (c *Client) Executor(ctx context.Context, id string) (Executor, error) {
	var answer struct {
		Executor Executor `json:"executor"`
	}
	err := c.get(ctx, rest.Path("executors", id), nil, 0, &answer)
	return answer.Executor, err
}
