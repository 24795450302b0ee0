package approval_test

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/approval"
)

// BenchmarkRound decides about the largest round that a body may bring: 128 calls with 16 MiB of text, under
// 256 deny rules that all read that text, and of which none matches.
func BenchmarkRound(b *testing.B) {
	const size = toolpark.MaxRoundsBody / toolpark.MaxCallsPerRound
	fill := func(text string) string { return strings.Repeat(text, size/len(text)+1)[:size] }
	shell := fill("for f in $(find . -name '*.go'); do gofmt -l \"$f\" && rm -f /tmp/build-17/cache; done\n")
	for name, c := range map[string]struct {
		text  string
		match func(i int) string
	}{
		"words of no call":       {shell, func(i int) string { return fmt.Sprintf("*rm -rf /srv/%d*", i) }},
		"words of every call":    {shell, func(i int) string { return fmt.Sprintf("*rm -f*gofmt -l %s", strings.Repeat("x", i)) }},
		"anchored":               {shell, func(i int) string { return fmt.Sprintf("rm -rf /srv/%d*", i) }},
		"question marks":         {shell, func(i int) string { return fmt.Sprintf("*rm -?? /tmp*%s?z*", "???"[:i%4]) }},
		"against the search":     {fill("aaaaaaaaaaaaaaaaaaab"), func(i int) string { return "*" + strings.Repeat("a", 20+i%40) + "b*" }},
		"against long searches":  {fill(strings.Repeat("a", 255) + "b"), func(i int) string { return "*" + strings.Repeat("a", 256+i%200) + "b*" }},
		"against all parts":      {fill("ab"), func(i int) string { return strings.Repeat("*ba", 1+i%160) + "a*bb" }},
		"against question marks": {fill("aab"), func(i int) string { return "*" + strings.Repeat("a?", 20+i%10) + "b*" }},
	} {
		b.Run(name, func(b *testing.B) {
			list := make([]approval.Rule, toolpark.MaxApprovalRules)
			for i := range list {
				list[i] = approval.Rule{Tool: "b*h", Path: "command", Match: new(c.match(i)), Verdict: approval.Deny}
			}
			p := approval.Policy{Mode: approval.ModeAsk, Rules: list}
			input, err := json.Marshal(map[string]string{"command": c.text})
			require.NoError(b, err)
			call := approval.Call{Tool: "bash", Origin: toolpark.OriginModel, Input: input}
			b.SetBytes(toolpark.MaxRoundsBody)
			for b.Loop() {
				for range toolpark.MaxCallsPerRound {
					if d := p.Decide(call); d.Verdict != approval.Ask {
						b.Fatal("a rule matches")
					}
				}
			}
		})
	}
}

// BenchmarkPaths decides about a round whose inputs are all members, under rules with as many paths.
func BenchmarkPaths(b *testing.B) {
	members := map[string]any{}
	for i := range 10_000 {
		members[fmt.Sprintf("m%d", i)] = ""
	}
	input, err := json.Marshal(members)
	require.NoError(b, err)
	list := make([]approval.Rule, toolpark.MaxApprovalRules)
	for i := range list {
		list[i] = approval.Rule{Tool: "*", Path: fmt.Sprintf("m%d%s", i, strings.Repeat(".a", 250)), Verdict: approval.Deny}
	}
	p := approval.Policy{Mode: approval.ModeBypass, Rules: list}
	call := approval.Call{Tool: "bash", Origin: toolpark.OriginModel, Input: jsontext.Value(input)}
	b.SetBytes(int64(len(input) * toolpark.MaxCallsPerRound))
	for b.Loop() {
		for range toolpark.MaxCallsPerRound {
			if d := p.Decide(call); d.Verdict != approval.Allow {
				b.Fatal("a rule matches")
			}
		}
	}
}
