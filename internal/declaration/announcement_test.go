package declaration_test

import (
	"encoding/json/jsontext"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/declaration"
	"github.com/toolpark/toolpark/internal/form"
)

const (
	readEffects = `{"kind":"read_only","destructive":false,"effect_scope":"closed","idempotency":"intrinsic","reconciliation":"none"}`
	bashEffects = `{"kind":"write","destructive":true,"effect_scope":"open","idempotency":"none","reconciliation":"none"}`
)

// served is one announced tool: a name, effects, and more members.
func served(name, more string) string {
	return `{"name":` + name + `,"effect_profile":` + readEffects + more + `}`
}

func tools(entries ...string) string { return `{"tools":[` + strings.Join(entries, ",") + `]}` }

// paths are the places of a refusal's entries.
func paths(t *testing.T, e *toolpark.Error) []string {
	t.Helper()
	entries, ok := e.Details["entries"].([]form.Problem)
	require.True(t, ok)
	found := make([]string, len(entries))
	for i, entry := range entries {
		require.NotEmpty(t, entry.Message)
		found[i] = entry.Path
	}
	return found
}

func TestAnnouncement(t *testing.T) {
	t.Parallel()
	bash := `{"timeout_ms":120000, "name":"bash","effect_profile":` + bashEffects + `,"description":"Run","input_schema":{"type":"object"},"output_schema":{"type":"array"},"title":"Bash","capability":"shell"}`
	body := `{"tools":[` + bash + `,` + served(`"files_bytes"`, "") + `,` + served(`"half"`, `,"description":"No schema"`) +
		`],"environment":{"z":1,"a":1.50},"documents":[{"name":"workspace-tools","description":"Tools in this image"}]}`
	a, err := declaration.ParseAnnouncement(jsontext.Value(body))
	require.NoError(t, err)
	require.Len(t, a.Tools, 3)
	timeout := int64(120_000)
	require.Equal(t, declaration.AnnouncedTool{
		Name: "bash",
		EffectProfile: toolpark.EffectProfile{
			Kind: "write", Destructive: true, EffectScope: "open", Idempotency: "none", Reconciliation: "none",
		},
		TimeoutMS:    &timeout,
		ModelVisible: true,
		OutputSchema: jsontext.Value(`{"type":"array"}`),
		Entry:        jsontext.Value(bash),
	}, a.Tools[0])
	require.False(t, a.Tools[1].ModelVisible)
	require.Nil(t, a.Tools[1].TimeoutMS)
	require.Nil(t, a.Tools[1].OutputSchema)
	require.False(t, a.Tools[2].ModelVisible, "a description alone does not show a tool to a model")
	require.Equal(t, `{"z":1,"a":1.50}`, string(a.Environment))
	require.JSONEq(t, `[{"name":"workspace-tools","description":"Tools in this image"}]`, string(a.Documents))
}

func TestAnEmptyAnnouncementClears(t *testing.T) {
	t.Parallel()
	a, err := declaration.ParseAnnouncement(jsontext.Value(`{"tools":[]}`))
	require.NoError(t, err)
	require.Empty(t, a.Tools)
	require.Equal(t, `{}`, string(a.Environment))
	require.Equal(t, `[]`, string(a.Documents))
}

