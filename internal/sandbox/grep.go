package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/toolpark/toolpark/sdk/runner"
)

const (
	defaultMatches = 200
	maxMatches     = 1000
	maxMatchShown  = 500 // bytes of one matching line
)

var grepEntry = runner.Entry{
	Name:          "grep",
	Title:         "Search files",
	EffectProfile: readOnly,
	Description: "Searches text files for a regular expression (RE2 syntax) and returns the matching lines as path:line: text. " +
		"A path with a quote, a backslash or a character that does not print is quoted and escaped as in \"a\\nb\". " +
		"Binary files and files over 8 MiB are skipped. " +
		"Example: {\"pattern\": \"func \\\\w+Handler\", \"path\": \"api\", \"glob\": \"*.go\"}",
	InputSchema: schema(`{
		"type": "object",
		"properties": {
			"pattern": {"type": "string", "minLength": 1, "maxLength": 1000, "description": "The regular expression."},
			"path": {"type": "string", "description": "The file or directory to search. Default: the working directory."},
			"glob": {"type": "string", "minLength": 1, "maxLength": 1000,
				"description": "Only files whose name, or path when it has a slash, matches."},
			"ignore_case": {"type": "boolean", "description": "Default false."},
			"limit": {"type": "integer", "minimum": 1, "maximum": 1000, "description": "How many lines. Default 200."}
		},
		"required": ["pattern"],
		"additionalProperties": false
	}`),
}

type grepInput struct {
	Pattern    string `json:"pattern"`
	Path       string `json:"path"`
	Glob       string `json:"glob"`
	IgnoreCase bool   `json:"ignore_case"`
	Limit      int    `json:"limit"`
}

func (s *Sandbox) grep(ctx context.Context, in grepInput, _ runner.Call) runner.Result {
	expression := in.Pattern
	if in.IgnoreCase {
		expression = "(?i)" + expression
	}
	match, err := regexp.Compile(expression)
	if err != nil {
		return failure(fmt.Errorf("the pattern is not a regular expression of RE2: %w", err))
	}
	wanted := func(string) bool { return true }
	if in.Glob != "" {
		glob, err := compileGlob(in.Glob)
		if err != nil {
			return failure(err)
		}
		wanted = func(name string) bool {
			if !strings.Contains(in.Glob, "/") {
				name = path.Base(name)
			}
			return glob.MatchString(name)
		}
	}
	limit := defaultMatches
	if in.Limit > 0 {
		limit = min(in.Limit, maxMatches)
	}
	var b strings.Builder
	found, skipped := 0, 0
	err = s.walk(ctx, in.Path, func(name string, entry fs.DirEntry) error {
		if !entry.Type().IsRegular() || !wanted(name) {
			return nil
		}
		content, err := s.content(name)
		if err != nil || bytes.IndexByte(content[:min(len(content), sniffed)], 0) >= 0 {
			skipped++
			return nil
		}
		for number := 1; len(content) > 0 && ctx.Err() == nil; number++ {
			var line []byte
			line, content, _ = bytes.Cut(content, []byte("\n"))
			if !matches(ctx, match, line) {
				continue
			}
			if found == limit || b.Len() >= maxShown {
				return errEnough
			}
			found++
			fmt.Fprintf(&b, "%s:%d: %s\n", shownPath(name), number, trim(string(line), maxMatchShown))
		}
		return nil
	})
	switch {
	case ctx.Err() != nil:
		return runner.Errorf("The call was canceled.")
	case err != nil && !errors.Is(err, errEnough):
		return failure(err)
	}
	if err != nil {
		b.WriteString("(there is more: narrow the pattern, the path or the glob)\n")
	} else if found == 0 {
		b.WriteString("No line matches.\n")
	}
	if skipped > 0 {
		fmt.Fprintf(&b, "(%s skipped: binary, too large or unreadable)\n", plural(skipped, "file"))
	}
	return runner.Result{Text: strings.TrimSuffix(b.String(), "\n"), Title: in.Pattern}
}

// longLine is a line in which a hard pattern may be busy for a while.
const longLine = 64 << 10

// matches tells whether a line matches. A long line reads as ended when the call is canceled.
func matches(ctx context.Context, match *regexp.Regexp, line []byte) bool {
	if len(line) < longLine {
		return match.Match(line)
	}
	return match.MatchReader(&cancelableLine{ctx: ctx, line: line})
}

// cancelableLine reads a line rune by rune until its call is canceled.
type cancelableLine struct {
	ctx  context.Context
	line []byte
	read int // runes
}

func (l *cancelableLine) ReadRune() (r rune, size int, err error) {
	if l.read++; len(l.line) == 0 || l.read%1024 == 0 && l.ctx.Err() != nil {
		return 0, 0, io.EOF
	}
	r, size = utf8.DecodeRune(l.line)
	l.line = l.line[size:]
	return r, size, nil
}
