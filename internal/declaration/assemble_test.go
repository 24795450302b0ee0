package declaration_test

import (
	"encoding/json/jsontext"
	"fmt"
	"strings"
	"testing"
	"uuid"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/declaration"
)

func TestAssemble(t *testing.T) {
	t.Parallel()
	c := assemble(t, bypass(routed("z_read", runnerB, "read"), `{"type":"function","name":"ping","defer_loading":true}`, routed("Read", runnerA, "read")),
		&runnerB, snapshot())
	require.Equal(t, []string{"Read", "ping", "z_read"}, callables(c), "in byte order, and nothing imported")

	read := tool(t, c, "Read")
	require.Equal(t, declaration.Route{Runner: runnerA, ToolName: "read"}, *read.Route)
	require.Equal(t, "read_only", read.Served.EffectProfile.Kind)
	require.Equal(t, int64(5_000), *read.Served.TimeoutMS)
	require.Equal(t, []byte{1, 2, 3}, read.Served.OutputSchemaHash)
	require.Nil(t, read.Description, "what was declared stays, whatever was announced")
	require.Nil(t, tool(t, c, "ping").Served)
	for _, unknown := range []string{"", "read", "zzz", "nexus.tools.search"} {
		_, ok := c.Tool(unknown)
		require.False(t, ok)
	}

	require.Equal(t, strings.Join([]string{
		`[{"type":"function","function":{"name":"Read","parameters":{"type":"object","properties":{"z":{},"a":{}}}},"route":{"kind":"runner","runner_executor_public_id":"` + runnerA.String() + `","tool_name":"read"}}`,
		`{"type":"function","function":{"name":"ping","parameters":{"type":"object","properties":{}}},"defer_loading":true}`,
		`{"type":"function","function":{"name":"z_read","parameters":{"type":"object","properties":{"z":{},"a":{}}}},"route":{"kind":"runner","runner_executor_public_id":"` + runnerB.String() + `","tool_name":"read"}}]`,
	}, ","), definitions(t, c))

	require.Equal(t, declaration.Environment{
		DefaultRunner: &runnerB,
		Executors: []declaration.RunnerEnvironment{
			{Runner: runnerB, DisplayName: "box b", Environment: jsontext.Value(`{}`)},
			{Runner: runnerA, DisplayName: "box a", Environment: jsontext.Value(`{"os":"linux","cpus":2.0}`)},
		},
		RunnerCandidates: []declaration.RunnerEnvironment{},
	}, c.Environment)
	require.Empty(t, c.Skills)
}

func TestWhatAnAssemblyLooksUp(t *testing.T) {
	t.Parallel()
	entries := []string{routed("z", runnerB, "read"), routed("a", runnerA, "skill"), `{"type":"function","name":"f"}`}
	routes := []declaration.Route{{Runner: runnerB, ToolName: "read"}, {Runner: runnerA, ToolName: "skill"}}
	candidates := `"runner_executor_public_ids":["` + runnerC.String() + `","` + runnerB.String() + `"],`
	for _, tc := range []struct {
		name, members string
		def           *uuid.UUID
		runners       []uuid.UUID
		imports       *uuid.UUID
	}{
		{"routes", ``, nil, []uuid.UUID{runnerA, runnerB}, nil},
		{"a default runner", ``, &runnerB, []uuid.UUID{runnerB, runnerA}, nil},
		{"candidates", candidates, nil, []uuid.UUID{runnerA, runnerB, runnerC}, nil},
		{"an import", candidates, &runnerC, []uuid.UUID{runnerC, runnerA, runnerB}, &runnerC},
		{"an import of some tools", candidates + `"runner_tool_names":["read"],`, &runnerC, []uuid.UUID{runnerC, runnerA, runnerB}, &runnerC},
		{"an import of no tool", candidates + `"runner_tool_names":[],`, &runnerC, []uuid.UUID{runnerC, runnerA, runnerB}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, declaration.Lookup{Runners: tc.runners, Routes: routes, Import: tc.imports},
				configuration(t, with(tc.members, entries...)).Lookup(tc.def))
		})
	}
}

