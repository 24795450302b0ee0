package declaration_test

import (
	"encoding/json/jsontext"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/declaration"
)

func grepAlias(members string) string {
	return `{"name":"Grep","canonical":"nexus.memory.grep"` + members + `}`
}

func TestAnAlias(t *testing.T) {
	t.Parallel()
	grep, _ := kernel.ByName("memory_grep")
	c := assemble(t, bypass(grepAlias(
		`,"params":{"re":{"maps_to":"pattern"},"match_case":{"maps_to":"ignore_case","invert":true,"description":"Tell \"A\" from \"a\""},"where":{"maps_to":"path","invert":false,"description":"A folder"}},`+
			`"omit":["limit"],"defer_loading":true`)), nil, declaration.Snapshot{})
	// The kernel's order in the alias's spelling, the default turned, and what makes the form valid input beside it.
	require.Equal(t, `[{"type":"function","function":{"name":"Grep","description":`+quoted(grep.Description(nil))+`,"parameters":{"type":"object","properties":{`+
		`"re":{"type":"string","minLength":1,"description":"RE2"},`+
		`"where":{"type":"string","description":"A folder"},`+
		`"match_case":{"type":"boolean","default":true,"description":"Tell \"A\" from \"a\""}},`+
		`"required":["re"],"additionalProperties":false}},`+
		`"canonical":"nexus.memory.grep","params":{`+
		`"match_case":{"maps_to":"ignore_case","invert":true,"description":"Tell \"A\" from \"a\""},`+
		`"re":{"maps_to":"pattern"},"where":{"maps_to":"path","description":"A folder"}},`+
		`"omit":["limit"],"defer_loading":true}]`, definitions(t, c))
	found := tool(t, c, "Grep")
	require.Equal(t, "nexus.memory.grep", found.Kernel.Canonical)
	require.Equal(t, "memory_grep", found.Kernel.Name)
	require.True(t, found.Kernel.Alias)
	require.Nil(t, found.Served)
}

