// Package catalog knows the kernel's own tools: the names that Toolpark keeps for itself, and of each
// tool that runs, what a model reads of it and what the host knows of it.
//
// Every kernel tool has a canonical name (nexus.tools.search) and a short wire name that a model
// reads (tool_search). Wire names are written down, never computed from the canonical ones, so that a
// name on a cached prompt prefix can never be moved by a change of rule.
package catalog

import (
	"cmp"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"slices"
	"time"

	"github.com/toolpark/toolpark"
)

// Canonical names that other packages speak of.
const (
	GraphWait   = "nexus.graph.wait"
	HumanAsk    = "nexus.human.ask"
	ToolsSearch = "nexus.tools.search"
	ToolsCall   = "nexus.tools.call"
	RunnersList = "nexus.runners.list"
	SkillLoad   = "nexus.skill.load"
)

// Tool is a kernel tool that runs.
type Tool struct {
	Canonical     string
	Name          string // on the wire
	EffectProfile toolpark.EffectProfile
	Timeout       time.Duration  // the deadline of a call that names none
	Template      string         // the description, with tool names as macros: {{tool_call}}
	Parameters    jsontext.Value // a closed object schema
}

// Description is the template with every macro rendered: names maps a wire name to the spelling that a
// declaration gives it, and a name that it lacks stays as it is. Nil names give the catalog's own render.
func (t *Tool) Description(names map[string]string) string { return Render(t.Template, names) }

// Catalog is a set of kernel tools that run. It does not change.
type Catalog struct {
	tools       []Tool // in canonical order
	byCanonical map[string]*Tool
	byName      map[string]*Tool
}

// New makes a catalog. Canonical names must differ, and so must wire names.
func New(tools ...Tool) *Catalog {
	c := &Catalog{
		tools:       slices.SortedFunc(slices.Values(tools), func(a, b Tool) int { return cmp.Compare(a.Canonical, b.Canonical) }),
		byCanonical: make(map[string]*Tool, len(tools)),
		byName:      make(map[string]*Tool, len(tools)),
	}
	for i := range c.tools {
		t := &c.tools[i]
		c.byCanonical[t.Canonical], c.byName[t.Name] = t, t
	}
	return c
}

// Live is the catalog of this binary: an entry appears in the same change as what runs it.
func Live() *Catalog { return live }

var live = New(toolsSearch, toolsCall, runnersList, humanAsk, graphWait)

// Tools lists the catalog in canonical order.
func (c *Catalog) Tools() []Tool { return slices.Clone(c.tools) }

// Find finds a tool by its canonical name. Callers do not change it.
func (c *Catalog) Find(canonical string) (*Tool, bool) {
	t, ok := c.byCanonical[canonical]
	return t, ok
}

// ByName finds a tool by its wire name. Callers do not change it.
func (c *Catalog) ByName(wire string) (*Tool, bool) {
	t, ok := c.byName[wire]
	return t, ok
}

// Tools lists the live catalog in canonical order.
func Tools() []Tool { return live.Tools() }

// Find finds a live tool by its canonical name; a name that is only reserved is not found.
func Find(canonical string) (*Tool, bool) { return live.Find(canonical) }

// ByName finds a live tool by its wire name; a name that is only reserved is not found.
func ByName(wire string) (*Tool, bool) { return live.ByName(wire) }

// Document is the live catalog as the API publishes it, in canonical order: always the same bytes.
func Document() jsontext.Value { return document.Clone() }

var document = live.document()

func (c *Catalog) document() jsontext.Value {
	type function struct {
		Name        string         `json:"name"`
		Description string         `json:"description"`
		Parameters  jsontext.Value `json:"parameters"`
	}
	type definition struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	type entry struct {
		Canonical     string                 `json:"canonical_name"`
		Name          string                 `json:"name"`
		EffectProfile toolpark.EffectProfile `json:"effect_profile"`
		Definition    definition             `json:"definition"`
		Template      string                 `json:"template"`
	}
	entries := make([]entry, len(c.tools))
	for i, t := range c.tools {
		entries[i] = entry{
			t.Canonical, t.Name, t.EffectProfile,
			definition{"function", function{t.Name, t.Description(nil), t.Parameters}},
			t.Template,
		}
	}
	rendered, err := json.Marshal(map[string][]entry{"tools": entries})
	if err != nil {
		panic(err) // the catalog is written in this package, and its test has seen it
	}
	return rendered
}
