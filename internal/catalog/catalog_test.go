package catalog_test

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/catalog"
	"github.com/toolpark/toolpark/internal/strictjson"
	"github.com/toolpark/toolpark/schema"
)

func TestTheLiveCatalog(t *testing.T) {
	t.Parallel()
	reads := toolpark.EffectProfile{Kind: "read_only", EffectScope: "closed", Idempotency: "intrinsic", Reconciliation: "none"}
	calls := toolpark.EffectProfile{Kind: "write", EffectScope: "closed", Idempotency: "none", Reconciliation: "none"}
	asks := toolpark.EffectProfile{Kind: "write", EffectScope: "open", Idempotency: "intrinsic", Reconciliation: "lookup"}
	want := []struct {
		canonical, name string
		effects         toolpark.EffectProfile
		timeout         time.Duration
	}{
		{"nexus.graph.wait", "wait", reads, time.Hour},
		{"nexus.human.ask", "ask", asks, time.Hour},
		{"nexus.runners.list", "runners_list", reads, time.Minute},
		{"nexus.tools.call", "tool_call", calls, time.Minute},
		{"nexus.tools.search", "tool_search", reads, time.Minute},
	}
	tools := catalog.Tools()
	require.Len(t, tools, len(want))
	for i, tool := range tools {
		require.Equal(t, want[i].canonical, tool.Canonical)
		require.Equal(t, want[i].name, tool.Name)
		require.Equal(t, want[i].effects, tool.EffectProfile)
		require.Equal(t, want[i].timeout, tool.Timeout)

		found, ok := catalog.Find(tool.Canonical)
		require.True(t, ok)
		require.Equal(t, tool, *found)
		found, ok = catalog.ByName(tool.Name)
		require.True(t, ok)
		require.Equal(t, tool, *found)
		require.True(t, catalog.Reserved(tool.Canonical))
		require.True(t, catalog.Reserved(tool.Name))
	}
}

func TestAReservedNameIsNoLiveTool(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"nexus.graph.delegate_task", "delegate_task", "nexus.skill.load", "skill", "spawn", "memory_read", "bash", ""} {
		_, ok := catalog.Find(name)
		require.False(t, ok, name)
		_, ok = catalog.ByName(name)
		require.False(t, ok, name)
	}
	_, ok := catalog.Find("tool_search")
	require.False(t, ok, "a wire name is no canonical name")
	_, ok = catalog.ByName("nexus.tools.search")
	require.False(t, ok, "a canonical name is no wire name")
}

func TestParametersAreClosedObjects(t *testing.T) {
	t.Parallel()
	for _, tool := range catalog.Tools() {
		t.Run(tool.Name, func(t *testing.T) {
			t.Parallel()
			_, err := schema.CompileObject(tool.Parameters)
			require.NoError(t, err)
			var shape struct {
				Type                 string                    `json:"type"`
				Properties           map[string]jsontext.Value `json:"properties"`
				Required             []string                  `json:"required"`
				AdditionalProperties *bool                     `json:"additionalProperties"`
			}
			require.NoError(t, json.Unmarshal(tool.Parameters, &shape, json.RejectUnknownMembers(true)))
			require.Equal(t, "object", shape.Type)
			require.NotNil(t, shape.AdditionalProperties)
			require.False(t, *shape.AdditionalProperties)
			for _, name := range shape.Required {
				require.Contains(t, shape.Properties, name)
			}
		})
	}
}

func TestBoundsOfInputsAreInTheSchemas(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		tool, input string
		ok          bool
	}{
		{catalog.ToolsSearch, `{"query":"a"}`, true},
		{catalog.ToolsSearch, `{"query":"a","limit":1}`, true},
		{catalog.ToolsSearch, `{"query":"a","limit":20}`, true},
		{catalog.ToolsSearch, `{"query":" "}`, true}, // the tool itself says what is wrong with that
		{catalog.ToolsSearch, `{"query":""}`, false},
		{catalog.ToolsSearch, `{"query":"a","limit":0}`, false},
		{catalog.ToolsSearch, `{"query":"a","limit":21}`, false},
		{catalog.ToolsSearch, `{"query":"a","limit":1.5}`, false},
		{catalog.ToolsSearch, `{"limit":5}`, false},
		{catalog.ToolsSearch, `{"query":"a","Limit":5}`, false},
		{catalog.ToolsCall, `{"name":"a","input":{}}`, true},
		{catalog.ToolsCall, `{"name":"a","input":{"any":["thing"]}}`, true},
		{catalog.ToolsCall, `{"name":"a"}`, false},
		{catalog.ToolsCall, `{"input":{}}`, false},
		{catalog.ToolsCall, `{"name":"a","input":"{}"}`, false},
		{catalog.HumanAsk, `{"prompt":"Which?"}`, true},
		{catalog.HumanAsk, `{"prompt":"Which?","options":["a","b"],"multi":true}`, true},
		{catalog.HumanAsk, `{"prompt":""}`, false},
		{catalog.HumanAsk, `{"prompt":"` + strings.Repeat("x", toolpark.MaxPrompt+1) + `"}`, false},
		{catalog.HumanAsk, `{"prompt":"Which?","options":[]}`, false},
		{catalog.HumanAsk, `{"prompt":"Which?","options":["a","a"]}`, false},
		{catalog.HumanAsk, `{"prompt":"Which?","options":["` + strings.Repeat("x", toolpark.MaxAskOption+1) + `"]}`, false},
		{catalog.HumanAsk, `{"prompt":"Which?","options":[` + strings.TrimSuffix(numbered(toolpark.MaxAskOptions), ",") + `]}`, true},
		{catalog.HumanAsk, `{"prompt":"Which?","options":[` + numbered(toolpark.MaxAskOptions) + `"more"]}`, false},
		{catalog.HumanAsk, `{"prompt":"Which?","strict_options":true}`, false},
		{catalog.HumanAsk, `{"options":["a"]}`, false},
		{catalog.GraphWait, `{"task":"r1t0"}`, true},
		{catalog.GraphWait, `{"task":""}`, false},
		{catalog.GraphWait, `{"task":"r1 t0"}`, false},
		{catalog.GraphWait, `{"task":1}`, false},
		{catalog.GraphWait, `{}`, false},
		{catalog.GraphWait, `{"task":"r1t0","timeout_ms":5}`, false},
		{catalog.RunnersList, `{}`, true},
		{catalog.RunnersList, `{"kind":"runner"}`, false},
	} {
		t.Run(tc.tool+strictjson.CutString(tc.input, 100), func(t *testing.T) {
			t.Parallel()
			tool, ok := catalog.Find(tc.tool)
			require.True(t, ok)
			compiled, err := schema.CompileObject(tool.Parameters)
			require.NoError(t, err)
			require.Equal(t, tc.ok, len(compiled.Check(jsontext.Value(tc.input))) == 0)
		})
	}
}

