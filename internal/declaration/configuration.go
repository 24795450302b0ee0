package declaration

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"maps"
	"slices"

	"github.com/toolpark/toolpark"
)

// ApprovalBypass is the approval mode in which every declared tool may be called at once.
const ApprovalBypass = "bypass"

// Configuration is what a run or a profile asks to call, before anything is looked up.
type Configuration struct {
	Sources
	ApprovalMode string // ApprovalBypass; empty when none was named, and then nothing can be called
}

// ParseConfiguration reads a run's or a profile's configuration, like [ParseSources]; but a field that
// does not exist is parameter_invalid (a misspelt approval rule must not be dropped), and how calls are
// approved must be said as soon as one can be made. Approval modes other than bypass, and approval
// rules, are validation_failed: this version does not offer them.
func ParseConfiguration(raw jsontext.Value) (Configuration, error) {
	return configurationGrammar().configuration(raw)
}

func (g grammar) configuration(raw jsontext.Value) (Configuration, error) {
	o, err := openConfiguration(raw)
	if err != nil {
		return Configuration{}, err
	}
	sources := takeFields(o, g.definitions)
	mode := o.take("approval_mode", false)
	if rules := o.take("approval_rules", false); !empty(rules) { // ignoring a rule that denies would be unsafe
		return Configuration{}, invalid(root+"/approval_rules", "must be null or []: approval rules are not available in this version")
	}
	if unknown := slices.Sorted(maps.Keys(o.members)); len(unknown) > 0 {
		return Configuration{}, problem(root.AppendToken(unknown[0]),
			"is not a known field; remove it or correct its spelling").refuse(toolpark.CodeParameterInvalid)
	}
	s, err := g.parse(sources)
	if err != nil {
		return Configuration{}, err
	}
	approval, err := approvalMode(mode, s.callable())
	return Configuration{Sources: s, ApprovalMode: approval}, err
}

// callable tells whether something may come of these sources that a model can call.
func (s Sources) callable() bool {
	return len(s.Entries) > 0 || len(s.KernelTools) > 0 || len(s.Candidates) > 0 && s.importsTools()
}

// invalid is a validation_failed at a pointer.
func invalid(at jsontext.Pointer, format string, args ...any) *toolpark.Error {
	return problem(at, format, args...).refuse(toolpark.CodeValidationFailed)
}

// refuse makes a problem the whole answer. Its message names the field and the code.
func (p Problem) refuse(code toolpark.Code) *toolpark.Error {
	return toolpark.Errorf(code, "%s %s (%s).", p.Path, p.Message, code).At(string(p.pointer))
}

// empty tells whether a list is absent, null or without elements.
func empty(value jsontext.Value) bool {
	if absent(value) {
		return true
	}
	var problems []Problem
	return len(list(value, "", &problems)) == 0 && len(problems) == 0
}

// approvalMode reads how calls are approved, which must be said as soon as something can be called.
func approvalMode(value jsontext.Value, callable bool) (string, error) {
	const at = root + "/approval_mode"
	if absent(value) {
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
