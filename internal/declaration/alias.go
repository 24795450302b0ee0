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
	"github.com/toolpark/toolpark/internal/form"
	"github.com/toolpark/toolpark/internal/strictjson"
)

// alias reads an author's own spelling of a kernel tool, {"name","canonical","params"?,"omit"?,
// "description"?,"recut"?,"defer_loading"?}, or the form in which it is stored: a whole function with
// canonical, params and omit beside it.
func (g grammar) alias(s *shape) (Entry, error) {
	e := Entry{at: s.at, Kernel: &Kernel{Alias: true}, named: s.inner.At + "/name"}
	if _, ok := s.outer.Members["type"]; ok {
		s.outer.Word("type", true, "function")
	}
	if canonical := s.outer.Text("canonical", true); canonical != nil {
		e.Kernel.Canonical = *canonical
	}
	if name := s.inner.Text("name", true); name != nil {
		e.Name = *name
	}
	if e.Description = s.inner.Text("description", false); e.Description == nil {
		e.Description = s.outer.Text("description", false) // beside a nested name
	}
	stored := s.inner.Take("parameters", false)
	e.Kernel.Params = aliasParams(s.outer)
	e.Kernel.Omit = aliasOmit(s.outer)
	anchor, replacement := aliasRecut(s.outer)
	e.DeferLoading = s.outer.Flag("defer_loading", false)
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
		return Entry{}, form.At(s.inner.At+"/parameters", "differ from what canonical, params and omit make of the kernel tool's; leave them out").
			Refuse(toolpark.CodeKernelToolRedefined)
	}
	return e, e.cut(anchor, replacement)
}

// identify finds the tool that the alias stands for and judges the alias's own name.
func (g grammar) identify(e *Entry) error {
	tool, live := g.kernel.Find(e.Kernel.Canonical)
	if !live {
		return form.At(e.at+"/canonical", "is %s, which is no kernel tool's canonical name", quote(e.Kernel.Canonical)).
			Refuse(toolpark.CodeAliasCanonicalUnknown)
	}
	e.tool, e.Kernel.Name = tool, tool.Name
	if catalog.Reserved(e.Name) && e.Name != tool.Name {
		return form.At(e.named, "is %s, the name of another kernel tool", quote(e.Name)).
			Refuse(toolpark.CodeAliasNameReserved)
	}
	return checkCallable(e.Name, e.named)
}

// parameterName is what every provider takes as the name of a property.
var parameterName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// aliasParams takes an alias's parameters by their spelling: {"maps_to","invert"?,"description"?}.
func aliasParams(outer form.Object) map[string]Param {
	value := outer.Take("params", false)
	if value == nil {
		return nil
	}
	all, ok := form.Open(value, outer.At+"/params", outer.Problems)
	if !ok {
		return nil
	}
	params := make(map[string]Param, len(all.Members))
	for _, spelling := range slices.Sorted(maps.Keys(all.Members)) {
		o, ok := form.Open(all.Members[spelling], all.At.AppendToken(spelling), outer.Problems)
		if !ok {
			continue
		}
		var p Param
		if mapsTo := o.Text("maps_to", true); mapsTo != nil {
			p.MapsTo = *mapsTo
		}
		if invert := o.Flag("invert", false); invert != nil {
			p.Invert = *invert
		}
		p.Description = o.Text("description", false)
		o.Rest()
		if !parameterName.MatchString(spelling) {
			all.Note(spelling, "is not a parameter's name that every provider takes: 1 to 64 of A-Z, a-z, 0-9, _, . and -")
		}
		params[spelling] = p
	}
	return params
}

// aliasOmit takes the kernel parameters that an alias does not show.
func aliasOmit(outer form.Object) []string {
	value := outer.Take("omit", false)
	if value == nil {
		return nil
	}
	var omit []string
	for i, element := range list(value, outer.At+"/omit", outer.Problems) {
		var name string
		if element.Kind() != jsontext.KindString || json.Unmarshal(element, &name) != nil {
			*outer.Problems = append(*outer.Problems, form.At(outer.At.AppendToken("omit").AppendToken(strconv.Itoa(i)), "must be a string"))
		}
		omit = append(omit, name)
	}
	return omit
}

// aliasRecut takes {"anchor","replacement"}; nil when the alias does not cut the template.
func aliasRecut(outer form.Object) (anchor, replacement *string) {
	value := outer.Take("recut", false)
	if value == nil {
		return nil, nil
	}
	o, ok := form.Open(value, outer.At+"/recut", outer.Problems)
	if !ok {
		return nil, nil
	}
	anchor, replacement = o.Text("anchor", true), o.Text("replacement", true)
	o.Rest()
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
		return form.At(at+"/anchor", "is %s, which must occur exactly once in the template of %s", quote(*anchor), e.tool.Canonical).
			Refuse(toolpark.CodeAliasRecutAnchorMissing)
	}
	recut := strings.Replace(e.tool.Template, *anchor, *replacement, 1)
	e.recut = &recut
	return nil
}
