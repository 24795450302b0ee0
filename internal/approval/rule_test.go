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
	"github.com/toolpark/toolpark/internal/form"
)

func TestRulesAreWrittenAsTheyWereRead(t *testing.T) {
	t.Parallel()
	for _, list := range []string{
		`[{"tool":"bash","verdict":"allow"}]`,
		`[{"tool":"bash","path":"command","match":"","verdict":"ask","reason":"Look twice","origin":"model","hold_ms":86400000}]`,
		`[{"tool":"a|b*|?","path":"a.b.0","verdict":"deny","origin":"author"},{"tool":"*","verdict":"ask","origin":"kernel","hold_ms":1}]`,
		`[{"tool":"` + strings.Repeat("a", 512) + `","path":"` + strings.Repeat("b", 512) + `","match":"` + strings.Repeat("*", 512) + `","verdict":"deny","reason":"` + strings.Repeat("é", 128) + `"}]`,
		`[{"tool":"*","path":"x","match":"a?` + strings.Repeat("b", 100) + `*????????` + strings.Repeat("c", 100) + `?*` + strings.Repeat("d", 62) + `?d*e?` + strings.Repeat("f", 100) + `","verdict":"deny"}]`,
		`[{"tool":"*","path":"x","match":"*a|b?` + strings.Repeat("|", 60) + `*","verdict":"deny"}]`,
		`[` + strings.Repeat(`{"tool":"*","verdict":"allow"},`, 255) + `{"tool":"*","verdict":"allow"}]`,
	} {
		parsed := rules(t, list)
		written, err := json.Marshal(parsed)
		require.NoError(t, err)
		require.Equal(t, list, string(written))
		var read []approval.Rule
		require.NoError(t, json.Unmarshal(written, &read, json.RejectUnknownMembers(true)))
		require.Equal(t, parsed, read)
	}
	for _, none := range []jsontext.Value{nil, jsontext.Value(`null`), jsontext.Value(`[]`)} {
		parsed, err := approval.ParseRules(none, "/approval_rules")
		require.NoError(t, err)
		require.Nil(t, parsed)
	}
}

