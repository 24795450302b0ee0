package declaration

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"uuid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/strictjson"
)

// definition is the form in which a declaration is shown and may be declared again.
type definition struct {
	Type         string           `json:"type"`
	Function     functionBlock    `json:"function"`
	Canonical    string           `json:"canonical,omitzero"` // of an alias, as are params and omit
	Params       map[string]Param `json:"params,omitempty"`
	Omit         []string         `json:"omit,omitempty"`
	Route        *routeBlock      `json:"route,omitzero"`
	DeferLoading *bool            `json:"defer_loading,omitzero"`
}

type functionBlock struct {
	Name        string         `json:"name"`
	Description *string        `json:"description,omitzero"`
	Parameters  jsontext.Value `json:"parameters"`
	Strict      *bool          `json:"strict,omitzero"`
}

type routeBlock struct {
	Kind     string    `json:"kind"`
	Runner   uuid.UUID `json:"runner_executor_public_id"`
	ToolName string    `json:"tool_name"`
}

// block is the route as it is declared; nil without one.
func (r *Route) block() *routeBlock {
	if r == nil {
		return nil
	}
	return &routeBlock{"runner", r.Runner, r.ToolName}
}

// Definitions is the list of complete tool definitions, in the order of Tools, routes and alias facts
// included. It is valid input: declared again, it assembles to the same bytes.
func (c *Context) Definitions() (jsontext.Value, error) {
	rendered, err := json.Marshal(c.definitions(), verbatim)
	if err != nil {
		return nil, fmt.Errorf("write tool definitions: %w", err)
	}
	return rendered, nil
}

func (c *Context) definitions() []definition {
	definitions := make([]definition, len(c.Tools))
	for i, t := range c.Tools {
		definitions[i] = definition{
			Type:         "function",
			Function:     functionBlock{t.Name, t.Description, t.Parameters, t.Strict},
			Route:        t.Route.block(),
			DeferLoading: t.DeferLoading,
		}
		if t.Kernel != nil && t.Kernel.Alias {
			definitions[i].Canonical, definitions[i].Params, definitions[i].Omit = t.Kernel.Canonical, t.Kernel.Params, t.Kernel.Omit
		}
	}
	return definitions
}

// checkSize refuses definitions that are over their bound as canonical JSON.
func (c *Context) checkSize(g grammar) error {
	var written counter
	if err := json.MarshalWrite(&written, c.definitions(), verbatim); err != nil {
		return fmt.Errorf("measure tool definitions: %w", err)
	}
	if written <= toolpark.MaxToolDefinitions { // no text is shorter than its canonical form
		return nil
	}
	definitions, err := c.Definitions()
	if err != nil {
		return err
	}
	if size, _ := strictjson.Size(definitions); size > toolpark.MaxToolDefinitions {
		return g.tooLarge(size)
	}
	return nil
}

// counter counts what is written to it.
type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
