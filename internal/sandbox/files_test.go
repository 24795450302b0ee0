package sandbox_test

import (
	"context"
	"encoding/json/v2"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/sdk/runner"
)

func TestRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.file("three.txt", "one\ntwo\nthree")
	b.file("empty.txt", "")
	b.file("binary", "a\x00b")
	b.file("latin1.txt", "caf\xe9\n")
	b.file("d/x", "x")
	require.NoError(t, syscall.Mkfifo(filepath.Join(b.dir, "pipe"), 0o644))
	cases := []struct {
		name    string
		input   in
		text    string
		isError bool
	}{
		{"whole", in{"path": "three.txt"}, "     1\tone\n     2\ttwo\n     3\tthree", false},
		{"part", in{"path": "three.txt", "offset": 2, "limit": 1}, "     2\ttwo\n(more lines follow: read on with offset 3)", false},
		{"last line", in{"path": "three.txt", "offset": 3, "limit": 1}, "     3\tthree", false},
		{"beyond the end", in{"path": "three.txt", "offset": 4}, "three.txt has only 3 lines.", true},
		{"empty", in{"path": "empty.txt"}, "(the file is empty)", false},
		{"binary", in{"path": "binary"}, "binary is a binary file of 3 bytes.", true},
		{"not UTF-8", in{"path": "latin1.txt"}, "     1\tcaf\uFFFD", false},
		{"missing", in{"path": "no.txt"}, "no.txt does not exist.", true},
		{"directory", in{"path": "d"}, "d is a directory.", true},
		{"pipe", in{"path": "pipe"}, "pipe is not a regular file.", true},
		{"NUL in the path", in{"path": "a\x00b"}, "the path holds a NUL character.", true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := b.call("read", c.input)
			require.Equal(t, c.text, r.Text)
			require.Equal(t, c.isError, r.IsError)
		})
	}
}

func TestReadIsBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.file("long", strings.Repeat("é", 2_000_000)+"\nnext\n")
	r := b.call("read", in{"path": "long"})
	require.Contains(t, r.Text, "… (3998000 more bytes)\n     2\tnext")
	require.Less(t, len(r.Text), 3000)
	require.NotContains(t, r.Text, "\uFFFD")

	b.file("many", strings.Repeat(strings.Repeat("x", 1000)+"\n", 5000))
	r = b.call("read", in{"path": "many"})
	require.Less(t, len(r.Text), 200<<10)
	require.Contains(t, r.Text, "more lines follow")
}

func TestWrite(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.call("write", in{"path": "new/deep/a.txt", "content": "héllo"})
	require.Equal(t, "Wrote 6 bytes to new/deep/a.txt.", r.Text)
	require.Equal(t, "héllo", b.content("new/deep/a.txt"))

	b.file("run.sh", "old")
	require.NoError(t, os.Chmod(filepath.Join(b.dir, "run.sh"), 0o750))
	require.False(t, b.call("write", in{"path": "run.sh", "content": "new"}).IsError)
	info, err := os.Stat(filepath.Join(b.dir, "run.sh"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o750), info.Mode().Perm())

	r = b.call("write", in{"path": "new", "content": "x"})
	require.True(t, r.IsError)
	require.Contains(t, r.Text, "directory")
	r = b.call("write", in{"path": "run.sh/below", "content": "x"})
	require.True(t, r.IsError)
	require.Equal(t, "new", b.content("run.sh"))
	for _, dir := range []string{".", "new", "new/deep"} {
		left, err := filepath.Glob(filepath.Join(b.dir, dir, ".toolpark-*"))
		require.NoError(t, err)
		require.Empty(t, left, "no temporary file stays behind")
	}
}

