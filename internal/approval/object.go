package approval

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/toolpark/toolpark/internal/strictjson"
)

// Problem is one thing wrong with a rule.
type Problem struct {
	Path    string `json:"path"`    // where, as a reader writes it: configuration.approval_rules[0].tool
	Message string `json:"message"` // what is wrong, without the place

	pointer jsontext.Pointer
}

func note(problems *[]Problem, at jsontext.Pointer, format string, args ...any) {
	*problems = append(*problems, Problem{Path: shown(at), Message: fmt.Sprintf(format, args...), pointer: at})
}

// maxPath bounds, in bytes, how much of a path is shown; a key may be of any length.
const maxPath = 256

// shown is a pointer as a reader writes it.
func shown(at jsontext.Pointer) string {
	var path strings.Builder
	for token := range at.Tokens() {
		switch _, err := strconv.Atoi(token); {
		case err == nil:
			path.WriteString("[" + token + "]")
		case path.Len() == 0:
			path.WriteString(token)
		default:
			path.WriteString("." + token)
		}
	}
	return strictjson.CutString(path.String(), maxPath)
}

// object takes the members of a rule, one by one, and notes what is wrong with them. A member of another
// shape is always a problem, null included: no part of a rule is dropped or guessed.
type object struct {
	at       jsontext.Pointer
	members  map[string]jsontext.Value
	problems *[]Problem
}

// openRule reads value as an object; false when it is none.
func openRule(value jsontext.Value, at jsontext.Pointer, problems *[]Problem) (object, bool) {
	o := object{at: at, problems: problems}
	if value.Kind() != jsontext.KindBeginObject {
		note(problems, at, "must be an object")
		return o, false
	}
	if err := json.Unmarshal(value, &o.members); err != nil {
		note(problems, at, "cannot be read: %s", err)
		return o, false
	}
	return o, true
}

func (o object) note(member, format string, args ...any) {
	note(o.problems, o.at.AppendToken(member), format, args...)
}

// take removes a member and returns it; nil when there is none, which is noted when it is required.
func (o object) take(member string, required bool) jsontext.Value {
	value := o.members[member]
	delete(o.members, member)
	if value == nil && required {
		o.note(member, "is missing")
	}
	return value
}

// text takes a string; nil when there is none.
func (o object) text(member string, required bool) *string {
	value := o.take(member, required)
	if value == nil {
		return nil
	}
	var text string
	if value.Kind() != jsontext.KindString || json.Unmarshal(value, &text) != nil {
		o.note(member, "must be a string")
		return nil
	}
	return &text
}

// word takes one of a closed list of words; "" when there is none.
func (o object) word(member string, required bool, words ...string) string {
	text := o.text(member, required)
	switch {
	case text == nil:
		return ""
	case !slices.Contains(words, *text):
		o.note(member, "must be one of %s", strings.Join(words, ", "))
		return ""
	}
	return *text
}

// maxUnknown is how many unknown members of one rule are named; a body has room for many more.
const maxUnknown = 16

// rest notes every member that nobody took, as far as that goes.
func (o object) rest() {
	unknown := slices.Sorted(maps.Keys(o.members))
	for _, member := range unknown[:min(len(unknown), maxUnknown)] {
		o.note(member, "is not a known field")
	}
}
