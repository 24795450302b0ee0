package approval_test

import (
	stdjson "encoding/json"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/approval"
)

// Policies and calls from a small alphabet, so that most rules match some call, are decided as the
// specification's sentences say one after the other.
func TestDecisionsAreThoseOfTheSpecification(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	seen := map[approval.Decision]int{}
	for range 100_000 {
		p := approval.Policy{Mode: pick(r, "bypass", "ask", "ask", "rules", "rules", "")}
		list := make([]string, r.IntN(6))
		for i := range list {
			list[i] = drawRule(r)
		}
		p.Rules = rules(t, "["+strings.Join(list, ",")+"]")
		c := approval.Call{
			Tool: drawText(r, "ab", 3), Origin: pick(r, toolpark.OriginModel, toolpark.OriginModel, toolpark.OriginAuthor, toolpark.OriginKernel),
			Input: jsontext.Value(drawObject(r, 3)), Exempt: r.IntN(5) == 0,
		}
		got := p.Decide(c)
		require.Equal(t, naive(t, p, c), got, "%s %v, %+v, %s", p.Mode, list, c, c.Input)
		if got.Origin == approval.ByMode {
			got.Reason = ""
		}
		seen[got]++
	}
	for decision, times := range seen {
		require.Greater(t, times, 100, "%v", decision)
	}
	require.Len(t, seen, 12, "every outcome, with each hold and reason, occurs")
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func drawText(r *rand.Rand, letters string, most int) string {
	text := make([]byte, r.IntN(most+1))
	for i := range text {
		text[i] = letters[r.IntN(len(letters))]
	}
	return string(text)
}

func drawRule(r *rand.Rand) string {
	tool := drawText(r, "aab?*", 2) + pick(r, "a", "b", "*", "*", "|*", "a|?b")
	rule := `{"tool":"` + strings.TrimPrefix(tool, "|") + `"`
	if r.IntN(2) == 0 {
		rule += `,"path":"` + pick(r, "a", "b", "a.a", "a.b", "b.a", "a.a.b", "c", "0") + `"`
		if r.IntN(4) > 0 {
			rule += `,"match":"` + drawText(r, "aabb ?**", 6) + `"`
		}
	}
	verdict := pick(r, "allow", "ask", "deny")
	rule += `,"verdict":"` + verdict + `"`
	if r.IntN(2) == 0 {
		rule += `,"reason":"` + pick(r, "one", "two") + `"`
	}
	rule += pick(r, "", "", `,"origin":"model"`, `,"origin":"author"`, `,"origin":"kernel"`)
	if verdict == "ask" {
		rule += pick(r, "", `,"hold_ms":1`, `,"hold_ms":2`)
	}
	return rule + "}"
}

func drawObject(r *rand.Rand, depth int) string {
	var members []string
	for _, name := range []string{`"a"`, `"\u0062"`, `"c"`, `"a.a"`, `"0"`} {
		if r.IntN(2) == 0 {
			members = append(members, name+` : `+drawValue(r, depth-1))
		}
	}
	return "{ " + strings.Join(members, " , ") + " }"
}

func drawValue(r *rand.Rand, depth int) string {
	switch kind := r.IntN(8); {
	case kind < 3 && depth > 0:
		return drawObject(r, depth)
	case kind == 3:
		elements := make([]string, r.IntN(4))
		for i := range elements {
			elements[i] = drawValue(r, 0)
		}
		return "[ " + strings.Join(elements, ",") + " ]"
	case kind == 4:
		return pick(r, "1.0", "1E2", "true", "false", "null", "{}", "[]")
	}
	return `"` + strings.ReplaceAll(drawText(r, "aabbA ", 5), "A", `\u0061`) + `"`
}

// naive follows the specification by other means: regular expressions for globs, the standard decoder for
// texts, and all rules for the outcome.
func naive(t *testing.T, p approval.Policy, c approval.Call) approval.Decision {
	t.Helper()
	if p.Mode == "" && c.Origin == toolpark.OriginModel {
		return approval.Decision{Verdict: approval.Deny, Origin: "mode", Reason: "no approval rule allows " + c.Tool}
	}
	var denies, asks, allows []approval.Rule
	for _, rule := range p.Rules {
		if !applies(t, rule, c) {
			continue
		}
		switch rule.Verdict {
		case approval.Deny:
			denies = append(denies, rule)
		case approval.Ask:
			asks = append(asks, rule)
		case approval.Allow:
			allows = append(allows, rule)
		}
	}
	if len(denies) > 0 {
		return approval.Decision{Verdict: approval.Deny, Origin: "rule", Reason: denies[0].Reason}
	}
	if c.Exempt {
		return approval.Decision{Verdict: approval.Allow, Origin: "kernel"}
	}
	if len(asks) > 0 && (c.Origin != toolpark.OriginModel || p.Mode != "bypass") {
		hold := int64(86_400_000)
		for _, ask := range asks {
			if ask.HoldMS != 0 {
				hold = min(hold, ask.HoldMS)
			}
		}
		return approval.Decision{Verdict: approval.Ask, Origin: "rule", Hold: time.Duration(hold) * time.Millisecond}
	}
	if c.Origin != toolpark.OriginModel {
		return approval.Decision{Verdict: approval.Allow, Origin: string(c.Origin)}
	}
	switch {
	case p.Mode == "bypass":
		return approval.Decision{Verdict: approval.Allow, Origin: "mode"}
	case len(allows) > 0:
		return approval.Decision{Verdict: approval.Allow, Origin: "rule"}
	case p.Mode == "ask":
		return approval.Decision{Verdict: approval.Ask, Origin: "mode", Hold: 24 * time.Hour}
	}
	return approval.Decision{Verdict: approval.Deny, Origin: "mode", Reason: "no approval rule allows " + c.Tool}
}

func applies(t *testing.T, rule approval.Rule, c approval.Call) bool {
	t.Helper()
	if rule.Origin != c.Origin && (rule.Origin != "" || c.Origin != toolpark.OriginModel) {
		return false
	}
	named := false
	for pattern := range strings.SplitSeq(rule.Tool, "|") {
		named = named || expression(pattern).MatchString(c.Tool)
	}
	if !named || rule.Path == "" {
		return named
	}
	dec := stdjson.NewDecoder(strings.NewReader(string(c.Input)))
	dec.UseNumber()
	var value any
	require.NoError(t, dec.Decode(&value))
	for segment := range strings.SplitSeq(rule.Path, ".") {
		object, _ := value.(map[string]any)
		value = object[segment]
	}
	read, ok := textFrom(value)
	return ok && (rule.Match == nil || expression(*rule.Match).MatchString(read))
}

func textFrom(value any) (string, bool) {
	if text, ok := value.(string); ok {
		return text, true
	}
	list, ok := value.([]any)
	if !ok {
		return "", false
	}
	words := []string{}
	for _, element := range list {
		switch element := element.(type) {
		case map[string]any, []any:
			return "", false
		case nil:
			words = append(words, "null")
		default:
			words = append(words, fmt.Sprint(element))
		}
	}
	return strings.Join(words, " "), true
}

var expressions = map[string]*regexp.Regexp{} // the one test that fills it is one goroutine

func expression(pattern string) *regexp.Regexp {
	if expressions[pattern] == nil {
		quoted := regexp.QuoteMeta(pattern)
		quoted = strings.ReplaceAll(strings.ReplaceAll(quoted, `\*`, `.*`), `\?`, `.`)
		expressions[pattern] = regexp.MustCompile(`(?s)\A` + quoted + `\z`)
	}
	return expressions[pattern]
}

// Whoever writes a call's input cannot get past a rule by how it is spelt.
func TestSpellingDoesNotChangeADecision(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		p := approval.Policy{Mode: "ask", Rules: rules(t, "["+drawRule(r)+","+drawRule(r)+"]")}
		c := approval.Call{Tool: "a", Origin: toolpark.OriginModel, Input: jsontext.Value(drawObject(r, 3))}
		want := p.Decide(c)
		var value any
		require.NoError(t, json.Unmarshal(c.Input, &value, json.WithUnmarshalers(json.UnmarshalFromFunc(keepNumber))))
		spelt, err := json.Marshal(value, jsontext.Multiline(true))
		require.NoError(t, err)
		c.Input = escaped(spelt)
		require.Equal(t, want, p.Decide(c), "%s", c.Input)
	}
}

