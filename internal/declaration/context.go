package declaration

import (
	"cmp"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"slices"
	"strings"
	"uuid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/strictjson"
)

// Snapshot is what the database says at one moment of the executors that a configuration names: those
// that are eligible for whoever asks, and no other.
type Snapshot struct {
	Runners map[uuid.UUID]Runner
}

// Runner is an eligible runner.
type Runner struct {
	DisplayName string
	Environment jsontext.Value    // as announced
	Tools       map[string]Served // by served name; names that the configuration does not route to may be left out
}

// Served is what is known of a tool that a runner serves. A context freezes it with the route.
type Served struct {
	EffectProfile    toolpark.EffectProfile `json:"effect_profile"`
	TimeoutMS        *int64                 `json:"timeout_ms,omitzero"`         // nil: the kernel's default
	OutputSchemaHash []byte                 `json:"output_schema_hash,omitzero"` // nil: it promises nothing
	ModelVisible     bool                   `json:"-"`                           // a model may call it
}

// Context is what a run may call, decided once, at its acceptance.
type Context struct {
	Tools       []Tool      `json:"tools"` // in the byte order of their names
	Environment Environment `json:"environment"`
}

// Tool is one callable of a context.
type Tool struct {
	Function
	*Served `json:"served,omitzero"` // what its route led to at acceptance; nil without a route
}

// Environment is what a model may know of the machines it can reach.
type Environment struct {
	DefaultRunner    *uuid.UUID          `json:"default_runner_executor_public_id"`
	Executors        []RunnerEnvironment `json:"executors"`         // the default runner first, then those of routes by id
	RunnerCandidates []RunnerEnvironment `json:"runner_candidates"` // always empty: there are no imports
}

// RunnerEnvironment is one machine.
type RunnerEnvironment struct {
	Runner      uuid.UUID      `json:"runner_executor_public_id"`
	DisplayName string         `json:"display_name"`
	Environment jsontext.Value `json:"environment"`
}

// Runners lists the executors that Assemble looks for in its snapshot: the default runner first, then
// the routes' targets in the order of their ids.
func Runners(cfg Configuration, defaultRunner *uuid.UUID) []uuid.UUID {
	var routed []uuid.UUID
	for _, f := range cfg.Functions {
		if f.Route != nil && (defaultRunner == nil || f.Route.Runner != *defaultRunner) {
			routed = append(routed, f.Route.Runner)
		}
	}
	slices.SortFunc(routed, uuid.UUID.Compare)
	routed = slices.Compact(routed)
	if defaultRunner == nil {
		return routed
	}
	return append([]uuid.UUID{*defaultRunner}, routed...)
}

// Assemble decides what a run may call. The order in which functions were declared does not show in
// the result. Refusals are a *toolpark.Error: runner_not_eligible, tool_not_served, content_too_large.
func Assemble(cfg Configuration, defaultRunner *uuid.UUID, snapshot Snapshot) (Context, error) {
	if defaultRunner != nil {
		if _, ok := snapshot.Runners[*defaultRunner]; !ok {
			return Context{}, toolpark.Errorf(toolpark.CodeRunnerNotEligible,
				"runner %s does not exist or may not be used.", defaultRunner).At("/default_runner_executor_public_id")
		}
	}
	assembled := Context{
		Tools: make([]Tool, len(cfg.Functions)),
		Environment: Environment{
			DefaultRunner:    defaultRunner,
			Executors:        []RunnerEnvironment{},
			RunnerCandidates: []RunnerEnvironment{},
		},
	}
	for i, f := range cfg.Functions {
		served, err := snapshot.served(f)
		if err != nil {
			return Context{}, err
		}
		assembled.Tools[i] = Tool{Function: f, Served: served}
	}
	slices.SortFunc(assembled.Tools, func(a, b Tool) int { return cmp.Compare(a.Name, b.Name) })
	for _, id := range Runners(cfg, defaultRunner) {
		runner := snapshot.Runners[id]
		assembled.Environment.Executors = append(assembled.Environment.Executors,
			RunnerEnvironment{Runner: id, DisplayName: runner.DisplayName, Environment: runner.Environment})
	}
	definitions, err := assembled.Definitions()
	if err != nil {
		return Context{}, err
	}
	canonical, err := strictjson.Canonical(definitions)
	if err != nil {
		return Context{}, fmt.Errorf("measure tool definitions: %w", err)
	}
	if len(canonical) > toolpark.MaxToolDefinitions {
		return Context{}, definitionsTooLarge(len(canonical))
	}
	return assembled, nil
}

// served finds what a function's route leads to; nil without a route.
func (s Snapshot) served(f Function) (*Served, error) {
	if f.Route == nil {
		return nil, nil
	}
	runner, ok := s.Runners[f.Route.Runner]
	if !ok {
		return nil, problem(f.at+"/route/runner_executor_public_id", "names runner %s, which does not exist or may not be used",
			f.Route.Runner).refuse(toolpark.CodeRunnerNotEligible)
	}
	served, ok := runner.Tools[f.Route.ToolName]
	if !ok || !served.ModelVisible {
		return nil, problem(f.at+"/route/tool_name", "names %s, which runner %s does not serve to models",
			quote(f.Route.ToolName), f.Route.Runner).refuse(toolpark.CodeToolNotServed)
	}
	return &served, nil
}

// Tool finds a callable by the name a model calls.
func (c *Context) Tool(name string) (*Tool, bool) {
	i, ok := slices.BinarySearchFunc(c.Tools, name, func(t Tool, name string) int { return strings.Compare(t.Name, name) })
	if !ok {
		return nil, false
	}
	return &c.Tools[i], true
}

// verbatim keeps strings inside raw values as they were written.
var verbatim = jsontext.PreserveRawStrings(true)

// Document is the whole context as JSON, frozen facts included: the form that is stored and hashed.
// Equal contexts give equal bytes. Schemas and environments keep their digits and key order.
func (c Context) Document() (jsontext.Value, error) {
	document, err := json.Marshal(c, verbatim)
	if err != nil {
		return nil, fmt.Errorf("write context: %w", err)
	}
	return document, nil
}

// ParseContext reads what Document wrote.
func ParseContext(document jsontext.Value) (*Context, error) {
	var c Context
	if err := json.Unmarshal(document, &c, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("read context: %w", err)
	}
	return &c, nil
}
