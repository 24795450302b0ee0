package declaration_test

import (
	"encoding/json/jsontext"
	"strings"
	"testing"
	"uuid"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/declaration"
)

func TestSources(t *testing.T) {
	t.Parallel()
	s, err := declaration.ParseSources(jsontext.Value(`{"tool_definitions":[{"type":"function","name":"a"}],` +
		`"kernel_tools":["nexus.tools.search","nexus.runners.list"],` +
		`"runner_executor_public_ids":["` + runnerB.String() + `","` + runnerA.String() + `"],` +
		`"runner_tool_names":["read","天気"],` +
		`"approval_mode":"whatever","approval_rules":5,"other":{}}`))
	require.NoError(t, err, "an assembly ignores every other field")
	require.Len(t, s.Entries, 1)
	require.Equal(t, []string{"nexus.tools.search", "nexus.runners.list"}, s.KernelTools)
	require.Equal(t, []uuid.UUID{runnerB, runnerA}, s.Candidates)
	require.Equal(t, []string{"read", "天気"}, *s.RunnerToolNames)
	require.True(t, s.Imports)
}

func TestWhatCountsAsAnImport(t *testing.T) {
	t.Parallel()
	for raw, imports := range map[string]bool{
		``:   false,
		`{}`: false,
		`{"kernel_tools":null,"runner_executor_public_ids":null,"runner_tool_names":null}`: false,
		`{"tool_definitions":[]}`:           false,
		`{"kernel_tools":[]}`:               true,
		`{"runner_executor_public_ids":[]}`: true,
		`{"runner_tool_names":[]}`:          true,
	} {
		var value jsontext.Value
		if raw != "" {
			value = jsontext.Value(raw)
		}
		s, err := declaration.ParseSources(value)
		require.NoError(t, err)
		require.Equal(t, imports, s.Imports, raw)
		require.Equal(t, raw != `{"runner_tool_names":[]}`, s.RunnerToolNames == nil, "%s: null is all, [] is none", raw)
	}
}

func TestAConfigurationThatIsNoObjectIsMissing(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{`null`, `[]`, `"x"`, `5`, `false`} {
		_, err := declaration.ParseSources(jsontext.Value(raw))
		e := refusalOf(t, err)
		require.Equal(t, toolpark.CodeParameterMissing, e.Code)
		require.Equal(t, "/configuration", e.Details["pointer"])
	}
}

// sourceRefusals are refusals of the import fields, by field and pointer below it.
var sourceRefusals = []struct{ name, field, value, below string }{
	{"kernel tools are no list", "kernel_tools", `"nexus.tools.search"`, ""},
	{"kernel tools are an object", "kernel_tools", `{}`, ""},
	{"a kernel tool is null", "kernel_tools", `["nexus.tools.search",null]`, "/1"},
	{"a kernel tool by its wire name", "kernel_tools", `["tool_search"]`, "/0"},
	{"a kernel tool that is not live", "kernel_tools", `["nexus.graph.delegate_task"]`, "/0"},
	{"a kernel tool twice", "kernel_tools", `["nexus.tools.search","nexus.runners.list","nexus.tools.search"]`, "/2"},
	{"candidates are no list", "runner_executor_public_ids", `"` + runnerA.String() + `"`, ""},
	{"a candidate is a number", "runner_executor_public_ids", `[5]`, "/0"},
	{"a candidate is no UUID", "runner_executor_public_ids", `["` + runnerA.String() + `","box"]`, "/1"},
	{"a candidate in capitals", "runner_executor_public_ids", `["` + strings.ToUpper(runnerA.String()) + `"]`, "/0"},
	{"a candidate twice", "runner_executor_public_ids", `["` + runnerA.String() + `","` + runnerB.String() + `","` + runnerA.String() + `"]`, "/2"},
	{"tool names in one string", "runner_tool_names", `"read"`, ""},
	{"a tool name is an object", "runner_tool_names", `["read",{}]`, "/1"},
	{"a tool name with U+0000", "runner_tool_names", `["read","\u0000"]`, "/1"},
	{"too many tool names", "runner_tool_names", `[` + strings.Repeat(`"a",`, 10_000) + `"a"]`, ""},
}

func TestSourceRefusals(t *testing.T) {
	t.Parallel()
	for _, tc := range sourceRefusals {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := declaration.ParseSources(jsontext.Value(`{"` + tc.field + `":` + tc.value + `}`))
			requireRefused(t, err, toolpark.CodeValidationFailed, "/configuration/"+tc.field+tc.below)
			require.Contains(t, refusalOf(t, err).Message, "configuration."+tc.field)
		})
		t.Run(tc.name+", in a round", func(t *testing.T) {
			t.Parallel()
			fields := map[string]jsontext.Value{tc.field: jsontext.Value(tc.value)}
			_, _, err := declaration.ParseRoundSources(nil, fields["kernel_tools"], fields["runner_executor_public_ids"], fields["runner_tool_names"])
			requireRefused(t, err, toolpark.CodeValidationFailed, "/"+tc.field+tc.below)
		})
	}
}

func TestARoundsOwnSources(t *testing.T) {
	t.Parallel()
	null := jsontext.Value(`null`)
	_, brought, err := declaration.ParseRoundSources(nil, null, nil, null)
	require.NoError(t, err)
	require.False(t, brought)
	_, brought, err = declaration.ParseRoundSources(null, nil, null, nil)
	require.NoError(t, err)
	require.False(t, brought)

	s, brought, err := declaration.ParseRoundSources(jsontext.Value(`[]`), nil, nil, nil)
	require.NoError(t, err)
	require.True(t, brought, "an empty declaration is one")
	require.False(t, s.Imports)

	s, brought, err = declaration.ParseRoundSources(jsontext.Value(`[`+routed("a", runnerA, "read")+`]`), jsontext.Value(`["nexus.tools.call"]`),
		jsontext.Value(`["`+runnerA.String()+`"]`), null)
	require.NoError(t, err)
	require.True(t, brought)
	require.True(t, s.Imports)
	c, err := declaration.Assemble(s, &runnerA, declaration.Options{}, snapshot())
	require.NoError(t, err)
	require.Equal(t, []string{"a", "tool_call"}, callables(&c))
}

func TestRefusalsOfARoundPointIntoTheRound(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, tools string
		code        toolpark.Code
		pointer     string
	}{
		{"tools are no list", `{}`, toolpark.CodeValidationFailed, "/tools"},
		{"a name twice", `[{"type":"function","name":"a"},{"type":"function","name":"a"}]`, toolpark.CodeDuplicateToolName, "/tools/1"},
		{"a kernel name", `[{"type":"function","name":"ask"}]`, toolpark.CodeKernelToolRedefined, "/tools/0/name"},
		{"an unknown canonical name", `[{"name":"a","canonical":"nexus.tools.find"}]`, toolpark.CodeAliasCanonicalUnknown, "/tools/0/canonical"},
		{"too much", `[{"type":"function","name":"a","description":"` + strings.Repeat("x", 1<<20) + `"}]`, toolpark.CodeContentTooLarge, "/tools"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, _, err := declaration.ParseRoundSources(jsontext.Value(tc.tools), nil, nil, nil)
			requireRefused(t, err, tc.code, tc.pointer)
		})
	}
	s, _, err := declaration.ParseRoundSources(nil, nil, jsontext.Value(`["`+runnerB.String()+`"]`), nil)
	require.NoError(t, err)
	_, err = declaration.Assemble(s, &runnerA, declaration.Options{}, snapshot())
	requireRefused(t, err, toolpark.CodeRunnerNotDeclared, "/runner_executor_public_ids")
}