func TestAssembleRefusals(t *testing.T) {
	t.Parallel()
	const (
		selected = "/default_runner_executor_public_id"
		first    = "/configuration/tool_definitions/0"
	)
	candidates := func(ids ...uuid.UUID) string {
		list := make([]string, len(ids))
		for i, id := range ids {
			list[i] = quoted(id.String())
		}
		return `"runner_executor_public_ids":[` + strings.Join(list, ",") + `],`
	}
	for _, tc := range []struct {
		name          string
		raw           jsontext.Value
		defaultRunner *uuid.UUID
		options       declaration.Options
		code          toolpark.Code
		pointer       string
	}{
		{"an ineligible default runner", bypass(), &runnerC, declaration.Options{}, toolpark.CodeRunnerNotEligible, selected},
		{
			"an ineligible candidate as the default runner", with(candidates(runnerC)), &runnerC,
			declaration.Options{},
			toolpark.CodeRunnerNotEligible, selected,
		},
		{"a default runner that is no candidate", with(candidates(runnerB)), &runnerA, declaration.Options{}, toolpark.CodeRunnerNotDeclared, selected},
		{"a default runner beside no candidates", with(candidates()), &runnerA, declaration.Options{}, toolpark.CodeRunnerNotDeclared, selected},
		{"a default runner beside an import of kernel tools", with(`"kernel_tools":[],`), &runnerA, declaration.Options{}, toolpark.CodeRunnerNotDeclared, selected},
		{"a default runner beside tool names", with(`"runner_tool_names":[],`), &runnerA, declaration.Options{}, toolpark.CodeRunnerNotDeclared, selected},
		{"a projection with a default runner and no import", bypass(), &runnerA, declaration.Options{RequireCandidate: true}, toolpark.CodeRunnerNotDeclared, selected},
		{"an undeclared and ineligible default runner", with(candidates(runnerA)), &runnerC, declaration.Options{}, toolpark.CodeRunnerNotDeclared, selected},
		{
			"an ineligible target", bypass(routed("b", runnerC, "read"), routed("a", runnerA, "read")), nil,
			declaration.Options{},
			toolpark.CodeRunnerNotEligible, first + "/route/runner_executor_public_id",
		},
		{"a name that is not served", bypass(routed("a", runnerA, "write")), nil, declaration.Options{}, toolpark.CodeToolNotServed, first + "/route/tool_name"},
		{"an operator's capability", bypass(routed("a", runnerA, "process_log")), nil, declaration.Options{}, toolpark.CodeToolNotServed, first + "/route/tool_name"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := declaration.Assemble(configuration(t, tc.raw).Sources, tc.defaultRunner, tc.options, snapshot())
			requireRefused(t, err, tc.code, tc.pointer)
		})
	}
}

func TestCandidates(t *testing.T) {
	t.Parallel()
	raw := with(`"runner_executor_public_ids":["` + runnerB.String() + `","` + runnerC.String() + `","` + runnerA.String() + `"],`)
	c, err := declaration.Assemble(configuration(t, raw).Sources, nil, declaration.Options{RequireCandidate: true}, snapshot())
	require.NoError(t, err)
	require.Empty(t, c.Tools, "candidates contribute no tool; only the selected runner does")
	require.Nil(t, c.Environment.DefaultRunner)
	require.Empty(t, c.Environment.Executors)
	require.Equal(t, []declaration.RunnerEnvironment{
		{Runner: runnerB, DisplayName: "box b", Environment: jsontext.Value(`{}`)},
		{Runner: runnerA, DisplayName: "box a", Environment: jsontext.Value(`{"os":"linux","cpus":2.0}`)},
	}, c.Environment.RunnerCandidates, "the eligible ones, in the order declared")
}

func TestKernelToolsAreImportedByName(t *testing.T) {
	t.Parallel()
	c := assemble(t, with(`"kernel_tools":["nexus.runners.list","nexus.tools.call"],`,
		`{"name":"Call","canonical":"nexus.tools.call"}`,
		`{"name":"runners_list","canonical":"nexus.runners.list","description":"Our machines"}`,
	), nil, declaration.Snapshot{})
	require.Equal(t, []string{"Call", "runners_list", "tool_call"}, callables(c), "an entry under the wire name stands for the import; one under another name does not")
	require.Equal(t, "Our machines", *tool(t, c, "runners_list").Description)
	require.Equal(t, &declaration.Kernel{Canonical: "nexus.tools.call", Name: "tool_call"}, tool(t, c, "tool_call").Kernel)
}

func TestAssembledDefinitionsAreBounded(t *testing.T) {
	t.Parallel()
	// Within the bound as declared, over it once every entry has its parameters.
	entries := make([]string, 20_000)
	for i := range entries {
		entries[i] = fmt.Sprintf(`{"name":"t%d","type":"function"}`, i)
	}
	_, err := declaration.Assemble(configuration(t, bypass(entries...)).Sources, nil, declaration.Options{}, declaration.Snapshot{})
	requireRefused(t, err, toolpark.CodeContentTooLarge, "/configuration/tool_definitions")
}

func TestMachinesAreBounded(t *testing.T) {
	t.Parallel()
	candidates := func(n int) string {
		ids := make([]string, n)
		for i := range ids {
			ids[i] = fmt.Sprintf(`"01900000-0000-7000-8000-%012x"`, i)
		}
		return `"runner_executor_public_ids":[` + strings.Join(ids, ",") + `],`
	}
	_, err := declaration.ParseConfiguration(with(candidates(toolpark.MaxCandidates)))
	require.NoError(t, err)
	_, err = declaration.ParseConfiguration(with(candidates(toolpark.MaxCandidates + 1)))
	e := refusalOf(t, err)
	require.Equal(t, toolpark.CodeValidationFailed, e.Code)
	require.Equal(t, "/configuration/runner_executor_public_ids", e.Details["pointer"])

	// As large as an announcement allows, so that five are too many and four are not.
	large := declaration.Snapshot{Runners: map[uuid.UUID]declaration.Runner{}}
	environment := jsontext.Value(`{"os":"` + strings.Repeat("x", toolpark.MaxEnvironment-9) + `"}`)
	for i := range 5 {
		large.Runners[uuid.MustParse(fmt.Sprintf("01900000-0000-7000-8000-%012x", i))] = declaration.Runner{Environment: environment}
	}
	sources := func(n int) declaration.Sources { return configuration(t, with(candidates(n))).Sources }
	_, err = declaration.Assemble(sources(4), nil, declaration.Options{}, large)
	require.NoError(t, err)
	_, err = declaration.Assemble(sources(5), nil, declaration.Options{}, large)
	require.Equal(t, toolpark.CodeContentTooLarge, refusalOf(t, err).Code)
}
