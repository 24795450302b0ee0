package declaration_test

import (
	"encoding/json/jsontext"
	"fmt"
	"testing"
	"uuid"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/declaration"
)

func TestAContextIsReadBackWhole(t *testing.T) {
	t.Parallel()
	raw := with(`"kernel_tools":["nexus.tools.search"],"runner_executor_public_ids":["`+runnerA.String()+`"],`,
		routed("b", runnerB, "read"), `{"type":"function","name":"a","description":""}`, routed("docs", runnerB, "skill"),
		`{"name":"look","canonical":"nexus.memory.grep","params":{"sensitive":{"maps_to":"ignore_case","invert":true,"description":"x"},"re":{"maps_to":"pattern"}},"omit":["path","limit"]}`)
	for name, def := range map[string]*uuid.UUID{"with a default runner": &runnerA, "without": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := assemble(t, raw, def, skilled(`[{"name":"make","description":"Build it"}]`))
			document, err := c.Document()
			require.NoError(t, err)
			read, err := declaration.ParseContext(document)
			require.NoError(t, err)
			again, err := read.Document()
			require.NoError(t, err)
			require.Equal(t, string(document), string(again))
			require.Equal(t, []byte{1, 2, 3}, tool(t, read, "b").Served.OutputSchemaHash)
			require.Equal(t, tool(t, c, "look").Kernel, tool(t, read, "look").Kernel)
			require.Equal(t, c.Environment, read.Environment)
			require.Equal(t, c.Skills, read.Skills)
			require.NotEmpty(t, read.Skills)
			require.Equal(t, definitions(t, c), definitions(t, read))
		})
	}
	_, err := declaration.ParseContext(jsontext.Value(`{"tools":[],"environment":{},"other":1}`))
	require.Error(t, err)
}

func TestAContextKeepsItsRules(t *testing.T) {
	t.Parallel()
	const list = `[{"tool":"a|b*","path":"x.y","match":"<*>","verdict":"ask","reason":"é \"why\"","origin":"author","hold_ms":5},{"tool":"*","verdict":"deny"}]`
	cfg := configuration(t, with(`"approval_rules":`+list+`,`, `{"type":"function","name":"ping"}`))
	c := assemble(t, bypass(`{"type":"function","name":"ping"}`), nil, snapshot())
	bare, err := c.Document()
	require.NoError(t, err)
	require.NotContains(t, string(bare), "approval_rules", "an assembly has none")

	c.ApprovalRules = cfg.Approval.Rules
	document, err := c.Document()
	require.NoError(t, err)
	require.Contains(t, string(document), `"approval_rules":`+list)
	read, err := declaration.ParseContext(document)
	require.NoError(t, err)
	require.Equal(t, cfg.Approval.Rules, read.ApprovalRules)
	part, err := read.Narrow([]string{})
	require.NoError(t, err)
	require.Equal(t, cfg.Approval.Rules, part.ApprovalRules, "what a round leaves out changes no rule")

	old, err := declaration.ParseContext(bare)
	require.NoError(t, err)
	require.Empty(t, old.ApprovalRules)
}

func TestARoundNarrowsAContext(t *testing.T) {
	t.Parallel()
	c := assemble(t, bypass(routed("docs_a", runnerA, "skill"), routed("docs_b", runnerB, "skill"), `{"type":"function","name":"ping"}`),
		nil, skilled(`[{"name":"make","description":"Build it"}]`))
	part, err := c.Narrow([]string{"ping", "docs_b", "ping"})
	require.NoError(t, err)
	require.Equal(t, []string{"docs_b", "ping"}, callables(part), "in the context's order, once")
	require.Equal(t, c.Environment, part.Environment)
	require.Len(t, part.Skills, 1)
	require.Equal(t, "docs_b", part.Skills[0].Callable)
	require.Len(t, c.Tools, 3, "the context itself stays whole")

	nothing, err := c.Narrow([]string{})
	require.NoError(t, err)
	require.Empty(t, nothing.Tools)
	require.Empty(t, nothing.Skills)

	for i, names := range [][]string{{"pong"}, {"ping", "Ping"}, {"ping", "docs_a", "skill"}} {
		_, err = c.Narrow(names)
		e := refusalOf(t, err)
		require.Equal(t, toolpark.CodeToolNotDeclared, e.Code)
		require.Equal(t, fmt.Sprintf("/tool_names/%d", i), e.Details["pointer"])
		require.Contains(t, e.Message, quoted(names[i]))
	}
}
