package schema

import (
	stdjson "encoding/json"
	"strings"

	jsonschema "github.com/kaptinlin/jsonschema"
)

// meter counts what a check would cost before it is made. A recursive schema with branches, as every
// grammar of nested expressions is, doubles its work at each level of the value; the library has no
// brake, and a check cannot be interrupted. Counting visits the same schemas and values without
// making any result, so it is far cheaper than the check, and it stops when no steps are left.
//
// A step is about a microsecond of the library's time and a kilobyte of its garbage.
type meter struct {
	programs map[string]int // instructions by pattern
	refAlone bool           // $ref hides the keywords beside it
	left     int            // steps; below zero, counting has stopped
	depth    int            // schemas being applied
}

// branchSteps is what a schema that applies beside another one costs by itself: the library makes
// a result of its own for it and adds that to the other's.
const branchSteps = 4

func (m *meter) spend(steps int) { m.left -= steps }
func (m *meter) stopped() bool   { return m.left < 0 }

// apply counts one schema on one value. It returns how many names or indexes the library would note as
// evaluated by it, since each schema around it copies them. Where the library may stop early or choose,
// the larger number is taken.
func (m *meter) apply(s *jsonschema.Schema, value any) int {
	m.depth++
	noted := m.applied(s, value)
	m.depth--
	return noted
}

func (m *meter) applied(s *jsonschema.Schema, value any) int {
	m.spend(1 + size(value) + m.depth/500) // the library looks for itself among those being applied
	if m.stopped() || s.Boolean != nil {
		return 0
	}
	if s.ResolvedRef != nil && m.refAlone {
		return m.branch(s.ResolvedRef, value)
	}
	m.constants(s, value)
	if _, is := value.(stdjson.Number); is {
		m.bounds(s)
	}
	noted := 0
	for _, group := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf, {s.ResolvedRef, s.ResolvedDynamicRef, s.Not, s.If, s.Then, s.Else}} {
		for _, branch := range group {
			if branch != nil && !m.stopped() {
				noted += m.branch(branch, value)
			}
		}
	}
	switch v := value.(type) {
	case string:
		if s.Pattern != nil {
			m.match(*s.Pattern, v)
		}
	case []any:
		m.array(s, v)
		noted = min(noted, len(v))
		if s.Items != nil || s.PrefixItems != nil || s.Contains != nil || s.UnevaluatedItems != nil {
			noted = len(v)
		}
	case map[string]any:
		noted += m.object(s, v)
	}
	return noted
}

// branch counts a schema that applies beside another one, to the same value.
func (m *meter) branch(s *jsonschema.Schema, value any) int {
	noted := m.apply(s, value)
	m.spend(branchSteps + noted/8)
	return noted
}

func (m *meter) array(s *jsonschema.Schema, items []any) {
	if s.UniqueItems != nil {
		m.spend(weight(items, m.left))
	}
	for i, item := range items {
		below := s.Items
		if i < len(s.PrefixItems) {
			below = s.PrefixItems[i]
		}
		for _, part := range []*jsonschema.Schema{below, s.Contains, s.UnevaluatedItems} {
			if m.stopped() {
				return
			}
			if part != nil {
				m.apply(part, item)
			}
		}
	}
}

// object counts what a schema says of an object, and returns how many names it notes.
func (m *meter) object(s *jsonschema.Schema, members map[string]any) int {
	// Each required name is looked up, and each that is missing is spelled out.
	m.spend(len(s.Required)/32 + max(0, len(s.Required)-len(members))/4)
	m.spend(len(s.DependentRequired) / 8)
	for name, required := range s.DependentRequired {
		if _, there := members[name]; there && !m.stopped() {
			m.spend(len(required) / 4)
		}
	}
	noted := 0
	for name, branch := range s.DependentSchemas {
		if _, there := members[name]; there && !m.stopped() {
			noted += m.branch(branch, members)
		}
	}
	if s.Properties != nil {
		// Each declared name is looked up and noted; one that is missing is sought among the required ones.
		noted += len(*s.Properties)
		m.spend(len(*s.Properties)/8 + max(0, len(*s.Properties)-len(members))*len(s.Required)/64)
		if s.AdditionalProperties != nil {
			m.spend(len(*s.Properties) / 8)
		}
		for name, property := range *s.Properties {
			if value, there := members[name]; there && !m.stopped() {
				m.apply(property, value)
			}
		}
	}
	if s.PatternProperties != nil {
		m.spend(len(members) * len(members) / 500) // each wrong name is sought among those before it
	}
	if s.PatternProperties != nil || s.AdditionalProperties != nil || s.UnevaluatedProperties != nil {
		noted += len(members)
	}
	for name, value := range members {
		if m.stopped() {
			break
		}
		m.member(s, name, value)
	}
	return noted
}

func (m *meter) member(s *jsonschema.Schema, name string, value any) {
	if s.PatternProperties != nil {
		for pattern, property := range *s.PatternProperties {
			if m.stopped() {
				return
			}
			m.match(pattern, name)
			if s.AdditionalProperties != nil {
				m.match(pattern, name)
			}
			m.apply(property, value)
		}
	}
	if s.PropertyNames != nil {
		m.apply(s.PropertyNames, name)
	}
	declared := false
	if s.Properties != nil {
		_, declared = (*s.Properties)[name]
	}
	if s.AdditionalProperties != nil && !declared {
		m.apply(s.AdditionalProperties, value)
	}
	if s.UnevaluatedProperties != nil {
		m.apply(s.UnevaluatedProperties, value)
	}
}

// match counts a pattern: RE2 takes at most its program's size for each byte.
func (m *meter) match(pattern, text string) {
	m.spend(1 + m.programs[pattern]*len(text)/400)
}

// bounds counts the arithmetic with the bounds of a number.
func (m *meter) bounds(s *jsonschema.Schema) {
	for _, bound := range []*jsonschema.Rat{s.MultipleOf, s.Maximum, s.Minimum, s.ExclusiveMaximum, s.ExclusiveMinimum} {
		if bound != nil {
			m.spend((bound.Num().BitLen() + bound.Denom().BitLen()) / 50)
		}
	}
}

// constants counts the comparisons with enum and const. The library writes out each value of an enum
// that is not the one, however long, and two short texts take it a microsecond.
func (m *meter) constants(s *jsonschema.Schema, value any) {
	text, isText := value.(string)
	halves := 2 * min(1, len(s.Enum))
	for _, allowed := range s.Enum {
		if m.left < halves/2 {
			break
		}
		if one, is := allowed.(string); is {
			halves += 1 + len(one)/64
			if isText && one == text {
				break
			}
			continue
		}
		w := weight(allowed, m.left)
		halves += 2 * (w + weight(value, w) - 1)
	}
	m.spend(halves / 2)
	if s.Const != nil {
		own := weight(value, m.left)
		m.spend(own/4 + weight(s.Const.Value, own))
	}
}

// size is what visiting a value costs beside the schema's keywords: a text is copied, a number
// parsed, the names of an object noted.
func size(value any) int {
	switch v := value.(type) {
	case string:
		return len(v) / 64
	case stdjson.Number:
		steps := 1 + len(v)/20
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

// weight is the size of a value with all that is in it, up to a number at which counting stops.
func weight(value any, most int) int {
	steps := 1 + size(value)
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			if steps > most {
				break
			}
			steps += weight(item, most-steps)
		}
	case map[string]any:
		for _, member := range v {
			if steps > most {
				break
			}
			steps += weight(member, most-steps)
		}
	}
	return steps
}
