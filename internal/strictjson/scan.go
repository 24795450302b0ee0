package strictjson

import (
	"bytes"
	"encoding/json/jsontext"
	"fmt"
	"strconv"
	"strings"

	"github.com/toolpark/toolpark"
)

// newLaxDecoder reads every text whose parts can be told apart. What it lets pass that we do not is
// judged by the caller, so that one decoder serves checked and exempt values alike.
func newLaxDecoder(data []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(data),
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// scanner walks the tokens of one text. It never recurses: its stack is bounded by depth.
type scanner struct {
	data    []byte
	dec     *jsontext.Decoder
	depth   int
	anyText bool // strings and keys need not be Unicode
	exempt  [][]string
	stack   []container
}

// container is an open object or array.
type container struct {
	object bool
	names  nameSet
	name   string // of the member being read
	index  int    // of the element being read
}

func newScanner(data []byte, depth int, exempt ...string) *scanner {
	s := &scanner{data: data, dec: newLaxDecoder(data), depth: depth}
	for _, pattern := range exempt {
		s.exempt = append(s.exempt, strings.Split(strings.TrimPrefix(pattern, "/"), "/"))
	}
	return s
}

// scan returns the first problem of the text. It is linear in the text's size.
func (s *scanner) scan() *Problem {
	for {
		if p := s.step(); p != nil {
			return p
		}
		if len(s.stack) == 0 {
			break
		}
	}
	end := int(s.dec.InputOffset())
	rest := bytes.TrimLeft(s.data[end:], " \t\r\n")
	if len(rest) > 0 {
		return problemAt("", int64(len(s.data)-len(rest)), "there is text after the JSON value")
	}
	return nil
}

// step reads one token, or one exempt value whole.
func (s *scanner) step() *Problem {
	kind := s.dec.PeekKind()
	switch kind {
	case '}', ']':
		if _, err := s.dec.ReadToken(); err != nil {
			return grammarProblem(err, len(s.data))
		}
		s.stack = s.stack[:len(s.stack)-1]
		return nil
	case '"':
		if s.atName() {
			return s.name()
		}
	}
	s.advance()
	if s.isExempt() {
		if err := s.dec.SkipValue(); err != nil {
			return grammarProblem(err, len(s.data))
		}
		return nil
	}
	switch kind {
	case '{', '[':
		if _, err := s.dec.ReadToken(); err != nil {
			return grammarProblem(err, len(s.data))
		}
		if len(s.stack) == s.depth {
			return s.problem(1, fmt.Sprintf("nesting is deeper than %d levels", s.depth))
		}
		s.stack = append(s.stack, container{object: kind == '{', index: -1})
		return nil
	}
	raw, err := s.dec.ReadValue()
	if err != nil {
		return grammarProblem(err, len(s.data))
	}
	var reason string
	switch kind {
	case '"':
		if !s.anyText {
			reason = flawOf(raw).reason()
		}
	case '0':
		reason = numberFlaw(raw)
	}
	if reason != "" {
		return s.problem(len(raw), reason)
	}
	return nil
}

// name reads a member's name and refuses one that its object already has.
func (s *scanner) name() *Problem {
	raw, err := s.dec.ReadValue()
	if err != nil {
		return grammarProblem(err, len(s.data))
	}
	top := &s.stack[len(s.stack)-1]
	switch reason := flawOf(raw).reason(); {
	case reason == "":
		top.name = unquote(raw)
	case s.anyText:
		top.name = "\xff" + string(raw) // as written; no name of Unicode begins like this
	default:
		return s.problem(len(raw), reason+" in a key")
	}
	if !top.names.add(top.name) {
		return s.problem(len(raw), "the key is there twice")
	}
	return nil
}

// atName tells whether the decoder is before a member's name.
func (s *scanner) atName() bool {
	if len(s.stack) == 0 || !s.stack[len(s.stack)-1].object {
		return false
	}
	_, length := s.dec.StackIndex(s.dec.StackDepth())
	return length%2 == 0
}

// advance counts an element when the value ahead is one.
func (s *scanner) advance() {
	if n := len(s.stack); n > 0 {
		s.stack[n-1].index++
	}
}

// isExempt tells whether the value ahead is one that a pattern names.
func (s *scanner) isExempt() bool {
	for _, pattern := range s.exempt {
		if len(pattern) == len(s.stack) && s.matches(pattern) {
			return true
		}
	}
	return false
}

func (s *scanner) matches(pattern []string) bool {
	for i, segment := range pattern {
		at := &s.stack[i]
		switch {
		case segment == "*":
		case at.object && at.name == segment:
		case !at.object && strconv.Itoa(at.index) == segment:
		default:
			return false
		}
	}
	return true
}

// problem is about the token of the given size that was read last.
func (s *scanner) problem(size int, reason string) *Problem {
	return problemAt(s.dec.StackPointer(), s.dec.InputOffset()-int64(size), reason)
}

// numberFlaw says why a number is out of bounds, or "". The bounds keep exact arithmetic cheap: a
// few bytes like 1e999999999 would otherwise stand for a gigabyte of digits.
func numberFlaw(raw []byte) string {
	if len(raw) > toolpark.MaxNumberLength {
		return fmt.Sprintf("the number is longer than %d characters", toolpark.MaxNumberLength)
	}
	at := bytes.IndexAny(raw, "eE")
	if at < 0 {
		return ""
	}
	digits := strings.TrimLeft(strings.TrimLeft(string(raw[at+1:]), "+-"), "0")
	if exponent, err := strconv.Atoi("0" + digits); err != nil || exponent > toolpark.MaxNumberExponent {
		return fmt.Sprintf("the number's exponent is beyond ±%d", toolpark.MaxNumberExponent)
	}
	return ""
}
