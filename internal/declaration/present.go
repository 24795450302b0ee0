package declaration

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/form"
)

// closedObject is the form of every kernel tool's parameters.
type closedObject struct {
	Type                 string   `json:"type"`
	Properties           members  `json:"properties"`
	Required             []string `json:"required,omitempty"`
	AdditionalProperties bool     `json:"additionalProperties"`
}

func (o *closedObject) property(name string) (jsontext.Value, bool) {
	i := slices.IndexFunc(o.Properties, func(m member) bool { return m.name == name })
	if i < 0 {
		return nil, false
	}
	return o.Properties[i].value, true
}

// names lists the parameters for a message.
func (o *closedObject) names() string {
	if len(o.Properties) == 0 {
		return "none"
	}
	names := make([]string, len(o.Properties))
	for i, m := range o.Properties {
		names[i] = m.name
	}
	return strings.Join(names, ", ")
}

// present derives the parameters that a model sees under an alias: the kernel's, in the kernel's order,
// in the alias's spelling, without what the alias omits. One that is neither mapped nor omitted keeps
// its name.
func (e *Entry) present() error {
	var kernel closedObject
	if err := json.Unmarshal(e.tool.Parameters, &kernel, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("read the parameters of %s: %w", e.tool.Canonical, err)
	}
	spelled, err := e.mapped(&kernel)
	if err != nil {
		return err
	}
	omitted, err := e.omitted(&kernel, spelled)
	if err != nil {
		return err
	}
	shown := closedObject{Type: kernel.Type, AdditionalProperties: kernel.AdditionalProperties}
	for _, m := range kernel.Properties {
		spelling, mapped := spelled[m.name]
		switch _, taken := e.Kernel.Params[m.name]; {
		case omitted[m.name]:
			continue
		case mapped:
			m.name = spelling
		case taken:
			return invalid(e.param(m.name), "is spelled like a parameter that keeps its name; map or omit that one, or spell this one otherwise")
		}
		if m.value, err = e.Kernel.Params[m.name].respell(m.value); err != nil {
			return fmt.Errorf("present %s of %s: %w", m.name, e.tool.Canonical, err)
		}
		shown.Properties = append(shown.Properties, m)
	}
	for _, name := range kernel.Required {
		if spelling, mapped := spelled[name]; mapped {
			name = spelling
		}
		shown.Required = append(shown.Required, name)
	}
	e.Parameters, err = json.Marshal(shown, verbatim)
	return err
}

// param is where one of the alias's parameters is declared.
func (e *Entry) param(spelling string) jsontext.Pointer {
	return e.at.AppendToken("params").AppendToken(spelling)
}

// mapped checks the alias's parameters and gives the spelling of each kernel parameter that has one.
func (e *Entry) mapped(kernel *closedObject) (map[string]string, error) {
	spelled := make(map[string]string, len(e.Kernel.Params))
	for _, spelling := range slices.Sorted(maps.Keys(e.Kernel.Params)) {
		p, at := e.Kernel.Params[spelling], e.param(spelling)
		schema, known := kernel.property(p.MapsTo)
		other, twice := spelled[p.MapsTo]
		switch {
		case !known:
			return nil, form.At(at+"/maps_to", "is %s, which is no parameter of %s; it has %s",
				quote(p.MapsTo), e.tool.Canonical, kernel.names()).Refuse(toolpark.CodeAliasParamUnknown)
		case twice:
			return nil, invalid(at+"/maps_to", "is %s, to which %s maps already", p.MapsTo, quote(other))
		case p.Invert && !isBoolean(schema):
			return nil, form.At(at+"/invert", "turns %s, which is no boolean", p.MapsTo).Refuse(toolpark.CodeAliasInvertNeedsBoolean)
		case p.Invert && (p.Description == nil || strings.TrimSpace(*p.Description) == ""):
			return nil, form.At(at+"/description", "is missing; an inverted parameter means the opposite of what the kernel says of %s", p.MapsTo).
				Refuse(toolpark.CodeAliasParamDescriptionRequired)
		}
		spelled[p.MapsTo] = spelling
	}
	return spelled, nil
}

// omitted checks which kernel parameters the alias does not show, and puts them in order.
func (e *Entry) omitted(kernel *closedObject, spelled map[string]string) (map[string]bool, error) {
	omitted := make(map[string]bool, len(e.Kernel.Omit))
	for i, name := range e.Kernel.Omit {
		at := e.at.AppendToken("omit").AppendToken(strconv.Itoa(i))
		_, known := kernel.property(name)
		spelling, mapped := spelled[name]
		switch {
		case !known:
			return nil, form.At(at, "is %s, which is no parameter of %s; it has %s",
				quote(name), e.tool.Canonical, kernel.names()).Refuse(toolpark.CodeAliasParamUnknown)
		case omitted[name]:
			return nil, invalid(at, "is %s again", name)
		case slices.Contains(kernel.Required, name):
			return nil, invalid(at, "is %s, which %s requires", name, e.tool.Canonical)
		case mapped:
			return nil, invalid(at, "is %s, to which %s maps", name, quote(spelling))
		}
		omitted[name] = true
	}
	slices.Sort(e.Kernel.Omit)
	return omitted, nil
}

func isBoolean(schema jsontext.Value) bool {
	var typed struct {
		Type jsontext.Value `json:"type"`
	}
	return json.Unmarshal(schema, &typed) == nil && string(typed.Type) == `"boolean"`
}

// respell gives a kernel parameter's schema the alias's own description and, when true and false change
// places, the other default.
func (p Param) respell(schema jsontext.Value) (jsontext.Value, error) {
	if p.Description == nil {
		return schema, nil
	}
	description, err := json.Marshal(*p.Description)
	if err != nil {
		return nil, err
	}
	var keywords, respelled members
	if err := json.Unmarshal(schema, &keywords); err != nil {
		return nil, err
	}
	for _, k := range keywords {
		switch {
		case k.name == "description":
			continue
		case k.name == "default" && p.Invert:
			k.value = negate(k.value)
		}
		respelled = append(respelled, k)
	}
	return json.Marshal(append(respelled, member{"description", description}), verbatim)
}

// negate turns true into false and false into true.
func negate(value jsontext.Value) jsontext.Value {
	if value.Kind() == jsontext.KindTrue {
		return jsontext.Value("false")
	}
	return jsontext.Value("true")
}
