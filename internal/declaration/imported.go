package declaration

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"uuid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/catalog"
	"github.com/toolpark/toolpark/internal/form"
)

// imported adds the selected runner's tools to those that are declared: all that a model may call, or
// those of them that runner_tool_names has. What is declared with a route of its own is not imported.
func (s Sources) imported(declared []Tool, runner uuid.UUID, snapshot Snapshot) ([]Tool, error) {
	taken, routed := make(map[string]bool, len(declared)), make(map[Route]bool, len(declared))
	for _, t := range declared {
		taken[t.Name] = true
		if t.Route != nil {
			routed[*t.Route] = true
		}
	}
	offered := snapshot.Runners[runner].Tools
	tools, imported := slices.Grow(declared, len(offered)), make(map[string]bool, len(offered))
	for _, name := range s.wanted(offered) {
		route := Route{Runner: runner, ToolName: name}
		if routed[route] {
			continue
		}
		served := offered[name]
		f, err := importOf(route, served)
		if err != nil {
			return nil, err
		}
		if taken[f.Name] || catalog.Reserved(f.Name) || !callableName.MatchString(f.Name) {
			f.Name = qualified(route)
		}
		if taken[f.Name] || imported[f.Name] {
			return nil, form.At(s.grammar.at("runner_executor_public_ids"), "imports the tool %s of runner %s as %s, a name that is taken; declare that tool under a name of its own",
				quote(name), runner, f.Name).Refuse(toolpark.CodeDuplicateToolName)
		}
		imported[f.Name] = true
		tools = append(tools, Tool{Function: f, Served: &served})
	}
	return tools, nil
}

// wanted are the names of the tools to import, in order.
func (s Sources) wanted(tools map[string]Served) []string {
	names := slices.Sorted(maps.Keys(tools))
	var allowed map[string]bool
	if s.RunnerToolNames != nil {
		allowed = make(map[string]bool, len(*s.RunnerToolNames))
		for _, name := range *s.RunnerToolNames {
			allowed[name] = true
		}
	}
	return slices.DeleteFunc(names, func(name string) bool {
		t := tools[name]
		visible := t.ModelVisible && t.Description != nil && t.InputSchema != nil
		return !visible || s.RunnerToolNames != nil && !allowed[name]
	})
}

// importOf is the function that an announced tool becomes, under its served name.
func importOf(route Route, served Served) (Function, error) {
	parameters := served.InputSchema.Clone()
	if err := parameters.Compact(); err != nil {
		return Function{}, err
	}
	deferred := true
	return Function{
		Name: route.ToolName, Description: served.Description, Parameters: parameters,
		DeferLoading: &deferred, Route: &route,
	}, nil
}

const (
	qualifiedPrefix = 49 // characters of the served name that a qualified name keeps
	qualifiedDigits = 12 // hexadecimal digits of the hash that follows them
)

// qualified is a callable name for a served name that cannot be one, or whose name is taken: always the
// same for one route, and another for every other route.
func qualified(route Route) string {
	legal := strings.Map(func(r rune) rune {
		if r < 0x80 && callableName.MatchString(string(r)) {
			return r
		}
		return '_'
	}, route.ToolName)
	sum := sha256.Sum256([]byte(route.Runner.String() + "\x00" + route.ToolName))
	return legal[:min(len(legal), qualifiedPrefix)] + "__" + hex.EncodeToString(sum[:])[:qualifiedDigits]
}
