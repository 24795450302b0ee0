package declaration

import (
	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/catalog"
	"github.com/toolpark/toolpark/internal/form"
	"github.com/toolpark/toolpark/internal/strictjson"
)

// Kernel is what a declared kernel tool stands for.
type Kernel struct {
	Canonical string           `json:"canonical"`
	Name      string           `json:"name"`             // on the wire: what a task of it is called
	Alias     bool             `json:"alias,omitzero"`   // it was declared as an alias, possibly under its own name
	Params    map[string]Param `json:"params,omitempty"` // by the alias's spelling, those that differ from the kernel's
	Omit      []string         `json:"omit,omitempty"`   // kernel parameters that are not shown, in byte order
}

// Param is one parameter in an alias's spelling.
type Param struct {
	MapsTo      string  `json:"maps_to"`              // the kernel's parameter
	Invert      bool    `json:"invert,omitzero"`      // true here is false there
	Description *string `json:"description,omitzero"` // nil keeps the kernel's
}

// plain is the declaration of a kernel tool as the catalog has it, rendered with these names.
func plain(t *catalog.Tool, names map[string]string) Entry {
	description := t.Description(names)
	return Entry{
		Name: t.Name, Description: &description, Parameters: t.Parameters,
		Kernel: &Kernel{Canonical: t.Canonical, Name: t.Name}, tool: t,
	}
}

// plainKernel reads a kernel tool that is declared under its wire name. Its value is the catalog's own
// definition, or this is another tool under the kernel's name; what its description may be is known once
// the whole declaration is (see settle).
func plainKernel(s *shape, t *catalog.Tool) (Entry, error) {
	e := plain(t, nil)
	e.at, e.named = s.at, s.inner.At+"/name"
	e.DeferLoading = s.outer.Flag("defer_loading", false)
	if err := s.refusal(); err != nil {
		return Entry{}, err
	}
	s.outer.Word("type", true, "function")
	s.inner.Take("name", true)
	e.Description = s.inner.Text("description", true)
	if parameters := s.inner.Take("parameters", true); parameters != nil && !strictjson.Equal(parameters, t.Parameters) {
		s.inner.Note("parameters", "differ from the catalog's")
	}
	s.rest()
	if len(s.problems) > 0 {
		return Entry{}, e.redefined(s.problems[0].Path + " " + s.problems[0].Message)
	}
	return e, nil
}

// redefined refuses another tool under a kernel tool's name.
func (e *Entry) redefined(why string) error {
	return form.At(e.named, "is %s, a kernel tool's, but %s; declare that tool as the catalog publishes it or as an alias, or a function under another name",
		e.Name, why).Refuse(toolpark.CodeKernelToolRedefined)
}

// settle decides a kernel tool's description, given what the declaration calls every kernel tool. A
// plain entry may carry the catalog's own render or the one that these names give; so may an alias, and
// any other text there is its author's. What is kept of the former two is always the latter, so that
// what was assembled assembles to the same.
func (e *Entry) settle(names map[string]string) error {
	if e.tool == nil {
		return nil
	}
	rendered := e.tool.Description(names)
	text := rendered
	switch {
	case e.recut != nil:
		text = catalog.Render(*e.recut, names)
	case e.Description != nil:
		text = *e.Description
	}
	if text == e.tool.Description(nil) {
		text = rendered
	}
	if !e.Kernel.Alias && text != rendered {
		return e.redefined("its description is neither the catalog's nor the one that this declaration's names give")
	}
	e.Description = &text
	return nil
}
