package api_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
)

// How a call of a mixed round fares.
const (
	granted   = 'a' // a rule allows it: it runs at once
	gated     = 'g' // it waits for a decision
	forbidden = 'd' // a rule denies it
	broken    = 'b' // its arguments are none
	unknown   = 'u' // nobody declared it
)

// mixes are rounds of five calls: every order of all five kinds, or some of them, and some with repetitions.
func mixes() []string {
	var all []string
	var permute func(made, left string)
	permute = func(made, left string) {
		if left == "" {
			all = append(all, made)
		}
		for i := range left {
			permute(made+left[i:i+1], left[:i]+left[i+1:])
		}
	}
	permute("", "agdbu")
	if !full() {
		some := all[:0:0]
		for i := 0; i < len(all); i += 7 {
			some = append(some, all[i])
		}
		all = some
	}
	return append(all, "ggggg", "ddddd", "aaaag", "gaaaa", "bgbgb", "uuuug", "gdgdg", "agaga")
}

// A call fares the same wherever it stands in a round and whatever stands beside it.
func TestCallsOfEveryKindBesideEachOther(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("free"), kerneltest.Entry("held", kerneltest.Writes), readOnly("never"))
	s.Work(s.Box, 8, echoing(readOnly("free")), echoing(kerneltest.Entry("held", kerneltest.Writes)), echoing(readOnly("never")))
	run := s.ruled("rules", agent.ApprovalRule{Tool: "free", Verdict: "allow"}, agent.ApprovalRule{Tool: "held", Verdict: "ask"},
		agent.ApprovalRule{Tool: "never", Verdict: "deny", Reason: "not here"})
	names := map[rune]string{granted: "free", gated: "held", forbidden: "never", broken: "free", unknown: "elsewhere"}
	rounds := mixes()
	refs := make([][]runner.Ref, len(rounds))
	for n, mix := range rounds {
		calls := make([]agent.Call, len(mix))
		for i, kind := range mix {
			calls[i] = agent.Call{ID: fmt.Sprintf("%s-%d", mix, i), Name: names[kind], Arguments: fmt.Sprintf(`{"n":%d}`, i)}
			if kind == broken {
				calls[i].Arguments = `{"n":`
			}
		}
		refs[n] = s.calls(run, calls...)
	}
	round := func(n int) agent.Round {
		now, err := s.Agent.Round(t.Context(), run, n+1, 0)
		require.NoError(t, err)
		return now
	}

	// All but the gated are over while those wait.
	for n, mix := range rounds {
		waits := 0
		for i, kind := range mix {
			if kind == gated {
				waits++
				continue
			}
			s.settled(refs[n][i])
		}
		now := round(n)
		require.Equal(t, waits == 0, now.Settled, mix)
		held := 0
		for _, result := range now.Results {
			if result.Status == toolpark.NeedsApproval {
				held++
			}
		}
		require.Equal(t, waits, held, "%s: %s", mix, s.asAgent("GET", fmt.Sprintf("/runs/%s/rounds/%d", run, n+1), "").Body)
	}

	// In every other round the gated calls are denied. That ends those and no other.
	for n, mix := range rounds {
		left := 0
		for _, kind := range mix {
			if kind == gated {
				left++
			}
		}
		for i, kind := range mix {
			if kind != gated {
				continue
			}
			if n%2 == 0 {
				s.decide(s.Admin, refs[n][i], "approve", "").ok(http.StatusOK)
			} else {
				s.decide(s.Admin, refs[n][i], "deny", "").ok(http.StatusOK)
			}
			if left--; left > 0 {
				require.False(t, round(n).Settled, "%s settles with its last call", mix)
			}
		}
	}
	for n, mix := range rounds {
		settled, err := s.Agent.Round(t.Context(), run, n+1, patience)
		require.NoError(t, err)
		require.True(t, settled.Settled)
		require.Len(t, settled.Results, len(mix))
		for i, kind := range mix {
			result := settled.Results[i]
			require.Equal(t, fmt.Sprintf("%s-%d", mix, i), result.ToolCallID, "in call order")
			key, detail := "", ""
			if result.Error != nil {
				key, detail = result.Error.Key, result.Error.Detail
			}
			switch {
			case kind == granted, kind == gated && n%2 == 0:
				require.Equal(t, toolpark.Completed, result.Status, "%s: %s", mix, result.Raw)
				require.Equal(t, fmt.Sprintf(`{"n":%d}`, i), result.Output)
			case kind == gated:
				require.Equal(t, toolpark.ErrApprovalDenied+" declined by a person", key+" "+detail, mix)
			case kind == forbidden:
				require.Equal(t, toolpark.ErrApprovalDenied+" not here", key+" "+detail, mix)
			case kind == broken:
				require.Equal(t, toolpark.ErrInvalidToolArguments, key, mix)
			default:
				require.Equal(t, toolpark.ErrUnknownTool, key, mix)
			}
		}
	}
}
