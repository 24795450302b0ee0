package declaration

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/catalog"
)

// chatTool is a tool as Chat Completions takes it, and as a search shows it.
type chatTool struct {
	Type     string        `json:"type"`
	Function functionFacts `json:"function"`
}

type responsesTool struct {
	Type string `json:"type"`
	functionFacts
}

type functionFacts struct {
	Name        string         `json:"name"`
	Description *string        `json:"description,omitzero"`
	Parameters  jsontext.Value `json:"parameters"`
	Strict      bool           `json:"strict"`
}

type anthropicTool struct {
	Name        string         `json:"name"`
	Description *string        `json:"description,omitzero"`
	InputSchema jsontext.Value `json:"input_schema"`
	Strict      *bool          `json:"strict,omitzero"` // left out unless it was declared
}

// Projection is what a model should be offered now, as a JSON list in its provider's form, and the digest
// that names it. Routes and alias facts are left out; so are deferred tools when the model has an eager
// search and an eager call to find them with, and a tool that loads skills when there are none. The same
// context always gives the same bytes.
func (c *Context) Projection(format toolpark.Format) (tools jsontext.Value, digest string, err error) {
	offered := []any{}
	for t := range c.offered {
		switch format {
		case toolpark.FormatChatCompletions:
			offered = append(offered, t.chat())
		case toolpark.FormatResponses:
			offered = append(offered, responsesTool{"function", t.facts()})
		case toolpark.FormatAnthropic:
			offered = append(offered, anthropicTool{t.Name, t.Description, t.Parameters, t.Strict})
		default:
			return nil, "", fmt.Errorf("project tools: unknown format %q", format)
		}
	}
	tools, err = json.Marshal(offered, verbatim)
	if err != nil {
		return nil, "", fmt.Errorf("project tools: %w", err)
	}
	sum := sha256.Sum256(append([]byte(format+"\n"), tools...))
	return tools, "sha256:" + hex.EncodeToString(sum[:]), nil
}

// offered yields the tools that a model is shown.
func (c *Context) offered(yield func(*Tool) bool) {
	searchable := c.eager(catalog.ToolsSearch) && c.eager(catalog.ToolsCall)
	skilled := make(map[string]bool, len(c.Skills))
	for _, s := range c.Skills {
		skilled[s.Callable] = true
	}
	for i := range c.Tools {
		t := &c.Tools[i]
		hidden := searchable && t.Deferred() || t.loadsSkills() && !skilled[t.Name]
		if !hidden && !yield(t) {
			return
		}
	}
}

// eager tells whether a model is shown the kernel tool under any name.
func (c *Context) eager(canonical string) bool {
	for i := range c.Tools {
		if t := &c.Tools[i]; t.Kernel != nil && t.Kernel.Canonical == canonical && !t.Deferred() {
			return true
		}
	}
	return false
}

// facts are what a provider is told of a tool. Strict is off unless it was declared.
func (t *Tool) facts() functionFacts {
	return functionFacts{t.Name, t.Description, t.Parameters, t.Strict != nil && *t.Strict}
}

func (t *Tool) chat() chatTool { return chatTool{"function", t.facts()} }
