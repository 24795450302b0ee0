package declaration_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/declaration"
)

func TestProjection(t *testing.T) {
	t.Parallel()
	c := assemble(t, bypass(
		`{"type":"function","function":{"name":"b","description":"B \u00e9 <","parameters":{"type":"object","properties":{"z":{"maximum":1.50},"a":{"const":"\u0041"}}},"strict":true}}`,
		`{"type":"function","name":"a","strict":false,"route":{"kind":"runner","runner_executor_public_id":"`+runnerA.String()+`","tool_name":"read"}}`,
		`{"name":"View","canonical":"nexus.memory.read","description":"Look","params":{"file":{"maps_to":"path"}}}`,
		`{"type":"function","name":"c","parameters":{"type":"object"}}`,
	), nil, snapshot())
	const (
		view = `{"type":"object","properties":{"file":{"type":"string"}},"required":["file"],"additionalProperties":false}`
		b    = `{"type":"object","properties":{"z":{"maximum":1.50},"a":{"const":"\u0041"}}}`
		none = `{"type":"object","properties":{}}`
	)
	for _, tc := range []struct {
		format toolpark.Format
		want   string
	}{
		{toolpark.FormatChatCompletions, `[{"type":"function","function":{"name":"View","description":"Look","parameters":` + view + `,"strict":false}},` +
			`{"type":"function","function":{"name":"a","parameters":` + none + `,"strict":false}},` +
			`{"type":"function","function":{"name":"b","description":"B é <","parameters":` + b + `,"strict":true}},` +
			`{"type":"function","function":{"name":"c","parameters":{"type":"object"},"strict":false}}]`},
		{toolpark.FormatResponses, `[{"type":"function","name":"View","description":"Look","parameters":` + view + `,"strict":false},` +
			`{"type":"function","name":"a","parameters":` + none + `,"strict":false},` +
			`{"type":"function","name":"b","description":"B é <","parameters":` + b + `,"strict":true},` +
			`{"type":"function","name":"c","parameters":{"type":"object"},"strict":false}]`},
		{toolpark.FormatAnthropic, `[{"name":"View","description":"Look","input_schema":` + view + `},` +
			`{"name":"a","input_schema":` + none + `,"strict":false},` +
			`{"name":"b","description":"B é <","input_schema":` + b + `,"strict":true},` +
			`{"name":"c","input_schema":{"type":"object"}}]`},
	} {
		t.Run(string(tc.format), func(t *testing.T) {
			t.Parallel()
			tools, digest, err := c.Projection(tc.format)
			require.NoError(t, err)
			require.Equal(t, tc.want, string(tools))
			sum := sha256.Sum256([]byte(string(tc.format) + "\n" + tc.want))
			require.Equal(t, "sha256:"+hex.EncodeToString(sum[:]), digest)

			document, err := c.Document()
			require.NoError(t, err)
			stored, err := declaration.ParseContext(document)
			require.NoError(t, err)
			again, same, err := stored.Projection(tc.format)
			require.NoError(t, err)
			require.Equal(t, string(tools), string(again), "what was frozen renders the same bytes")
			require.Equal(t, digest, same)
		})
	}
	_, _, err := c.Projection("openai")
	require.Error(t, err)
}

func TestADigestNamesFormatAndTools(t *testing.T) {
	t.Parallel()
	empty := &declaration.Context{}
	digests := map[string]bool{}
	for _, format := range []toolpark.Format{toolpark.FormatChatCompletions, toolpark.FormatResponses, toolpark.FormatAnthropic} {
		for _, c := range []*declaration.Context{empty, assemble(t, bypass(`{"type":"function","name":"a"}`), nil, snapshot())} {
			_, digest, err := c.Projection(format)
			require.NoError(t, err)
			digests[digest] = true
		}
		tools, _, err := empty.Projection(format)
		require.NoError(t, err)
		require.Equal(t, `[]`, string(tools))
	}
	require.Len(t, digests, 6)
}

// shown are the names that a model is offered, the same in every format.
func shown(t *testing.T, c *declaration.Context) []string {
	t.Helper()
	tools, _, err := c.Projection(toolpark.FormatAnthropic)
	require.NoError(t, err)
	chat, _, err := c.Projection(toolpark.FormatChatCompletions)
	require.NoError(t, err)
	var offered []struct {
		Name string `json:"name"`
	}
	require.NoError(t, json.Unmarshal(tools, &offered))
	var functions []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	require.NoError(t, json.Unmarshal(chat, &functions))
	require.Len(t, functions, len(offered))
	names := []string{}
	for i, o := range offered {
		require.Equal(t, o.Name, functions[i].Function.Name)
		names = append(names, o.Name)
	}
	return names
}

func TestWhatAModelIsOffered(t *testing.T) {
	t.Parallel()
	const (
		eager        = `{"type":"function","name":"eager"}`
		explicit     = `{"type":"function","name":"explicit","defer_loading":false}`
		deferred     = `{"type":"function","name":"late","defer_loading":true}`
		lateSearch   = `{"name":"find","canonical":"nexus.tools.search","defer_loading":true}`
		find         = `{"name":"find","canonical":"nexus.tools.search"}`
		do           = `{"name":"do","canonical":"nexus.tools.call"}`
		both         = `"kernel_tools":["nexus.tools.search","nexus.tools.call"],`
		searchImport = `"kernel_tools":["nexus.tools.search"],`
	)
	for _, tc := range []struct {
		name string
		raw  jsontext.Value
		want []string
	}{
		{"everything without a search", with("", eager, explicit, deferred), []string{"eager", "explicit", "late"}},
		{"everything with a search and no call", with(searchImport, eager, deferred), []string{"eager", "late", "tool_search"}},
		{"no deferred tool with both", with(both, eager, explicit, deferred), []string{"eager", "explicit", "tool_call", "tool_search"}},
		{"no deferred tool with both as aliases", with("", eager, deferred, find, do), []string{"do", "eager", "find"}},
		{"everything with a deferred search", with("", eager, deferred, lateSearch, do), []string{"do", "eager", "find", "late"}},
		{"a deferred spelling beside an eager one", with(both, deferred, lateSearch), []string{"tool_call", "tool_search"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, shown(t, assemble(t, tc.raw, nil, snapshot())))
		})
	}
}

func TestASkillCallableWithoutSkillsIsNotOffered(t *testing.T) {
	t.Parallel()
	raw := bypass(routed("docs", runnerA, "skill"), routed("look", runnerA, "read"))
	require.Equal(t, []string{"docs", "look"}, shown(t, assemble(t, raw, nil, skilled(`[{"name":"make","description":"x"}]`))))
	require.Equal(t, []string{"look"}, shown(t, assemble(t, raw, nil, skilled(`[]`))))
	require.Equal(t, []string{"look"}, shown(t, assemble(t, raw, nil, skilled(``))))
}

func TestAProjectionFollowsANarrowing(t *testing.T) {
	t.Parallel()
	c := assemble(t, with(`"kernel_tools":["nexus.tools.search","nexus.tools.call"],`, `{"type":"function","name":"late","defer_loading":true}`), nil, snapshot())
	part, err := c.Narrow([]string{"late", "tool_search"})
	require.NoError(t, err)
	require.Equal(t, []string{"late", "tool_search"}, shown(t, part), "without the call nothing can be left to it")
}
