package declaration

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/catalog"
	"github.com/toolpark/toolpark/internal/strictjson"
)

// alias reads an author's own spelling of a kernel tool, {"name","canonical","params"?,"omit"?,
// "description"?,"recut"?,"defer_loading"?}, or the form in which it is stored: a whole function with
// canonical, params and omit beside it.
func (g grammar) alias(s *shape) (Entry, error) {
	e := Entry{at: s.at, Kernel: &Kernel{Alias: true}, named: s.inner.at + "/name"}
	if _, ok := s.outer.members["type"]; ok {
		s.outer.word("type", "function")
	}
	if canonical := s.outer.text("canonical", true); canonical != nil {
		e.Kernel.Canonical = *canonical
	}
	if name := s.inner.text("name", true); name != nil {
		e.Name = *name
	}
	if e.Description = s.inner.text("description", false); e.Description == nil {
		e.Description = s.outer.text("description", false) // beside a nested name
	}
	stored := s.inner.take("parameters", false)
	e.Kernel.Params = aliasParams(s.outer)
	e.Kernel.Omit = aliasOmit(s.outer)
	anchor, replacement := aliasRecut(s.outer)
	e.DeferLoading = s.outer.flag("defer_loading", false)
	s.rest()
	if err := s.refusal(); err != nil {
		return Entry{}, err
	}
	if err := g.identify(&e); err != nil {
		return Entry{}, err
	}
	if err := e.present(); err != nil {
		return Entry{}, err
	}
	if stored != nil && !strictjson.Equal(stored, e.Parameters) {
		return Entry{}, problem(s.inner.at+"/parameters", "differ from what canonical, params and omit make of the kernel tool's; leave them out").
			refuse(toolpark.CodeKernelToolRedefined)
	}
	return e, e.cut(anchor, replacement)
}

// identify finds the tool that the alias stands for and judges the alias's own name.
func (g grammar) identify(e *Entry) error {
	tool, live := g.kernel.Find(e.Kernel.Canonical)
	if !live {
		return problem(e.at+"/canonical", "is %s, which is no kernel tool's canonical name", quote(e.Kernel.Canonical)).
			refuse(toolpark.CodeAliasCanonicalUnknown)
	}
	e.tool, e.Kernel.Name = tool, tool.Name
	if catalog.Reserved(e.Name) && e.Name != tool.Name {
		return problem(e.named, "is %s, the name of another kernel tool", quote(e.Name)).
			refuse(toolpark.CodeAliasNameReserved)
	}
	return checkCallable(e.Name, e.named)
}

// parameterName is what every provider takes as the name of a property.
var parameterName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// aliasParams takes an alias's parameters by their spelling: {"maps_to","invert"?,"description"?}.
func aliasParams(outer object) map[string]Param {
	value := outer.take("params", false)
	if value == nil {
		return nil
	}
	all, ok := openObject(value, outer.at+"/params", outer.problems)
	if !ok {
		return nil
	}
	params := make(map[string]Param, len(all.members))
	for _, spelling := range slices.Sorted(maps.Keys(all.members)) {
		o, ok := openObject(all.members[spelling], all.at.AppendToken(spelling), outer.problems)
		if !ok {
			continue
		}
		var p Param
		if mapsTo := o.text("maps_to", true); mapsTo != nil {
			p.MapsTo = *mapsTo
		}
		if invert := o.flag("invert", false); invert != nil {
			p.Invert = *invert
		}
		p.Description = o.text("description", false)
		o.rest()
		if !parameterName.MatchString(spelling) {
			all.note(spelling, "is not a parameter's name that every provider takes: 1 to 64 of A-Z, a-z, 0-9, _, . and -")
		}
		params[spelling] = p
	}
	return params
}

// aliasOmit takes the kernel parameters that an alias does not show.
func aliasOmit(outer object) []string {
	value := outer.take("omit", false)
	if value == nil {
		return nil
	}
	var omit []string
	for i, element := range list(value, outer.at+"/omit", outer.problems) {
		var name string
		if element.Kind() != jsontext.KindString || json.Unmarshal(element, &name) != nil {
			*outer.problems = append(*outer.problems, problem(outer.at.AppendToken("omit").AppendToken(strconv.Itoa(i)), "must be a string"))
		}
		omit = append(omit, name)
	}
	return omit
}

// aliasRecut takes {"anchor","replacement"}; nil when the alias does not cut the template.
func aliasRecut(outer object) (anchor, replacement *string) {
	value := outer.take("recut", false)
	if value == nil {
		return nil, nil
	}
	o, ok := openObject(value, outer.at+"/recut", outer.problems)
	if !ok {
		return nil, nil
	}
	anchor, replacement = o.text("anchor", true), o.text("replacement", true)
	o.rest()
	return anchor, replacement
}

// cut makes the alias's one edit of the kernel's text, before its macros are rendered.
func (e *Entry) cut(anchor, replacement *string) error {
	if anchor == nil || replacement == nil {
		return nil
	}
	at := e.at + "/recut"
	if e.Description != nil {
		return invalid(at, "stands beside a description; give one of the two")
	}
	if *anchor == "" || strings.Count(e.tool.Template, *anchor) != 1 {
		return problem(at+"/anchor", "is %s, which must occur exactly once in the template of %s", quote(*anchor), e.tool.Canonical).
			refuse(toolpark.CodeAliasRecutAnchorMissing)
	}
	recut := strings.Replace(e.tool.Template, *anchor, *replacement, 1)
	e.recut = &recut
	return nil
}
