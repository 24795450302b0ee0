package approval

import (
	"strings"

	"github.com/toolpark/toolpark"
)

// glob tells whether the pattern is the whole text: * stands for any run of bytes, ? for one byte, and every
// other byte for itself. Each part between stars is found at its first place behind the one before, which
// is right because a star takes up whatever is left; so the text is gone through once.
func glob(pattern, text string) bool {
	head, rest, starred := strings.Cut(pattern, "*")
	if !starred {
		return len(head) == len(text) && fits(head, text)
	}
	if len(head) > len(text) || !fits(head, text[:len(head)]) {
		return false
	}
	text = text[len(head):]
	for {
		part, after, more := strings.Cut(rest, "*")
		if !more {
			return len(part) <= len(text) && fits(part, text[len(text)-len(part):])
		}
		end := search(part, text)
		if end < 0 {
			return false
		}
		text, rest = text[end:], after
	}
}

// fits compares a part without stars with a text of the same length.
func fits(part, text string) bool {
	if strings.IndexByte(part, '?') < 0 {
		return part == text
	}
	for i := range len(part) {
		if part[i] != '?' && part[i] != text[i] {
			return false
		}
	}
	return true
}

// search finds the first place of a part without stars, and returns where it ends, or -1.
func search(part, text string) int {
	if len(part) > len(text) {
		return -1
	}
	core, before, behind := trimmed(part)
	at := index(core, text[before:len(text)-behind])
	if at < 0 {
		return -1
	}
	return before + at + len(core) + behind
}

// trimmed takes the question marks off a part's ends, and counts them: there they only ask for room.
func trimmed(part string) (core string, before, behind int) {
	core = strings.TrimLeft(part, "?")
	before = len(part) - len(core)
	core = strings.TrimRight(core, "?")
	return core, before, len(part) - before - len(core)
}

// index finds a part. One with a question mark inside moves a bit for every byte that still fits along one
// word, as long as that is; [ParseRules] lets no longer one in, and the rest of one is compared at each
// place where its beginning is.
func index(part, text string) int {
	if strings.IndexByte(part, '?') < 0 {
		return strings.Index(text, part)
	}
	begin := part[:min(len(part), toolpark.MaxApprovalWildcard)]
	var takes [256]uint64 // by byte: the places in the part where it may stand
	var free uint64       // the places where any byte may stand
	for i := range len(begin) {
		if bit := uint64(1) << i; begin[i] == '?' {
			free |= bit
		} else {
			takes[begin[i]] |= bit
		}
	}
	last := uint64(1) << (len(begin) - 1)
	var state uint64
	for i := range len(text) {
		state = (state<<1 | 1) & (takes[text[i]] | free)
		if state&last == 0 {
			continue
		}
		at := i + 1 - len(begin)
		if at+len(part) <= len(text) && fits(part[len(begin):], text[i+1:at+len(part)]) {
			return at
		}
	}
	return -1
}
