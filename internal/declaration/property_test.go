package declaration_test

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"uuid"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/toolpark/toolpark/internal/declaration"
	"github.com/toolpark/toolpark/schema"
)

// scene is a declaration and what its runners announce, drawn at random; it assembles without refusal.
type scene struct {
	entries     []string
	kernelTools []string
	imports     string // the other import fields, each with a comma behind it
	documents   []string
	served      map[string]declaration.Served
	selected    *uuid.UUID
}

// Names that declarations and announcements fight over, legal ones and others.
var (
	callableNames = []string{"read", "Read", "grep", "a", "b-1", "c_2", "docs", "View", "zz", strings.Repeat("n", 64)}
	servedNames   = []string{"read", "grep", "a", "list tags", "天気", "skill", "tool_search", "memory_read", "nexus.memory.read", strings.Repeat("n", 65), "b-1"}
	descriptions  = []string{"", "Mine", "é \u2028 <b>", "Use {{memory_read}} or {{nothing}}", "Read a document that memory_grep found.", "Read a document that {{memory_grep}} found."}
	schemas       = []string{`{"type":"object"}`, `{ "type" : "object", "properties":{"z":{"maximum":1.50,"description":"\u0041"},"a":{}} }`}
)

func drawScene(t *rapid.T) *scene {
	s := &scene{served: map[string]declaration.Served{}}
	for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom(servedNames), rapid.ID).Draw(t, "served") {
		s.served[name] = announced(rapid.SampledFrom(descriptions).Draw(t, "announced"), rapid.SampledFrom(schemas).Draw(t, "input schema"))
	}
	for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"make", "test", "deploy"}), rapid.ID).Draw(t, "documents") {
		s.documents = append(s.documents, `{"name":"`+name+`","description":"How to `+name+`"}`)
	}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(callableNames), 0, 6, rapid.ID).Draw(t, "names") {
		s.entries = append(s.entries, drawEntry(t, s, name))
	}
	for _, kernelTool := range kernel.Tools() {
		switch rapid.IntRange(0, 4).Draw(t, "declared "+kernelTool.Name) {
		case 0:
			s.entries = append(s.entries, catalogDefinition(t, kernelTool.Name))
		case 1:
			s.entries = append(s.entries, drawAlias(t, kernelTool.Name, kernelTool.Canonical))
		case 2:
			s.kernelTools = append(s.kernelTools, quoted(kernelTool.Canonical))
		}
	}
	if rapid.Bool().Draw(t, "candidates") {
		s.imports = `"runner_executor_public_ids":["` + runnerC.String() + `","` + runnerB.String() + `","` + runnerA.String() + `"],`
		if rapid.Bool().Draw(t, "selected") {
			s.selected = &runnerA
		}
		if rapid.Bool().Draw(t, "some tools") {
			s.imports += `"runner_tool_names":["read","skill","list tags","grep"],`
		}
	}
	return s
}

func drawEntry(t *rapid.T, s *scene, name string) string {
	deferred := rapid.SampledFrom([]string{"", `,"defer_loading":true`, `,"defer_loading":false`}).Draw(t, "deferred")
	switch kind := rapid.IntRange(0, 2).Draw(t, "kind"); {
	case kind == 0:
		kernelTool := rapid.SampledFrom(kernel.Tools()).Draw(t, "canonical")
		return strings.TrimSuffix(drawAlias(t, name, kernelTool.Canonical), "}") + deferred + "}"
	case kind == 1 && len(s.served) > 0:
		target := rapid.SampledFrom([]uuid.UUID{runnerA, runnerB}).Draw(t, "target")
		routedTo := rapid.SampledFrom(servedNames).Filter(func(n string) bool { return s.served[n].ModelVisible }).Draw(t, "routed to")
		return strings.TrimSuffix(routed(name, target, routedTo), "}") + deferred + "}"
	}
	more := rapid.SampledFrom([]string{"", `,"strict":true`, `,"strict":false`}).Draw(t, "strict")
	return `{"type":"function","function":{"name":` + quoted(name) + `,"description":` + quoted(rapid.SampledFrom(descriptions).Draw(t, "description")) +
		`,"parameters":` + rapid.SampledFrom(schemas).Draw(t, "parameters") + more + `}` + deferred + `}`
}

func drawAlias(t *rapid.T, name, canonical string) string {
	entry := `{"name":` + quoted(name) + `,"canonical":` + quoted(canonical)
	kernelTool, _ := kernel.Find(canonical)
	switch rapid.IntRange(0, 3).Draw(t, "text") {
	case 0:
		entry += `,"description":` + quoted(rapid.SampledFrom(append(descriptions, kernelTool.Description(nil))).Draw(t, "description"))
	case 1:
		anchor := kernelTool.Template[:strings.IndexByte(kernelTool.Template, ' ')+1]
		replacement := rapid.SampledFrom([]string{"", anchor, "{{memory_grep}} "}).Draw(t, "cut")
		if canonical == "nexus.memory.read" {
			anchor, replacement = "{{memory_grep}}", "memory_grep" // which is what the catalog's own render says
		}
		entry += `,"recut":{"anchor":` + quoted(anchor) + `,"replacement":` + quoted(replacement) + `}`
	}
	if canonical == "nexus.memory.grep" {
		entry += rapid.SampledFrom([]string{
			"", `,"omit":["path"]`, `,"omit":["path","limit","ignore_case"]`,
			`,"params":{"re":{"maps_to":"pattern"},"case":{"maps_to":"ignore_case","invert":true,"description":"x"}},"omit":["limit"]`,
			`,"params":{"path":{"maps_to":"pattern"},"pattern":{"maps_to":"path","description":""}}`, `,"params":{}`,
		}).Draw(t, "params")
	}
	return entry + "}"
}

