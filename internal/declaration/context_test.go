package declaration_test

import (
	"encoding/json/jsontext"
	"fmt"
	"strings"
	"testing"
	"uuid"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/declaration"
)

func routed(callable string, runner uuid.UUID, name string) string {
	return fmt.Sprintf(`{"type":"function","function":{"name":%q,"parameters":{"type":"object","properties":{"z":{},"a":{}}}},"route":{"kind":"runner","runner_executor_public_id":%q,"tool_name":%q}}`,
		callable, runner, name)
}

func configuration(t testing.TB, definitions ...string) declaration.Configuration {
	t.Helper()
	c, err := declaration.ParseConfiguration(bypass(definitions...))
	require.NoError(t, err)
	return c
}

var fiveSeconds = int64(5_000)

// snapshot has two runners that serve read, and one capability that is no model's business.
func snapshot() declaration.Snapshot {
	read := declaration.Served{
		EffectProfile:    toolpark.EffectProfile{Kind: "read_only", EffectScope: "closed", Idempotency: "intrinsic", Reconciliation: "none"},
		TimeoutMS:        &fiveSeconds,
		OutputSchemaHash: []byte{1, 2, 3},
		ModelVisible:     true,
	}
	hidden := read
	hidden.ModelVisible = false
	served := map[string]declaration.Served{"read": read, "process_log": hidden}
	return declaration.Snapshot{Runners: map[uuid.UUID]declaration.Runner{
		runnerA: {DisplayName: "box a", Environment: jsontext.Value(`{"os":"linux","cpus":2.0}`), Tools: served},
		runnerB: {DisplayName: "box b", Environment: jsontext.Value(`{}`), Tools: served},
	}}
}

func TestAssemble(t *testing.T) {
	t.Parallel()
	cfg := configuration(t, routed("z_read", runnerB, "read"), `{"type":"function","name":"ping","defer_loading":true}`, routed("Read", runnerA, "read"))
	require.Equal(t, []uuid.UUID{runnerB, runnerA}, declaration.Runners(cfg, &runnerB))
	require.Equal(t, []uuid.UUID{runnerA, runnerB}, declaration.Runners(cfg, nil))

	c, err := declaration.Assemble(cfg, &runnerB, snapshot())
	require.NoError(t, err)

	names := []string{}
	for _, tool := range c.Tools {
		names = append(names, tool.Name)
	}
	require.Equal(t, []string{"Read", "ping", "z_read"}, names, "in byte order")

	read, ok := c.Tool("Read")
	require.True(t, ok)
	require.Equal(t, declaration.Route{Runner: runnerA, ToolName: "read"}, *read.Route)
	require.Equal(t, "read_only", read.EffectProfile.Kind)
	require.Equal(t, int64(5_000), *read.TimeoutMS)
	require.Equal(t, []byte{1, 2, 3}, read.OutputSchemaHash)
	ping, ok := c.Tool("ping")
	require.True(t, ok)
	require.Nil(t, ping.Served)
	for _, unknown := range []string{"", "read", "zzz", "nexus.tools.search"} {
		_, ok = c.Tool(unknown)
		require.False(t, ok)
	}

	definitions, err := c.Definitions()
	require.NoError(t, err)
	require.Equal(t, strings.Join([]string{
		`[{"type":"function","function":{"name":"Read","parameters":{"type":"object","properties":{"z":{},"a":{}}}},"route":{"kind":"runner","runner_executor_public_id":"` + runnerA.String() + `","tool_name":"read"}}`,
		`{"type":"function","function":{"name":"ping","parameters":{"type":"object","properties":{}}},"defer_loading":true}`,
		`{"type":"function","function":{"name":"z_read","parameters":{"type":"object","properties":{"z":{},"a":{}}}},"route":{"kind":"runner","runner_executor_public_id":"` + runnerB.String() + `","tool_name":"read"}}]`,
	}, ","), string(definitions))

	require.Equal(t, declaration.Environment{
		DefaultRunner: &runnerB,
		Executors: []declaration.RunnerEnvironment{
			{Runner: runnerB, DisplayName: "box b", Environment: jsontext.Value(`{}`)},
			{Runner: runnerA, DisplayName: "box a", Environment: jsontext.Value(`{"os":"linux","cpus":2.0}`)},
		},
		RunnerCandidates: []declaration.RunnerEnvironment{},
	}, c.Environment)
}

