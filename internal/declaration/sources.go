package declaration

import (
	"encoding/json/jsontext"
	"slices"
	"strconv"
	"strings"
	"uuid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/catalog"
	"github.com/toolpark/toolpark/internal/form"
	"github.com/toolpark/toolpark/internal/strictjson"
)

// Sources is where callable tools come from: what is declared one by one, and what is imported. It comes
// from one of this package's parsers.
type Sources struct {
	Entries         []Entry     // declared one by one, in the order given; names are unique
	KernelTools     []string    // canonical names of kernel tools to declare plainly; unique
	Candidates      []uuid.UUID // the runners that may be selected, in the order declared; unique
	RunnerToolNames *[]string   // served names of the selected runner to import; nil: all
	Imports         bool        // one of the three import fields is present: tools of the selected runner are imported

	grammar grammar
}

// grammar is what sources are read by, and where they are in a request.
type grammar struct {
	kernel      *catalog.Catalog
	root        jsontext.Pointer // of the four fields
	definitions string           // the field of what is declared one by one
}

// fields are the four fields of sources as they were sent; nil when absent.
type fields struct {
	definitions, kernelTools, candidates, runnerToolNames jsontext.Value
}

// root is where a configuration is in a request.
const root jsontext.Pointer = "/configuration"

func configurationGrammar() grammar {
	return grammar{kernel: catalog.Live(), root: root, definitions: "tool_definitions"}
}

// ParseSources reads the configuration of an assembly: the four fields of [Sources], whatever other
// fields are beside them. Nil is the empty one. The value has passed strictjson.Check as part of its
// request; pointers begin at /configuration. Refusals are a *toolpark.Error:
//   - parameter_missing when it is no object;
//   - content_too_large when the declared definitions are over their bound;
//   - kernel_tool_redefined, duplicate_tool_name, invalid_tool_route, runner_target_required;
//   - an alias's own: alias_canonical_unknown, alias_name_reserved, alias_param_unknown,
//     alias_invert_needs_boolean, alias_param_description_required, alias_recut_anchor_missing;
//   - validation_failed for everything else.
func ParseSources(raw jsontext.Value) (Sources, error) { return configurationGrammar().sources(raw) }

func (g grammar) sources(raw jsontext.Value) (Sources, error) {
	o, err := openConfiguration(raw)
	if err != nil {
		return Sources{}, err
	}
	return g.parse(takeFields(o, g.definitions))
}

// openConfiguration reads a configuration as an object; an absent one has no members.
func openConfiguration(raw jsontext.Value) (form.Object, error) {
	if raw == nil {
		return form.Object{At: root}, nil
	}
	var problems []form.Problem
	o, ok := form.Open(raw, root, &problems)
	if !ok {
		return o, toolpark.Errorf(toolpark.CodeParameterMissing,
			"configuration must be an object; send {} for an empty one, or leave it out for the profile's.").At(string(root))
	}
	return o, nil
}

func takeFields(o form.Object, definitions string) fields {
	return fields{
		definitions:     o.Take(definitions, false),
		kernelTools:     o.Take("kernel_tools", false),
		candidates:      o.Take("runner_executor_public_ids", false),
		runnerToolNames: o.Take("runner_tool_names", false),
	}
}

// ParseRoundSources reads the sources that a round brings of its own; pointers begin at /tools,
// /kernel_tools and so on. It is false when the round brings none: every field is absent or null.
// Refusals are those of [ParseSources], parameter_missing apart.
func ParseRoundSources(tools, kernelTools, runners, runnerToolNames jsontext.Value) (Sources, bool, error) {
	if absent(tools) && absent(kernelTools) && absent(runners) && absent(runnerToolNames) {
		return Sources{}, false, nil
	}
	g := grammar{kernel: catalog.Live(), definitions: "tools"}
	s, err := g.parse(fields{tools, kernelTools, runners, runnerToolNames})
	return s, err == nil, err
}

// absent tells whether an optional field was left out or is null.
func absent(value jsontext.Value) bool { return value == nil || value.Kind() == jsontext.KindNull }

