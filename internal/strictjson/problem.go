// Package strictjson reads JSON the way the API promises to: one meaning per document, every digit
// kept, and a refusal that names the place.
//
// A request body passes two gates. [Check] looks at the whole text and refuses what Go's first JSON
// decoder would silently accept: repeated keys, text after the document, broken UTF-8, lone
// surrogates, endless nesting, numbers that cost more to hold than to send. [Decode] then fills a
// struct and refuses what the struct does not know. Values that must not void the request they ride
// in (a call's arguments, a reported result) are exempt from the first gate and pass [Value] on
// their own.
package strictjson

import (
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxPointer is the number of bytes of a JSON pointer that a problem shows. A longer one is cut to
// the nearest ancestor that fits, so that it stays a pointer.
const maxPointer = 1024

// Problem is why a text is not acceptable JSON.
type Problem struct {
	Pointer string // RFC 6901, relative to the text; "" is the whole of it
	Offset  int64  // bytes from the start of the text
	Reason  string // what is wrong, without the place
}

// Error names the place and the reason in one sentence.
func (p *Problem) Error() string {
	if p.Pointer == "" {
		return fmt.Sprintf("%s at byte %d", p.Reason, p.Offset)
	}
	return fmt.Sprintf("%s at %s (byte %d)", p.Reason, p.Pointer, p.Offset)
}

// problemAt makes a problem from a pointer of any length.
func problemAt(pointer jsontext.Pointer, offset int64, reason string) *Problem {
	text := strings.ToValidUTF8(string(pointer), "\uFFFD")
	for len(text) > maxPointer {
		text = text[:strings.LastIndexByte(text, '/')]
	}
	return &Problem{Pointer: text, Offset: offset, Reason: reason}
}

// grammarProblem says in our words what the decoder could not read.
func grammarProblem(err error, size int) *Problem {
	var syntax *jsontext.SyntacticError
	switch {
	case errors.As(err, &syntax) && errors.Is(syntax.Err, io.ErrUnexpectedEOF):
		return problemAt(syntax.JSONPointer, syntax.ByteOffset, "the JSON text is cut off")
	case errors.As(err, &syntax):
		return problemAt(syntax.JSONPointer, syntax.ByteOffset, syntax.Err.Error())
	case errors.Is(err, io.EOF):
		return problemAt("", int64(size), "there is no JSON value")
	}
	return problemAt("", 0, err.Error())
}