func TestRuleRefusals(t *testing.T) {
	t.Parallel()
	const at = "/configuration/approval_rules"
	rule := func(members string) string { return `[{"tool":"bash","verdict":"allow"},{` + members + `}]` }
	with := func(members string) string { return rule(`"tool":"bash","verdict":"ask",` + members) }
	for name, c := range map[string]struct {
		list, pointer, says string
	}{
		"an object":                     {`{}`, "", "must be a list"},
		"a string":                      {`"deny"`, "", "must be a list"},
		"false":                         {`false`, "", "must be a list"},
		"257 rules":                     {`[` + strings.Repeat(`5,`, 256) + `5]`, "", "257 rules"},
		"no JSON":                       {`[{]`, "/0", "cannot be read"},
		"nested too deep":               {strings.Repeat("[", 200) + strings.Repeat("]", 200), strings.Repeat("/0", 128), "cannot be read"},
		"a key twice":                   {`[{"tool":"a","verdict":"deny","tool":"b"}]`, "/0/tool", "twice"},
		"a key twice, once escaped":     {`[{"verdict":"deny","tool":"a","\u0076erdict":"allow"}]`, "/0/verdict", "twice"},
		"a rule that is a string":       {`["bash"]`, "/0", "must be an object"},
		"a rule that is null":           {`[null]`, "/0", "must be an object"},
		"an unknown key":                {with(`"hold":5`), "/1/hold", "not a known field"},
		"a key in capitals":             {with(`"Reason":"x"`), "/1/Reason", "not a known field"},
		"no tool":                       {rule(`"verdict":"deny"`), "/1/tool", "is missing"},
		"tool null":                     {rule(`"tool":null,"verdict":"deny"`), "/1/tool", "must be a string"},
		"tool is a list":                {rule(`"tool":["bash"],"verdict":"deny"`), "/1/tool", "must be a string"},
		"tool empty":                    {rule(`"tool":"","verdict":"deny"`), "/1/tool", "must name a tool"},
		"an empty alternative":          {rule(`"tool":"a||b","verdict":"deny"`), "/1/tool", "must name a tool"},
		"an empty first alternative":    {rule(`"tool":"|a","verdict":"deny"`), "/1/tool", "must name a tool"},
		"an empty last alternative":     {rule(`"tool":"a|","verdict":"deny"`), "/1/tool", "must name a tool"},
		"tool of 513 bytes":             {rule(`"tool":"` + strings.Repeat("é", 256) + `x","verdict":"deny"`), "/1/tool", "longer than 512 bytes"},
		"tool with U+0000":              {rule(`"tool":"a\u0000","verdict":"deny"`), "/1/tool", "U+0000"},
		"a wide wildcard in tool":       {rule(`"tool":"a|*a?` + strings.Repeat("b", 63) + `*","verdict":"deny"`), "/1/tool", "more than 64 bytes"},
		"no verdict":                    {rule(`"tool":"bash"`), "/1/verdict", "is missing"},
		"verdict null":                  {rule(`"tool":"bash","verdict":null`), "/1/verdict", "must be a string"},
		"another verdict":               {rule(`"tool":"bash","verdict":"Deny"`), "/1/verdict", "must be one of allow, ask, deny"},
		"verdict empty":                 {rule(`"tool":"bash","verdict":""`), "/1/verdict", "must be one of"},
		"path null":                     {with(`"path":null`), "/1/path", "must be a string"},
		"path a number":                 {with(`"path":0`), "/1/path", "must be a string"},
		"path empty":                    {with(`"path":""`), "/1/path", "must be names"},
		"an empty first segment":        {with(`"path":".a"`), "/1/path", "must be names"},
		"an empty last segment":         {with(`"path":"a."`), "/1/path", "must be names"},
		"an empty segment":              {with(`"path":"a..b"`), "/1/path", "must be names"},
		"path of 513 bytes":             {with(`"path":"` + strings.Repeat("a", 513) + `"`), "/1/path", "longer than 512 bytes"},
		"path with U+0000":              {with(`"path":"a\u0000b"`), "/1/path", "U+0000"},
		"match without path":            {with(`"match":"*"`), "/1/match", "needs a path"},
		"match null":                    {with(`"path":"a","match":null`), "/1/match", "must be a string"},
		"match a list":                  {with(`"path":"a","match":["*"]`), "/1/match", "must be a string"},
		"match of 513 bytes":            {with(`"path":"a","match":"` + strings.Repeat("a", 513) + `"`), "/1/match", "longer than 512 bytes"},
		"match with U+0000":             {with(`"path":"a","match":"\u0000"`), "/1/match", "U+0000"},
		"a wide wildcard in match":      {with(`"path":"a","match":"*` + strings.Repeat("a", 32) + `?|` + strings.Repeat("b", 31) + `*"`), "/1/match", "more than 64 bytes"},
		"reason null":                   {with(`"reason":null`), "/1/reason", "must be a string"},
		"reason empty":                  {with(`"reason":""`), "/1/reason", "must be one line"},
		"reason blank":                  {with(`"reason":" \u00a0"`), "/1/reason", "must be one line"},
		"reason of 257 bytes":           {with(`"reason":"` + strings.Repeat("é", 128) + `x"`), "/1/reason", "must be one line"},
		"reason of two lines":           {with(`"reason":"a\nb"`), "/1/reason", "must be one line"},
		"reason of two old lines":       {with(`"reason":"a\rb"`), "/1/reason", "must be one line"},
		"reason of two Unicode lines":   {with(`"reason":"a\u2028b"`), "/1/reason", "must be one line"},
		"reason with U+0000":            {with(`"reason":"a\u0000"`), "/1/reason", "must be one line"},
		"origin null":                   {with(`"origin":null`), "/1/origin", "must be a string"},
		"another origin":                {with(`"origin":"human"`), "/1/origin", "must be one of model, author, kernel"},
		"origin empty":                  {with(`"origin":""`), "/1/origin", "must be one of"},
		"hold_ms null":                  {with(`"hold_ms":null`), "/1/hold_ms", "must be a whole number from 1 to 86400000"},
		"hold_ms in quotes":             {with(`"hold_ms":"5"`), "/1/hold_ms", "must be a whole number"},
		"hold_ms 0":                     {with(`"hold_ms":0`), "/1/hold_ms", "must be a whole number"},
		"hold_ms negative":              {with(`"hold_ms":-1`), "/1/hold_ms", "must be a whole number"},
		"hold_ms over a day":            {with(`"hold_ms":86400001`), "/1/hold_ms", "must be a whole number"},
		"hold_ms beyond any integer":    {with(`"hold_ms":99999999999999999999`), "/1/hold_ms", "must be a whole number"},
		"hold_ms with a fraction":       {with(`"hold_ms":1.5`), "/1/hold_ms", "must be a whole number"},
		"hold_ms with an exponent":      {with(`"hold_ms":1e3`), "/1/hold_ms", "must be a whole number"},
		"hold_ms of an allow":           {rule(`"tool":"bash","verdict":"allow","hold_ms":5`), "/1/hold_ms", "for the verdict ask"},
		"hold_ms of a deny":             {rule(`"tool":"bash","verdict":"deny","hold_ms":5`), "/1/hold_ms", "for the verdict ask"},
		"a surrogate that stands alone": {with(`"reason":"\ud83d"`), "/1/reason", "surrogate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parsed, err := approval.ParseRules(jsontext.Value(c.list), at)
			require.Empty(t, parsed)
			var e *toolpark.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, toolpark.CodeInvalidApprovalRules, e.Code)
			require.Equal(t, at+c.pointer, e.Details["pointer"], e.Message)
			require.Contains(t, e.Message, c.says)
			require.Contains(t, e.Message, "(invalid_approval_rules)")
			require.True(t, strings.HasPrefix(e.Message, "configuration.approval_rules"), e.Message)
		})
	}
}

