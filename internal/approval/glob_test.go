package approval_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark/internal/approval"
)

func TestGlob(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ab", 40)
	for _, c := range []struct {
		pattern, text string
		matches       bool
	}{
		{"", "", true},
		{"", "a", false},
		{"*", "", true},
		{"**", "", true},
		{"*", "a\x00\n*?", true},
		{"?", "", false},
		{"?", "a", true},
		{"?", "ab", false},
		{"*?", "", false},
		{"*?*", "a", true},
		{"??*?", "ab", false},
		{"??*?", "abc", true},
		{"a*", "a", true},
		{"*a", "a", true},
		{"a*a", "a", false},
		{"a*a", "aa", true},
		{"a*b*a", "aba", true},
		{"ab*ba", "aba", false},
		{"*ab*ab*", "abab", true},
		{"*ab*ab*", "aba", false},
		{"*aab*", "aaab", true},
		{"*a?b*", "aabab", true},
		{"*a?b*", "abab", false},
		{"*?a?*", "xax", true},
		{"*?a?*", "ax", false},
		{"*?a?*", "xa", false},
		{"*??a*", "xaa", true},
		{"*a??*b", "axb", false},
		{"*a??*b", "axxb", true},
		{"a?c*e?g", "abcdefg", true},
		{"a?c*e?g", "abcefg", true},
		{"a?c*c?g", "abcdg", false},
		{`\*`, `\anything`, true},
		{`\*`, `*`, false},
		{"[ab]", "a", false},
		{"a.c", "abc", false},
		{"*a?" + long + "*", "xxay" + long + "z", true},
		{"*a?" + long + "*", "aya?" + long, true},
		{"*a?" + long + "*", "xxay" + long[:79] + "a" + "z", false},
		{"*" + long + "?c*", long + long + "xc", true},
		{"*" + long + "*" + long, long + long, true},
		{"*" + long + "*" + long, long + long[2:], false},
	} {
		require.Equal(t, c.matches, approval.Glob(c.pattern, c.text), "%q and %q", c.pattern, c.text)
		require.Equal(t, c.matches, slow(c.pattern, c.text), "%q and %q, said twice", c.pattern, c.text)
	}
}

// slow is glob as the specification says it, one byte after the other, for every way that a star can go.
func slow(pattern, text string) bool {
	known := map[[2]int]bool{}
	var match func(i, j int) bool
	match = func(i, j int) bool {
		at := [2]int{i, j}
		if _, ok := known[at]; !ok {
			switch {
			case i == len(pattern):
				known[at] = j == len(text)
			case pattern[i] == '*':
				known[at] = match(i+1, j) || j < len(text) && match(i, j+1)
			default:
				known[at] = j < len(text) && (pattern[i] == '?' || pattern[i] == text[j]) && match(i+1, j+1)
			}
		}
		return known[at]
	}
	return match(0, 0)
}