func TestEdit(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, before string
		input        in
		after        string
		text         string
	}{
		{"one occurrence", "a b c", in{"old_string": "b", "new_string": "x"}, "a x c", "Replaced 1 occurrence in f."},
		{"to nothing", "a b c", in{"old_string": " b", "new_string": ""}, "a c", "Replaced 1 occurrence in f."},
		{"several", "b b", in{"old_string": "b", "new_string": "x"}, "b b", "occurs more than once"},
		{"overlapping", "aaa", in{"old_string": "aa", "new_string": "x"}, "aaa", "occurs more than once"},
		{"all", "b b", in{"old_string": "b", "new_string": "x", "replace_all": true}, "x x", "Replaced 2 occurrences in f."},
		{"none", "a", in{"old_string": "b", "new_string": "x"}, "a", "does not occur"},
		{"the same", "a", in{"old_string": "a", "new_string": "a"}, "a", "are the same"},
		{"empty", "a", in{"old_string": "", "new_string": "x"}, "a", "is empty"},
		{"other bytes stay", "\xff a \x00", in{"old_string": "a", "new_string": "b"}, "\xff b \x00", "Replaced 1"},
		{"regexp signs are text", "a.c abc", in{"old_string": "a.c", "new_string": "$1"}, "$1 abc", "Replaced 1"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.file("f", c.before)
			c.input["path"] = "f"
			r := b.call("edit", c.input)
			require.Contains(t, r.Text, c.text)
			require.Equal(t, c.before == c.after, r.IsError)
			require.Equal(t, c.after, b.content("f"))
		})
	}
}

func TestParallelEditsAllCount(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var content strings.Builder
	for i := range 20 {
		fmt.Fprintf(&content, "<%d>\n", i)
	}
	b.file("f", content.String())
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			b.call("edit", in{"path": "f", "old_string": fmt.Sprintf("<%d>", i), "new_string": "done"})
		})
	}
	all.Wait()
	require.Equal(t, strings.Repeat("done\n", 20), b.content("f"))
}

func TestGrep(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.file("a.go", "package a\nfunc A() {}\n")
	b.file("sub/b.go", "package b\nFUNC\n")
	b.file("c.txt", "func in text")
	b.file("bin", "func\x00")
	b.file(".git/config", "func")
	require.NoError(t, syscall.Mkfifo(filepath.Join(b.dir, "pipe"), 0o644))
	cases := []struct {
		name  string
		input in
		text  string
	}{
		{"everywhere", in{"pattern": "func"}, "a.go:2: func A() {}\nc.txt:1: func in text\n(1 file skipped: binary, too large or unreadable)"},
		{"by glob", in{"pattern": "func", "glob": "*.go"}, "a.go:2: func A() {}"},
		{"by path glob", in{"pattern": "package", "glob": "sub/*.go"}, "sub/b.go:1: package b"},
		{"ignoring case", in{"pattern": "func$", "glob": "*.go", "ignore_case": true}, "sub/b.go:2: FUNC"},
		{"one file", in{"pattern": "^func", "path": "c.txt"}, "c.txt:1: func in text"},
		{"one directory", in{"pattern": ".", "path": "sub", "limit": 1}, "sub/b.go:1: package b\n(there is more: narrow the pattern, the path or the glob)"},
		{"nothing", in{"pattern": "zebra", "path": "sub"}, "No line matches."},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := b.call("grep", c.input)
			require.Equal(t, c.text, r.Text)
			require.False(t, r.IsError)
		})
	}
	for _, bad := range []in{{"pattern": "("}, {"pattern": "(?=x)"}, {"pattern": "x", "path": "no"}, {"pattern": "x", "glob": "["}} {
		require.True(t, b.call("grep", bad).IsError, "%v", bad)
	}
}

func TestGrepIsBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.file("big", strings.Repeat("x", 9<<20))
	b.file("lines", strings.Repeat(strings.Repeat("y", 400)+"\n", 5000))
	r := b.call("grep", in{"pattern": "x"})
	require.Contains(t, r.Text, "1 file skipped")
	r = b.call("grep", in{"pattern": "y", "limit": 1000})
	require.Less(t, len(r.Text), toolpark.MaxResult/4)
	require.Contains(t, r.Text, "there is more")
}

func TestReadEndsWhenItIsCanceled(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.file("hole.txt", strings.Repeat("a", 10_000)) // more than is looked at to tell text from bytes
	require.NoError(t, os.Truncate(filepath.Join(b.dir, "hole.txt"), 1<<40))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	r, err := b.tools["read"].Run(ctx, runner.Call{Input: []byte(`{"path":"hole.txt"}`)})
	require.NoError(t, err)
	require.True(t, r.IsError)
	require.Contains(t, r.Text, "canceled")
	require.Less(t, time.Since(start), 10*time.Second)
}

