package declaration_test

import (
	"encoding/json/jsontext"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/approval"
	"github.com/toolpark/toolpark/internal/declaration"
)

func TestConfiguration(t *testing.T) {
	t.Parallel()
	c, err := declaration.ParseConfiguration(bypass(
		`{"type":"function","function":{"name":"read","description":"Read","parameters":{ "type":"object", "properties":{"n":{"maximum":1.50}} },"strict":true},
		  "defer_loading":false,"route":{"kind":"runner","runner_executor_public_id":"`+runnerA.String()+`","tool_name":"files/read"}}`,
		`{"type":"function","name":"ping"}`,
	))
	require.NoError(t, err)
	require.Equal(t, approval.Policy{Mode: approval.ModeBypass}, c.Approval)
	require.Len(t, c.Entries, 2)
	read, ping := c.Entries[0], c.Entries[1]
	require.Equal(t, "read", read.Name)
	require.Equal(t, "Read", *read.Description)
	require.Equal(t, `{"type":"object","properties":{"n":{"maximum":1.50}}}`, string(read.Parameters))
	require.True(t, *read.Strict)
	require.False(t, *read.DeferLoading)
	require.Equal(t, declaration.Route{Runner: runnerA, ToolName: "files/read"}, *read.Route)
	require.Equal(t, "ping", ping.Name)
	require.Nil(t, ping.Description)
	require.Nil(t, ping.Route)
	require.Equal(t, `{"type":"object","properties":{}}`, string(ping.Parameters))
}

func TestHowCallsAreApproved(t *testing.T) {
	t.Parallel()
	const declared = `"tool_definitions":[{"type":"function","name":"a"}],`
	for _, mode := range []string{"bypass", "ask", "rules"} {
		c, err := declaration.ParseConfiguration(jsontext.Value(`{` + declared + `"approval_mode":"` + mode + `","approval_rules":[{"tool":"a","verdict":"deny","reason":"no"},{"tool":"*","verdict":"ask","hold_ms":5}]}`))
		require.NoError(t, err)
		require.Equal(t, approval.Policy{Mode: mode, Rules: []approval.Rule{
			{Tool: "a", Verdict: approval.Deny, Reason: "no"}, {Tool: "*", Verdict: approval.Ask, HoldMS: 5},
		}}, c.Approval)
		c, err = declaration.ParseConfiguration(jsontext.Value(`{` + declared + `"approval_mode":"` + mode + `","approval_rules":null}`))
		require.NoError(t, err)
		require.Equal(t, approval.Policy{Mode: mode}, c.Approval)
	}
	c, err := declaration.ParseConfiguration(jsontext.Value(`{"approval_rules":[{"tool":"*","verdict":"allow"}]}`))
	require.NoError(t, err, "what can call nothing may have rules")
	require.Len(t, c.Approval.Rules, 1)
}

func TestAnEmptyConfigurationDeclaresNothing(t *testing.T) {
	t.Parallel()
	for _, raw := range []jsontext.Value{
		nil,
		jsontext.Value(`{}`),
		jsontext.Value(`{"tool_definitions":null,"kernel_tools":null,"runner_executor_public_ids":null,"runner_tool_names":null,"approval_mode":null,"approval_rules":null}`),
		jsontext.Value(`{"tool_definitions":[],"kernel_tools":[],"runner_executor_public_ids":[],"runner_tool_names":[],"approval_rules":[]}`),
	} {
		c, err := declaration.ParseConfiguration(raw)
		require.NoError(t, err)
		require.Empty(t, c.Entries)
		require.Empty(t, c.Approval)
	}
}

