package declaration

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

// Problem is one thing wrong with a declared or announced entry.
type Problem struct {
	Path    string `json:"path"`    // where, as a reader writes it: tools[0].effect_profile.kind
	Message string `json:"message"` // what is wrong, without the place

	pointer jsontext.Pointer
}

// maxPath bounds, in bytes, how much of a path is shown; a key may be of any length.
const maxPath = 256

// problem notes what is wrong at a pointer.
func problem(at jsontext.Pointer, format string, args ...any) Problem {
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
	return Problem{
		Path:    strictjson.CutString(path.String(), maxPath),
		Message: fmt.Sprintf(format, args...),
		pointer: at,
	}
}

// object takes the members of one JSON object, one by one, and notes what is wrong with them. A
// present member of another shape is always a problem: nothing is dropped or guessed.
type object struct {
	at       jsontext.Pointer
	members  map[string]jsontext.Value
	problems *[]Problem
}

// openObject reads value as an object; false when it is none.
func openObject(value jsontext.Value, at jsontext.Pointer, problems *[]Problem) (object, bool) {
	o := object{at: at, problems: problems}
	if value.Kind() != jsontext.KindBeginObject {
		*problems = append(*problems, problem(at, "must be an object"))
		return o, false
	}
	if err := json.Unmarshal(value, &o.members); err != nil {
		*problems = append(*problems, problem(at, "cannot be read"))
		return o, false
	}
	return o, true
}

// note adds a problem of one member.
func (o object) note(member, format string, args ...any) {
	*o.problems = append(*o.problems, problem(o.at.AppendToken(member), format, args...))
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

// flag takes true or false; nil when there is none.
func (o object) flag(member string, required bool) *bool {
	value := o.take(member, required)
	switch {
	case value == nil:
		return nil
	case value.Kind() == jsontext.KindTrue, value.Kind() == jsontext.KindFalse:
		set := value.Kind() == jsontext.KindTrue
		return &set
	}
	o.note(member, "must be true or false")
	return nil
}

// word takes one of a closed list of words, which is required; "" when it is not there.
func (o object) word(member string, words ...string) string {
	text := o.text(member, true)
	switch {
	case text == nil:
		return ""
	case !slices.Contains(words, *text):
		o.note(member, "must be one of %s", strings.Join(words, ", "))
		return ""
	}
	return *text
}

// rest notes every member that nobody took.
func (o object) rest() {
	for _, member := range slices.Sorted(maps.Keys(o.members)) {
		o.note(member, "is not a known field")
	}
}

// storable notes the first text in value that no database can hold.
func storable(value jsontext.Value, at jsontext.Pointer, problems *[]Problem) {
	if pointer, reason, bad := strictjson.Unstorable(value); bad {
		*problems = append(*problems, problem(at+jsontext.Pointer(pointer), "cannot be stored: %s", reason))
	}
}
