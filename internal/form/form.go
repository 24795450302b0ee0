// Package form reads JSON objects whose form is fixed, member by member, and notes all that is wrong with them at its
// place. Nothing is dropped or guessed.
package form

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/strictjson"
)

// Problem is one thing wrong with what was read.
type Problem struct {
	Path    string `json:"path"`    // where, as a reader writes it: tools[0].effect_profile.kind
	Message string `json:"message"` // what is wrong, without the place

	Pointer jsontext.Pointer `json:"-"`
}

// maxPath bounds, in bytes, how much of a path is shown; a key may be of any length.
const maxPath = 256

// At says what is wrong at a pointer.
func At(at jsontext.Pointer, format string, args ...any) Problem {
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
		Pointer: at,
	}
}

// Refuse makes a problem the whole answer. Its message names the field and the code.
func (p Problem) Refuse(code toolpark.Code) *toolpark.Error {
	return toolpark.Errorf(code, "%s %s (%s).", p.Path, p.Message, code).At(string(p.Pointer))
}

// Object takes the members of one JSON object, one by one, and notes what is wrong with them. A present member of
// another shape is always a problem.
type Object struct {
	At       jsontext.Pointer
	Members  map[string]jsontext.Value // those that nobody took
	Problems *[]Problem
}

// Open reads value as an object; false when it is none.
func Open(value jsontext.Value, at jsontext.Pointer, problems *[]Problem) (Object, bool) {
	o := Object{At: at, Problems: problems}
	if value.Kind() != jsontext.KindBeginObject {
		*problems = append(*problems, At(at, "must be an object"))
		return o, false
	}
	if err := json.Unmarshal(value, &o.Members); err != nil {
		*problems = append(*problems, At(at, "cannot be read: %s", err))
		return o, false
	}
	return o, true
}

// Note adds a problem of one member.
func (o Object) Note(member, format string, args ...any) {
	*o.Problems = append(*o.Problems, At(o.At.AppendToken(member), format, args...))
}

// Take removes a member and returns it; nil when there is none, which is noted when it is required.
func (o Object) Take(member string, required bool) jsontext.Value {
	value := o.Members[member]
	delete(o.Members, member)
	if value == nil && required {
		o.Note(member, "is missing")
	}
	return value
}

// Text takes a string; nil when there is none.
func (o Object) Text(member string, required bool) *string {
	value := o.Take(member, required)
	if value == nil {
		return nil
	}
	var text string
	if value.Kind() != jsontext.KindString || json.Unmarshal(value, &text) != nil {
		o.Note(member, "must be a string")
		return nil
	}
	return &text
}

// Flag takes true or false; nil when there is none.
func (o Object) Flag(member string, required bool) *bool {
	value := o.Take(member, required)
	switch {
	case value == nil:
		return nil
	case value.Kind() == jsontext.KindTrue, value.Kind() == jsontext.KindFalse:
		set := value.Kind() == jsontext.KindTrue
		return &set
	}
	o.Note(member, "must be true or false")
	return nil
}

// Word takes one of a closed list of words; "" when there is none.
func (o Object) Word(member string, required bool, words ...string) string {
	text := o.Text(member, required)
	switch {
	case text == nil:
		return ""
	case !slices.Contains(words, *text):
		o.Note(member, "must be one of %s", strings.Join(words, ", "))
		return ""
	}
	return *text
}

// maxUnknown is how many unknown members of one object are named; a body has room for many more.
const maxUnknown = 16

// Rest notes the members that nobody took.
func (o Object) Rest() {
	unknown := slices.Sorted(maps.Keys(o.Members))
	for _, member := range unknown[:min(len(unknown), maxUnknown)] {
		o.Note(member, "is not a known field")
	}
}

// Storable notes the first text in value that no database can hold.
func Storable(value jsontext.Value, at jsontext.Pointer, problems *[]Problem) {
	if pointer, reason, bad := strictjson.Unstorable(value); bad {
		*problems = append(*problems, At(at+jsontext.Pointer(pointer), "cannot be stored: %s", reason))
	}
}
