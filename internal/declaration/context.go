package declaration

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"slices"
	"strings"
	"uuid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/approval"
)

// Context is what a run may call, decided once, at its acceptance. It does not change.
type Context struct {
	Tools       []Tool      `json:"tools"` // in the byte order of their names
	Environment Environment `json:"environment"`
	Skills      []Skill     `json:"skills"` // in the byte order of callable and name

	// ApprovalRules are a run's own, in the order declared. Neither an assembly nor a round's own tools have
	// any: its run's rules are about the calls of such a round, too.
	ApprovalRules []approval.Rule `json:"approval_rules,omitempty"`
}

// Tool is one callable of a context.
type Tool struct {
	Function
	Served *Served `json:"served,omitzero"` // what its route led to at acceptance; nil without a route
	Kernel *Kernel `json:"kernel,omitzero"` // nil unless the kernel runs it
}

// Environment is what a model may know of the machines it can reach.
type Environment struct {
	DefaultRunner    *uuid.UUID          `json:"default_runner_executor_public_id"`
	Executors        []RunnerEnvironment `json:"executors"`         // the default runner first, then those of routes by id
	RunnerCandidates []RunnerEnvironment `json:"runner_candidates"` // the eligible ones, in the order declared
}

// RunnerEnvironment is one machine.
type RunnerEnvironment struct {
	Runner      uuid.UUID      `json:"runner_executor_public_id"`
	DisplayName string         `json:"display_name"`
	Environment jsontext.Value `json:"environment"`
}

// Tool finds a callable by the name a model calls.
func (c *Context) Tool(name string) (*Tool, bool) {
	i, ok := slices.BinarySearchFunc(c.Tools, name, func(t Tool, name string) int { return strings.Compare(t.Name, name) })
	if !ok {
		return nil, false
	}
	return &c.Tools[i], true
}

// Narrow is the part of a context that a round offers: the named callables with their skills, under the
// same rules. A name that the context lacks is tool_not_declared; a call outside the part is a birth
// unknown_tool like any other.
func (c *Context) Narrow(names []string) (*Context, error) {
	offered := make(map[string]bool, len(names))
	for i, name := range names {
		if _, ok := c.Tool(name); !ok {
			return nil, toolpark.Errorf(toolpark.CodeToolNotDeclared, "tool_names[%d]: the declaration has no tool %s.", i, quote(name)).
				At(fmt.Sprintf("/tool_names/%d", i))
		}
		offered[name] = true
	}
	part := &Context{Environment: c.Environment, ApprovalRules: c.ApprovalRules}
	for _, t := range c.Tools {
		if offered[t.Name] {
			part.Tools = append(part.Tools, t)
		}
	}
	for _, s := range c.Skills {
		if offered[s.Callable] {
			part.Skills = append(part.Skills, s)
		}
	}
	return part, nil
}

// verbatim is how contexts and what is shown of them are written: equal values give equal bytes, and
// strings inside raw values stay as they were written. Raw values were searched for repeated names when
// they came in.
var verbatim = json.JoinOptions(jsontext.PreserveRawStrings(true), jsontext.AllowDuplicateNames(true), json.Deterministic(true))

// Document is the whole context as JSON, frozen facts included: the form that is stored and hashed.
// Equal contexts give equal bytes. Schemas and environments keep their digits and key order.
func (c *Context) Document() (jsontext.Value, error) {
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