func (s *scene) configuration() jsontext.Value {
	return with(`"kernel_tools":[`+strings.Join(s.kernelTools, ",")+`],`+s.imports, s.entries...)
}

func (s *scene) snapshot() declaration.Snapshot {
	runner := declaration.Runner{
		DisplayName: "box", Environment: jsontext.Value(`{"b":1,"a":2.0}`),
		Documents: jsontext.Value("[" + strings.Join(s.documents, ",") + "]"), Tools: s.served,
	}
	return declaration.Snapshot{Runners: map[uuid.UUID]declaration.Runner{runnerA: runner, runnerB: runner}}
}

// assembled is the scene's context, and its document.
func (s *scene) assembled(t require.TestingT) (declaration.Context, string) {
	cfg, err := declaration.ParseConfigurationOver(kernel, s.configuration())
	require.NoError(t, err)
	c, err := declaration.Assemble(cfg.Sources, s.selected, declaration.Options{}, s.snapshot())
	require.NoError(t, err)
	document, err := c.Document()
	require.NoError(t, err)
	return c, string(document)
}

// What was assembled is valid input, and assembles to the same bytes: with the import fields that made
// it and without any.
func TestAssemblingAgainChangesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)
		c, document := s.assembled(t)
		definitions, err := c.Definitions()
		require.NoError(t, err)
		var entries []jsontext.Value
		require.NoError(t, json.Unmarshal(definitions, &entries))
		s.entries = nil
		for _, entry := range entries {
			s.entries = append(s.entries, string(entry))
		}
		_, again := s.assembled(t)
		require.Equal(t, document, again)

		cfg, err := declaration.ParseConfigurationOver(kernel, bypass(s.entries...))
		require.NoError(t, err)
		require.False(t, cfg.Imports)
		c, err = declaration.Assemble(cfg.Sources, s.selected, declaration.Options{}, s.snapshot())
		require.NoError(t, err)
		same, err := c.Definitions()
		require.NoError(t, err)
		require.Equal(t, string(definitions), string(same))
	})
}

func TestWhatIsAssembledCanBeCalled(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)
		c, _ := s.assembled(t)
		names := callables(&c)
		require.True(t, slices.IsSorted(names))
		require.Len(t, slices.Compact(slices.Clone(names)), len(names))
		for _, found := range c.Tools {
			require.Regexp(t, `^[A-Za-z0-9_-]{1,64}$`, found.Name)
			_, err := schema.CompileObject(found.Parameters)
			require.NoError(t, err)
			require.Equal(t, found.Route != nil, found.Served != nil)
			require.False(t, found.Route != nil && found.Kernel != nil)
			require.False(t, found.Kernel != nil && found.Description == nil)
		}
		for _, skill := range c.Skills {
			require.Contains(t, names, skill.Callable)
		}
	})
}

// Neither the order of entries, documents and names nor that of maps shows in what is frozen.
func TestNoOrderShows(t *testing.T) {
	t.Parallel()
	s := &scene{
		entries: []string{
			routed("docs", runnerB, "skill"), routed("Read", runnerA, "read"), `{"type":"function","name":"a"}`,
			catalogDefinition(t, "memory_grep"), `{"name":"View","canonical":"nexus.memory.read"}`, `{"name":"Look","canonical":"nexus.memory.read"}`,
			grepAlias(`,"params":{"re":{"maps_to":"pattern"},"case":{"maps_to":"ignore_case","invert":true,"description":"x"}},"omit":["path","limit"]`),
		},
		kernelTools: []string{`"nexus.tools.search"`, `"nexus.tools.call"`, `"nexus.runners.list"`},
		imports:     `"runner_executor_public_ids":["` + runnerC.String() + `","` + runnerB.String() + `","` + runnerA.String() + `"],`,
		documents:   []string{`{"name":"make","description":"1"}`, `{"name":"test","description":"2"}`, `{"name":"deploy","description":"3"}`},
		selected:    &runnerA,
	}
	shuffle := func(list []string) {
		rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	var want string
	for i := range 1_000 {
		shuffle(s.entries)
		shuffle(s.kernelTools)
		shuffle(s.documents)
		s.served = map[string]declaration.Served{}
		names := slices.Clone(servedNames)
		shuffle(names)
		for _, name := range names {
			s.served[name] = announced("Does "+name, schemas[1])
		}
		_, document := s.assembled(t)
		if i == 0 {
			want = document
			require.Contains(t, document, "skill__")
		}
		require.Equal(t, want, document)
	}
}
