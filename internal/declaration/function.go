package declaration

import (
	"encoding/json/jsontext"
	"uuid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/catalog"
	"github.com/toolpark/toolpark/internal/form"
	"github.com/toolpark/toolpark/schema"
)

// Function is one callable as a model sees it, and where its calls go.
type Function struct {
	Name         string         `json:"name"`                 // what a model calls
	Description  *string        `json:"description,omitzero"` // nil when none was declared
	Parameters   jsontext.Value `json:"parameters"`           // a JSON Schema of an object: compact, else verbatim
	Strict       *bool          `json:"strict,omitzero"`
	DeferLoading *bool          `json:"defer_loading,omitzero"` // a model finds it by search
	Route        *Route         `json:"route,omitzero"`         // nil: resolved by name when a call is made

	at jsontext.Pointer // where it was declared
}

// Deferred tells whether a model is to find the function by search.
func (f *Function) Deferred() bool { return f.DeferLoading != nil && *f.DeferLoading }

// Route sends a function's calls to one runner, and to no other.
type Route struct {
	Runner   uuid.UUID `json:"runner_executor_public_id"`
	ToolName string    `json:"tool_name"` // as the runner serves it
}

// noParameters is what a function without declared parameters takes.
var noParameters = jsontext.Value(`{"type":"object","properties":{}}`)

// parseFunction reads an author's function: {"type":"function","function":{…}}, or flat
// {"type":"function","name",…}.
func parseFunction(s *shape) (Function, error) {
	f := Function{at: s.at}
	s.outer.Word("type", true, "function")
	if name := s.inner.Text("name", true); name != nil {
		f.Name = *name
	}
	if catalog.Reserved(f.Name) {
		return Function{}, form.At(s.inner.At+"/name", "is %s, a kernel tool's; declare the function under another name",
			quote(f.Name)).Refuse(toolpark.CodeKernelToolRedefined)
	}
	f.Description = s.inner.Text("description", false)
	f.Parameters = s.inner.Take("parameters", false)
	f.Strict = s.inner.Flag("strict", false)
	f.DeferLoading = s.outer.Flag("defer_loading", false)
	route := s.outer.Take("route", false)
	s.rest()
	if err := s.refusal(); err != nil {
		return Function{}, err
	}
	if err := checkCallable(f.Name, s.inner.At+"/name"); err != nil {
		return Function{}, err
	}
	var err error
	if f.Parameters, err = parseParameters(f.Parameters, s.inner.At+"/parameters"); err != nil {
		return Function{}, err
	}
	if route != nil {
		if f.Route, err = parseRoute(route, s.at+"/route"); err != nil {
			return Function{}, err
		}
	}
	return f, nil
}

// checkCallable refuses a name that no provider takes.
func checkCallable(name string, at jsontext.Pointer) error {
	if !callableName.MatchString(name) {
		return invalid(at, "is %s; it must be 1 to 64 of the characters A-Z, a-z, 0-9, _ and -", quote(name))
	}
	return nil
}

// parseParameters checks that a function's parameters can be checked against.
func parseParameters(parameters jsontext.Value, at jsontext.Pointer) (jsontext.Value, error) {
	if parameters == nil {
		return noParameters, nil
	}
	if _, err := schema.CompileObject(parameters); err != nil {
		return nil, schemaProblem(err, at).Refuse(toolpark.CodeValidationFailed)
	}
	compact := parameters.Clone()
	if err := compact.Compact(); err != nil {
		return nil, invalid(at, "cannot be read: %s", err)
	}
	return compact, nil
}

// parseRoute reads {"kind":"runner","runner_executor_public_id":UUID,"tool_name":served}.
func parseRoute(value jsontext.Value, at jsontext.Pointer) (*Route, error) {
	var problems []form.Problem
	o, ok := form.Open(value, at, &problems)
	if !ok {
		return nil, problems[0].Refuse(toolpark.CodeInvalidToolRoute)
	}
	route := &Route{}
	o.Word("kind", true, "runner")
	if name := o.Text("tool_name", true); name != nil {
		route.ToolName = *name
		if flaw := servedNameFlaw(*name); flaw != "" {
			o.Note("tool_name", "%s %s", quote(*name), flaw)
		}
	}
	runner := o.Text("runner_executor_public_id", false)
	if runner != nil {
		if route.Runner, ok = parseID(*runner); !ok {
			o.Note("runner_executor_public_id", "must be the runner's id, a UUID in lower case")
		}
	}
	o.Rest()
	if len(problems) > 0 {
		return nil, problems[0].Refuse(toolpark.CodeInvalidToolRoute)
	}
	if runner == nil {
		return nil, form.At(at+"/runner_executor_public_id", "is missing; a runner route names its runner").
			Refuse(toolpark.CodeRunnerTargetRequired)
	}
	return route, nil
}
