package strictjson

import (
	"encoding"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/toolpark/toolpark"
)

// Decode fills the struct that into points to from a body that [Check] has accepted. Names are
// matched byte for byte. A body that is no object, a member the struct does not know, and a member
// of another type are parameter_invalid, naming the pointer; unknown members of the body itself are
// named at once, up to a bound.
//
// To tell an absent member from a null one, give it the type jsontext.Value: it is nil when absent,
// "null" when null, and else the bytes as they were sent, white space inside included. A pointer to
// a scalar is nil in both cases. Any other type reads null as its zero value.
func Decode(data []byte, into any) error {
	if kind := jsontext.Value(data).Kind(); kind != '{' {
		return toolpark.Errorf(toolpark.CodeParameterInvalid,
			"The body must be a JSON object, not %s.", kindName(kind)).At("")
	}
	if err := refuseUnknown(data, reflect.TypeOf(into)); err != nil {
		return err
	}
	// Exempt values may hold anything; what is not exempt has no duplicates and no bad text left.
	err := json.Unmarshal(data, into,
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*toolpark.Error](err); ok {
		return e // a member's own UnmarshalJSON has the better words
	}
	var semantic *json.SemanticError
	if !errors.As(err, &semantic) {
		return unreadable(err, data)
	}
	pointer := problemAt(semantic.JSONPointer, 0, "").Pointer
	if errors.Is(err, json.ErrUnknownName) {
		return toolpark.Errorf(toolpark.CodeParameterInvalid,
			"%s is not a known field; remove it or correct its spelling.", pointer).At(pointer)
	}
	return toolpark.Errorf(toolpark.CodeParameterInvalid, "%s must be %s, not %s.",
		pointer, expectation(semantic), found(semantic)).At(pointer).Because(err)
}

// Of the unknown members of a body, so many are named, by so many bytes each.
const (
	maxUnknown     = 16
	maxUnknownName = 128
)

// refuseUnknown names the members of the body that the struct has no field for.
func refuseUnknown(data []byte, target reflect.Type) error {
	known := map[string]bool{}
	fieldNames(target, known)
	dec := newLaxDecoder(data)
	if _, err := dec.ReadToken(); err != nil {
		return unreadable(err, data)
	}
	var unknown []string
	for dec.PeekKind() != '}' && len(unknown) < maxUnknown {
		raw, err := dec.ReadValue()
		if err != nil {
			return unreadable(err, data)
		}
		if name := unquote(raw); !known[name] {
			unknown = append(unknown, CutString(name, maxUnknownName))
		}
		if err := dec.SkipValue(); err != nil {
			return unreadable(err, data)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.Sort(unknown)
	return toolpark.Errorf(toolpark.CodeParameterInvalid, "The body has unknown fields: %s.",
		CutString(strings.Join(unknown, ", "), maxPointer)).
		At(problemAt(jsontext.Pointer("").AppendToken(unknown[0]), 0, "").Pointer).With("fields", unknown)
}

func unreadable(err error, data []byte) error {
	return toolpark.Errorf(toolpark.CodeBadRequest, "The body cannot be read as JSON: %s.", grammarProblem(err, len(data)))
}

// fieldNames adds the JSON names of a struct's fields, those of embedded structs included.
func fieldNames(t reflect.Type, names map[string]bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return
	}
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name == "" && field.Anonymous:
			fieldNames(field.Type, names)
		case !field.IsExported():
		case name == "":
			names[field.Name] = true
		default:
			names[name] = true
		}
	}
}

// expectation says what a Go type reads, in JSON's words.
func expectation(e *json.SemanticError) string {
	t := e.GoType
	if t == nil {
		return "of another type"
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if isText(t) {
		return "a " + t.Name()
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "an integer in range"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "of another type"
}

// found says what was there instead: a number as it is, since it may only be out of range.
func found(e *json.SemanticError) string {
	switch {
	case e.JSONKind == '0' && len(e.JSONValue) > 0:
		return CutString(string(e.JSONValue), 40)
	case e.JSONKind == '"' && isText(e.GoType):
		return "another text"
	}
	return kindName(e.JSONKind)
}

// isText tells whether a Go type reads a string in a form of its own, like a UUID or a time.
func isText(t reflect.Type) bool {
	return t != nil && reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// kindName is a JSON kind with its article.
func kindName(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '{':
		return "an object"
	case '[':
		return "an array"
	}
	return "what was sent"
}
