package approval_test

import (
	"encoding/json/jsontext"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/approval"
)

var (
	byMode = approval.Decision{Verdict: approval.Allow, Origin: "mode"}
	byRule = approval.Decision{Verdict: approval.Allow, Origin: "rule"}
	denied = approval.Decision{Verdict: approval.Deny, Origin: "rule", Reason: "no pushing"}
	unsaid = approval.Decision{Verdict: approval.Deny, Origin: "mode", Reason: "no approval rule allows bash"}
	held   = approval.Decision{Verdict: approval.Ask, Origin: "rule", Hold: 24 * time.Hour}
	parked = approval.Decision{Verdict: approval.Ask, Origin: "mode", Hold: 24 * time.Hour}
	author = approval.Decision{Verdict: approval.Allow, Origin: "author"}
	kernel = approval.Decision{Verdict: approval.Allow, Origin: "kernel"}
)

// The kinds of rules that a table of the specification has a column for.
var columns = []string{
	`[{"tool":"bash","verdict":"deny","reason":"no pushing"}]`,
	`[{"tool":"bash","verdict":"allow"}]`,
	`[{"tool":"bash","verdict":"ask"}]`,
	`[{"tool":"read","verdict":"deny"},{"tool":"bash","path":"nothing","verdict":"ask"}]`,
}

func TestModes(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string][]approval.Decision{
		"bypass": {denied, byMode, byMode, byMode},
		"ask":    {denied, byRule, held, parked},
		"rules":  {denied, byRule, held, unsaid},
		"":       {unsaid, unsaid, unsaid, unsaid},
		"Bypass": {unsaid, unsaid, unsaid, unsaid},
	} {
		for i, list := range columns {
			p := approval.Policy{Mode: mode, Rules: rules(t, list)}
			require.Equal(t, want[i], p.Decide(approval.Call{Tool: "bash", Origin: toolpark.OriginModel, Input: jsontext.Value(`{}`)}), "%s with %s", mode, list)
		}
	}
}

func TestOrigins(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"bypass", "ask", "rules", ""} {
		for origin, granted := range map[toolpark.Origin]approval.Decision{"author": author, "kernel": kernel} {
			for named, want := range map[string][]approval.Decision{
				`"` + string(origin) + `"`: {denied, granted, held, granted},
				`"model"`:                  {granted, granted, granted, granted},
			} {
				for i, list := range columns {
					p := approval.Policy{Mode: mode, Rules: rules(t, list)}
					for j := range p.Rules {
						p.Rules[j].Origin = toolpark.Origin(named[1 : len(named)-1])
					}
					require.Equal(t, want[i], p.Decide(approval.Call{Tool: "bash", Origin: origin}), "%s: %s call, rules for %s: %s", mode, origin, named, list)
				}
			}
			for _, list := range columns {
				p := approval.Policy{Mode: mode, Rules: rules(t, list)}
				require.Equal(t, granted, p.Decide(approval.Call{Tool: "bash", Origin: origin}), "a rule that names no origin is about models")
			}
		}
	}
	others := approval.Policy{Mode: "rules", Rules: rules(t, `[{"tool":"bash","verdict":"allow","origin":"author"},{"tool":"bash","verdict":"deny","origin":"kernel"}]`)}
	require.Equal(t, unsaid, others.Decide(approval.Call{Tool: "bash", Origin: toolpark.OriginModel}))
	require.Equal(t, unsaid, others.Decide(approval.Call{Tool: "bash"}), "a call that names no origin is a model's")
}

func TestKernelToolsWithoutEffects(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string][]approval.Decision{
		"bypass": {denied, kernel, kernel, kernel},
		"ask":    {denied, kernel, kernel, kernel},
		"rules":  {denied, kernel, kernel, kernel},
		"":       {unsaid, unsaid, unsaid, unsaid},
	} {
		for i, list := range columns {
			p := approval.Policy{Mode: mode, Rules: rules(t, list)}
			require.Equal(t, want[i], p.Decide(approval.Call{Tool: "bash", Origin: toolpark.OriginModel, Exempt: true}), "%s with %s", mode, list)
		}
	}
}