func TestBadAnnouncementEntries(t *testing.T) {
	t.Parallel()
	effects := func(old, changed string) string {
		return tools(`{"name":"a","effect_profile":` + strings.Replace(readEffects, old, changed, 1) + `}`)
	}
	document := func(members string) string { return `{"tools":[],"documents":[{` + members + `}]}` }
	for _, tc := range []struct {
		name, body string
		paths      []string
	}{
		{"tools is no list", `{"tools":{}}`, []string{"tools"}},
		{"tools is null", `{"tools":null}`, []string{"tools"}},
		{"environment is null", `{"tools":[],"environment":null}`, []string{"environment"}},
		{"environment is a list", `{"tools":[],"environment":[]}`, []string{"environment"}},
		{"documents is null", `{"tools":[],"documents":null}`, []string{"documents"}},
		{"an entry is no object", tools(`null`, `"bash"`), []string{"tools[0]", "tools[1]"}},
		{"an empty entry", tools(`{}`), []string{"tools[0].name", "tools[0].effect_profile"}},
		{"the name is a number", tools(served(`5`, "")), []string{"tools[0].name"}},
		{"the name is empty", tools(served(`""`, "")), []string{"tools[0].name"}},
		{"a leading space", tools(served(`" a"`, "")), []string{"tools[0].name"}},
		{"a trailing space", tools(served(`"a "`, "")), []string{"tools[0].name"}},
		{"a line break", tools(served(`"a\nb"`, "")), []string{"tools[0].name"}},
		{"a text direction mark", tools(served(`"a\u202eb"`, "")), []string{"tools[0].name"}},
		{"129 characters", tools(served(`"`+strings.Repeat("天", 129)+`"`, "")), []string{"tools[0].name"}},
		{"a name twice", tools(served(`"a"`, ""), served(`"b"`, ""), served(`"a"`, "")), []string{"tools[2].name"}},
		{"effects are null", tools(`{"name":"a","effect_profile":null}`), []string{"tools[0].effect_profile"}},
		{"an unknown kind", effects("read_only", "reads"), []string{"tools[0].effect_profile.kind"}},
		{"an unknown scope", effects("closed", "local"), []string{"tools[0].effect_profile.effect_scope"}},
		{"a kind in capitals", effects("read_only", "READ_ONLY"), []string{"tools[0].effect_profile.kind"}},
		{"destructive in quotes", effects("false", `"false"`), []string{"tools[0].effect_profile.destructive"}},
		{"effects lack a field", effects(`,"reconciliation":"none"`, ""), []string{"tools[0].effect_profile.reconciliation"}},
		{"effects have one more", effects("{", `{"network":true,`), []string{"tools[0].effect_profile.network"}},
		{"timeout 0", tools(served(`"a"`, `,"timeout_ms":0`)), []string{"tools[0].timeout_ms"}},
		{"timeout over a week", tools(served(`"a"`, `,"timeout_ms":604800001`)), []string{"tools[0].timeout_ms"}},
		{"timeout with a fraction", tools(served(`"a"`, `,"timeout_ms":1.5`)), []string{"tools[0].timeout_ms"}},
		{"timeout null", tools(served(`"a"`, `,"timeout_ms":null`)), []string{"tools[0].timeout_ms"}},
		{"timeout in quotes", tools(served(`"a"`, `,"timeout_ms":"5"`)), []string{"tools[0].timeout_ms"}},
		{"an empty description", tools(served(`"a"`, `,"description":""`)), []string{"tools[0].description"}},
		{"description null", tools(served(`"a"`, `,"description":null`)), []string{"tools[0].description"}},
		{"title is a number", tools(served(`"a"`, `,"title":5`)), []string{"tools[0].title"}},
		{"capability is a list", tools(served(`"a"`, `,"capability":[]`)), []string{"tools[0].capability"}},
		{"an unknown field", tools(served(`"a"`, `,"Description":"x"`)), []string{"tools[0].Description"}},
		{"U+0000 in a description", tools(served(`"a"`, `,"description":"a\u0000"`)), []string{"tools[0].description"}},
		{"U+0000 in the environment", `{"tools":[],"environment":{"os":"\u0000"}}`, []string{"environment.os"}},

		{"schemas that are none, beside a good tool", tools(
			served(`"good"`, `,"description":"x","input_schema":{"type":"object","properties":{"x":true}}`),
			served(`"s"`, `,"input_schema":{"type":"string"}`),
			served(`"e"`, `,"input_schema":{}`),
			served(`"n"`, `,"input_schema":{"type":"object","properties":{"n":{"type":"nubmer"}}}`),
			served(`"r"`, `,"input_schema":{"type":"object","properties":{"n":{"$ref":"file:///etc/hostname"}}}`),
			served(`"o"`, `,"output_schema":{"$ref":"http://127.0.0.1:1/s.json"}`),
			served(`"b"`, `,"input_schema":true`),
		), []string{
			"tools[1].input_schema", "tools[2].input_schema", "tools[3].input_schema", "tools[4].input_schema",
			"tools[5].output_schema", "tools[6].input_schema",
		}},

		{"an empty document", document(``), []string{"documents[0].name", "documents[0].description"}},
		{"two hyphens", document(`"name":"a--b","description":"x"`), []string{"documents[0].name"}},
		{"a capital", document(`"name":"A","description":"x"`), []string{"documents[0].name"}},
		{"a long document name", document(`"name":"` + strings.Repeat("a", 65) + `","description":"x"`), []string{"documents[0].name"}},
		{"no description", document(`"name":"a","description":""`), []string{"documents[0].description"}},
		{"a long description", document(`"name":"a","description":"` + strings.Repeat("x", 1025) + `"`), []string{"documents[0].description"}},
		{"an unknown document field", document(`"name":"a","description":"x","body":"y"`), []string{"documents[0].body"}},
		{"a document twice", `{"tools":[],"documents":[{"name":"a","description":"x"},{"name":"a","description":"y"}]}`, []string{"documents[1].name"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := declaration.ParseAnnouncement(jsontext.Value(tc.body))
			e := refusalOf(t, err)
			require.Equal(t, toolpark.CodeInvalidAnnouncement, e.Code)
			require.Equal(t, tc.paths, paths(t, e))
			require.True(t, strings.HasPrefix(e.Message, tc.paths[0]+" "), e.Message)
		})
	}
}

