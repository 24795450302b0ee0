package strictjson

import "unicode/utf8"

const ellipsis = "…"

// CutString returns s in at most limit bytes. What it leaves out is marked by an ellipsis inside the
// bound, and no character is split. A limit too small for the ellipsis gets none.
func CutString(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	mark := ellipsis
	if limit < len(mark) {
		mark = ""
	}
	end := max(0, limit-len(mark))
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark
}
