package schema_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	oracle "github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

// grammar is what a generator knows of one draft.
type grammar struct {
	draft       *oracle.Draft
	definitions string // the keyword they stand in
	id          string // the keyword that names a resource
	modern      bool   // a $ref has neighbours, and anchors have a keyword
	keywords
}

// keywords are those of a draft that decide, by the values they are about.
type keywords struct{ every, scalars, arrays, objects []string }

func (k keywords) and(more keywords) keywords {
	return keywords{
		every: slices.Concat(k.every, more.every), scalars: slices.Concat(k.scalars, more.scalars),
		arrays: slices.Concat(k.arrays, more.arrays), objects: slices.Concat(k.objects, more.objects),
	}
}

var grammars = func() []grammar {
	four := keywords{
		every:   []string{"$ref", "type", "enum", "allOf", "anyOf", "oneOf", "not"},
		scalars: []string{"multipleOf", "maximum", "minimum", "maxLength", "minLength", "pattern"},
		arrays:  []string{"items", "additionalItems", "maxItems", "minItems", "uniqueItems"},
		objects: []string{
			"maxProperties", "minProperties", "required", "properties", "patternProperties", "additionalProperties", "dependencies",
		},
	}
	six := four.and(keywords{
		every: []string{"const"}, arrays: []string{"contains"}, objects: []string{"propertyNames"},
		scalars: []string{"exclusiveMaximum", "exclusiveMinimum"},
	})
	seven := six.and(keywords{every: []string{"if", "then", "else"}})
	nineteen := seven.and(keywords{
		arrays:  []string{"unevaluatedItems", "minContains", "maxContains"},
		objects: []string{"dependentSchemas", "dependentRequired", "unevaluatedProperties"},
	})
	twenty := nineteen.and(keywords{every: []string{"$dynamicRef"}, arrays: []string{"prefixItems"}})
	nineteen = nineteen.and(keywords{every: []string{"$recursiveRef"}})
	return []grammar{
		{oracle.Draft2020, "$defs", "$id", true, twenty},
		{oracle.Draft2019, "$defs", "$id", true, nineteen},
		{oracle.Draft7, "definitions", "$id", false, seven},
		{oracle.Draft6, "definitions", "$id", false, six},
		{oracle.Draft4, "definitions", "id", false, four},
	}
}()

// The words that schemas and values are made of: few, so that they meet, and among them those that
// implementations stumble over. Patterns are written as they stand in JSON.
var (
	memberNames = []string{"a", "b", "c", "", "a/b~", "é", "$ref", "0", "%25"}
	someTexts   = []string{"", "a", "ab", "b", "0", "é", "e\u0301", "😀", "null", "a/b~"}
	someNumbers = []string{
		"0", "-0", "0.0", "1", "1.0", "1e0", "10e-1", "2", "3", "-1", "1.5", "0.1", "0.3", "100", "1E2",
		"9007199254740992", "9007199254740993", "9007199254740993.0", "12345678901234567890", "1e400", "1e-400",
	}
	somePatterns = []string{"", "a", "^a", "b$", "^.$", "^[ab]*$", `\\d`, "é", `^\\S+$`, "/"}
	someTypes    = []string{"null", "boolean", "object", "array", "number", "string", "integer"}
	annotations  = []string{`"default":1`, `"x-note":{"type":"nope"}`, `"contentEncoding":"base64"`, `"contentMediaType":"application/json"`, `"title":"A"`}
)

// generator writes schemas of one draft, and values that have a chance to match them. Each draws few
// kinds of things and combines them often, since mistakes are in the combinations.
type generator struct {
	*rapid.T
	grammar
	about       string   // what values mostly are: arrays, objects, or anything
	usable      []string // keywords
	names       []string // of members
	definitions []string
}

func newGenerator(t *rapid.T) generator {
	g := generator{T: t, grammar: pick(t, grammars), about: pick(t, []string{"arrays", "objects", "anything"})}
	pool := g.every
	if g.about != "objects" {
		pool = slices.Concat(pool, g.arrays)
	}
	if g.about != "arrays" {
		pool = slices.Concat(pool, g.objects)
	}
	if g.about == "anything" {
		pool = slices.Concat(pool, g.scalars)
	}
	g.usable = some(t, pool, 2, 8)
	g.names = some(t, memberNames, 1, 3)
	g.definitions = []string{"d0", "d1", "d2"}[:g.upTo(3)]
	return g
}

func pick[E any](t *rapid.T, from []E) E { return rapid.SampledFrom(from).Draw(t, "one") }

func some(t *rapid.T, from []string, least, most int) []string {
	return rapid.SliceOfNDistinct(rapid.SampledFrom(from), least, min(most, len(from)), rapid.ID).Draw(t, "some")
}

func (g generator) oneOf(from ...string) string { return pick(g.T, from) }
func (g generator) upTo(n int) int              { return rapid.IntRange(0, n).Draw(g.T, "number") }
func (g generator) oneIn(n int) bool            { return g.upTo(n-1) == 0 }

// document is a schema with definitions that may refer to each other.
func (g generator) document() string {
	members := append(g.members(3), fmt.Sprintf(`"$schema":%q`, g.draft))
	definitions := make([]string, len(g.definitions))
	for i, name := range g.definitions {
		definitions[i] = strconv.Quote(name) + ":" + g.definition(name)
	}
	members = append(members, fmt.Sprintf("%q:{%s}", g.grammar.definitions, strings.Join(definitions, ",")))
	return "{" + strings.Join(members, ",") + "}"
}