func TestConfigurationRefusals(t *testing.T) {
	t.Parallel()
	nested := func(members string) string { return `{"type":"function","function":{` + members + `}}` }
	routed := func(route string) string { return `{"type":"function","function":{"name":"a"},"route":` + route + `}` }
	const (
		definitions = "/configuration/tool_definitions"
		first       = definitions + "/0"
		failed      = toolpark.CodeValidationFailed
	)
	id := `"runner_executor_public_id":"` + runnerA.String() + `"`
	for _, tc := range []struct {
		name    string
		raw     jsontext.Value
		code    toolpark.Code
		pointer string
	}{
		{"null", jsontext.Value(`null`), toolpark.CodeParameterMissing, "/configuration"},
		{"a list", jsontext.Value(`[]`), toolpark.CodeParameterMissing, "/configuration"},
		{"an unknown field", jsontext.Value(`{"approval_rule":[]}`), toolpark.CodeParameterInvalid, "/configuration/approval_rule"},
		{"definitions are no list", jsontext.Value(`{"tool_definitions":{}}`), failed, definitions},

		{"no approval mode", jsontext.Value(`{"tool_definitions":[{"type":"function","name":"a"}]}`), failed, "/configuration/approval_mode"},
		{"no approval mode for a kernel tool", jsontext.Value(`{"kernel_tools":["nexus.tools.search"]}`), failed, "/configuration/approval_mode"},
		{"no approval mode for a candidate", jsontext.Value(`{"runner_executor_public_ids":["` + runnerA.String() + `"]}`), failed, "/configuration/approval_mode"},
		{"no approval mode for a candidate's tool", jsontext.Value(`{"runner_executor_public_ids":["` + runnerA.String() + `"],"runner_tool_names":["read"]}`), failed, "/configuration/approval_mode"},
		{"approval mode null", jsontext.Value(`{"approval_mode":null,"tool_definitions":[{"type":"function","name":"a"}]}`), failed, "/configuration/approval_mode"},
		{"another approval mode", jsontext.Value(`{"approval_mode":"Bypass"}`), failed, "/configuration/approval_mode"},
		{"approval mode true", jsontext.Value(`{"approval_mode":true}`), failed, "/configuration/approval_mode"},
		{"approval rules and no mode", jsontext.Value(`{"tool_definitions":[{"type":"function","name":"a"}],"approval_rules":[{"tool":"*","verdict":"allow"}]}`), failed, "/configuration/approval_mode"},
		{"approval rules in one", jsontext.Value(`{"approval_rules":{}}`), toolpark.CodeInvalidApprovalRules, "/configuration/approval_rules"},
		{"an approval rule without a verdict", jsontext.Value(`{"approval_mode":"rules","approval_rules":[{"tool":"bash","verdict":"deny"},{"tool":"bash"}]}`), toolpark.CodeInvalidApprovalRules, "/configuration/approval_rules/1/verdict"},

		{"an entry is no object", bypass(`"bash"`), failed, first},
		{"no type", bypass(`{"name":"a"}`), failed, first + "/type"},
		{"another type", bypass(`{"type":"custom","name":"a"}`), failed, first + "/type"},
		{"no name", bypass(nested(``)), failed, first + "/function/name"},
		{"a flat entry without a name", bypass(`{"type":"function"}`), failed, first + "/name"},
		{"a dotted name", bypass(nested(`"name":"a.b"`)), failed, first + "/function/name"},
		{"an empty name", bypass(nested(`"name":""`)), failed, first + "/function/name"},
		{"65 characters", bypass(nested(`"name":"` + strings.Repeat("a", 65) + `"`)), failed, first + "/function/name"},
		{"a line break at the end", bypass(nested(`"name":"a\n"`)), failed, first + "/function/name"},
		{"description null", bypass(nested(`"name":"a","description":null`)), failed, first + "/function/description"},
		{"U+0000 in the description", bypass(nested(`"name":"a","description":"\u0000"`)), failed, first + "/function/description"},
		{"strict in quotes", bypass(nested(`"name":"a","strict":"true"`)), failed, first + "/function/strict"},
		{"defer_loading is a number", bypass(`{"type":"function","name":"a","defer_loading":1}`), failed, first + "/defer_loading"},
		{"an unknown field inside", bypass(nested(`"name":"a","Parameters":{}`)), failed, first + "/function/Parameters"},
		{"an unknown field outside", bypass(`{"type":"function","function":{"name":"a"},"strict":true}`), failed, first + "/strict"},
		{"an unknown flat field", bypass(`{"type":"function","name":"a","examples":[]}`), failed, first + "/examples"},
		{"parameters null", bypass(nested(`"name":"a","parameters":null`)), failed, first + "/function/parameters"},
		{"parameters of no object", bypass(nested(`"name":"a","parameters":{"type":"string"}`)), failed, first + "/function/parameters"},
		{
			"parameters that do not compile", bypass(nested(`"name":"a","parameters":{"type":"object","properties":{"n":{"type":"nubmer"}}}`)),
			failed, first + "/function/parameters/properties/n/type",
		},
		{
			"parameters that refer outside", bypass(nested(`"name":"a","parameters":{"type":"object","properties":{"n":{"$ref":"http://127.0.0.1:1/s"}}}`)),
			failed, first + "/function/parameters/properties/n/$ref",
		},
		{"too much", bypass(nested(`"name":"a","description":"` + strings.Repeat("x", 1<<20) + `"`)), toolpark.CodeContentTooLarge, definitions},

		{"a reserved wire name", bypass(nested(`"name":"delegate_task"`)), toolpark.CodeKernelToolRedefined, first + "/function/name"},
		{"a kernel tool's wire name", bypass(nested(`"name":"tool_search"`)), toolpark.CodeKernelToolRedefined, first + "/function/name"},
		{"a kernel tool's canonical name", bypass(`{"type":"function","name":"nexus.memory.read"}`), toolpark.CodeKernelToolRedefined, first + "/name"},
		{"one name twice", bypass(nested(`"name":"a"`), nested(`"name":"b"`), nested(`"name":"a"`)), toolpark.CodeDuplicateToolName, definitions + "/2"},

		{"route null", bypass(routed(`null`)), toolpark.CodeInvalidToolRoute, first + "/route"},
		{"route of another kind", bypass(routed(`{"kind":"pool","tool_name":"x",` + id + `}`)), toolpark.CodeInvalidToolRoute, first + "/route/kind"},
		{"route without a kind", bypass(routed(`{"tool_name":"x",` + id + `}`)), toolpark.CodeInvalidToolRoute, first + "/route/kind"},
		{"route without a served name", bypass(routed(`{"kind":"runner",` + id + `}`)), toolpark.CodeInvalidToolRoute, first + "/route/tool_name"},
		{"route to an impossible name", bypass(routed(`{"kind":"runner","tool_name":" x",` + id + `}`)), toolpark.CodeInvalidToolRoute, first + "/route/tool_name"},
		{"route with an unknown field", bypass(routed(`{"kind":"runner","tool_name":"x","timeout_ms":5,` + id + `}`)), toolpark.CodeInvalidToolRoute, first + "/route/timeout_ms"},
		{"route to no id", bypass(routed(`{"kind":"runner","tool_name":"x","runner_executor_public_id":"box"}`)), toolpark.CodeInvalidToolRoute, first + "/route/runner_executor_public_id"},
		{
			"route to an id in capitals", bypass(routed(`{"kind":"runner","tool_name":"x","runner_executor_public_id":"` + strings.ToUpper(runnerA.String()) + `"}`)),
			toolpark.CodeInvalidToolRoute, first + "/route/runner_executor_public_id",
		},
		{"route to null", bypass(routed(`{"kind":"runner","tool_name":"x","runner_executor_public_id":null}`)), toolpark.CodeInvalidToolRoute, first + "/route/runner_executor_public_id"},
		{"route without a runner", bypass(routed(`{"kind":"runner","tool_name":"x"}`)), toolpark.CodeRunnerTargetRequired, first + "/route/runner_executor_public_id"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := declaration.ParseConfiguration(tc.raw)
			if tc.code == toolpark.CodeParameterMissing { // it is about the request, not the declaration
				require.Equal(t, tc.code, refusalOf(t, err).Code)
				return
			}
			requireRefused(t, err, tc.code, tc.pointer)
		})
	}
}