// keepNumber reads a number as it was written.
func keepNumber(dec *jsontext.Decoder, value *any) error {
	if dec.PeekKind() != jsontext.KindNumber {
		return errors.ErrUnsupported
	}
	raw, err := dec.ReadValue()
	*value = raw.Clone()
	return err
}

// escaped writes every letter inside strings as \u00xx.
func escaped(text []byte) jsontext.Value {
	var out strings.Builder
	inside := false
	for _, b := range text {
		if b == '"' {
			inside = !inside
		}
		if inside && b != '"' {
			fmt.Fprintf(&out, `\u%04x`, b)
			continue
		}
		out.WriteByte(b)
	}
	return jsontext.Value(out.String())
}

// Long texts go through what short ones are spared: their pairs of bytes are looked at first.
func TestGlobsOverLongTexts(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	matched := 0
	for range 3_000 {
		letters := pick(r, "ab", "aab", "aaaaaab", "abc")
		text := ""
		for len(text) < 600 {
			text += strings.Repeat(drawText(r, letters, 12), 1+r.IntN(8))
		}
		pattern := drawText(r, letters+"**?", 8)
		for range r.IntN(4) {
			from := r.IntN(len(text) - 100)
			piece := []byte(text[from : from+r.IntN(100)])
			for i := range piece {
				if r.IntN(pick(r, 8, 1_000)) == 0 {
					piece[i] = '?'
				}
			}
			pattern += "*" + string(piece) + pick(r, "*", "a*", "b?*")
		}
		p := approval.Policy{Mode: "bypass", Rules: []approval.Rule{{Tool: "*", Path: "x", Match: &pattern, Verdict: approval.Deny}}}
		want := slow(pattern, text)
		d := p.Decide(approval.Call{Tool: "a", Input: jsontext.Value(`{"x":"` + text + `"}`)})
		require.Equal(t, want, d.Verdict == approval.Deny, "%q and %q", pattern, text)
		if want {
			matched++
		}
	}
	require.Greater(t, matched, 500)
	require.Less(t, matched, 2_500)
}