// definition is a schema that may have an anchor or an address.
func (g generator) definition(name string) string {
	var named string
	switch kind := g.upTo(6); {
	case kind == 0:
		return g.schema(2)
	case kind == 1:
		named = fmt.Sprintf("%q:%q", g.id, name+".json")
	case kind == 2 && g.modern:
		named = fmt.Sprintf(`"$anchor":%q`, name)
	case kind == 2:
		named = fmt.Sprintf("%q:%q", g.id, "#"+name)
	case kind == 3:
		named = fmt.Sprintf(`"$dynamicAnchor":%q`, name)
	default:
		named = g.oneOf(annotations...)
	}
	return "{" + strings.Join(append(g.members(2), named), ",") + "}"
}

// schema is a schema that nests at most so deep.
func (g generator) schema(depth int) string {
	if g.draft != oracle.Draft4 && g.oneIn(4) {
		return g.oneOf("true", "false", "{}")
	}
	return "{" + strings.Join(g.members(depth), ",") + "}"
}

// members are keywords with their values.
func (g generator) members(depth int) []string {
	var members []string
	names := some(g.T, g.usable, 0, 4)
	refers := slices.Contains(names, "$ref") && !g.modern
	for _, name := range names {
		if refers && slices.Contains([]string{"type", "enum", "const"}, name) {
			continue // the oracle heeds these beside a $ref, in drafts that say to ignore all that is there
		}
		if value := g.keyword(name, depth); value != "" {
			members = append(members, strconv.Quote(name)+":"+value)
		}
	}
	return members
}

// keyword is a value of a keyword, or "" for one that would nest too deep.
func (g generator) keyword(name string, depth int) string {
	switch name {
	case "type":
		if g.oneIn(3) {
			return `["` + g.oneOf(someTypes[:3]...) + `","` + g.oneOf(someTypes[3:]...) + `"]`
		}
		return strconv.Quote(g.oneOf(someTypes...))
	case "enum":
		return g.list(3, func() string { return g.value(1) })
	case "const":
		return g.value(2)
	case "multipleOf":
		return g.oneOf("1", "2", "0.1", "1.5", "1e-3", "3e0", "1e400")
	case "maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum":
		return g.oneOf(someNumbers...)
	case "maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties", "minContains", "maxContains":
		return g.oneOf("0", "1", "2", "2.0", "3")
	case "uniqueItems":
		return g.oneOf("true", "true", "false")
	case "pattern":
		return `"` + g.oneOf(somePatterns...) + `"`
	case "required":
		return g.nameList()
	case "dependentRequired":
		return g.object(g.names, g.nameList)
	case "$ref":
		return strconv.Quote(g.reference())
	case "$dynamicRef":
		return strconv.Quote(g.oneOf("#d0", "#d1", "#d2", "#", "#/items"))
	case "$recursiveRef":
		return `"#"`
	}
	if depth == 0 {
		return ""
	}
	below := func() string { return g.schema(depth - 1) }
	switch name {
	case "properties", "dependentSchemas":
		return g.object(g.names, below)
	case "patternProperties":
		return g.object(somePatterns, below)
	case "dependencies":
		return g.object(g.names, func() string {
			if g.oneIn(2) {
				return g.nameList()
			}
			return below()
		})
	case "allOf", "anyOf", "oneOf", "prefixItems":
		return g.list(3, below)
	case "items":
		if g.draft != oracle.Draft2020 && g.oneIn(2) {
			return g.list(2, below)
		}
	}
	return below()
}

// reference names a definition in one of the ways there are, or something that may not be there.
func (g generator) reference() string {
	if len(g.definitions) == 0 || g.oneIn(6) {
		return g.oneOf("#", "#/items", "#/not", "#/allOf/0", "#/properties/a", "#/properties/a~1b~0", "#/properties/%C3%A9",
			"#/properties/%2525", "#/dependencies/a", "#/unevaluatedItems", "d0.json", "http://elsewhere.test/")
	}
	name := g.oneOf(g.definitions...)
	return g.oneOf("#"+name, name+".json", name+".json#/not", "#/"+g.grammar.definitions+"/"+name, "#/"+g.grammar.definitions+"/"+name)
}

func (g generator) list(most int, item func() string) string {
	items := make([]string, 1+g.upTo(most-1))
	for i := range items {
		items[i] = item()
	}
	return "[" + strings.Join(items, ",") + "]"
}

func (g generator) object(names []string, value func() string) string {
	var members []string
	for _, name := range some(g.T, names, 0, 3) {
		members = append(members, `"`+name+`":`+value())
	}
	return "{" + strings.Join(members, ",") + "}"
}

func (g generator) nameList() string {
	names := some(g.T, g.names, 1, 3)
	return `["` + strings.Join(names, `","`) + `"]`
}

// value is a JSON value that nests at most so deep.
func (g generator) value(depth int) string {
	below := func() string { return g.value(depth - 1) }
	kind := g.upTo(9)
	if depth == 0 {
		kind = g.upTo(4)
	}
	switch {
	case kind == 0:
		return g.oneOf("null", "true", "false", "[]", "{}")
	case kind <= 2:
		return g.oneOf(someNumbers...)
	case kind <= 4:
		return strconv.Quote(g.oneOf(someTexts...))
	case g.about == "arrays", g.about == "anything" && kind <= 6:
		return g.list(4, below)
	}
	return g.object(g.names, below)
}
