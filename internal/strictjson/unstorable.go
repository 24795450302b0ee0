package strictjson

import (
	"bytes"
	"unicode/utf8"
)

// Unstorable finds the first string or key of v that no text column can hold: one with U+0000, a
// lone surrogate or invalid UTF-8. It returns the pointer of the value (for a key, of its member)
// and the reason. The six characters \u0000 that an escaped backslash makes are ordinary text.
//
// v is expected to be JSON; where it is not, the part before the error is judged.
func Unstorable(v []byte) (pointer, reason string, bad bool) {
	if utf8.Valid(v) && !bytes.Contains(v, []byte(`\u`)) {
		return "", "", false // nothing that could be one of the three
	}
	dec := newLaxDecoder(v)
	for {
		if dec.PeekKind() != '"' {
			if _, err := dec.ReadToken(); err != nil {
				return "", "", false
			}
			continue
		}
		raw, err := dec.ReadValue()
		if err != nil {
			return "", "", false
		}
		flaw := flawOf(raw)
		if flaw == noFlaw {
			continue
		}
		reason := flaw.reason()
		if flaw == nulCharacter {
			reason = "the text holds U+0000"
		}
		return problemAt(dec.StackPointer(), 0, reason).Pointer, reason, true
	}
}
