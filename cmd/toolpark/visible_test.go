package main

import (
	"encoding/json/jsontext"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestNothingHidesOnATerminal(t *testing.T) {
	t.Parallel()
	for text, shown := range map[string]string{
		"héllo, 世界 😀":     "héllo, 世界 😀",
		"\x1b[2J\a\r\x7f": `\u001b[2J\u0007\u000d\u007f`,
		"\u009b2J":        `\u009b2J`, // a control sequence in one character
		"a\u202eb\u2066c": `a\u202eb\u2066c`,
		"\u200b\ufeff\u00ad\u2028\u00a0\u3164\u2800\ufe0f": `\u200b\ufeff\u00ad\u2028\u00a0\u3164\u2800\ufe0f`,
		"\U000e0041": `\udb40\udc41`, // a tag
		"a\nb":       "a\nb",
	} {
		require.Equal(t, shown, visible(text))
	}
	require.Equal(t, `a\nb`, line("a\nb"))
}

func TestInputsAreSpelledOneWay(t *testing.T) {
	t.Parallel()
	got := pretty(jsontext.Value(`{"\u0063ommand":"\u0072m \u202e","big":12345678901234567890,"n":1.50,"a":[],"t":"<&>"}`))
	require.Equal(t, `{
  "command": "rm \u202e",
  "big": 12345678901234567890,
  "n": 1.50,
  "a": [],
  "t": "<&>"
}`, got)
	require.Equal(t, "{}", pretty(nil))
}

// A long line would wrap on the terminal, and its rest could be taken for a line of the program.
func TestLongLinesStayBehindTheMargin(t *testing.T) {
	t.Parallel()
	text := `"ls ` + strings.Repeat(" ", 200) + `approved` + strings.Repeat("世", 100) + "\"\nnext"
	lines := block(text, 80)
	var joined strings.Builder
	for i, l := range lines {
		width := 0
		for _, r := range l {
			width++
			if r > 127 {
				width++
			}
		}
		require.LessOrEqual(t, width, 80)
		require.True(t, utf8.ValidString(l))
		if i == len(lines)-1 {
			require.Equal(t, margin+"next", l)
			continue
		}
		want := marginMore
		if i == 0 {
			want = margin
		}
		require.True(t, strings.HasPrefix(l, want), l)
		joined.WriteString(l[len(want):])
	}
	require.Equal(t, strings.TrimSuffix(text, "\nnext"), joined.String())
}

func TestTheMiddleOfALongInputIsLeftOut(t *testing.T) {
	t.Parallel()
	lines := strings.Split(strings.Repeat("x\n", 100)+"end", "\n")
	shown := cut(lines)
	require.Len(t, shown, shownLines+1)
	require.Equal(t, "end", shown[len(shown)-1])
	require.Contains(t, shown[shownAtHead], " 61 lines are left out here")
	require.Equal(t, lines[:shownLines], cut(lines[:shownLines]))
}
