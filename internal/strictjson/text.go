package strictjson

import (
	"bytes"
	"encoding/json/jsontext"
	"strconv"
	"unicode/utf8"
)

// flaw is what keeps a JSON string from being stored as text.
type flaw int

const (
	noFlaw flaw = iota
	invalidUTF8
	loneSurrogate
	nulCharacter // good JSON, but nothing that a text column can hold
)

// reason is why the string is not JSON that we accept, or "". U+0000 is accepted here: only
// storage minds it, and [Unstorable] says so.
func (f flaw) reason() string {
	switch f {
	case invalidUTF8:
		return "the text is not valid UTF-8"
	case loneSurrogate:
		return "half of a surrogate pair stands alone"
	}
	return ""
}

// flawOf looks at a quoted string as it is written. A flaw of the encoding outranks U+0000.
func flawOf(quoted []byte) flaw {
	if !utf8.Valid(quoted) {
		return invalidUTF8
	}
	found := noFlaw
	for rest := quoted; ; {
		at := bytes.IndexByte(rest, '\\')
		if at < 0 || at+1 >= len(rest) {
			return found
		}
		if rest[at+1] != 'u' {
			rest = rest[at+2:] // this also steps over \\, so \\u0000 is six ordinary characters
			continue
		}
		unit := hex4(rest[at+2:])
		rest = rest[min(at+6, len(rest)):]
		switch {
		case unit == 0:
			found = nulCharacter
		case unit >= 0xDC00 && unit <= 0xDFFF:
			return loneSurrogate
		case unit >= 0xD800 && unit <= 0xDBFF:
			if len(rest) < 6 || rest[0] != '\\' || rest[1] != 'u' {
				return loneSurrogate
			}
			if low := hex4(rest[2:]); low < 0xDC00 || low > 0xDFFF {
				return loneSurrogate
			}
			rest = rest[6:]
		}
	}
}

// hex4 reads four hexadecimal digits, or returns -1.
func hex4(b []byte) int {
	if len(b) < 4 {
		return -1
	}
	unit, err := strconv.ParseUint(string(b[:4]), 16, 32)
	if err != nil {
		return -1
	}
	return int(unit)
}

// unquote is the text of a quoted string that has no flaw of encoding.
func unquote(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	text, _ := jsontext.AppendUnquote(nil, quoted)
	return string(text)
}