func TestFormsOfAnAlias(t *testing.T) {
	t.Parallel()
	const rest = `"canonical":"nexus.memory.read","params":{"file":{"maps_to":"path"}}`
	want := definitions(t, assemble(t, bypass(`{"name":"Read","description":"Look",`+rest+`}`), nil, declaration.Snapshot{}))
	parameters := `{"type":"object","properties":{"file":{"type":"string"}},"required":["file"],"additionalProperties":false}`
	for name, entry := range map[string]string{
		"nested name":                      `{"function":{"name":"Read"},"description":"Look",` + rest + `}`,
		"nested name and description":      `{"function":{"name":"Read","description":"Look"},` + rest + `}`,
		"with a type":                      `{"type":"function","name":"Read","description":"Look",` + rest + `}`,
		"nothing omitted":                  `{"name":"Read","description":"Look","omit":[],` + rest + `}`,
		"stored":                           `{"type":"function","function":{"name":"Read","description":"Look","parameters":` + parameters + `},` + rest + `}`,
		"stored, flat":                     `{"type":"function","name":"Read","description":"Look","parameters":` + parameters + `,` + rest + `}`,
		"stored, in another order of keys": `{` + rest + `,"function":{"parameters":{"additionalProperties":false,"required":["file"],"properties":{"file":{"type":"string"}},"type":"object"},"description":"Look","name":"Read"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, want, definitions(t, assemble(t, bypass(entry), nil, declaration.Snapshot{})))
		})
	}
}

func TestAnAliasWithoutParamsHasTheKernelsOwn(t *testing.T) {
	t.Parallel()
	for _, canonical := range []string{"nexus.tools.search", "nexus.tools.call", "nexus.runners.list", "nexus.memory.grep", "nexus.memory.read"} {
		kernelTool, ok := kernel.Find(canonical)
		require.True(t, ok)
		c := assemble(t, bypass(`{"name":"mine","canonical":"`+canonical+`"}`), nil, declaration.Snapshot{})
		require.Equal(t, string(kernelTool.Parameters), string(tool(t, c, "mine").Parameters))
	}
}

func TestAnAliasMayHaveTheKernelsOwnName(t *testing.T) {
	t.Parallel()
	c := assemble(t, bypass(`{"name":"memory_read","canonical":"nexus.memory.read","params":{"file":{"maps_to":"path"}}}`), nil, declaration.Snapshot{})
	require.True(t, tool(t, c, "memory_read").Kernel.Alias)
	require.Contains(t, string(tool(t, c, "memory_read").Parameters), `"file"`)
}

func TestSeveralSpellingsOfOneTool(t *testing.T) {
	t.Parallel()
	c := assemble(t, bypass(`{"name":"b","canonical":"nexus.memory.read"}`, catalogDefinition(t, "memory_read"), `{"name":"a","canonical":"nexus.memory.read"}`),
		nil, declaration.Snapshot{})
	require.Equal(t, []string{"a", "b", "memory_read"}, callables(c))
}

func TestParametersMayChangePlaces(t *testing.T) {
	t.Parallel()
	c := assemble(t, bypass(grepAlias(`,"params":{"path":{"maps_to":"pattern"},"pattern":{"maps_to":"path"}},"omit":["limit","ignore_case"]`)), nil, declaration.Snapshot{})
	require.Equal(t, `{"type":"object","properties":{"path":{"type":"string","minLength":1,"description":"RE2"},"pattern":{"type":"string"}},"required":["path"],"additionalProperties":false}`,
		string(tool(t, c, "Grep").Parameters))
}

func TestARecut(t *testing.T) {
	t.Parallel()
	read := `{"name":"Read","canonical":"nexus.memory.read"}`
	recut := func(anchor, replacement string) string {
		return grepAlias(`,"recut":{"anchor":` + quoted(anchor) + `,"replacement":` + quoted(replacement) + `}`)
	}
	require.Equal(t, "Search the documents for words. Ask Read or ask.",
		described(t, "Grep", "", read, recut("a pattern, then read them with {{memory_read}}, not with {{tool_search}}.", "words. Ask {{memory_read}} or {{ask}}.")),
		"the anchor is looked for before macros are rendered")
	require.Empty(t, described(t, "Grep", "", recut("Search the documents for a pattern, then read them with {{memory_read}}, not with {{tool_search}}.", "")))
}

func TestDescriptionsOfAliases(t *testing.T) {
	t.Parallel()
	grep, _ := kernel.ByName("memory_grep")
	read := `{"name":"Read","canonical":"nexus.memory.read"}`
	render := grep.Description(map[string]string{"memory_read": "Read", "memory_grep": "Grep"})
	stored := func(description string) string {
		return `{"type":"function","function":{"name":"Grep","description":` + quoted(description) + `,"parameters":` + string(grep.Parameters) + `},"canonical":"nexus.memory.grep"}`
	}
	for name, tc := range map[string]struct{ entry, want string }{
		"none":                                 {grepAlias(""), render},
		"the author's":                         {grepAlias(`,"description":"Mine"`), "Mine"},
		"stored: the catalog's own render":     {stored(grep.Description(nil)), render},
		"stored: this declaration's render":    {stored(render), render},
		"stored: another declaration's":        {stored(grep.Description(map[string]string{"memory_read": "View"})), grep.Description(map[string]string{"memory_read": "View"})},
		"stored: the author's":                 {stored("Mine"), "Mine"},
		"stored: the author's, which is empty": {stored(""), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, described(t, "Grep", "", read, tc.entry))
		})
	}
}

func TestAliasRefusals(t *testing.T) {
	t.Parallel()
	const (
		at     = "/configuration/tool_definitions/0"
		failed = toolpark.CodeValidationFailed
	)
	params := func(params string) jsontext.Value { return bypass(grepAlias(`,"params":{` + params + `}`)) }
	omit := func(omit string) jsontext.Value { return bypass(grepAlias(`,"omit":[` + omit + `]`)) }
	for _, tc := range []struct {
		name    string
		raw     jsontext.Value
		code    toolpark.Code
		pointer string
	}{
		{"a canonical name that does not exist", bypass(`{"name":"a","canonical":"nexus.memory.find"}`), toolpark.CodeAliasCanonicalUnknown, at + "/canonical"},
		{"a canonical name that is only reserved", bypass(`{"name":"a","canonical":"nexus.graph.delegate_task"}`), toolpark.CodeAliasCanonicalUnknown, at + "/canonical"},
		{"a wire name as the canonical name", bypass(`{"name":"a","canonical":"memory_grep"}`), toolpark.CodeAliasCanonicalUnknown, at + "/canonical"},
		{"an empty canonical name", bypass(`{"name":"a","canonical":""}`), toolpark.CodeAliasCanonicalUnknown, at + "/canonical"},
		{"canonical is null", bypass(`{"name":"a","canonical":null}`), failed, at + "/canonical"},

		{"the name of another live tool", bypass(`{"name":"memory_read","canonical":"nexus.memory.grep"}`), toolpark.CodeAliasNameReserved, at + "/name"},
		{"the name of a tool to come", bypass(`{"function":{"name":"ask"},"canonical":"nexus.memory.grep"}`), toolpark.CodeAliasNameReserved, at + "/function/name"},
		{"a canonical name as the name", bypass(`{"name":"nexus.memory.grep","canonical":"nexus.memory.grep"}`), toolpark.CodeAliasNameReserved, at + "/name"},
		{"no name", bypass(`{"canonical":"nexus.memory.grep"}`), failed, at + "/name"},
		{"an illegal name", bypass(`{"name":"a.b","canonical":"nexus.memory.grep"}`), failed, at + "/name"},
		{"the name of a function", bypass(`{"type":"function","name":"Grep"}`, grepAlias("")), toolpark.CodeDuplicateToolName, "/configuration/tool_definitions/1"},
		{"the name of another alias", bypass(`{"name":"Grep","canonical":"nexus.memory.read"}`, grepAlias("")), toolpark.CodeDuplicateToolName, "/configuration/tool_definitions/1"},
		{"the name of the plain tool", bypass(catalogDefinition(t, "memory_grep"), `{"name":"memory_grep","canonical":"nexus.memory.grep"}`), toolpark.CodeDuplicateToolName, "/configuration/tool_definitions/1"},

		{"a parameter the tool does not have", params(`"a":{"maps_to":"file"}`), toolpark.CodeAliasParamUnknown, at + "/params/a/maps_to"},
		{"a parameter in another case", params(`"a":{"maps_to":"Path"}`), toolpark.CodeAliasParamUnknown, at + "/params/a/maps_to"},
		{"an omitted parameter the tool does not have", omit(`"limit","file"`), toolpark.CodeAliasParamUnknown, at + "/omit/1"},
		{"a text that is inverted", params(`"a":{"maps_to":"path","invert":true,"description":"x"}`), toolpark.CodeAliasInvertNeedsBoolean, at + "/params/a/invert"},
		{"inverted without a description", params(`"a.b":{"maps_to":"ignore_case","invert":true}`), toolpark.CodeAliasParamDescriptionRequired, at + "/params/a.b/description"},
		{"a spelling that providers refuse", params(`"a/b":{"maps_to":"path"}`), failed, at + "/params/a~1b"},
		{"an empty spelling", params(`"":{"maps_to":"path"}`), failed, at + "/params/"},
		{"inverted with a blank description", params(`"a":{"maps_to":"ignore_case","invert":true,"description":" \n"}`), toolpark.CodeAliasParamDescriptionRequired, at + "/params/a/description"},
		{"two on one parameter", params(`"b":{"maps_to":"path"},"a":{"maps_to":"path"}`), failed, at + "/params/b/maps_to"},
		{"a spelling that another parameter keeps", params(`"limit":{"maps_to":"path"}`), failed, at + "/params/limit"},
		{"a required parameter is omitted", omit(`"pattern"`), failed, at + "/omit/0"},
		{"a parameter is omitted twice", omit(`"path","limit","path"`), failed, at + "/omit/2"},
		{"a parameter is mapped and omitted", bypass(grepAlias(`,"params":{"a":{"maps_to":"path"}},"omit":["path"]`)), failed, at + "/omit/0"},

		{"params is a list", bypass(grepAlias(`,"params":[]`)), failed, at + "/params"},
		{"params is null", bypass(grepAlias(`,"params":null`)), failed, at + "/params"},
		{"a param is a string", params(`"a":"path"`), failed, at + "/params/a"},
		{"a param without a target", params(`"a":{}`), failed, at + "/params/a/maps_to"},
		{"a param with an unknown field", params(`"a":{"maps_to":"path","type":"string"}`), failed, at + "/params/a/type"},
		{"invert in quotes", params(`"a":{"maps_to":"ignore_case","invert":"true"}`), failed, at + "/params/a/invert"},
		{"a param's description is null", params(`"a":{"maps_to":"path","description":null}`), failed, at + "/params/a/description"},
		{"omit in one string", bypass(grepAlias(`,"omit":"path"`)), failed, at + "/omit"},
		{"omit holds a number", omit(`"path",5`), failed, at + "/omit/1"},

		{"an anchor that is not there", bypass(grepAlias(`,"recut":{"anchor":"elsewhere","replacement":"x"}`)), toolpark.CodeAliasRecutAnchorMissing, at + "/recut/anchor"},
		{"an anchor that is there twice", bypass(grepAlias(`,"recut":{"anchor":"with","replacement":"x"}`)), toolpark.CodeAliasRecutAnchorMissing, at + "/recut/anchor"},
		{"an anchor of the rendered text", bypass(grepAlias(`,"recut":{"anchor":"with memory_read","replacement":"x"}`)), toolpark.CodeAliasRecutAnchorMissing, at + "/recut/anchor"},
		{"an empty anchor", bypass(grepAlias(`,"recut":{"anchor":"","replacement":"x"}`)), toolpark.CodeAliasRecutAnchorMissing, at + "/recut/anchor"},
		{"a recut beside a description", bypass(grepAlias(`,"recut":{"anchor":"RE2","replacement":"x"},"description":"Mine"`)), failed, at + "/recut"},
		{"a recut without a replacement", bypass(grepAlias(`,"recut":{"anchor":"Search"}`)), failed, at + "/recut/replacement"},
		{"a recut with an unknown field", bypass(grepAlias(`,"recut":{"anchor":"Search","replacement":"x","all":true}`)), failed, at + "/recut/all"},
		{"a recut of null", bypass(grepAlias(`,"recut":null`)), failed, at + "/recut"},

		{"stored parameters of its own", bypass(`{"type":"function","function":{"name":"Read","parameters":{"type":"object"}},"canonical":"nexus.memory.read"}`), toolpark.CodeKernelToolRedefined, at + "/function/parameters"},
		{"stored parameters of other params", bypass(`{"name":"Read","parameters":{"type":"object","properties":{"file":{"type":"string"}},"required":["file"],"additionalProperties":false},"canonical":"nexus.memory.read"}`), toolpark.CodeKernelToolRedefined, at + "/parameters"},
		{"another type", bypass(`{"type":"alias","name":"a","canonical":"nexus.memory.read"}`), failed, at + "/type"},
		{"strict", bypass(grepAlias(`,"strict":true`)), failed, at + "/strict"},
		{"a route", bypass(grepAlias(`,"route":{}`)), failed, at + "/route"},
		{"a description twice", bypass(`{"function":{"name":"a","description":"x"},"description":"x","canonical":"nexus.memory.read"}`), failed, at + "/description"},
		{"a description of null", bypass(grepAlias(`,"description":null`)), failed, at + "/description"},
		{"U+0000 in a description", bypass(grepAlias(`,"description":"\u0000"`)), failed, at + "/description"},
		{"defer_loading in quotes", bypass(grepAlias(`,"defer_loading":"true"`)), failed, at + "/defer_loading"},
		{"a function that is a string", bypass(`{"function":"Read","canonical":"nexus.memory.read"}`), failed, at + "/function"},
		{"canonical inside the function", bypass(`{"type":"function","function":{"name":"a","canonical":"nexus.memory.read"}}`), failed, at + "/function/canonical"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := declaration.ParseConfigurationOver(kernel, tc.raw)
			requireRefused(t, err, tc.code, tc.pointer)
			require.True(t, strings.HasPrefix(refusalOf(t, err).Message, "configuration.tool_definitions["), "the field is named")
		})
	}
}

// Several mistakes: always the same one is named.
func TestTheSameMistakeIsNamedEveryTime(t *testing.T) {
	t.Parallel()
	raw := bypass(grepAlias(`,"params":{"d":{"maps_to":"x"},"c":{"maps_to":"y"},"b":{"maps_to":"path","invert":true}}`))
	for range 100 {
		_, err := declaration.ParseConfigurationOver(kernel, raw)
		requireRefused(t, err, toolpark.CodeAliasInvertNeedsBoolean, "/configuration/tool_definitions/0/params/b/invert")
	}
}
