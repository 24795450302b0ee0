package declaration

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"maps"
	"slices"
	"strings"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/approval"
	"github.com/toolpark/toolpark/internal/form"
)

// Configuration is what a run or a profile asks to call, before anything is looked up.
type Configuration struct {
	Sources
	Approval approval.Policy // its mode is empty when none was named, and then nothing can be called
}

// ParseConfiguration reads a run's or a profile's configuration, like [ParseSources]; but a field that
// does not exist is parameter_invalid (a misspelt approval rule must not be dropped), and how calls are
// approved must be said as soon as one can be made. Malformed rules about that are invalid_approval_rules.
func ParseConfiguration(raw jsontext.Value) (Configuration, error) {
	return configurationGrammar().configuration(raw)
}

func (g grammar) configuration(raw jsontext.Value) (Configuration, error) {
	o, err := openConfiguration(raw)
	if err != nil {
		return Configuration{}, err
	}
	sources := takeFields(o, g.definitions)
	mode, rules := o.Take("approval_mode", false), o.Take("approval_rules", false)
	if unknown := slices.Sorted(maps.Keys(o.Members)); len(unknown) > 0 {
		return Configuration{}, form.At(root.AppendToken(unknown[0]),
			"is not a known field; remove it or correct its spelling").Refuse(toolpark.CodeParameterInvalid)
	}
	s, err := g.parse(sources)
	if err != nil {
		return Configuration{}, err
	}
	c := Configuration{Sources: s}
	if c.Approval.Mode, err = approvalMode(mode, s.callable()); err != nil {
		return Configuration{}, err
	}
	if c.Approval.Rules, err = approval.ParseRules(rules, root+"/approval_rules"); err != nil {
		return Configuration{}, err
	}
	return c, nil
}

// callable tells whether something may come of these sources that a model can call.
func (s Sources) callable() bool {
	return len(s.Entries) > 0 || len(s.KernelTools) > 0 || len(s.Candidates) > 0 && s.importsTools()
}

// invalid is a validation_failed at a pointer.
func invalid(at jsontext.Pointer, format string, args ...any) *toolpark.Error {
	return form.At(at, format, args...).Refuse(toolpark.CodeValidationFailed)
}

// approvalMode reads how calls are approved, which must be said as soon as something can be called.
func approvalMode(value jsontext.Value, callable bool) (string, error) {
	const at = root + "/approval_mode"
	modes := strings.Join(approval.Modes, ", ")
	if absent(value) {
		if callable {
			return "", invalid(at, "is missing; a configuration that declares tools needs one of %s", modes)
		}
		return "", nil
	}
	var mode string
	if value.Kind() == jsontext.KindString {
		_ = json.Unmarshal(value, &mode) // what cannot be read is no mode
	}
	if !slices.Contains(approval.Modes, mode) {
		return "", invalid(at, "must be one of %s", modes)
	}
	return mode, nil
}
