package declaration

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"maps"
	"slices"
	"strconv"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/strictjson"
)

// ApprovalBypass is the approval mode in which every declared tool may be called at once.
const ApprovalBypass = "bypass"

// Configuration says what a run asks to call, before anything is looked up.
type Configuration struct {
	Functions    []Function // in the order declared; names are unique
	ApprovalMode string     // ApprovalBypass; empty when none was named, and then nothing can be called
}

// root is where the configuration is in a request.
const root jsontext.Pointer = "/configuration"

// ParseConfiguration reads a run's configuration. Nil is the empty one. The value has passed
// strictjson.Check as part of its request; pointers begin at /configuration. Refusals are a
// *toolpark.Error: parameter_missing when it is no object, parameter_invalid for a field that does
// not exist (a misspelt approval rule must not be dropped), content_too_large, a declaration's own
// codes (kernel_tool_redefined, duplicate_tool_name, invalid_tool_route, runner_target_required), and
// validation_failed for everything else, including what this version does not offer: aliases,
// imports, approval modes other than bypass, and approval rules.
func ParseConfiguration(raw jsontext.Value) (Configuration, error) {
	if raw == nil {
		return Configuration{}, nil
	}
	var problems []Problem
	fields, ok := openObject(raw, root, &problems)
	if !ok {
		return Configuration{}, toolpark.Errorf(toolpark.CodeParameterMissing,
			"configuration must be an object; leave it out for an empty one.").At(string(root))
	}
	definitions := fields.take("tool_definitions", false)
	mode := fields.take("approval_mode", false)
	for _, absent := range []struct{ field, what string }{
		{"kernel_tools", "importing kernel tools"},
		{"runner_executor_public_ids", "importing a runner's tools"},
		{"runner_tool_names", "importing a runner's tools"},
		{"approval_rules", "approval rules"}, // ignoring a rule that denies would be unsafe
	} {
		if value := fields.take(absent.field, false); !empty(value) {
			return Configuration{}, invalid(root.AppendToken(absent.field),
				"must be null or []: %s is not available in this version", absent.what)
		}
	}
	if unknown := slices.Sorted(maps.Keys(fields.members)); len(unknown) > 0 {
		return Configuration{}, problem(root.AppendToken(unknown[0]),
			"is not a known field; remove it or correct its spelling").refuse(toolpark.CodeParameterInvalid)
	}
	functions, err := parseFunctions(definitions)
	if err != nil {
		return Configuration{}, err
	}
	approval, err := approvalMode(mode, len(functions) > 0)
	if err != nil {
		return Configuration{}, err
	}
	return Configuration{Functions: functions, ApprovalMode: approval}, nil
}

// invalid is a validation_failed at a pointer.
func invalid(at jsontext.Pointer, format string, args ...any) *toolpark.Error {
	return problem(at, format, args...).refuse(toolpark.CodeValidationFailed)
}

// refuse makes a problem the whole answer.
func (p Problem) refuse(code toolpark.Code) *toolpark.Error {
	return toolpark.Errorf(code, "%s %s.", p.Path, p.Message).At(string(p.pointer))
}

// empty tells whether a list is absent, null or without elements.
func empty(value jsontext.Value) bool {
	if value == nil || value.Kind() == jsontext.KindNull {
		return true
	}
	var problems []Problem
	return len(list(value, "", &problems)) == 0 && len(problems) == 0
}

func parseFunctions(definitions jsontext.Value) ([]Function, error) {
	at := root + "/tool_definitions"
	if definitions == nil || definitions.Kind() == jsontext.KindNull {
		return nil, nil
	}
	canonical, err := strictjson.Canonical(definitions)
	if err != nil {
		return nil, invalid(at, "cannot be read: %s", err)
	}
	if len(canonical) > toolpark.MaxToolDefinitions {
		return nil, definitionsTooLarge(len(canonical))
	}
	var problems []Problem
	entries := list(definitions, at, &problems)
	if len(problems) > 0 {
		return nil, problems[0].refuse(toolpark.CodeValidationFailed)
	}
	functions := make([]Function, len(entries))
	first := make(map[string]int, len(entries))
	for i, entry := range entries {
		function, err := parseFunction(entry, at.AppendToken(strconv.Itoa(i)))
		if err != nil {
			return nil, err
		}
		if earlier, ok := first[function.Name]; ok {
			return nil, problem(function.at, "declares %s, which tool_definitions[%d] declares already",
				function.Name, earlier).refuse(toolpark.CodeDuplicateToolName)
		}
		first[function.Name] = i
		functions[i] = function
	}
	return functions, nil
}

// definitionsTooLarge refuses tool definitions of so many bytes.
func definitionsTooLarge(bytes int) error {
	return toolpark.Errorf(toolpark.CodeContentTooLarge, "the tool definitions take %d bytes; they may have %d.",
		bytes, toolpark.MaxToolDefinitions).At(string(root + "/tool_definitions"))
}

// approvalMode reads how calls are approved, which must be said as soon as something can be called.
func approvalMode(value jsontext.Value, callable bool) (string, error) {
	at := root + "/approval_mode"
	if value == nil || value.Kind() == jsontext.KindNull {
		if callable {
			return "", invalid(at, "is missing; a configuration that declares tools needs one, such as %s", ApprovalBypass)
		}
		return "", nil
	}
	var mode string
	if value.Kind() == jsontext.KindString {
		_ = json.Unmarshal(value, &mode) // what cannot be read is no mode
	}
	switch mode {
	case ApprovalBypass:
		return mode, nil
	case "ask", "rules":
		return "", invalid(at, "must be %s: the mode %s is not available in this version", ApprovalBypass, mode)
	}
	return "", invalid(at, "must be %s", ApprovalBypass)
}