func (g grammar) parse(f fields) (Sources, error) {
	s := Sources{grammar: g, Imports: !absent(f.kernelTools) || !absent(f.candidates) || !absent(f.runnerToolNames)}
	var err error
	if s.Entries, err = g.entries(f.definitions); err != nil {
		return Sources{}, err
	}
	if s.KernelTools, err = g.kernelTools(f.kernelTools); err != nil {
		return Sources{}, err
	}
	if s.Candidates, err = g.candidates(f.candidates); err != nil {
		return Sources{}, err
	}
	if !absent(f.runnerToolNames) {
		names, err := g.texts("runner_tool_names", f.runnerToolNames)
		if err != nil {
			return Sources{}, err
		}
		s.RunnerToolNames = &names
	}
	names := s.spellings()
	for i := range s.Entries {
		if err := s.Entries[i].settle(names); err != nil {
			return Sources{}, err
		}
	}
	return s, nil
}

// at is where one of the four fields is.
func (g grammar) at(field string) jsontext.Pointer { return g.root.AppendToken(field) }

// kernelTools reads the canonical names of kernel tools to declare.
func (g grammar) kernelTools(value jsontext.Value) ([]string, error) {
	const field = "kernel_tools"
	names, err := g.texts(field, value)
	for i, name := range names {
		at := g.at(field).AppendToken(strconv.Itoa(i))
		if _, live := g.kernel.Find(name); !live {
			return nil, invalid(at, "is %s, which is no kernel tool's canonical name", quote(name))
		}
		if slices.Contains(names[:i], name) {
			return nil, invalid(at, "is %s again; name each tool once", name)
		}
	}
	return names, err
}

// candidates reads the ids of runners that may be selected.
func (g grammar) candidates(value jsontext.Value) ([]uuid.UUID, error) {
	const field = "runner_executor_public_ids"
	texts, err := g.texts(field, value)
	if err != nil {
		return nil, err
	}
	if len(texts) > toolpark.MaxCandidates {
		return nil, invalid(g.at(field), "has %d entries; it may have %d", len(texts), toolpark.MaxCandidates)
	}
	ids := make([]uuid.UUID, len(texts))
	first := make(map[uuid.UUID]int, len(texts))
	for i, text := range texts {
		at := g.at(field).AppendToken(strconv.Itoa(i))
		id, ok := parseID(text)
		if !ok {
			return nil, invalid(at, "must be a runner's id, a UUID in lower case")
		}
		if earlier, twice := first[id]; twice {
			return nil, invalid(at, "is the runner of %s[%d] again; name each runner once", field, earlier)
		}
		first[id], ids[i] = i, id
	}
	return ids, nil
}

// parseID reads a UUID in its one canonical spelling; the parser would take more.
func parseID(text string) (uuid.UUID, bool) {
	id, err := uuid.Parse(text)
	return id, err == nil && id.String() == text
}

// texts reads a list of strings; an absent one is empty.
func (g grammar) texts(field string, value jsontext.Value) ([]string, error) {
	if absent(value) {
		return nil, nil
	}
	at := g.at(field)
	elements, count, ok := strictjson.Elements(value, toolpark.MaxImportNames)
	if !ok {
		return nil, invalid(at, "must be a list of strings, or null")
	}
	if count > toolpark.MaxImportNames {
		return nil, invalid(at, "has %d entries; it may have %d", count, toolpark.MaxImportNames)
	}
	var problems []form.Problem
	form.Storable(value, at, &problems)
	if len(problems) > 0 {
		return nil, problems[0].Refuse(toolpark.CodeValidationFailed)
	}
	texts := make([]string, len(elements))
	for i, element := range elements {
		if element.Kind() != jsontext.KindString {
			return nil, invalid(at.AppendToken(strconv.Itoa(i)), "must be a string")
		}
		text, _ := jsontext.AppendUnquote(nil, element) // what is storable unquotes
		texts[i] = string(text)
	}
	return texts, nil
}

// spellings maps the wire name of each declared kernel tool to what kernel texts call it: that name
// itself when the tool is declared under it, else its first alias in byte order.
func (s Sources) spellings() map[string]string {
	names := map[string]string{}
	for _, canonical := range s.KernelTools {
		if t, ok := s.grammar.kernel.Find(canonical); ok {
			names[t.Name] = t.Name
		}
	}
	for _, e := range s.Entries {
		if e.Kernel == nil {
			continue
		}
		wire := e.Kernel.Name
		known, seen := names[wire]
		if !seen || e.Name == wire || known != wire && strings.Compare(e.Name, known) < 0 {
			names[wire] = e.Name
		}
	}
	return names
}
