package declaration_test

import (
	"encoding/json/jsontext"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/declaration"
	"github.com/toolpark/toolpark/internal/strictjson"
)

// Whatever a stranger declares is refused with a code and a place, or assembles, and then again to the
// same.
func FuzzConfiguration(f *testing.F) {
	for _, raw := range []jsontext.Value{
		jsontext.Value(`{}`), jsontext.Value(`null`), jsontext.Value(`{"approval_mode":"ask","approval_rules":[{"tool":"*","verdict":"deny"}]}`),
		bypass(`{"type":"function","name":"a","parameters":{"type":"object"},"strict":true,"defer_loading":false}`, routed("b", runnerA, "read")),
		bypass(catalogDefinition(f, "tool_search"), catalogDefinition(f, "memory_grep")),
		bypass(grepAlias(`,"params":{"re":{"maps_to":"pattern"},"case":{"maps_to":"ignore_case","invert":true,"description":"x"}},"omit":["path"]`)),
		bypass(grepAlias(`,"recut":{"anchor":"Search","replacement":"{{memory_read}}"}`), `{"function":{"name":"memory_read"},"canonical":"nexus.memory.read"}`),
		importing(`"kernel_tools":["nexus.tools.search","nexus.runners.list"],"runner_tool_names":["read"],`),
	} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if strictjson.Check(raw) != nil {
			return // the door has refused it
		}
		cfg, err := declaration.ParseConfigurationOver(kernel, raw)
		if err != nil {
			requirePlaced(t, err)
			return
		}
		c, err := declaration.Assemble(cfg.Sources, nil, declaration.Options{}, snapshot())
		if err != nil {
			requirePlaced(t, err)
			return
		}
		again := jsontext.Value(`{"approval_mode":"bypass","tool_definitions":` + definitions(t, &c) + `}`)
		require.Equal(t, definitions(t, &c), definitions(t, assemble(t, again, nil, snapshot())))
	})
}

func requirePlaced(t *testing.T, err error) {
	t.Helper()
	e, ok := errors.AsType[*toolpark.Error](err)
	require.True(t, ok, "%v", err)
	require.NotEmpty(t, e.Message)
	require.NotEmpty(t, e.Details["pointer"])
}