func TestARefusedSchemaIsPointedInto(t *testing.T) {
	t.Parallel()
	_, err := declaration.ParseAnnouncement(jsontext.Value(tools(
		served(`"n"`, `,"input_schema":{"type":"object","properties":{"n":{"type":"nubmer"}}}`))))
	e := refusalOf(t, err)
	require.Equal(t, "/tools/0/input_schema/properties/n/type", e.Details["pointer"])
}

func TestServedNamesAreKeptByteForByte(t *testing.T) {
	t.Parallel()
	names := []string{
		"repo.list-tags", "repo_list_tags", "repo/list tags", "天気", "翻訳", "openDoc", "OpenDoc",
		"caf\u00e9", "cafe\u0301", strings.Repeat("天", 128), "skill", "memory_read", "nexus.memory.read",
	}
	entries := make([]string, len(names))
	for i, name := range names {
		entries[i] = served(`"`+name+`"`, "")
	}
	a, err := declaration.ParseAnnouncement(jsontext.Value(tools(entries...)))
	require.NoError(t, err)
	for i, name := range names {
		require.Equal(t, name, a.Tools[i].Name)
	}
}

func TestReservedNamesAreRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"delegate_task", "nexus.graph.delegate_task", "nexus.tools.mine", "ask", "tool_call"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := declaration.ParseAnnouncement(jsontext.Value(tools(served(`"a"`, ""), served(`"`+name+`"`, ""))))
			e := refusalOf(t, err)
			require.Equal(t, toolpark.CodeReservedNamespace, e.Code)
			require.Equal(t, []string{"tools[1].name"}, paths(t, e))
			require.Contains(t, e.Message, name)
		})
	}
}

func TestAnnouncementBody(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, body string
		code       toolpark.Code
		pointer    string
	}{
		{"no tools", `{"environment":{}}`, toolpark.CodeParameterMissing, "/tools"},
		{"an unknown field", `{"tools":[],"Tools":[]}`, toolpark.CodeParameterInvalid, "/Tools"},
		{"no object", `[]`, toolpark.CodeParameterInvalid, ""},
		{"tools over the bound", tools(served(`"a"`, `,"description":"`+strings.Repeat("x", 1<<20)+`"`)), toolpark.CodeValidationFailed, "/tools"},
		{"environment over the bound", `{"tools":[],"environment":{"a":"` + strings.Repeat("x", 64<<10) + `"}}`, toolpark.CodeValidationFailed, "/environment"},
		{"documents over the bound", `{"tools":[],"documents":[` + strings.TrimSuffix(strings.Repeat(
			`{"name":"a","description":"`+strings.Repeat("x", 1000)+`"},`, 66), ",") + `]}`, toolpark.CodeValidationFailed, "/documents"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := declaration.ParseAnnouncement(jsontext.Value(tc.body))
			e := refusalOf(t, err)
			require.Equal(t, tc.code, e.Code)
			require.Equal(t, tc.pointer, e.Details["pointer"])
		})
	}
}

func TestWhiteSpaceDoesNotCountAgainstABound(t *testing.T) {
	t.Parallel()
	body := fmt.Sprintf(`{"tools":[],"environment":{"a":%s1}}`, strings.Repeat(" ", 70<<10))
	_, err := declaration.ParseAnnouncement(jsontext.Value(body))
	require.NoError(t, err)
}
