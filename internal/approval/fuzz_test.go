package approval_test

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/approval"
)

// Whatever a stranger sends is refused with a place, or is read, written and read again to the same rules,
// which decide about any input.
func FuzzParseRules(f *testing.F) {
	for _, seed := range []string{
		`[]`, `null`, `{}`, `[5]`, `[{"tool":"a|b*","path":"a.b","match":"x?*","verdict":"ask","reason":"why","origin":"author","hold_ms":5}]`,
		`[{"tool":"*","verdict":"deny"},{"tool":"","verdict":"deny"}]`, `[{"tool":"a","tool":"b"}]`, `[{"tool":"\ud83d","verdict":"deny","path":"\u0000"}]`,
	} {
		f.Add([]byte(seed), []byte(`{"a":{"b":"xyz"}}`))
	}
	f.Fuzz(func(t *testing.T, raw, input []byte) {
		parsed, err := approval.ParseRules(raw, "/approval_rules")
		if err != nil {
			e, ok := errors.AsType[*toolpark.Error](err)
			require.True(t, ok)
			require.Equal(t, toolpark.CodeInvalidApprovalRules, e.Code)
			require.NotEmpty(t, e.Details["pointer"])
			require.NotEmpty(t, e.Details["entries"])
			return
		}
		written, err := json.Marshal(parsed)
		require.NoError(t, err)
		again, err := approval.ParseRules(written, "/approval_rules")
		require.NoError(t, err)
		require.ElementsMatch(t, parsed, again)
		for _, mode := range append([]string{""}, approval.Modes...) {
			p := approval.Policy{Mode: mode, Rules: parsed}
			d := p.Decide(approval.Call{Tool: "a", Origin: toolpark.OriginModel, Input: jsontext.Value(input)})
			require.Contains(t, []approval.Verdict{approval.Allow, approval.Ask, approval.Deny}, d.Verdict)
			require.Equal(t, d.Verdict == approval.Ask, d.Hold > 0)
		}
	})
}

func FuzzGlob(f *testing.F) {
	for _, seed := range [][2]string{{"*a?b*", "aabab"}, {"**", ""}, {"?*?", "a"}, {"a*b*a", "aba"}, {"\xff?*", "\xff\x00"}, {"*ab*ab*", "abab"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern)*len(text) > 1<<16 {
			return
		}
		require.Equal(t, slow(pattern, text), approval.Glob(pattern, text))
	})
}
