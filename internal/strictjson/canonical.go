package strictjson

import (
	"bytes"
	"cmp"
	"encoding/json/jsontext"
	"fmt"
	"slices"
)

// Canonical rewrites v so that equal values have equal bytes: keys sorted by their UTF-8 bytes, no
// white space, strings with the fewest escapes, numbers exactly as they were written (1.0 and 1
// stay different). Bounds, digests and byte-stable renders are taken of it. A value that [Value]
// refuses may be an error; the problem is returned as it is.
func Canonical(v jsontext.Value) (jsontext.Value, error) {
	if p := Value(v); p != nil {
		return nil, p
	}
	dec := newLaxDecoder(v)
	out, err := appendCanonical(make([]byte, 0, len(v)), dec)
	if err != nil {
		return nil, fmt.Errorf("rewrite as canonical JSON: %w", err)
	}
	return out, nil
}

// Equal tells whether two values have the same canonical form. A value without one equals nothing.
func Equal(a, b jsontext.Value) bool {
	left, err := Canonical(a)
	if err != nil {
		return false
	}
	right, err := Canonical(b)
	return err == nil && bytes.Equal(left, right)
}

// appendCanonical recurses, which is safe because [Value] has bounded the nesting.
func appendCanonical(out []byte, dec *jsontext.Decoder) ([]byte, error) {
	switch dec.PeekKind() {
	case '{':
		return appendObject(out, dec)
	case '[':
		return appendArray(out, dec)
	case '"':
		raw, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		return jsontext.AppendQuote(out, unquote(raw))
	}
	raw, err := dec.ReadValue()
	return append(out, raw...), err
}

func appendArray(out []byte, dec *jsontext.Decoder) ([]byte, error) {
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	out = append(out, '[')
	for first := true; dec.PeekKind() != ']'; first = false {
		if !first {
			out = append(out, ',')
		}
		var err error
		if out, err = appendCanonical(out, dec); err != nil {
			return nil, err
		}
	}
	_, err := dec.ReadToken()
	return append(out, ']'), err
}

// appendObject writes the members in the order they come, then puts them in the order of their names.
func appendObject(out []byte, dec *jsontext.Decoder) ([]byte, error) {
	type member struct {
		name       string
		start, end int // in out
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	var members []member
	begin := len(out)
	for dec.PeekKind() != '}' {
		raw, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		m := member{name: unquote(raw), start: len(out)}
		if out, err = jsontext.AppendQuote(out, m.name); err != nil {
			return nil, err
		}
		if out, err = appendCanonical(append(out, ':'), dec); err != nil {
			return nil, err
		}
		m.end = len(out)
		members = append(members, m)
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	written := slices.Clone(out[begin:])
	slices.SortFunc(members, func(a, b member) int { return cmp.Compare(a.name, b.name) })
	out = append(out[:begin], '{')
	for i, m := range members {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, written[m.start-begin:m.end-begin]...)
	}
	return append(out, '}'), nil
}
