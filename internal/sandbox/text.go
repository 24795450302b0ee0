package sandbox

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// clean replaces what no result may hold: invalid UTF-8 and U+0000.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// shownPath is a path as it stands in a list of paths: as it is, or quoted with escapes where it could be
// taken for something else, like two lines.
func shownPath(path string) string {
	if quoted := strconv.Quote(path); quoted[1:len(quoted)-1] != path {
		return quoted
	}
	return path
}

// trim shortens s to at most n bytes, between characters.
func trim(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[:n]
	for i := len(s) - 1; i >= 0 && i > n-utf8.UTFMax; i-- {
		if utf8.RuneStart(s[i]) {
			if !utf8.FullRuneInString(s[i:]) {
				return s[:i]
			}
			break
		}
	}
	return s
}

// plural is "1 line" or "2 lines".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// headTail keeps the beginning and the end of what is written to it, and counts the rest. Its memory does
// not grow.
type headTail struct {
	half int
	head []byte
	tail []byte // a ring of half bytes once full
	at   int    // where the ring's oldest byte is
	size int64  // all that was written
}

func (b *headTail) Write(p []byte) (int, error) {
	n := len(p)
	b.size += int64(n)
	if room := b.half - len(b.head); room > 0 {
		take := min(room, len(p))
		b.head = append(b.head, p[:take]...)
		p = p[take:]
	}
	if len(p) > b.half {
		p = p[len(p)-b.half:]
		b.tail, b.at = append(b.tail[:0], p...), 0
		return n, nil
	}
	if room := b.half - len(b.tail); room > 0 { // at is 0 until the ring is full
		take := min(room, len(p))
		b.tail = append(b.tail, p[:take]...)
		p = p[take:]
	}
	for len(p) > 0 {
		took := copy(b.tail[b.at:], p)
		b.at = (b.at + took) % b.half
		p = p[took:]
	}
	return n, nil
}

// last is up to n of the last bytes written.
func (b *headTail) last(n int) []byte {
	end := append(append([]byte(nil), b.tail[b.at:]...), b.tail[:b.at]...)
	if len(end) < n {
		end = append(append([]byte(nil), b.head...), end...)
	}
	return end[max(0, len(end)-n):]
}

// String is what was written, with what was left out of the middle said in its place.
func (b *headTail) String() string {
	tail := string(b.tail[b.at:]) + string(b.tail[:b.at])
	if b.size == int64(len(b.head)+len(tail)) {
		return string(b.head) + tail
	}
	head := trim(string(b.head)+"\x80", len(b.head)) // the byte stands for what followed
	for i := 0; i < utf8.UTFMax-1 && tail != "" && !utf8.RuneStart(tail[0]); i++ {
		tail = tail[1:]
	}
	left := b.size - int64(len(head)) - int64(len(tail))
	return fmt.Sprintf("%s\n\n… %d bytes left out …\n\n%s", head, left, tail)
}