func TestWhatWasAssembledAssemblesToTheSame(t *testing.T) {
	t.Parallel()
	c, err := declaration.Assemble(configuration(t, routed("b", runnerB, "read"),
		`{"type":"function","name":"a","description":"\u00e9 \u2028 <b>","parameters":{"type":"object","properties":{"n":{"maximum":1.50,"description":"\u0041"}}},"strict":false}`,
	), nil, snapshot())
	require.NoError(t, err)
	definitions, err := c.Definitions()
	require.NoError(t, err)
	again, err := declaration.ParseConfiguration(jsontext.Value(`{"approval_mode":"bypass","tool_definitions":` + string(definitions) + `}`))
	require.NoError(t, err)
	c, err = declaration.Assemble(again, nil, snapshot())
	require.NoError(t, err)
	same, err := c.Definitions()
	require.NoError(t, err)
	require.Equal(t, string(definitions), string(same))
}

func TestAContextIsReadBackWhole(t *testing.T) {
	t.Parallel()
	for name, def := range map[string]*uuid.UUID{"with a default runner": &runnerA, "without": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := declaration.Assemble(configuration(t, routed("b", runnerB, "read"), `{"type":"function","name":"a","description":""}`), def, snapshot())
			require.NoError(t, err)
			document, err := c.Document()
			require.NoError(t, err)
			read, err := declaration.ParseContext(document)
			require.NoError(t, err)
			again, err := read.Document()
			require.NoError(t, err)
			require.Equal(t, string(document), string(again))
			tool, ok := read.Tool("b")
			require.True(t, ok)
			require.Equal(t, []byte{1, 2, 3}, tool.OutputSchemaHash)
			require.Equal(t, c.Environment, read.Environment)
		})
	}
	_, err := declaration.ParseContext(jsontext.Value(`{"tools":[],"environment":{},"other":1}`))
	require.Error(t, err)
}

func TestAssembleRefusals(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name          string
		definitions   []string
		defaultRunner *uuid.UUID
		code          toolpark.Code
		pointer       string
	}{
		{"an ineligible default runner", nil, &runnerC, toolpark.CodeRunnerNotEligible, "/default_runner_executor_public_id"},
		{
			"an ineligible target",
			[]string{routed("a", runnerA, "read"), routed("b", runnerC, "read")},
			nil,
			toolpark.CodeRunnerNotEligible, "/configuration/tool_definitions/1/route/runner_executor_public_id",
		},
		{
			"a name that is not served",
			[]string{routed("a", runnerA, "write")},
			nil,
			toolpark.CodeToolNotServed, "/configuration/tool_definitions/0/route/tool_name",
		},
		{
			"an operator's capability",
			[]string{routed("a", runnerA, "process_log")},
			nil,
			toolpark.CodeToolNotServed, "/configuration/tool_definitions/0/route/tool_name",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := declaration.Assemble(configuration(t, tc.definitions...), tc.defaultRunner, snapshot())
			e := refusalOf(t, err)
			require.Equal(t, tc.code, e.Code)
			require.Equal(t, tc.pointer, e.Details["pointer"])
		})
	}
}

func TestAssembledDefinitionsAreBounded(t *testing.T) {
	t.Parallel()
	// Within the bound as declared, over it once every entry has its parameters.
	definitions := make([]string, 20_000)
	for i := range definitions {
		definitions[i] = fmt.Sprintf(`{"name":"t%d","type":"function"}`, i)
	}
	_, err := declaration.Assemble(configuration(t, definitions...), nil, declaration.Snapshot{})
	require.Equal(t, toolpark.CodeContentTooLarge, refusalOf(t, err).Code)
}

func TestTheOrderOfDeclarationDoesNotShow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`x[A-Za-z0-9_-]{0,8}`), 1, 8, rapid.ID).Draw(t, "names")
		definitions := make([]string, len(names))
		for i, name := range names {
			switch rapid.IntRange(0, 2).Draw(t, "kind") {
			case 0:
				definitions[i] = fmt.Sprintf(`{"type":"function","name":%q}`, name)
			case 1:
				definitions[i] = routed(name, runnerA, "read")
			case 2:
				definitions[i] = routed(name, runnerB, "read")
			}
		}
		document := func(definitions []string) string {
			cfg, err := declaration.ParseConfiguration(bypass(definitions...))
			require.NoError(t, err)
			c, err := declaration.Assemble(cfg, &runnerA, snapshot())
			require.NoError(t, err)
			document, err := c.Document()
			require.NoError(t, err)
			return string(document)
		}
		require.Equal(t, document(definitions), document(rapid.Permutation(definitions).Draw(t, "shuffled")))
	})
}
