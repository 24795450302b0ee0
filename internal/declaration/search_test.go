package declaration_test

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/declaration"
	"github.com/toolpark/toolpark/internal/strictjson"
)

type searchResult struct {
	Tools []struct {
		Name       string              `json:"name"`
		Definition jsontext.Value      `json:"definition"`
		Route      jsontext.Value      `json:"route"`
		Skills     []declaration.Skill `json:"skills"`
	} `json:"tools"`
	Truncated bool `json:"truncated"`
}

func search(t testing.TB, c *declaration.Context, query string, limit int) searchResult {
	t.Helper()
	raw, err := c.Search(query, limit)
	require.NoError(t, err)
	canonical, err := strictjson.Canonical(raw)
	require.NoError(t, err)
	require.Equal(t, string(canonical), string(raw))
	require.LessOrEqual(t, len(raw), toolpark.MaxSearchResult)
	var result searchResult
	require.NoError(t, json.Unmarshal(raw, &result, json.RejectUnknownMembers(true)))
	return result
}

func (r searchResult) names() []string {
	names := []string{}
	for _, found := range r.Tools {
		names = append(names, found.Name)
	}
	return names
}

// library is a context of tools to look for.
func library(t testing.TB) *declaration.Context {
	t.Helper()
	s := skilled(`[{"name":"deploy-site","description":"Publish the pages"}]`)
	s.Runners[runnerA].Tools["mail/send now"] = announced("Deliver a message", `{"type":"object","properties":{"to":{"type":"string"}}}`)
	function := func(name, description string) string {
		return `{"type":"function","name":"` + name + `","description":` + quoted(description) + `}`
	}
	return assemble(t, importing(`"kernel_tools":["nexus.tools.search","nexus.tools.call"],`,
		function("send_mail", "Write to somebody"),
		function("mail", "Send what is in the outbox"),
		function("outbox", "Look at mail before you send it"),
		function("Send_Mail_Now", "Hurry"),
		function("clock", "What time is it? ÄRGER"),
		routed("look", runnerB, "read"),
	), &runnerA, s)
}

func TestSearch(t *testing.T) {
	t.Parallel()
	c := library(t)
	send, skill := qualified("mail/send now"), qualified("skill")
	for _, tc := range []struct {
		name, query string
		want        []string
	}{
		{"an exact name alone", "mail", []string{"mail"}},
		{"an exact name among white space", " mail\n", []string{"mail"}},
		{"an exact name in another case", "CLOCK", []string{"clock"}},
		{"an exact name before one in another case", "Send_Mail_Now", []string{"Send_Mail_Now"}},
		{"every word, best first", "send mail", []string{"Send_Mail_Now", send, "send_mail", "mail", "outbox"}},
		{"in any order and case", "MAIL SEND", []string{"Send_Mail_Now", send, "send_mail", "mail", "outbox"}},
		{"a word again is no other word", "send send mail", []string{"Send_Mail_Now", send, "send_mail", "mail", "outbox"}},
		{"every word must occur", "send mail somebody", []string{"send_mail"}},
		{"a part of a word", "outb", []string{"outbox", "mail"}},
		{"letters beyond ASCII", "ärger", []string{"clock"}},
		{"a served name", "mail/send", []string{send}},
		{"a runner", runnerB.String(), []string{"look"}},
		{"a runner and a served name", "read " + runnerB.String(), []string{"look"}},
		{"a skill's name", "deploy-site", []string{skill}},
		{"a skill's description", "publish PAGES", []string{skill}},
		{"words in different fields", "document publish", []string{skill}},
		{"kernel tools, itself too", "tool_ truncated", []string{"tool_search"}},
		{"no field's end meets another's start", "outboxlook", []string{}},
		{"nothing", "helicopter", []string{}},
		{"a field name of the definition", "additionalProperties", []string{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			result := search(t, c, tc.query, 20)
			require.Equal(t, tc.want, result.names())
			require.False(t, result.Truncated)
		})
	}
}

func TestABlankQueryIsAnError(t *testing.T) {
	t.Parallel()
	for _, query := range []string{"", " ", "\t\n\u00a0\u2003"} {
		_, err := library(t).Search(query, 5)
		require.ErrorIs(t, err, declaration.ErrBlankQuery)
	}
}