func TestDenyBeatsAskBeatsAllow(t *testing.T) {
	t.Parallel()
	decide := func(list string) approval.Decision {
		p := approval.Policy{Mode: "rules", Rules: rules(t, list)}
		return p.Decide(approval.Call{Tool: "bash", Origin: toolpark.OriginModel, Input: jsontext.Value(`{"command":"ls"}`)})
	}
	const (
		allow = `{"tool":"*","verdict":"allow","reason":"fine"}`
		ask   = `{"tool":"*","verdict":"ask","reason":"look"}`
		deny  = `{"tool":"b*","verdict":"deny","reason":"first"}`
		other = `{"tool":"*","verdict":"deny","reason":"second"}`
		mute  = `{"tool":"bash","verdict":"deny"}`
		moot  = `{"tool":"*","path":"command","match":"rm*","verdict":"deny","reason":"does not match"}`
	)
	require.Equal(t, held, decide(`[`+allow+`,`+ask+`]`))
	require.Equal(t, held, decide(`[`+ask+`,`+allow+`,`+moot+`]`))
	for list, reason := range map[string]string{
		allow + `,` + ask + `,` + moot + `,` + deny + `,` + other: "first",
		other + `,` + ask + `,` + deny:                            "second",
		mute + `,` + deny:                                         "",
	} {
		require.Equal(t, approval.Decision{Verdict: approval.Deny, Origin: "rule", Reason: reason}, decide(`[`+list+`]`))
	}
}

func TestTheShortestHoldOfAMatchingRuleCounts(t *testing.T) {
	t.Parallel()
	hold := func(mode, list string) time.Duration {
		p := approval.Policy{Mode: mode, Rules: rules(t, list)}
		d := p.Decide(approval.Call{Tool: "bash", Origin: toolpark.OriginModel})
		require.Equal(t, approval.Ask, d.Verdict)
		return d.Hold
	}
	require.Equal(t, 5*time.Millisecond, hold("rules", `[{"tool":"bash","verdict":"ask"},{"tool":"*","verdict":"ask","hold_ms":7},{"tool":"b*","verdict":"ask","hold_ms":5},
		{"tool":"read","verdict":"ask","hold_ms":1},{"tool":"*","verdict":"ask","hold_ms":1,"origin":"author"},{"tool":"*","path":"x","verdict":"ask","hold_ms":2}]`))
	require.Equal(t, 24*time.Hour, hold("rules", `[{"tool":"bash","verdict":"ask","hold_ms":86400000}]`))
	require.Equal(t, 24*time.Hour, hold("ask", `[{"tool":"read","verdict":"ask","hold_ms":1}]`), "a rule that does not match shortens nothing")
	require.Equal(t, time.Second, hold("ask", `[{"tool":"*","verdict":"allow"},{"tool":"bash","verdict":"ask","hold_ms":1000}]`))
}

