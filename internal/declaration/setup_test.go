package declaration_test

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"strings"
	"testing"
	"time"
	"uuid"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/catalog"
	"github.com/toolpark/toolpark/internal/declaration"
)

var (
	runnerA = uuid.MustParse("01900000-0000-7000-8000-00000000000a")
	runnerB = uuid.MustParse("01900000-0000-7000-8000-00000000000b")
	runnerC = uuid.MustParse("01900000-0000-7000-8000-00000000000c")
)

// kernel is the live catalog with two more tools, one of which has a boolean to turn.
var kernel = catalog.New(append(catalog.Tools(),
	catalog.Tool{
		Canonical: "nexus.memory.grep", Name: "memory_grep", Timeout: time.Minute,
		Template: "Search the documents for a pattern, then read them with {{memory_read}}, not with {{tool_search}}.",
		Parameters: jsontext.Value(`{"type":"object","properties":{` +
			`"pattern":{"type":"string","minLength":1,"description":"RE2"},` +
			`"path":{"type":"string"},` +
			`"ignore_case":{"type":"boolean","default":false,"description":"Upper and lower case are one"},` +
			`"limit":{"type":"integer","maximum":1.00e2}},` +
			`"required":["pattern"],"additionalProperties":false}`),
	},
	catalog.Tool{
		Canonical: "nexus.memory.read", Name: "memory_read", Timeout: time.Minute,
		Template:   "Read a document that {{memory_grep}} found.",
		Parameters: jsontext.Value(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}`),
	},
)...)

// catalogDefinition is a kernel tool as the catalog publishes it.
func catalogDefinition(t require.TestingT, name string) string {
	tool, ok := kernel.ByName(name)
	require.True(t, ok)
	return kernelDefinition(tool.Name, tool.Description(nil), string(tool.Parameters))
}

func kernelDefinition(name, description, parameters string) string {
	return fmt.Sprintf(`{"type":"function","function":{"name":%q,"description":%s,"parameters":%s}}`, name, quoted(description), parameters)
}

// bypass is a configuration of explicit definitions.
func bypass(definitions ...string) jsontext.Value { return with("", definitions...) }

// with is a configuration of explicit definitions and further members, each with a comma behind it.
func with(members string, definitions ...string) jsontext.Value {
	return jsontext.Value(`{` + members + `"approval_mode":"bypass","tool_definitions":[` + strings.Join(definitions, ",") + `]}`)
}

func configuration(t testing.TB, raw jsontext.Value) declaration.Configuration {
	t.Helper()
	c, err := declaration.ParseConfigurationOver(kernel, raw)
	require.NoError(t, err)
	return c
}

func assemble(t testing.TB, raw jsontext.Value, defaultRunner *uuid.UUID, snapshot declaration.Snapshot) *declaration.Context {
	t.Helper()
	c, err := declaration.Assemble(configuration(t, raw).Sources, defaultRunner, declaration.Options{}, snapshot)
	require.NoError(t, err)
	return &c
}

func definitions(t testing.TB, c *declaration.Context) string {
	t.Helper()
	rendered, err := c.Definitions()
	require.NoError(t, err)
	return string(rendered)
}

func callables(c *declaration.Context) []string {
	names := []string{}
	for _, tool := range c.Tools {
		names = append(names, tool.Name)
	}
	return names
}

func tool(t testing.TB, c *declaration.Context, name string) *declaration.Tool {
	t.Helper()
	found, ok := c.Tool(name)
	require.True(t, ok, "%s is not among %v", name, callables(c))
	return found
}

func routed(callable string, runner uuid.UUID, name string) string {
	return fmt.Sprintf(`{"type":"function","function":{"name":%q,"parameters":{"type":"object","properties":{"z":{},"a":{}}}},"route":{"kind":"runner","runner_executor_public_id":%q,"tool_name":%s}}`,
		callable, runner, quoted(name))
}

// quoted is a text as a JSON string, the way most providers send arguments.
func quoted(text string) string {
	raw, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

var fiveSeconds = int64(5_000)

// announced is a tool that a runner serves to models.
func announced(description, schema string) declaration.Served {
	return declaration.Served{
		EffectProfile:    toolpark.EffectProfile{Kind: "read_only", EffectScope: "closed", Idempotency: "intrinsic", Reconciliation: "none"},
		TimeoutMS:        &fiveSeconds,
		OutputSchemaHash: []byte{1, 2, 3},
		ModelVisible:     true,
		Description:      &description,
		InputSchema:      jsontext.Value(schema),
	}
}

// capability is a tool that a runner serves to operators only.
func capability() declaration.Served {
	s := announced("", "")
	s.ModelVisible, s.Description, s.InputSchema = false, nil, nil
	return s
}

// snapshot has two runners that serve read, and one capability that is no model's business.
func snapshot() declaration.Snapshot {
	served := map[string]declaration.Served{
		"read":        announced("Read a file", `{ "type":"object", "properties":{"path":{"maxLength":1.0e3}} }`),
		"process_log": capability(),
	}
	return declaration.Snapshot{Runners: map[uuid.UUID]declaration.Runner{
		runnerA: {DisplayName: "box a", Environment: jsontext.Value(`{"os":"linux","cpus":2.0}`), Tools: served},
		runnerB: {DisplayName: "box b", Environment: jsontext.Value(`{}`), Tools: served},
	}}
}

func refusalOf(t testing.TB, err error) *toolpark.Error {
	t.Helper()
	var e *toolpark.Error
	require.ErrorAs(t, err, &e, "got %v", err)
	require.NotEmpty(t, e.Message)
	return e
}

// requireRefused holds a refusal of the declaration grammar to its code, its pointer and a message that
// names both.
func requireRefused(t testing.TB, err error, code toolpark.Code, pointer string) {
	t.Helper()
	e := refusalOf(t, err)
	require.Equal(t, code, e.Code, e.Message)
	require.Equal(t, pointer, e.Details["pointer"], e.Message)
	require.Contains(t, e.Message, "("+string(code)+")")
}