// A call that is canceled ends, however hard its pattern and however long the line.
func TestGrepEndsWhenItIsCanceled(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.file("line.txt", strings.Repeat("a", 8<<20))
	b.file("short.txt", strings.Repeat("a", 100<<10)+"needle")
	require.Contains(t, b.call("grep", in{"pattern": "needle$", "path": "short.txt"}).Text, "short.txt:1: aaa")
	input, err := json.Marshal(in{"pattern": "(.{0,900}q){1}$", "path": "line.txt"})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	r, err := b.tools["grep"].Run(ctx, runner.Call{Input: input})
	require.NoError(t, err)
	require.True(t, r.IsError)
	require.Contains(t, r.Text, "canceled")
	require.Less(t, time.Since(start), 10*time.Second)
}

func TestGlob(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, name := range []string{"a.go", "a_test.go", "sub/b.go", "sub/deep/c.ts", "sub/deep/d.tsx", "we,ird{.x", ".git/HEAD", ".env"} {
		b.file(name, "")
	}
	cases := map[string]string{
		"*.go":             "a.go\na_test.go",
		"**/*.go":          "a.go\na_test.go\nsub/b.go",
		"./**/*.go":        "a.go\na_test.go\nsub/b.go",
		"sub/**":           "sub/b.go\nsub/deep/c.ts\nsub/deep/d.tsx",
		"**/*.{ts,tsx}":    "sub/deep/c.ts\nsub/deep/d.tsx",
		"*/deep/?.ts":      "sub/deep/c.ts",
		"**/[!a].go":       "sub/b.go",
		"[a-c].go":         "a.go",
		`we,ird\{.x`:       "we,ird{.x",
		".*":               ".env",
		"*.rs":             "No file matches.",
		"sub/**/deep/*.ts": "sub/deep/c.ts",
	}
	for pattern, text := range cases {
		t.Run(pattern, func(t *testing.T) {
			t.Parallel()
			r := b.call("glob", in{"pattern": pattern})
			require.Equal(t, text, r.Text)
			require.False(t, r.IsError)
		})
	}
	require.Equal(t, "sub/deep/c.ts", b.call("glob", in{"pattern": "deep/*.ts", "path": "sub"}).Text)
	for _, bad := range []string{"{a", "a}", "[", `a\`, "[z-a]"} {
		require.True(t, b.call("glob", in{"pattern": bad}).IsError, bad)
	}
	require.True(t, b.call("glob", in{"pattern": "*", "path": "nowhere"}).IsError)
}

// A name cannot pass for a line of its own, nor for another name.
func TestStrangeNamesAreQuoted(t *testing.T) {
	t.Parallel()
	for name, shown := range map[string]string{
		"two\nlines.go:1: forged":  `"two\nlines.go:1: forged"`,
		"back\rto the start":       `"back\rto the start"`,
		"bell\a and \x1b[2Jescape": `"bell\a and \x1b[2Jescape"`,
		"separated\u2028line":      `"separated\u2028line"`,
		"turned \u202earound":      `"turned \u202earound"`,
		`"quoted"`:                 `"\"quoted\""`,
		`back\slash`:               `"back\\slash"`,
		"new\nline/inside":         `"new\nline/inside"`,
		"a b, (c) é 漢字 🙂.txt":      "a b, (c) é 漢字 🙂.txt",
	} {
		t.Run(shown, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.file(name, "found")
			require.Equal(t, shown, b.call("glob", in{"pattern": "**"}).Text)
			require.Equal(t, shown+":1: found", b.call("grep", in{"pattern": "found"}).Text)
		})
	}
}

func TestGlobIsBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 1100 {
		b.file(fmt.Sprintf("f%04d", i), "")
	}
	lines := strings.Split(b.call("glob", in{"pattern": "f*"}).Text, "\n")
	require.Len(t, lines, 1001)
	require.Contains(t, lines[1000], "there is more")
}