func TestEveryMacroIsAKernelToolsWireName(t *testing.T) {
	t.Parallel()
	macro := regexp.MustCompile(`\{\{(.*?)\}\}`)
	for _, tool := range catalog.Tools() {
		for _, found := range macro.FindAllStringSubmatch(tool.Template, -1) {
			require.True(t, catalog.Reserved(found[1]), "%s in %s", found[0], tool.Name)
			require.NotContains(t, found[1], ".", "%s in %s is no wire name", found[0], tool.Name)
		}
		require.NotContains(t, tool.Description(nil), "{{", "every macro of %s is rendered", tool.Name)
		require.NotContains(t, tool.Description(nil), "}}")
	}
}

func TestDescriptionsAreRenderedWithTheNamesOfADeclaration(t *testing.T) {
	t.Parallel()
	search, ok := catalog.Find(catalog.ToolsSearch)
	require.True(t, ok)
	require.Contains(t, search.Template, "{{tool_call}}")
	require.Contains(t, search.Description(nil), "ready for tool_call.")
	require.Contains(t, search.Description(map[string]string{"tool_call": "CallTool", "tool_search": "Find"}), "ready for CallTool.")
	require.Equal(t, search.Description(nil), search.Description(map[string]string{"runners_list": "Boxes"}))
}

func TestOnlyMacrosAreRendered(t *testing.T) {
	t.Parallel()
	names := map[string]string{"ask": "{{wait}}", "wait": "Sleep", "other": "no"}
	require.Equal(t,
		"{{wait}} Sleep delegate_task {{other}} {{ ask }} {{Ask}} {ask} {Sleep}",
		catalog.Render("{{ask}} {{wait}} {{delegate_task}} {{other}} {{ ask }} {{Ask}} {ask} {{{wait}}}", names),
		"once, and nothing that is no wire name")
}

func TestTheDocument(t *testing.T) {
	t.Parallel()
	document := catalog.Document()
	require.Equal(t, string(document), string(catalog.Document()))
	require.Nil(t, strictjson.Value(document))
	var published struct {
		Tools []struct {
			Canonical     string                 `json:"canonical_name"`
			Name          string                 `json:"name"`
			EffectProfile toolpark.EffectProfile `json:"effect_profile"`
			Definition    jsontext.Value         `json:"definition"`
			Template      string                 `json:"template"`
		} `json:"tools"`
	}
	require.NoError(t, json.Unmarshal(document, &published, json.RejectUnknownMembers(true)))
	tools := catalog.Tools()
	require.Len(t, published.Tools, len(tools))
	for i, p := range published.Tools {
		tool := tools[i]
		require.Equal(t, tool.Canonical, p.Canonical)
		require.Equal(t, tool.Name, p.Name)
		require.Equal(t, tool.EffectProfile, p.EffectProfile)
		require.Equal(t, tool.Template, p.Template)
		description, err := json.Marshal(tool.Description(nil))
		require.NoError(t, err)
		require.JSONEq(t, `{"type":"function","function":{"name":"`+tool.Name+`","description":`+string(description)+
			`,"parameters":`+string(tool.Parameters)+`}}`, string(p.Definition))
	}
}

func TestACatalogIsInCanonicalOrder(t *testing.T) {
	t.Parallel()
	tools := catalog.Tools()
	slices.Reverse(tools)
	require.Equal(t, catalog.Tools(), catalog.New(tools...).Tools())
}

// numbered is a list of n different texts, with a comma after each.
func numbered(n int) string {
	var list strings.Builder
	for i := range n {
		fmt.Fprintf(&list, `"%d",`, i)
	}
	return list.String()
}