func TestTwoNamesThatDifferInCaseAreBothFound(t *testing.T) {
	t.Parallel()
	c := assemble(t, bypass(`{"type":"function","name":"openDoc"}`, `{"type":"function","name":"OpenDoc"}`), nil, snapshot())
	require.Equal(t, []string{"openDoc"}, search(t, c, "openDoc", 5).names())
	require.Equal(t, []string{"OpenDoc", "openDoc"}, search(t, c, "opendoc", 5).names())
}

func TestWhatASearchShows(t *testing.T) {
	t.Parallel()
	c := library(t)
	raw, err := c.Search(qualified("skill"), 5)
	require.NoError(t, err)
	require.Equal(t, `{"tools":[{"definition":{"function":{"description":"Load a document","name":"`+qualified("skill")+`","parameters":{"type":"object"},"strict":false},"type":"function"},`+
		`"name":"`+qualified("skill")+`","route":{"kind":"runner","runner_executor_public_id":"`+runnerA.String()+`","tool_name":"skill"},`+
		`"skills":[{"callable":"`+qualified("skill")+`","description":"Publish the pages","executor_public_id":"`+runnerA.String()+`","name":"deploy-site","source":"runner"}]}],"truncated":false}`, string(raw))

	raw, err = c.Search("clock", 5)
	require.NoError(t, err)
	require.Equal(t, `{"tools":[{"definition":{"function":{"description":"What time is it? ÄRGER","name":"clock","parameters":{"properties":{},"type":"object"},"strict":false},"type":"function"},`+
		`"name":"clock","skills":[]}],"truncated":false}`, string(raw))
}

func TestASearchIsLimited(t *testing.T) {
	t.Parallel()
	entries := make([]string, 25)
	for i := range entries {
		entries[i] = fmt.Sprintf(`{"type":"function","name":"tool_%02d"}`, i)
	}
	c := assemble(t, bypass(entries...), nil, snapshot())
	for limit, want := range map[int]int{0: 5, 1: 1, 5: 5, 20: 20, 24: 24} {
		result := search(t, c, "tool", limit)
		require.Len(t, result.Tools, want)
		require.True(t, result.Truncated)
	}
	result := search(t, c, "tool", 25)
	require.Len(t, result.Tools, 25)
	require.False(t, result.Truncated)
}

func TestASearchShowsWholeSchemasWithinItsBound(t *testing.T) {
	t.Parallel()
	entry := func(name string, size int) string {
		return `{"type":"function","name":"` + name + `","parameters":{"type":"object","description":"` + strings.Repeat("é", size/2) + `"}}`
	}
	c := assemble(t, bypass(entry("big_a", 30<<10), entry("big_b", 30<<10), entry("big_c", 30<<10), entry("big_d", 2<<10), entry("huge", 70<<10)), nil, snapshot())
	result := search(t, c, "big", 20)
	require.Equal(t, []string{"big_a", "big_b", "big_d"}, result.names(), "what does not fit is left out whole; what fits is not")
	require.True(t, result.Truncated)

	result = search(t, c, "huge", 20)
	require.Empty(t, result.Tools)
	require.True(t, result.Truncated)

	// To the byte: the answer with one tool of the right size is as long as it may be.
	room := toolpark.MaxSearchResult - len(`{"tools":[{"definition":{"function":{"name":"x","parameters":{"description":"","type":"object"},"strict":false},"type":"function"},"name":"x","skills":[]}],"truncated":false}`)
	for over, found := range map[int]int{0: 1, 1: 0} {
		c := assemble(t, bypass(`{"type":"function","name":"x","parameters":{"type":"object","description":"`+strings.Repeat("x", room+over)+`"}}`), nil, snapshot())
		require.Len(t, search(t, c, "x", 1).Tools, found)
	}
}

func TestASearchSeesTheNarrowedContextOnly(t *testing.T) {
	t.Parallel()
	part, err := library(t).Narrow([]string{"mail", "clock"})
	require.NoError(t, err)
	require.Equal(t, []string{"mail"}, search(t, part, "send", 20).names())
	require.Empty(t, search(t, part, "outbox look", 20).Tools)
	require.Empty(t, search(t, part, "publish", 20).Tools)
}
