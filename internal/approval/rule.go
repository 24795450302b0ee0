package approval

import (
	"encoding/json/jsontext"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/form"
	"github.com/toolpark/toolpark/internal/strictjson"
)

// Rule is one sentence of a policy. Its JSON is the form it was declared in: what was left out stays out.
type Rule struct {
	Tool    string          `json:"tool"`           // globs over the tool's name, with | between them
	Path    string          `json:"path,omitzero"`  // where in the input a text must be, dotted; empty: the rule reads no input
	Match   *string         `json:"match,omitzero"` // a glob over that text; nil: any text will do
	Verdict Verdict         `json:"verdict"`
	Reason  string          `json:"reason,omitzero"`  // one line
	Origin  toolpark.Origin `json:"origin,omitzero"`  // whose calls it is about; empty: a model's
	HoldMS  int64           `json:"hold_ms,omitzero"` // of an ask, in milliseconds; 0: toolpark.MaxApprovalHold
}

// ParseRules reads a list of rules that stands at the pointer at; null, nil and [] are none. Anything else than
// a good list is invalid_approval_rules, naming the first problem in message and pointer, and every one in
// the detail "entries" ([]form.Problem).
func ParseRules(raw jsontext.Value, at jsontext.Pointer) ([]Rule, error) {
	if raw == nil || raw.Kind() == jsontext.KindNull {
		return nil, nil
	}
	var problems []form.Problem
	rules := parseRules(raw, at, &problems)
	switch {
	case len(problems) == 0 && len(rules) == 0:
		return nil, nil
	case len(problems) == 0:
		return rules, nil
	}
	return nil, problems[0].Refuse(toolpark.CodeInvalidApprovalRules).With("entries", problems)
}

func parseRules(raw jsontext.Value, at jsontext.Pointer, problems *[]form.Problem) []Rule {
	if p := strictjson.Value(raw); p != nil { // a request has been through this; whatever else brings rules has not
		*problems = append(*problems, form.At(at+jsontext.Pointer(p.Pointer), "cannot be read: %s", p.Reason))
		return nil
	}
	elements, count, ok := strictjson.Elements(raw, toolpark.MaxApprovalRules)
	switch {
	case !ok:
		*problems = append(*problems, form.At(at, "must be a list of rules, or null"))
		return nil
	case count > toolpark.MaxApprovalRules:
		*problems = append(*problems, form.At(at, "has %d rules; it may have %d", count, toolpark.MaxApprovalRules))
		return nil
	}
	rules := make([]Rule, len(elements))
	for i, element := range elements {
		where := at.AppendToken(strconv.Itoa(i))
		if o, ok := form.Open(element, where, problems); ok {
			rules[i] = readRule(o)
		}
		form.Storable(element, where, problems)
	}
	return rules
}

// readRule reads one rule and notes all that is wrong with it.
func readRule(o form.Object) Rule {
	var r Rule
	if tool := o.Text("tool", true); tool != nil {
		r.Tool = *tool
		checkGlobs(o, "tool", r.Tool, strings.Split(r.Tool, "|")...)
		if slices.Contains(strings.Split(r.Tool, "|"), "") {
			o.Note("tool", "must name a tool, or several with one | between them")
		}
	}
	_, reads := o.Members["path"]
	if path := o.Text("path", false); path != nil {
		r.Path = *path
		checkPath(o, r.Path)
	}
	if r.Match = o.Text("match", false); r.Match != nil {
		checkGlobs(o, "match", *r.Match, *r.Match)
		if !reads {
			o.Note("match", "needs a path to the text that it is held against")
		}
	}
	r.Verdict = Verdict(o.Word("verdict", true, string(Allow), string(Ask), string(Deny)))
	if reason := o.Text("reason", false); reason != nil {
		r.Reason = *reason
		if strings.TrimSpace(r.Reason) == "" || len(r.Reason) > toolpark.MaxApprovalReason || strings.ContainsFunc(r.Reason, breaksLine) {
			o.Note("reason", "must be one line of 1 to %d bytes", toolpark.MaxApprovalReason)
		}
	}
	r.Origin = toolpark.Origin(o.Word("origin", false, string(toolpark.OriginModel), string(toolpark.OriginAuthor), string(toolpark.OriginKernel)))
	r.HoldMS = hold(o, r.Verdict)
	o.Rest()
	return r
}

// breaksLine finds what is no part of one line: control characters, and the two separators of Unicode.
func breaksLine(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }

// checkPath notes what is wrong with a path.
func checkPath(o form.Object, path string) {
	if len(path) > toolpark.MaxApprovalPattern {
		o.Note("path", "is longer than %d bytes", toolpark.MaxApprovalPattern)
		return
	}
	for segment := range strings.SplitSeq(path, ".") {
		if segment == "" {
			o.Note("path", "must be names of members with one dot between them")
			return
		}
	}
}

// checkGlobs notes what is wrong with a text of globs.
func checkGlobs(o form.Object, member, text string, patterns ...string) {
	if len(text) > toolpark.MaxApprovalPattern {
		o.Note(member, "is longer than %d bytes", toolpark.MaxApprovalPattern)
		return
	}
	for _, pattern := range patterns {
		parts := strings.Split(pattern, "*")
		for i, part := range parts {
			core, _, _ := trimmed(part)
			if i > 0 && i < len(parts)-1 && strings.Contains(core, "?") && len(core) > toolpark.MaxApprovalWildcard {
				o.Note(member, "has a ? in a part of more than %d bytes between two *", toolpark.MaxApprovalWildcard)
				return
			}
		}
	}
}

// hold takes how long an ask holds a call, in milliseconds; 0 when it does not say.
func hold(o form.Object, verdict Verdict) int64 {
	value := o.Take("hold_ms", false)
	if value == nil {
		return 0
	}
	most := toolpark.MaxApprovalHold.Milliseconds()
	ms, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil || ms < 1 || ms > most {
		o.Note("hold_ms", "must be a whole number from 1 to %d", most)
		return 0
	}
	if verdict == Allow || verdict == Deny {
		o.Note("hold_ms", "is for the verdict ask alone")
	}
	return ms
}