func TestARefusalIsBounded(t *testing.T) {
	t.Parallel()
	var rule strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&rule, `"k%d":1,`, i)
	}
	_, err := approval.ParseRules(jsontext.Value(`[{`+rule.String()+`"tool":"a","verdict":"deny"}]`), "/approval_rules")
	var e *toolpark.Error
	require.ErrorAs(t, err, &e)
	require.Len(t, e.Details["entries"], 16)
}

func TestARefusalNamesEveryProblem(t *testing.T) {
	t.Parallel()
	_, err := approval.ParseRules(jsontext.Value(`[
		{"tool":"bash","verdict":"allow"},
		{"tool":"a||b","verdict":"never","match":"x","more":1,"another":2},
		5,
		{"path":"a..b","verdict":"deny","hold_ms":0,"reason":"a\u0000","origin":"human"}]`), "/approval_rules")
	var e *toolpark.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "/approval_rules/1/tool", e.Details["pointer"])
	paths := []string{}
	for _, p := range e.Details["entries"].([]form.Problem) {
		require.NotEmpty(t, p.Message)
		paths = append(paths, strings.TrimPrefix(p.Path, "approval_rules"))
	}
	require.Equal(t, []string{
		"[1].tool", "[1].match", "[1].verdict", "[1].another", "[1].more", "[2]",
		"[3].tool", "[3].path", "[3].reason", "[3].origin", "[3].hold_ms", "[3].reason",
	}, paths)
	entries, err := json.Marshal(e.Details["entries"])
	require.NoError(t, err)
	require.Contains(t, string(entries), `{"path":"approval_rules[2]","message":"must be an object"}`)
}
