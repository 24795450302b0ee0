package declaration

import (
	"bytes"
	"encoding/json/jsontext"
	"fmt"
	"strings"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/catalog"
	"github.com/toolpark/toolpark/internal/strictjson"
	"github.com/toolpark/toolpark/schema"
)

// Call is one tool call as a model made it.
type Call struct {
	Name      string
	Arguments jsontext.Value // a string that holds JSON, or an object; nil when absent
}

// Admitted is a call that may run, or the reason why it is born failed.
type Admitted struct {
	Tool *Tool // nil when the context does not declare the name

	// Input is one object: compact, digits and key order as they came; nil when there is no such thing to
	// keep. Once a call under an alias may run, it has the kernel's own parameters.
	Input   jsontext.Value
	Failure *toolpark.TaskError // nil when the call may run; its detail is storable text
}

// Admit judges one call against what its run may call. It never fails: a call that cannot run is a
// task that failed at birth, with one of the keys unknown_tool, invalid_tool_arguments (no JSON
// object), tool_input_too_large and invalid_tool_input (text that cannot be stored, or not what the
// tool's declared parameters take: under an alias, those that the alias shows).
func Admit(c *Context, schemas *schema.Cache, call Call) Admitted {
	return AdmitAll(c, schemas, []Call{call})[0]
}

// AdmitAll is [Admit] for the calls of one round, in order. What checking inputs may cost is bounded for
// the round as a whole: when that is used up, a call is still checked unless its input is a costly one,
// which is invalid_tool_input.
func AdmitAll(c *Context, schemas *schema.Cache, calls []Call) []Admitted {
	budget := schema.NewBudget()
	admitted := make([]Admitted, len(calls))
	for i, call := range calls {
		admitted[i] = admit(c, schemas, budget, call)
	}
	return admitted
}

func admit(c *Context, schemas *schema.Cache, budget *schema.Budget, call Call) Admitted {
	input, failure := ReadInput(call.Arguments)
	tool, ok := c.Tool(call.Name)
	if !ok {
		return Admitted{Input: input, Failure: fail(toolpark.ErrUnknownTool, "%s is not declared", quote(call.Name))}
	}
	if failure == nil {
		failure = checkInput(schemas, budget, tool.Parameters, input)
	}
	if failure == nil && tool.Kernel != nil {
		input, failure = tool.Kernel.input(input)
	}
	return Admitted{Tool: tool, Input: input, Failure: failure}
}

// CheckMapped holds an input in the tool's own spelling to what the tool takes; its failure is invalid_tool_input.
func (t *Tool) CheckMapped(schemas *schema.Cache, input jsontext.Value) *toolpark.TaskError {
	parameters := t.Parameters
	if t.Kernel != nil {
		entry, ok := catalog.Find(t.Kernel.Canonical)
		if !ok { // frozen by a version that had it
			return fail(toolpark.ErrInvalidToolInput, "%s is no tool of this version", t.Kernel.Canonical)
		}
		parameters = entry.Parameters
	}
	return checkInput(schemas, schema.NewBudget(), parameters, input)
}

// checkInput holds an input to a tool's declared parameters.
func checkInput(schemas *schema.Cache, budget *schema.Budget, parameters, input jsontext.Value) *toolpark.TaskError {
	compiled, err := schemas.Object(parameters)
	if err != nil { // they compiled when they were declared
		return fail(toolpark.ErrInvalidToolInput, "the declared parameters cannot be checked: %s", err)
	}
	complaints := compiled.CheckWithin(input, budget)
	if len(complaints) == 0 {
		return nil
	}
	lines := make([]string, len(complaints))
	for i, c := range complaints {
		lines[i] = place(c.Pointer) + ": " + c.Reason
	}
	return fail(toolpark.ErrInvalidToolInput, "%s", strings.Join(lines, "\n"))
}

// fail makes a birth failure whose detail a text column can hold.
func fail(key, format string, args ...any) *toolpark.TaskError {
	detail := strings.ToValidUTF8(fmt.Sprintf(format, args...), "\uFFFD")
	return &toolpark.TaskError{Key: key, Detail: strings.ReplaceAll(detail, "\x00", "\uFFFD")} // a pointer may quote a key
}

// ReadInput finds the one object that a call's arguments are, compact, or says why there is none, with
// a key of Admit. What a model left out is an empty object; what it began and did not finish never is.
func ReadInput(raw jsontext.Value) (jsontext.Value, *toolpark.TaskError) {
	text, failure := argumentsText(raw)
	if failure != nil {
		return nil, failure
	}
	if pointer, reason, bad := strictjson.Unstorable(text); bad {
		return nil, fail(toolpark.ErrInvalidToolInput, "%s: %s", place(pointer), reason)
	}
	if at := bytes.IndexByte(text, 0); at >= 0 { // JSON has no such byte, but a quoted text may have brought it
		return nil, fail(toolpark.ErrInvalidToolInput, "the arguments hold U+0000 at byte %d", at)
	}
	if size, ok := strictjson.Size(text); ok && size > toolpark.MaxToolInput && text.Kind() == jsontext.KindBeginObject {
		return nil, fail(toolpark.ErrToolInputTooLarge, "the arguments take %d bytes; they may have %d", size, toolpark.MaxToolInput)
	}
	if problem := strictjson.Value(text); problem != nil {
		return nil, fail(toolpark.ErrInvalidToolArguments, "%s", problem)
	}
	if text.Kind() != jsontext.KindBeginObject {
		return nil, fail(toolpark.ErrInvalidToolArguments, "the arguments must be a JSON object")
	}
	input := text.Clone()
	if err := input.Compact(); err != nil {
		return nil, fail(toolpark.ErrInvalidToolArguments, "%s", err)
	}
	return input, nil
}

// argumentsText is the JSON text of the arguments, which most providers send inside a string.
func argumentsText(raw jsontext.Value) (jsontext.Value, *toolpark.TaskError) {
	switch {
	case raw == nil, raw.Kind() == jsontext.KindNull:
		return jsontext.Value(`{}`), nil
	case raw.Kind() != jsontext.KindString:
		return raw, nil
	}
	text, err := jsontext.AppendUnquote(nil, bytes.Trim(raw, " \t\r\n"))
	if err != nil { // the string itself is JSON, so it can only be its text
		return nil, fail(toolpark.ErrInvalidToolInput, "the arguments are not Unicode text: %s", err)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return jsontext.Value(`{}`), nil
	}
	return text, nil
}

// place shows a pointer; the whole value has an empty one.
func place(pointer string) string {
	if pointer == "" {
		return "the arguments"
	}
	return pointer
}
