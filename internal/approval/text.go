package approval

import (
	"bytes"
	"encoding/json/jsontext"
	"errors"
	"io"
	"slices"
	"strings"
)

// text is what a rule's match is held against. Several rules may read one text.
type text struct {
	value string
	pairs *pairs // made when the first pattern is held against a long text
}

// longText is from how many bytes on knowing the pairs of a text pays off.
const longText = 512

// matches tells whether the pattern is the whole text.
func (t *text) matches(pattern string) bool {
	if len(t.value) >= longText {
		if t.pairs == nil {
			t.pairs = pairsOf(t.value)
		}
		if !t.pairs.mayHold(pattern) {
			return false
		}
	}
	return glob(pattern, t.value)
}

// pairs has a bit for every two bytes that stand side by side in a text. Most patterns have two that a text
// does not have, and then need not be looked for in it.
type pairs [1 << 16 / 64]uint64

func pairsOf(value string) *pairs {
	p := new(pairs)
	for i := 1; i < len(value); i++ {
		pair := uint16(value[i-1])<<8 | uint16(value[i])
		p[pair/64] |= 1 << (pair % 64)
	}
	return p
}

func (p *pairs) mayHold(pattern string) bool {
	for i := 1; i < len(pattern); i++ {
		a, b := pattern[i-1], pattern[i]
		if a == '*' || a == '?' || b == '*' || b == '?' {
			continue
		}
		if pair := uint16(a)<<8 | uint16(b); p[pair/64]&(1<<(pair%64)) == 0 {
			return false
		}
	}
	return true
}

// textsAt reads the texts at all paths of the rules in one pass over the input, by path. A path names
// members of objects, one inside the other; elements of arrays have no names, and neither has a member
// whose own name holds a dot. A text is a string, or an array of scalars joined by one space: numbers as
// they were written, and true, false and null as words.
//
// The error is that of a text that is no JSON, or has a key twice in one object.
func textsAt(input jsontext.Value, rules []*Rule) (map[string]*text, error) {
	var keys []string
	for _, r := range rules {
		if r.Path != "" {
			keys = append(keys, strings.ReplaceAll(r.Path, ".", separator))
		}
	}
	if len(keys) == 0 || len(input) == 0 {
		return nil, nil
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	s := seeker{dec: jsontext.NewDecoder(bytes.NewBuffer(input)), texts: make(map[string]*text, len(keys))}
	if err := s.value(keys, -1); err != nil {
		return nil, err
	}
	if _, err := s.dec.ReadToken(); !errors.Is(err, io.EOF) { // what stands behind the value would go unread
		return nil, errTrailing
	}
	return s.texts, nil
}