// What a rule reads of an input, whichever way that is written.
func TestTexts(t *testing.T) {
	t.Parallel()
	const anything = ""
	for name, c := range map[string]struct {
		path, match, input string
		matches            bool
	}{
		"a string":                          {"command", "rm *", `{"command":"rm -rf /"}`, true},
		"white space around it":             {"command", "rm *", ` { "command" : "rm -rf /" } `, true},
		"it is anchored at its beginning":   {"command", "rm *", `{"command":" rm -rf /"}`, false},
		"it is anchored at its end":         {"command", "* rm", `{"command":"sudo rm -rf /"}`, false},
		"a value with escapes":              {"command", "rm /*", `{"command":"\u0072m \/etc"}`, true},
		"a name with escapes":               {"command", "rm *", `{"\u0063omman\u0064":"rm -rf /"}`, true},
		"characters beyond ASCII":           {"é.天", "*気", "{\"\\u00e9\":{\"天\":\"天\\u6c17\"}}", true},
		"a surrogate pair":                  {"x", "😀", `{"x":"\ud83d\ude00"}`, true},
		"? is one byte":                     {"x", "?", `{"x":"é"}`, false},
		"two bytes":                         {"x", "??", `{"x":"é"}`, true},
		"a line break":                      {"x", "a*b", `{"x":"a\nb"}`, true},
		"case counts":                       {"x", "RM", `{"x":"rm"}`, false},
		"case of names counts":              {"X", anything, `{"x":"rm"}`, false},
		"an empty string is a text":         {"x", anything, `{"x":""}`, true},
		"inside objects":                    {"a.b.c", "1", `{"z":{"b":{"c":"2"}},"a":{"c":"3","b":{"d":[],"c":"1"}}}`, true},
		"not above":                         {"a.b", anything, `{"b":"1","a":{"a":{"b":"1"}}}`, false},
		"not below":                         {"a", anything, `{"a":{"a":"1"}}`, false},
		"a dot in a name is no step":        {"a.b", anything, `{"a.b":"1"}`, false},
		"U+0000 in a name is no step":       {"a.b", anything, `{"a\u0000b":"1"}`, false},
		"a number names no element":         {"a.0", anything, `{"a":["1"]}`, false},
		"a number may name a member":        {"a.0", anything, `{"a":{"0":"1"}}`, true},
		"an array of strings":               {"argv", "rm -rf /", `{"argv":["rm","-rf","/"]}`, true},
		"an array with escapes":             {"argv", "rm -rf /", `{"argv":["\u0072m","\u002drf","\/"]}`, true},
		"an array of scalars":               {"a", "1.50 1E3 true false null x", `{"a":[1.50,1E3,true,false,null,"x"]}`, true},
		"an array of empty strings":         {"a", " x ", `{"a":["","x",""]}`, true},
		"an empty array":                    {"a", "?*", `{"a":[]}`, false},
		"an empty array is an empty text":   {"a", anything, `{"a":[]}`, true},
		"an array in an array":              {"a", anything, `{"a":["x",["y"]]}`, false},
		"an object in an array":             {"a", anything, `{"a":[{"x":1}]}`, false},
		"a number":                          {"a", anything, `{"a":1}`, false},
		"a boolean":                         {"a", anything, `{"a":true}`, false},
		"null":                              {"a", anything, `{"a":null}`, false},
		"an object":                         {"a", anything, `{"a":{}}`, false},
		"nothing there":                     {"a", anything, `{}`, false},
		"no input":                          {"a", anything, ``, false},
		"a longer name":                     {"a.b", anything, `{"a":{"bc":"1"},"ab":"1"}`, false},
		"names that sort close to the dot":  {"a.b", "1", `{"a-":{"b":"2"},"a":{"b-":"3","b":"1"},"a!":{}}`, true},
		"after a text that is no good":      {"a.b", "1", `{"x":[[{"y":1}]],"a":{"a":[{}],"b":"1"}}`, true},
		"the input is no object but a text": {"a", anything, `"a"`, false},
		"the input is no object but a list": {"a", anything, `["a"]`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := approval.Rule{Tool: "*", Path: c.path, Verdict: approval.Deny}
			if c.match != anything {
				r.Match = &c.match
			}
			p := approval.Policy{Mode: "bypass", Rules: []approval.Rule{
				{Tool: "*", Path: "a.b.c.d", Verdict: approval.Deny}, r, {Tool: "*", Path: "a.a", Match: new("\n"), Verdict: approval.Deny},
			}}
			d := p.Decide(approval.Call{Tool: "bash", Origin: toolpark.OriginModel, Input: jsontext.Value(c.input)})
			require.Equal(t, c.matches, d.Verdict == approval.Deny)
		})
	}
}

func TestAnInputThatCannotBeReadIsDenied(t *testing.T) {
	t.Parallel()
	for _, input := range []string{`{"x":"1","x":"2"}`, `{"x":"1","\u0078":"2"}`, `{"y":{"z":1,"z":2},"x":"1"}`, `{"x":`, `{"x":"1"}{"x":"2"}`, "{\"x\":\"\xff\"}", `nothing`} {
		for _, origin := range []toolpark.Origin{"model", "author", "kernel"} {
			call := approval.Call{Tool: "bash", Origin: origin, Input: jsontext.Value(input)}
			p := approval.Policy{Mode: "bypass", Rules: []approval.Rule{{Tool: "b*", Path: "w", Verdict: approval.Deny, Origin: origin}}}
			d := p.Decide(call)
			require.Equal(t, approval.Deny, d.Verdict, input)
			require.NotEmpty(t, d.Reason)
			call.Tool = "read"
			require.Equal(t, approval.Allow, p.Decide(call).Verdict, "no rule about the tool asks what is in it")
		}
	}
}

func TestToolNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		globs, name string
		matches     bool
	}{
		{"bash", "bash", true},
		{"bash", "Bash", false},
		{"bash", "bash2", false},
		{"read|bash|write", "bash", true},
		{"read|write", "read|write", true},
		{"read|w*e", "write", true},
		{"*", "logs.search", true},
		{"logs.*", "logs.search", true},
		{"logs.*", "logsXsearch", false},
		{"logs?search", "logs.search", true},
		{"mcp__*__delete_*", "mcp__files__delete_all", true},
		{"[a-z]ash", "bash", false},
		{"天*", "天気", true},
	} {
		p := approval.Policy{Mode: "rules", Rules: rules(t, `[{"tool":"`+c.globs+`","verdict":"allow"}]`)}
		d := p.Decide(approval.Call{Tool: c.name, Origin: toolpark.OriginModel})
		require.Equal(t, c.matches, d.Verdict == approval.Allow, "%s and %s", c.globs, c.name)
	}
}
