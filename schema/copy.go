package schema

import (
	"encoding/json/jsontext"
	"maps"
	"net/url"
	"slices"
)

// The library gets a copy of a surveyed schema. It holds the keywords that decide, and each reference
// in it is a pointer from the root of the copy: addresses, anchors and what hides them are the survey's
// business alone, so that both cannot read them differently.

// copiedAs names the keywords below which the copy holds what the document holds below one. The
// library knows one place for definitions and one for what depends on a property.
//
// It also mistakes the items inside an item for items beside it, once unevaluatedItems has been applied
// to that item. Nothing that a negation finds out leaves it, and two of them decide as none does.
func copiedAs(keyword string) []string {
	switch keyword {
	case "definitions":
		return []string{"$defs"}
	case "dependencies":
		return []string{"dependentSchemas"}
	case "unevaluatedItems":
		return []string{"unevaluatedItems", "not", "not"}
	}
	return []string{keyword}
}

// put copies the value of a keyword.
func (p *position) put(keyword string, value any) {
	names := copiedAs(keyword)
	for _, name := range slices.Backward(names[1:]) {
		value = map[string]any{name: value}
	}
	p.copy[names[0]] = value
}

// add copies one member of a keyword whose value is an object, unless it has that member.
func (p *position) add(keyword, member string, value any) bool {
	all, _ := p.copy[keyword].(map[string]any)
	if all == nil {
		all = map[string]any{}
		p.copy[keyword] = all
	}
	if _, taken := all[member]; taken {
		return false
	}
	all[member] = value
	return true
}

// refer copies a reference.
func (p *position) refer(keyword string, to *position) {
	if keyword != "$ref" {
		// No two schemas share a dynamic anchor, so where a dynamic reference leads is known by now.
		keyword = "$dynamicRef"
	}
	p.copy[keyword] = (&url.URL{Fragment: string(to.copied)}).String()
}

// expressible refuses what no copy can say. In draft 2019-09 an item that contains has matched is still
// unevaluated, in the next one it is not, and the library knows the next one.
func (s *survey) expressible() error {
	if s.dialect != &draft201909 {
		return nil
	}
	has := func(keyword string) func(jsontext.Pointer) bool {
		return func(at jsontext.Pointer) bool { _, has := s.positions[at].copy[keyword]; return has }
	}
	all := slices.Sorted(maps.Keys(s.positions))
	if i := slices.IndexFunc(all, has("unevaluatedItems")); i >= 0 && slices.ContainsFunc(all, has("contains")) {
		return refuse(string(all[i].AppendToken("unevaluatedItems")),
			"it cannot stand in one schema with contains before draft 2020-12; name %q in $schema", draft202012.uri)
	}
	return nil
}

// below is the pointer to what stands at tokens below p.
func below(p jsontext.Pointer, tokens []string) jsontext.Pointer {
	for _, token := range tokens {
		p = p.AppendToken(token)
	}
	return p
}
