package declaration_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/catalog"
	"github.com/toolpark/toolpark/internal/declaration"
)

// described is what a model reads of a tool in a declaration of these entries.
func described(t *testing.T, name string, members string, entries ...string) string {
	t.Helper()
	return *tool(t, assemble(t, with(members, entries...), nil, declaration.Snapshot{}), name).Description
}

func TestAPlainKernelTool(t *testing.T) {
	t.Parallel()
	search, _ := catalog.Find(catalog.ToolsSearch)
	published := catalogDefinition(t, "tool_search")
	flat := `{"type":"function","name":"tool_search","description":` + quoted(search.Description(nil)) + `,"parameters":` + string(search.Parameters) + `}`
	for name, entry := range map[string]string{
		"as published": published,
		"flat":         flat,
		"in other white space, order and escapes": `{ "function" : {"parameters":{"additionalProperties":false,"required":["query"],"properties":{` +
			`"limit":{"default":5,"maximum":20,"minimum":1,"type":"integer","description":"How many tools to return at most."},` +
			`"query":{"maxLength":1000,"type":"string","minLength":1,"description":"Words that must all occur, or the ex\u0061ct name of a tool."}},"type":"object"},` +
			`"description":` + quoted(search.Description(nil)) + `,"name":"tool_se\u0061rch"},"type":"function"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := assemble(t, bypass(entry), nil, declaration.Snapshot{})
			require.Equal(t, "["+published+"]", definitions(t, c), "what is kept is the catalog's own")
			require.Equal(t, &declaration.Kernel{Canonical: catalog.ToolsSearch, Name: "tool_search"}, tool(t, c, "tool_search").Kernel)
			require.Nil(t, tool(t, c, "tool_search").Served)
		})
	}
	for _, flag := range []string{"true", "false"} {
		c := assemble(t, bypass(strings.TrimSuffix(published, "}")+`,"defer_loading":`+flag+`}`), nil, declaration.Snapshot{})
		require.Equal(t, "["+strings.TrimSuffix(published, "}")+`,"defer_loading":`+flag+"}]", definitions(t, c))
	}
}

func TestAParaphraseOfAKernelToolIsRefused(t *testing.T) {
	t.Parallel()
	search, _ := catalog.Find(catalog.ToolsSearch)
	description, parameters := search.Description(nil), string(search.Parameters)
	published := catalogDefinition(t, "tool_search")
	const nested, flat = "/configuration/tool_definitions/0/function/name", "/configuration/tool_definitions/0/name"
	for name, tc := range map[string]struct{ entry, pointer string }{
		"other words":                {kernelDefinition("tool_search", "Finds tools.", parameters), nested},
		"a space more":               {kernelDefinition("tool_search", description+" ", parameters), nested},
		"the template itself":        {kernelDefinition("tool_search", search.Template, parameters), nested},
		"no description":             {`{"type":"function","function":{"name":"tool_search","parameters":` + parameters + `}}`, nested},
		"a description of null":      {`{"type":"function","function":{"name":"tool_search","description":null,"parameters":` + parameters + `}}`, nested},
		"other parameters":           {kernelDefinition("tool_search", description, strings.Replace(parameters, `"maximum":20`, `"maximum":50`, 1)), nested},
		"a number written otherwise": {kernelDefinition("tool_search", description, strings.Replace(parameters, `"maximum":20`, `"maximum":20.0`, 1)), nested},
		"no parameters":              {`{"type":"function","function":{"name":"tool_search","description":` + quoted(description) + `}}`, nested},
		"no type":                    {strings.Replace(published, `"type":"function",`, "", 1), nested},
		"strict":                     {strings.Replace(published, `"name":`, `"strict":false,"name":`, 1), nested},
		"a route":                    {strings.TrimSuffix(published, "}") + `,"route":{"kind":"runner","runner_executor_public_id":"` + runnerA.String() + `","tool_name":"find"}}`, nested},
		"params without canonical":   {strings.TrimSuffix(published, "}") + `,"params":{}}`, nested},
		"nothing but the name":       {`{"type":"function","name":"tool_search"}`, flat},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := declaration.ParseConfiguration(bypass(tc.entry))
			requireRefused(t, err, toolpark.CodeKernelToolRedefined, tc.pointer)
		})
	}
	_, err := declaration.ParseConfiguration(bypass(strings.TrimSuffix(published, "}") + `,"defer_loading":"yes"}`))
	requireRefused(t, err, toolpark.CodeValidationFailed, "/configuration/tool_definitions/0/defer_loading")
}

func TestAFunctionTakesNoKernelName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"delegate_task", "nexus.graph.delegate_task", "memory_read", "skill", "ask", "nexus.tools.search"} {
		_, err := declaration.ParseConfiguration(bypass(`{"type":"function","function":{"name":"` + name + `","description":"x"}}`))
		requireRefused(t, err, toolpark.CodeKernelToolRedefined, "/configuration/tool_definitions/0/function/name")
	}
}

func TestHowKernelTextsNameOtherTools(t *testing.T) {
	t.Parallel()
	grep := catalogDefinition(t, "memory_grep")
	alias := func(name, canonical string) string { return `{"name":"` + name + `","canonical":"` + canonical + `"}` }
	text := func(read, search string) string {
		return "Search the documents for a pattern, then read them with " + read + ", not with " + search + "."
	}
	for _, tc := range []struct {
		name, members string
		entries       []string
		want          string
	}{
		{"the wire name when it is not declared", "", []string{grep}, text("memory_read", "tool_search")},
		{"the only alias", "", []string{grep, alias("Read", "nexus.memory.read")}, text("Read", "tool_search")},
		{"the first alias in byte order", "", []string{alias("read", "nexus.memory.read"), grep, alias("View", "nexus.memory.read"), alias("a", "nexus.memory.read")}, text("View", "tool_search")},
		{"the plain name before any alias", "", []string{alias("A", "nexus.memory.read"), grep, catalogDefinition(t, "memory_read")}, text("memory_read", "tool_search")},
		{"a plain name that is imported", `"kernel_tools":["nexus.memory.read"],`, []string{alias("A", "nexus.memory.read"), grep}, text("memory_read", "tool_search")},
		{"an alias under the wire name", "", []string{alias("A", "nexus.memory.read"), grep, alias("memory_read", "nexus.memory.read")}, text("memory_read", "tool_search")},
		{"each tool by its own", "", []string{alias("A", "nexus.memory.read"), alias("B", "nexus.tools.search"), grep}, text("A", "B")},
		{"deferred ones, too", "", []string{`{"name":"A","canonical":"nexus.memory.read","defer_loading":true}`, grep}, text("A", "tool_search")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, described(t, "memory_grep", tc.members, tc.entries...))
		})
	}
	t.Run("an imported kernel tool, too", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, text("Read", "tool_search"), described(t, "memory_grep", `"kernel_tools":["nexus.memory.grep"],`, alias("Read", "nexus.memory.read")))
	})
}

func TestAPlainEntryMayCarryTheRenderOfItsDeclaration(t *testing.T) {
	t.Parallel()
	read := `{"name":"Read","canonical":"nexus.memory.read"}`
	grep, _ := kernel.ByName("memory_grep")
	render := grep.Description(map[string]string{"memory_read": "Read"})
	entry := kernelDefinition("memory_grep", render, string(grep.Parameters))
	require.Equal(t, render, described(t, "memory_grep", "", entry, read))

	_, err := declaration.ParseConfigurationOver(kernel, bypass(read, kernelDefinition("memory_grep", grep.Description(map[string]string{"memory_read": "View"}), string(grep.Parameters))))
	requireRefused(t, err, toolpark.CodeKernelToolRedefined, "/configuration/tool_definitions/1/function/name")
	_, err = declaration.ParseConfigurationOver(kernel, bypass(entry))
	requireRefused(t, err, toolpark.CodeKernelToolRedefined, "/configuration/tool_definitions/0/function/name")
}

func TestOnlyKernelTextsAreRendered(t *testing.T) {
	t.Parallel()
	const text = "Use {{tool_search}} and {{memory_read}}"
	require.Equal(t, text, described(t, "f", "", `{"type":"function","name":"f","description":"`+text+`"}`), "not an author's")
	require.Equal(t, text, described(t, "Find", "", `{"name":"Find","canonical":"nexus.tools.search","description":"`+text+`"}`), "not an alias's own")

	s := serving()
	s.Runners[runnerA].Tools["read"] = announced(text, `{"type":"object"}`)
	require.Equal(t, text, *tool(t, assemble(t, importing(""), &runnerA, s), "read").Description, "not a runner's")
}
