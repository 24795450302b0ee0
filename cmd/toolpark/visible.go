package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
)

// visible is text as it may stand on a terminal: what would move the cursor, change colours, turn the direction of
// writing or not be seen at all is spelled \uXXXX, as JSON has it, so that JSON stays what it is. Line feeds stay.
func visible(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n' || !hidden(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// line is visible text of one line.
func line(s string) string { return strings.ReplaceAll(visible(s), "\n", `\n`) }

// hidden tells whether a character is no plain sight: control and format characters, odd spaces, what fonts leave
// blank, and what no text should hold.
func hidden(r rune) bool {
	const brailleBlank = '\u2800'
	return !unicode.IsPrint(r) || r == unicode.ReplacementChar || r == brailleBlank ||
		unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

const (
	margin      = "  | " // before each line of what somebody else wrote
	marginMore  = "  + " // before what a terminal would have wrapped
	narrowest   = 24     // columns that are used at least
	shownLines  = 40     // of a long input
	shownAtHead = 28     // of these, from its beginning
)

// block sets visible text apart, so that no part of it can be taken for words of this program: each line stands
// behind a margin, and is folded before a terminal of so many columns would.
func block(text string, columns int) []string { return fold(text, columns, margin, marginMore) }

// fold is block with margins of equal width, the second before what a terminal would have wrapped.
func fold(text string, columns int, margin, more string) []string {
	room := max(columns, narrowest) - len(margin)
	var lines []string
	for part := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		before, start, used := margin, 0, 0
		for i, r := range part {
			width := 1
			if r > unicode.MaxASCII {
				width = 2 // at most
			}
			if used+width > room {
				lines = append(lines, before+part[start:i])
				before, start, used = more, i, 0
			}
			used += width
		}
		lines = append(lines, before+part[start:])
	}
	return lines
}

// cut leaves out the middle of many lines, and says how many are left out.
func cut(lines []string) []string {
	left := len(lines) - shownLines
	if left <= 0 {
		return lines
	}
	note := fmt.Sprintf("  … %d lines are left out here …", left)
	return slices.Concat(lines[:shownAtHead], []string{note}, lines[shownAtHead+left:])
}
