package approval

import (
	"bytes"
	"encoding/json/jsontext"
	"errors"
	"slices"
	"strings"
)

// separator stands between the segments of a path while it is looked for. It sorts before every other byte,
// so that the paths into one object stand side by side, and no rule's path holds it.
const separator = "\x00"

var errTrailing = errors.New("there is text after the JSON value")

// seeker walks down an input along several paths at once.
type seeker struct {
	dec   *jsontext.Decoder
	texts map[string]*text // what was found, by path
}

// value reads the value at one place, to which the first done bytes of each key lead; -1 is the whole
// input. The keys are sorted, and none is there twice.
func (s *seeker) value(keys []string, done int) error {
	if len(keys) == 0 {
		return s.dec.SkipValue()
	}
	kind := s.dec.PeekKind()
	if kind == jsontext.KindBeginObject {
		return s.object(keys, done)
	}
	if len(keys[0]) != done { // every path leads further, but nothing does from here
		return s.dec.SkipValue()
	}
	raw, err := s.dec.ReadValue()
	if err != nil {
		return err
	}
	if value, ok := textOf(raw); ok {
		s.texts[strings.ReplaceAll(keys[0], separator, ".")] = &text{value: value}
	}
	return nil
}

func (s *seeker) object(keys []string, done int) error {
	if _, err := s.dec.ReadToken(); err != nil {
		return err
	}
	for s.dec.PeekKind() != jsontext.KindEndObject {
		name, err := s.dec.ReadToken()
		if err != nil {
			return err
		}
		member := name.String()
		if err := s.value(under(keys, done, member), done+1+len(member)); err != nil {
			return err
		}
	}
	_, err := s.dec.ReadToken()
	return err
}

// under are the keys that lead on through a member.
func under(keys []string, done int, member string) []string {
	if strings.Contains(member, separator) {
		return nil
	}
	rest := func(key string) string { return key[min(done+1, len(key)):] }
	begin, _ := slices.BinarySearchFunc(keys, member, func(key, member string) int {
		if len(key) == done { // it leads nowhere
			return -1
		}
		return strings.Compare(rest(key), member)
	})
	end := begin
	for end < len(keys) {
		behind, leads := strings.CutPrefix(rest(keys[end]), member)
		if !leads || behind != "" && behind[0] != separator[0] {
			break
		}
		end++
	}
	return keys[begin:end]
}

// textOf is the text of a value; false when it has none.
func textOf(raw jsontext.Value) (string, bool) {
	switch raw.Kind() {
	case jsontext.KindString:
		value, err := jsontext.AppendUnquote(nil, raw)
		return string(value), err == nil
	case jsontext.KindBeginArray:
		return joined(raw)
	}
	return "", false
}

// joined is the text of an array of scalars; false when it holds anything else.
func joined(raw jsontext.Value) (string, bool) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw))
	if _, err := dec.ReadToken(); err != nil {
		return "", false
	}
	value := make([]byte, 0, len(raw))
	for first := true; dec.PeekKind() != jsontext.KindEndArray; first = false {
		element, err := dec.ReadValue()
		if err != nil {
			return "", false
		}
		if !first {
			value = append(value, ' ')
		}
		switch element.Kind() {
		case jsontext.KindBeginObject, jsontext.KindBeginArray:
			return "", false
		case jsontext.KindString:
			if value, err = jsontext.AppendUnquote(value, element); err != nil {
				return "", false
			}
		default:
			value = append(value, element...)
		}
	}
	return string(value), true
}
