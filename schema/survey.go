package schema

import (
	"encoding/json/jsontext"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"

	"github.com/toolpark/toolpark/internal/strictjson"
)

// Bounds that keep compiling and checking cheap whatever the schema is.
const (
	maxSubschemas   = 10_000  // schemas in one document
	maxPattern      = 4 << 10 // bytes of one pattern
	maxProgram      = 10_000  // instructions of one pattern's machine
	maxPrograms     = 50_000  // instructions of all machines of a document
	maxApplications = 5_000   // schemas that apply to one and the same value
	maxChain        = 250     // references and branches to go through without moving into the value
)

// survey is what one pass over a schema document learns.
type survey struct {
	dialect   *dialect
	resources map[string]*resource
	positions map[jsontext.Pointer]*position
	dynamic   map[string]*position // by $dynamicAnchor; recursiveAnchor stands for $recursiveAnchor
	programs  map[string]int       // instructions by pattern
	size      int                  // of all programs
}

// resource is a schema with an address of its own: the root, or what has an $id.
type resource struct {
	base    *url.URL
	root    *position
	anchors map[string]*position
}

// position is one schema inside the document.
type position struct {
	pointer    jsontext.Pointer
	resource   *resource
	types      []string // of the type keyword
	properties bool     // it has the properties keyword
	edges      []edge   // what else applies to the same value
	references []unresolved
	cost       cost
}

// edge leads to a schema that applies to the same value.
type edge struct {
	keyword string
	to      *position
}

// unresolved is a reference as it is written.
type unresolved struct{ keyword, ref string }

func newSurvey(document jsontext.Value) (*survey, error) {
	s := &survey{
		dialect:   &draft202012,
		resources: map[string]*resource{},
		positions: map[jsontext.Pointer]*position{},
		dynamic:   map[string]*position{},
		programs:  map[string]int{},
	}
	root, _ := members(document)
	if named, ok := root["$schema"]; ok && named.Kind() == '"' {
		if s.dialect, ok = dialectNamed(stringOf(named)); !ok {
			return nil, refuse("/$schema", "the dialect %q is not known; use %q or leave it out",
				strictjson.CutString(stringOf(named), maxReason), draft202012.uri)
		}
	}
	return s, nil
}

// run surveys the document and returns its root and the copy that decides.
func (s *survey) run(document jsontext.Value) (*position, jsontext.Value, error) {
	top := &resource{base: &url.URL{}, anchors: map[string]*position{}}
	root, decisive, err := s.schema(document, "", top)
	if err != nil {
		return nil, nil, err
	}
	if err := s.resolve(); err != nil {
		return nil, nil, err
	}
	return root, decisive, s.weigh()
}

// schema surveys one schema and returns its copy. It recurses no deeper than the document nests.
func (s *survey) schema(v jsontext.Value, at jsontext.Pointer, within *resource) (*position, jsontext.Value, error) {
	if len(s.positions) == maxSubschemas {
		return nil, nil, refuse(string(at), "there are more than %d schemas in the document", maxSubschemas)
	}
	p := &position{pointer: at, resource: within}
	s.positions[at] = p
	if within.root == nil {
		within.root = p
	}
	if k := v.Kind(); k == 't' || k == 'f' {
		return p, v, nil
	}
	object, ok := members(v)
	if !ok {
		return nil, nil, refuse(string(at), "a schema must be an object, true or false")
	}
	if err := s.identify(p, object); err != nil {
		return nil, nil, err
	}
	copied := map[string]jsontext.Value{}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		k, known := s.dialect.keywords[name]
		if !known {
			continue // an annotation of somebody else's
		}
		value, err := s.keyword(p, name, k, object[name])
		if err != nil {
			return nil, nil, err
		}
		if !k.decides {
			continue
		}
		if name == "definitions" {
			// The library knows one place for definitions.
			name = "$defs"
		}
		if copied[name], err = merge(copied[name], value); err != nil {
			return nil, nil, refuse(string(at.AppendToken(name)), "%s, in definitions and in $defs; rename one", err)
		}
	}
	return p, objectOf(copied), nil
}

