package schema

import (
	"bytes"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"maps"
	"net/url"
	"slices"
	"strconv"

	"github.com/toolpark/toolpark/internal/strictjson"
)

// Bounds that keep compiling and checking cheap whatever the schema is.
const (
	maxSubschemas   = 10_000  // schemas in one document
	maxLevels       = 100_000 // of all schemas of a document, each as deep as it stands
	maxDigits       = 1 << 20 // digits of all bounds of a document, written out
	maxAddress      = 1 << 10 // bytes of one address
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
	levels    int                  // of all positions
	digits    int                  // of all bounds
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
	level      int
	resource   *resource
	noted      bool     // it decides nothing, and neither does what is in it
	types      []string // of the type keyword
	properties bool     // it has the properties keyword
	edges      []edge   // what else applies to the same value
	references []unresolved
	cost       cost
	copied     jsontext.Pointer // where it stands in the copy that decides
	copy       map[string]any   // and what it holds there; nil for true and false
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
	root := &position{resource: &resource{base: &url.URL{}, anchors: map[string]*position{}}}
	copied, err := s.schema(root, document)
	if err != nil {
		return nil, nil, err
	}
	if err := s.resolve(); err != nil {
		return nil, nil, err
	}
	if err := s.weigh(); err != nil {
		return nil, nil, err
	}
	if err := s.expressible(); err != nil {
		return nil, nil, err
	}
	decisive, err := json.Marshal(copied, json.Deterministic(true))
	return root, decisive, err
}

// schema surveys the schema at p and returns its copy. It recurses no deeper than the document nests.
func (s *survey) schema(p *position, v jsontext.Value) (any, error) {
	if len(s.positions) == maxSubschemas {
		return nil, refuse(string(p.pointer), "there are more than %d schemas in the document", maxSubschemas)
	}
	if s.levels += p.level; s.levels > maxLevels {
		return nil, refuse(string(p.pointer), "too many schemas stand in schemas in schemas; move some into $defs and refer to them")
	}
	s.positions[p.pointer] = p
	if p.resource.root == nil {
		p.resource.root = p
	}
	switch v.Kind() {
	case 'f':
		return v, nil
	case 't':
		// The library takes all parts of a value for evaluated once true has been applied to it.
		return struct{}{}, nil
	}
	object, ok := members(v)
	if !ok {
		return nil, refuse(string(p.pointer), "a schema must be an object, true or false")
	}
	if err := s.identify(p, object); err != nil {
		return nil, err
	}
	p.copy = map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		k, known := s.dialect.keywords[name]
		if !known {
			continue // an annotation of somebody else's
		}
		if err := s.keyword(p, name, k, object[name]); err != nil {
			return nil, err
		}
	}
	return p.copy, nil
}

// keyword surveys the value of one keyword and copies it if it decides.
func (s *survey) keyword(p *position, name string, k keyword, v jsontext.Value) error {
	at := p.pointer.AppendToken(name)
	if mistake := k.shape.mistake(v); mistake != "" {
		return refuse(string(at), "%q %s", name, mistake)
	}
	switch name {
	case "$schema":
		if d, _ := dialectNamed(stringOf(v)); d != s.dialect {
			return refuse(string(at), "a document has one dialect, named by $schema at its root; remove this one")
		}
	case "type":
		p.types, _ = typeList(v)
	case "properties":
		p.properties = true
	}
	var copied any = v
	var err error
	switch k.shape {
	case reference:
		p.references = append(p.references, unresolved{keyword: name, ref: stringOf(v)})
		return nil // it is copied once it is resolved
	case pattern:
		if v.Kind() != '"' {
			return refuse(string(at), "%q must be a string", name)
		}
		err = s.pattern(at, stringOf(v))
	case number, positive, count:
		err = s.number(at, v)
	case schemaShape:
		copied, err = s.child(p, name, k, v)
	case schemaList:
		copied, err = s.children(p, name, k, v)
	case schemaOrList:
		if v.Kind() == '[' {
			copied, err = s.children(p, name, k, v)
		} else {
			copied, err = s.child(p, name, k, v)
		}
	case schemaMap, patternMap, dependencies, nameLists:
		return s.childMap(p, name, k, v)
	}
	if err == nil && k.decides {
		p.put(name, copied)
	}
	return err
}

// child surveys a schema below p, at the tokens below a keyword.
func (s *survey) child(p *position, name string, k keyword, v jsontext.Value, tokens ...string) (any, error) {
	to := &position{
		pointer:  below(p.pointer.AppendToken(name), tokens),
		level:    p.level + 1,
		copied:   below(below(p.copied, copiedAs(name)), tokens),
		resource: p.resource,
		noted:    p.noted || !k.decides,
	}
	copied, err := s.schema(to, v)
	if err == nil && k.inPlace {
		p.edges = append(p.edges, edge{keyword: name, to: to})
	}
	return copied, err
}

func (s *survey) children(p *position, name string, k keyword, v jsontext.Value) (any, error) {
	items, ok := elements(v)
	if !ok || len(items) == 0 {
		return nil, refuse(string(p.pointer.AppendToken(name)), "%q must be an array with at least one schema", name)
	}
	copied := make([]any, len(items))
	for i, item := range items {
		var err error
		if copied[i], err = s.child(p, name, k, item, strconv.Itoa(i)); err != nil {
			return nil, err
		}
	}
	return copied, nil
}

// childMap surveys an object of schemas or of names that a property asks for.
func (s *survey) childMap(p *position, name string, k keyword, v jsontext.Value) error {
	at := p.pointer.AppendToken(name)
	object, ok := members(v)
	if !ok {
		return refuse(string(at), "%q must be an object of schemas", name)
	}
	for _, member := range slices.Sorted(maps.Keys(object)) {
		if k.shape == patternMap {
			if err := s.pattern(at.AppendToken(member), member); err != nil {
				return err
			}
		}
		into, copied := copiedAs(name)[0], any(object[member])
		if _, isNames := nameList(object[member]); isNames && (k.shape == dependencies || k.shape == nameLists) {
			into = "dependentRequired"
		} else {
			var err error
			if copied, err = s.child(p, name, k, object[member], member); err != nil {
				return err
			}
		}
		if !p.add(into, member, copied) {
			return refuse(string(at.AppendToken(member)), "%q is defined twice, in an old keyword and in its successor; remove one", member)
		}
	}
	return nil
}

// number refuses a number when those of the document have too many digits together, written out.
func (s *survey) number(at jsontext.Pointer, v jsontext.Value) error {
	s.digits += len(v)
	if i := bytes.IndexAny(v, "eE"); i >= 0 {
		exponent, _ := strconv.Atoi(string(v[i+1:])) // its magnitude was bounded before
		s.digits += max(exponent, -exponent)
	}
	if s.digits > maxDigits {
		return refuse(string(at), "the schema's numbers have more than %d digits; use smaller exponents", maxDigits)
	}
	return nil
}
