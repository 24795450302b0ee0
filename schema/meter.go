package schema

import (
	stdjson "encoding/json"
	"strings"

	jsonschema "github.com/kaptinlin/jsonschema"
)

const (
	// maxSteps bounds one check, and all checks of one Budget. A step is about a microsecond of the
	// library's time.
	maxSteps = 500_000

	// branchSteps is what a schema that applies beside another one costs by itself: the library makes
	// a result of its own for it and copies that into the other's.
	branchSteps = 4
)

// fairSteps is what a check may cost whatever the checks before it did: an ordinary value is never
// refused for its neighbours.
const fairSteps = 4_000

// Budget is what the checks of one request may cost together: as much as the dearest single check, and
// fairSteps for each.
type Budget struct{ left int }

// NewBudget is a Budget that nothing was taken from.
func NewBudget() *Budget { return &Budget{left: maxSteps} }

// meter counts what a check would cost before it is made. A recursive schema with branches, as every
// grammar of nested expressions is, doubles its work at each level of the value; the library has no
// brake, and a check cannot be interrupted. Counting visits the same schemas and values without
// making any result, so it is far cheaper than the check, and it stops at the bound.
type meter struct {
	programs map[string]int // instructions by pattern
	left     int
}

func (m *meter) spend(steps int) bool {
	m.left -= steps
	return m.left >= 0
}

// apply counts one schema on one value and reports whether steps are left. Where the library may
// stop early or choose, the larger number is taken.
func (m *meter) apply(s *jsonschema.Schema, value any) bool {
	if !m.spend(1 + size(value)) {
		return false
	}
	if s == nil || s.Boolean != nil {
		return true
	}
	if !m.spend(constants(s, value)) {
		return false
	}
	for _, group := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf, {s.ResolvedRef, s.ResolvedDynamicRef, s.Not, s.If, s.Then, s.Else}} {
		for _, branch := range group {
			if branch != nil && !(m.spend(branchSteps) && m.apply(branch, value)) {
				return false
			}
		}
	}
	switch v := value.(type) {
	case string:
		return s.Pattern == nil || m.match(*s.Pattern, v)
	case []any:
		return m.array(s, v)
	case map[string]any:
		return m.object(s, v)
	}
	return true
}

func (m *meter) array(s *jsonschema.Schema, items []any) bool {
	if s.UniqueItems != nil && !m.spend(weight(items)) {
		return false
	}
	for i, item := range items {
		below := s.Items
		if i < len(s.PrefixItems) {
			below = s.PrefixItems[i]
		}
		for _, part := range []*jsonschema.Schema{below, s.Contains, s.UnevaluatedItems} {
			if part != nil && !m.apply(part, item) {
				return false
			}
		}
	}
	return true
}

func (m *meter) object(s *jsonschema.Schema, members map[string]any) bool {
	for name, branch := range s.DependentSchemas {
		if _, there := members[name]; there && !m.apply(branch, members) {
			return false
		}
	}
	if s.Properties != nil {
		// The library looks up each declared name, and each that is missing among the required ones.
		missing := max(0, len(*s.Properties)-len(members))
		if !m.spend(len(*s.Properties)/8 + missing*len(s.Required)/64) {
			return false
		}
		for name, property := range *s.Properties {
			if value, there := members[name]; there && !m.apply(property, value) {
				return false
			}
		}
	}
	for name, value := range members {
		if !m.member(s, name, value) {
			return false
		}
	}
	return true
}

func (m *meter) member(s *jsonschema.Schema, name string, value any) bool {
	if s.PatternProperties != nil {
		for pattern, property := range *s.PatternProperties {
			if !m.match(pattern, name) || !m.apply(property, value) {
				return false
			}
		}
	}
	if s.PropertyNames != nil && !m.apply(s.PropertyNames, name) {
		return false
	}
	declared := false
	if s.Properties != nil {
		_, declared = (*s.Properties)[name]
	}
	if s.AdditionalProperties != nil && !declared && !m.apply(s.AdditionalProperties, value) {
		return false
	}
	return s.UnevaluatedProperties == nil || m.apply(s.UnevaluatedProperties, value)
}

// match counts a pattern: RE2 takes at most its program's size for each byte.
func (m *meter) match(pattern, text string) bool {
	return m.spend(1 + m.programs[pattern]*len(text)/400)
}

// constants counts the comparisons with enum and const, each as deep as the smaller side. Four short
// ones take a microsecond.
func constants(s *jsonschema.Schema, value any) int {
	steps := 0
	if len(s.Enum) > 0 {
		own := weight(value)
		for _, allowed := range s.Enum {
			steps += 1 + min(own, weight(allowed))
		}
	}
	if s.Const != nil {
		steps += 1 + weight(s.Const.Value)
	}
	return steps / 4
}

// size is what visiting a value costs beside the schema's keywords: a text is copied, a number
// parsed, the names of an object noted.
func size(value any) int {
	switch v := value.(type) {
	case string:
		return len(v) / 64
	case stdjson.Number:
		steps := len(v) / 20
		if strings.ContainsAny(string(v), "eE") {
			steps += 10 // up to a thousand digits that are not written out
		}
		return steps
	case []any:
		return len(v) / 16
	case map[string]any:
		return len(v) / 16
	}
	return 0
}

// weight is the size of a value with all that is in it.
func weight(value any) int {
	steps := 1 + size(value)
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			steps += weight(item)
		}
	case map[string]any:
		for _, member := range v {
			steps += weight(member)
		}
	}
	return steps
}
