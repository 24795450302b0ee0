package strictjson

import (
	"encoding/json/jsontext"

	"github.com/toolpark/toolpark"
)

// Check reads a whole request body and refuses, with bad_request naming pointer and byte, what the
// API does not accept: bad syntax, text after the document, a key twice in one object, invalid
// UTF-8, a lone surrogate, nesting deeper than toolpark.MaxJSONDepth, a number longer than
// toolpark.MaxNumberLength or with an exponent beyond toolpark.MaxNumberExponent.
//
// Each exempt is a pointer pattern in which * stands for one segment, like /calls/*/arguments. The
// values it names are only passed over: they need to be no better than the decoder needs to find
// their end, and their reader judges them by [Value].
func Check(data []byte, exempt ...string) error {
	p := newScanner(data, toolpark.MaxJSONDepth, exempt...).scan()
	if p == nil {
		return nil
	}
	return toolpark.Errorf(toolpark.CodeBadRequest, "The body cannot be read as JSON: %s.", p).
		At(p.Pointer).With("offset", p.Offset)
}

// Value judges one value by the rules of [Check] and returns the first problem, or nil.
func Value(v jsontext.Value) *Problem { return newScanner(v, toolpark.MaxJSONDepth).scan() }

// Shape is [Value] for all but text, which [Unstorable] judges: a string or a key that is not Unicode passes,
// and such keys are one only when they are written alike.
func Shape(v jsontext.Value) *Problem {
	s := newScanner(v, toolpark.MaxJSONDepth)
	s.anyText = true
	return s.scan()
}

// ValueWithin is [Value] with another bound on nesting, at most the decoder's own 10 000.
func ValueWithin(v jsontext.Value, depth int) *Problem { return newScanner(v, depth).scan() }
