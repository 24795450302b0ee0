package agent

import (
	"context"
	"encoding/json/jsontext"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/sdk/internal/rest"
)

// KernelTool is a tool that the kernel itself runs, as the catalog publishes it.
type KernelTool struct {
	CanonicalName string                 `json:"canonical_name"`
	Name          string                 `json:"name"` // what a model calls, unless an alias says otherwise
	EffectProfile toolpark.EffectProfile `json:"effect_profile"`
	Definition    jsontext.Value         `json:"definition"` // for Configuration.ToolDefinitions
	Template      string                 `json:"template"`   // the description with the names of kernel tools as macros
}

// KernelTools reads the catalog.
func (c *Client) KernelTools(ctx context.Context) ([]KernelTool, error) {
	var answer struct {
		Tools []KernelTool `json:"tools"`
	}
	err := c.get(ctx, rest.Path("tools"), nil, 0, &answer)
	return answer.Tools, err
}

// Profile is an agent's standing configuration.
type Profile struct {
	Configuration jsontext.Value `json:"configuration"` // as it was put
	UpdatedAt     time.Time      `json:"updated_at"`    // zero when it never was
}

// Profile reads the agent's own profile. A human has none: not_agent.
func (c *Client) Profile(ctx context.Context) (Profile, error) {
	var answer profileAnswer
	err := c.get(ctx, rest.Path("profile"), nil, 0, &answer)
	return answer.Profile, err
}

// PutConfiguration replaces the agent's standing configuration whole.
func (c *Client) PutConfiguration(ctx context.Context, configuration Configuration) (Profile, error) {
	var answer profileAnswer
	body := map[string]Configuration{"configuration": configuration}
	_, err := c.do(ctx, rest.Request{Method: http.MethodPut, Path: rest.Path("profile", "configuration"), Body: body}, &answer)
	return answer.Profile, err
}

type profileAnswer struct {
	Profile Profile `json:"profile"`
}

// Assembly is what new work would receive.
type Assembly struct {
	ToolDefinitions []jsontext.Value `json:"tool_definitions"` // complete, in the order of their names; valid for Configuration.ToolDefinitions
	Environment     jsontext.Value   `json:"environment"`
}

// Assemble projects what new work would receive from a configuration, or from the agent's profile for nil, with
// a selected runner, or none for "". It changes nothing.
func (c *Client) Assemble(ctx context.Context, defaultRunner string, configuration *Configuration) (Assembly, error) {
	var runner *string // the selector is required and nullable
	if defaultRunner != "" {
		runner = &defaultRunner
	}
	body := struct {
		DefaultRunner *string        `json:"default_runner_executor_public_id"`
		Configuration *Configuration `json:"configuration,omitzero"`
	}{runner, configuration}
	var answer Assembly
	err := c.create(ctx, rest.Path("tools", "assembly"), "", body, &answer)
	return answer, err
}

// Projection is what a model is to be offered now, in its provider's form.
type Projection struct {
	Tools  []jsontext.Value `json:"tools"`
	Digest string           `json:"projection_digest"` // for NewRound.Offered
}

// Tools projects what a run may call for a provider. The names, if any, narrow it.
func (c *Client) Tools(ctx context.Context, run string, format toolpark.Format, names ...string) (Projection, error) {
	query := url.Values{"format": {string(format)}}
	if len(names) > 0 {
		query.Set("tool_names", strings.Join(names, ","))
	}
	var answer Projection
	err := c.get(ctx, rest.Path("runs", run, "tools"), query, 0, &answer)
	return answer, err
}