// keyword surveys the value of one keyword and returns its copy.
func (s *survey) keyword(p *position, name string, k keyword, v jsontext.Value) (jsontext.Value, error) {
	at := p.pointer.AppendToken(name)
	if mistake := k.shape.mistake(v); mistake != "" {
		return nil, refuse(string(at), "%q %s", name, mistake)
	}
	switch name {
	case "$schema":
		if d, _ := dialectNamed(stringOf(v)); d != s.dialect {
			return nil, refuse(string(at), "a document has one dialect, named by $schema at its root; remove this one")
		}
	case "type":
		p.types, _ = typeList(v)
	case "properties":
		p.properties = true
	}
	switch k.shape {
	case reference:
		p.references = append(p.references, unresolved{keyword: name, ref: stringOf(v)})
	case pattern:
		if v.Kind() != '"' {
			return nil, refuse(string(at), "%q must be a string", name)
		}
		return v, s.pattern(at, stringOf(v))
	case schemaShape:
		return s.child(p, name, k, v, at)
	case schemaList:
		return s.children(p, name, k, v, at)
	case schemaOrList:
		if v.Kind() == '[' {
			return s.children(p, name, k, v, at)
		}
		return s.child(p, name, k, v, at)
	case schemaMap, patternMap, dependencies:
		return s.childMap(p, name, k, v, at)
	}
	return v, nil
}

func (s *survey) child(p *position, name string, k keyword, v jsontext.Value, at jsontext.Pointer) (jsontext.Value, error) {
	to, copied, err := s.schema(v, at, p.resource)
	if err == nil && k.inPlace {
		p.edges = append(p.edges, edge{keyword: name, to: to})
	}
	return copied, err
}

func (s *survey) children(p *position, name string, k keyword, v jsontext.Value, at jsontext.Pointer) (jsontext.Value, error) {
	items, ok := elements(v)
	if !ok || len(items) == 0 {
		return nil, refuse(string(at), "%q must be an array with at least one schema", name)
	}
	out := []byte{'['}
	for i, item := range items {
		copied, err := s.child(p, name, k, item, at.AppendToken(strconv.Itoa(i)))
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, copied...)
	}
	return append(out, ']'), nil
}

func (s *survey) childMap(p *position, name string, k keyword, v jsontext.Value, at jsontext.Pointer) (jsontext.Value, error) {
	object, ok := members(v)
	if !ok {
		return nil, refuse(string(at), "%q must be an object of schemas", name)
	}
	copied := make(map[string]jsontext.Value, len(object))
	for _, member := range slices.Sorted(maps.Keys(object)) {
		place := at.AppendToken(member)
		if k.shape == patternMap {
			if err := s.pattern(place, member); err != nil {
				return nil, err
			}
		}
		if _, isNames := nameList(object[member]); isNames && k.shape == dependencies {
			copied[member] = object[member]
			continue
		}
		var err error
		if copied[member], err = s.child(p, name, k, object[member], place); err != nil {
			return nil, err
		}
	}
	return objectOf(copied), nil
}

// pattern refuses an expression that RE2 does not know, or whose machine is too big to run.
func (s *survey) pattern(at jsontext.Pointer, expression string) error {
	if _, seen := s.programs[expression]; seen {
		return nil
	}
	if len(expression) > maxPattern {
		return refuse(string(at), "the pattern has %d bytes; at most %d are allowed", len(expression), maxPattern)
	}
	size, err := programSize(expression)
	if err != nil {
		return refuse(string(at), "the pattern is not in RE2 syntax, which has no look-around and no back-references (%s)",
			strictjson.CutString(err.Error(), maxReason))
	}
	s.size += size
	if size > maxProgram || s.size > maxPrograms {
		return refuse(string(at), "the pattern repeats too much; a schema's patterns are expanded before they are matched, so use smaller counts")
	}
	s.programs[expression] = size
	return nil
}

// merge adds the members of one object to another. A name may be in one of them only.
func merge(into, from jsontext.Value) (jsontext.Value, error) {
	if into == nil {
		return from, nil
	}
	all, _ := members(into)
	more, _ := members(from)
	for name, value := range more {
		if _, taken := all[name]; taken {
			return nil, fmt.Errorf("%q is defined twice", name)
		}
		all[name] = value
	}
	return objectOf(all), nil
}

// objectOf writes an object with its keys in order.
func objectOf(members map[string]jsontext.Value) jsontext.Value {
	out := []byte{'{'}
	for i, name := range slices.Sorted(maps.Keys(members)) {
		if i > 0 {
			out = append(out, ',')
		}
		out, _ = jsontext.AppendQuote(out, name) // names of a checked document are valid UTF-8
		out = append(append(out, ':'), members[name]...)
	}
	return append(out, '}')
}
