package schema

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"math/big"
	"slices"
)

// shape is what a keyword's value must look like. The metaschemas say the same; checked here, it
// costs one pass over the schema and the refusal names the keyword.
type shape int

const (
	anything shape = iota
	text
	boolean
	number
	positive     // a number above zero
	count        // a whole number from zero
	array        // an array of anything
	names        // an array of different strings
	nameLists    // an object of arrays of different strings
	booleanMap   // an object of booleans
	typeNames    // one of the seven types, or an array of different ones
	enumeration  // a non-empty array
	pattern      // a regular expression in RE2 syntax
	reference    // a URI reference
	anchor       // a plain name
	schemaShape  // a schema
	schemaMap    // an object of schemas
	patternMap   // an object of schemas under patterns
	schemaList   // a non-empty array of schemas
	schemaOrList // a schema, or an array of schemas for the first items
	dependencies // an object of schemas and arrays of different strings
)

var types = []string{"null", "boolean", "object", "array", "number", "string", "integer"}

// mistake says what a value of this shape must be, or "" when it is that. Shapes that hold schemas
// or patterns are judged where the survey walks into them.
func (s shape) mistake(v jsontext.Value) string {
	switch s {
	case text, reference:
		return unless(v.Kind() == '"', "must be a string")
	case boolean:
		return unless(v.Kind() == 't' || v.Kind() == 'f', "must be true or false")
	case number:
		return unless(v.Kind() == '0', "must be a number")
	case positive:
		return unless(v.Kind() == '0' && exact(v).Sign() > 0, "must be a number above zero")
	case count:
		ok := v.Kind() == '0' && exact(v).IsInt() && exact(v).Sign() >= 0 && exact(v).Num().IsInt64()
		return unless(ok, "must be a whole number, zero or more")
	case array:
		return unless(v.Kind() == '[', "must be an array")
	case enumeration:
		items, ok := elements(v)
		return unless(ok && len(items) > 0, "must be an array with at least one value; without one nothing can match")
	case names:
		_, ok := nameList(v)
		return unless(ok, "must be an array of different strings")
	case nameLists:
		members, ok := members(v)
		for _, m := range members {
			_, different := nameList(m)
			ok = ok && different
		}
		return unless(ok, "must be an object of arrays of different strings")
	case booleanMap:
		members, ok := members(v)
		for _, m := range members {
			ok = ok && boolean.mistake(m) == ""
		}
		return unless(ok, "must be an object of booleans")
	case typeNames:
		_, ok := typeList(v)
		return unless(ok, `must be one of "null", "boolean", "object", "array", "number", "string", "integer", or an array of different ones`)
	case anchor:
		return unless(v.Kind() == '"' && isAnchor(stringOf(v)), "must be a plain name that starts with a letter or _")
	}
	return ""
}

func unless(ok bool, mistake string) string {
	if ok {
		return ""
	}
	return mistake
}

// exact is a JSON number without loss. Its size was bounded before.
func exact(v jsontext.Value) *big.Rat {
	r, ok := new(big.Rat).SetString(string(v))
	if !ok {
		return new(big.Rat)
	}
	return r
}

func stringOf(v jsontext.Value) string {
	var s string
	_ = json.Unmarshal(v, &s) // callers have looked at the kind, and the text was checked
	return s
}

func elements(v jsontext.Value) ([]jsontext.Value, bool) {
	var items []jsontext.Value
	return items, v.Kind() == '[' && json.Unmarshal(v, &items) == nil
}

func members(v jsontext.Value) (map[string]jsontext.Value, bool) {
	var m map[string]jsontext.Value
	return m, v.Kind() == '{' && json.Unmarshal(v, &m) == nil
}

// nameList reads an array of different strings.
func nameList(v jsontext.Value) ([]string, bool) {
	items, ok := elements(v)
	if !ok {
		return nil, false
	}
	read := make([]string, 0, len(items))
	for _, item := range items {
		if item.Kind() != '"' {
			return nil, false
		}
		read = append(read, stringOf(item))
	}
	different := slices.Compact(slices.Sorted(slices.Values(read)))
	return read, len(different) == len(read)
}

// typeList reads the value of a type keyword.
func typeList(v jsontext.Value) ([]string, bool) {
	read, ok := nameList(v)
	if v.Kind() == '"' {
		read, ok = []string{stringOf(v)}, true
	}
	unknown := func(name string) bool { return !slices.Contains(types, name) }
	return read, ok && len(read) > 0 && !slices.ContainsFunc(read, unknown)
}

// isAnchor tells whether name may follow # in a reference without being a pointer.
func isAnchor(name string) bool {
	for i, r := range name {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r != '-' && r != '.' && (r < '0' || r > '9')) {
			return false
		}
	}
	return name != ""
}
