package schema

import (
	"encoding/json/jsontext"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/toolpark/toolpark/internal/strictjson"
)

// identify gives a schema its address and its anchors.
func (s *survey) identify(p *position, object map[string]jsontext.Value) error {
	id, named := object[s.dialect.id]
	if _, hidden := object["$ref"]; named && id.Kind() == '"' && !(hidden && s.dialect.refAlone) {
		if err := s.identifyBy(p, stringOf(id)); err != nil {
			return err
		}
	}
	for _, keyword := range []string{"$anchor", "$dynamicAnchor"} {
		if _, known := s.dialect.keywords[keyword]; !known || object[keyword].Kind() != '"' {
			continue
		}
		name := stringOf(object[keyword])
		if err := p.resource.name(name, p, keyword); err != nil {
			return err
		}
		if keyword == "$dynamicAnchor" {
			if err := s.dynamicAnchor(name, p, keyword); err != nil {
				return err
			}
		}
	}
	if _, known := s.dialect.keywords["$recursiveAnchor"]; known && object["$recursiveAnchor"].Kind() == 't' {
		return s.dynamicAnchor(recursiveAnchor, p, "$recursiveAnchor")
	}
	return nil
}

// recursiveAnchor is the name that all $recursiveAnchors share. No other anchor can have it.
const recursiveAnchor = "#"

// dynamicAnchor notes the one schema that dynamic references by this name lead to. Which of several
// is meant depends on the way a value was reached, and the library gets that wrong for resources that
// are entered by a pointer: it would accept values that the schema refuses.
func (s *survey) dynamicAnchor(name string, p *position, keyword string) error {
	if taken, ok := s.dynamic[name]; ok {
		return refuse(string(p.pointer.AppendToken(keyword)), "%s has this dynamic anchor too; only one schema of a document may, so use $anchor and $ref",
			place(taken.pointer))
	}
	s.dynamic[name] = p
	return nil
}

func (s *survey) identifyBy(p *position, id string) error {
	at := string(p.pointer.AppendToken(s.dialect.id))
	if name, isAnchor := strings.CutPrefix(id, "#"); isAnchor && s.dialect.anchorID {
		return p.resource.name(name, p, s.dialect.id)
	}
	address, err := p.resource.base.Parse(id)
	if err != nil || address.Fragment != "" {
		return refuse(at, "%q is not a URI without a fragment", strictjson.CutString(id, maxReason))
	}
	address.RawFragment = ""
	if len(address.String()) > maxAddress {
		return refuse(at, "the address has more than %d bytes once it is resolved", maxAddress)
	}
	if _, taken := s.resources[address.String()]; taken {
		return refuse(at, "another schema of the document has the address %q too", strictjson.CutString(id, maxReason))
	}
	if p.resource.root == p {
		p.resource.base = address // the document's own root
	} else {
		p.resource = &resource{base: address, root: p, anchors: map[string]*position{}}
	}
	s.resources[address.String()] = p.resource
	return nil
}

// name gives p an anchor within its resource.
func (r *resource) name(anchor string, p *position, keyword string) error {
	if taken, ok := r.anchors[anchor]; ok && taken != p {
		return refuse(string(p.pointer.AppendToken(keyword)), "%s has the anchor %q too; an anchor names one schema",
			place(taken.pointer), anchor)
	}
	r.anchors[anchor] = p
	return nil
}

// resolve finds what each reference names. What is not in the document is refused: it is never
// fetched, so a schema cannot make this process open a connection or a file.
func (s *survey) resolve() error {
	for _, at := range slices.Sorted(maps.Keys(s.positions)) {
		p := s.positions[at]
		for _, r := range p.references {
			to, err := s.find(p, r)
			if err != nil {
				return err
			}
			p.edges = append(p.edges, edge{keyword: r.keyword, to: to})
			p.refer(r.keyword, to)
		}
		if s.dialect.refAlone && len(p.references) > 0 {
			p.types, p.properties = nil, false
			p.edges = slices.DeleteFunc(p.edges, func(e edge) bool { return e.keyword != "$ref" })
		}
	}
	return nil
}

func (s *survey) find(p *position, r unresolved) (*position, error) {
	at := string(p.pointer.AppendToken(r.keyword))
	shown := strictjson.CutString(r.ref, maxReason)
	target, err := p.resource.base.Parse(r.ref)
	if err != nil {
		return nil, refuse(at, "the reference %q is not a URI reference", shown)
	}
	within := p.resource
	if address, _, _ := strings.Cut(r.ref, "#"); address != "" {
		plain := *target
		plain.Fragment, plain.RawFragment = "", ""
		var known bool
		if within, known = s.resources[plain.String()]; !known {
			return nil, refuse(at, "the reference %q leaves the document and is never fetched; copy what it names into $defs and refer to that", shown)
		}
	}
	to := within.find(target, s.positions)
	if to == nil || to.noted {
		return nil, refuse(at, "the reference %q names no schema of the document that values are held to", shown)
	}
	return to, nil
}

// find follows a fragment: empty, a JSON pointer, or an anchor.
func (r *resource) find(target *url.URL, positions map[jsontext.Pointer]*position) *position {
	switch {
	case target.Fragment == "":
		return r.root
	case strings.HasPrefix(target.Fragment, "/"):
		at := r.root.pointer
		for token := range jsontext.Pointer(target.Fragment).Tokens() {
			at = at.AppendToken(token) // spells every escape alike
		}
		return positions[at]
	}
	return r.anchors[target.Fragment]
}

func place(at jsontext.Pointer) string {
	if at == "" {
		return "the root"
	}
	return strictjson.CutString(string(at), maxReason)
}
