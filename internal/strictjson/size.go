package strictjson

import (
	"bytes"
	"encoding/json/jsontext"
)

// Size is the number of bytes of v as [Canonical] JSON, without writing it: one pass and no memory,
// so that what is too large is refused before anything costly is made of it. A value that [Value]
// refuses has a size, too, as far as it can be read; ok is false where its text breaks off.
func Size(v jsontext.Value) (size int, ok bool) {
	dec := newLaxDecoder(v)
	var scratch []byte
	for {
		switch kind := dec.PeekKind(); kind {
		case '{', '[', '}', ']':
			if _, err := dec.ReadToken(); err != nil {
				return size, false
			}
			size++
		default:
			raw, err := dec.ReadValue()
			if err != nil {
				return size, false
			}
			size += len(raw)
			if kind == '"' && bytes.IndexByte(raw, '\\') >= 0 {
				scratch, _ = jsontext.AppendQuote(scratch[:0], unquote(raw))
				size += len(scratch) - len(raw)
			}
		}
		if dec.StackDepth() == 0 {
			return size, true
		}
		if dec.PeekKind() != '}' && dec.PeekKind() != ']' && length(dec) > 0 {
			size++ // a comma or a colon
		}
	}
}

// length is the number of tokens read in the innermost object or array.
func length(dec *jsontext.Decoder) int64 {
	_, n := dec.StackIndex(dec.StackDepth())
	return n
}

// Elements splits an array. It makes at most limit values and counts the rest, so that a few
// megabytes of commas stay a few megabytes. ok is false when v is no array or cannot be read.
func Elements(v jsontext.Value, limit int) (elements []jsontext.Value, count int, ok bool) {
	dec := newLaxDecoder(v)
	if dec.PeekKind() != '[' {
		return nil, 0, false
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, 0, false
	}
	for ; dec.PeekKind() != ']'; count++ {
		raw, err := dec.ReadValue()
		if err != nil {
			return nil, 0, false
		}
		if count < limit {
			elements = append(elements, raw.Clone())
		}
	}
	_, err := dec.ReadToken()
	return elements, count, err == nil
}
