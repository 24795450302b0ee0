package declaration

import (
	"encoding/json/jsontext"
	"slices"
	"uuid"

	"github.com/toolpark/toolpark"
)

// Snapshot is what the database says at one moment of the runners that [Sources.Lookup] asks for: those
// that are eligible for whoever asks, and no other.
type Snapshot struct {
	Runners map[uuid.UUID]Runner
}

// Runner is an eligible runner.
type Runner struct {
	DisplayName string
	Environment jsontext.Value    // an object, as announced
	Documents   jsontext.Value    // a list, as announced; nil when it has none
	Tools       map[string]Served // by served name, at least those that were asked for
}

// Served is what is known of a tool that a runner serves. A context freezes it with the route; the
// description and the schema become the function's own.
type Served struct {
	EffectProfile    toolpark.EffectProfile `json:"effect_profile"`
	TimeoutMS        *int64                 `json:"timeout_ms,omitzero"`         // nil: the kernel's default
	OutputSchemaHash []byte                 `json:"output_schema_hash,omitzero"` // nil: it promises nothing
	ModelVisible     bool                   `json:"-"`                           // it was announced with description and schema
	Description      *string                `json:"-"`                           // read of the tools that are imported only
	InputSchema      jsontext.Value         `json:"-"`                           // likewise
}

// Lookup is what [Assemble] looks for in its snapshot.
type Lookup struct {
	Runners []uuid.UUID // whose name, environment and documents are asked for
	Routes  []Route     // the served names that declared routes lead to
	Import  *uuid.UUID  // the runner all of whose tools are asked for; nil when nothing is imported
}

// Lookup says what assembling these sources needs to know.
func (s Sources) Lookup(defaultRunner *uuid.UUID) Lookup {
	l := Lookup{Runners: s.executors(defaultRunner), Routes: []Route{}}
	known := make(map[uuid.UUID]bool, len(l.Runners))
	for _, runner := range l.Runners {
		known[runner] = true
	}
	for _, candidate := range s.Candidates {
		if !known[candidate] {
			l.Runners = append(l.Runners, candidate)
		}
	}
	for _, e := range s.Entries {
		if e.Route != nil {
			l.Routes = append(l.Routes, *e.Route)
		}
	}
	if s.importsTools() {
		l.Import = defaultRunner
	}
	return l
}

// importsTools tells whether a selected runner's tools are declared, those that its announcement has.
func (s Sources) importsTools() bool {
	return s.Imports && (s.RunnerToolNames == nil || len(*s.RunnerToolNames) > 0)
}

// executors are the runners that work may run on: the default runner first, then the targets of routes
// in the order of their ids.
func (s Sources) executors(defaultRunner *uuid.UUID) []uuid.UUID {
	routed := []uuid.UUID{}
	for _, e := range s.Entries {
		if e.Route != nil && (defaultRunner == nil || e.Route.Runner != *defaultRunner) {
			routed = append(routed, e.Route.Runner)
		}
	}
	slices.SortFunc(routed, uuid.UUID.Compare)
	routed = slices.Compact(routed)
	if defaultRunner == nil {
		return routed
	}
	return append([]uuid.UUID{*defaultRunner}, routed...)
}
