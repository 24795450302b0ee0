package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// maxWalked bounds how many files and directories one search looks at.
const maxWalked = 200_000

var errEnough = errors.New("enough")

// walk visits the files below a directory, or the one file, in the order of their paths. Symbolic links
// are visited as themselves and never followed; .git is left out. The error is errEnough when the bound
// or the visitor ended the walk.
func (s *Sandbox) walk(ctx context.Context, start string, visit func(name string, entry fs.DirEntry) error) error {
	name, err := s.local(start)
	if err != nil {
		return err
	}
	walked := 0
	return fs.WalkDir(s.root.FS(), path.Clean(name), func(name string, entry fs.DirEntry, err error) error {
		if walked++; walked > maxWalked {
			return errEnough
		}
		switch {
		case ctx.Err() != nil:
			return errors.New("the call was canceled")
		case err != nil && entry == nil:
			return s.explain(start, err) // the start itself
		case err != nil:
			return nil // a directory that cannot be read
		case entry.IsDir() && entry.Name() == ".git":
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		return visit(name, entry)
	})
}

// compileGlob makes a matcher of a pattern: * and ? stay within a path segment, ** crosses segments, and
// [abc] and {a,b} choose. A regular expression of RE2 matches it, so no pattern is slow.
func compileGlob(pattern string) (*regexp.Regexp, error) {
	var b strings.Builder
	b.WriteString(`\A`)
	braces := 0
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '*':
			switch {
			case strings.HasPrefix(pattern[i:], "**/") && (i == 0 || pattern[i-1] == '/'):
				b.WriteString(`(?:[^/]+/)*`)
				i += 2
			case strings.HasPrefix(pattern[i:], "**"):
				b.WriteString(`.*`)
				i++
			default:
				b.WriteString(`[^/]*`)
			}
		case '?':
			b.WriteString(`[^/]`)
		case '[':
			end := strings.IndexByte(pattern[i+1:], ']')
			if end < 1 {
				return nil, fmt.Errorf("the glob %q has a [ without its ]", pattern)
			}
			class := pattern[i+1 : i+1+end]
			i += 1 + end
			b.WriteByte('[')
			if class[0] == '!' || class[0] == '^' {
				b.WriteByte('^')
				class = class[1:]
			}
			b.WriteString(strings.NewReplacer(`\`, `\\`, `[`, `\[`, `^`, `\^`).Replace(class))
			b.WriteByte(']')
		case '{':
			braces++
			b.WriteString(`(?:`)
		case '}':
			if braces == 0 {
				return nil, fmt.Errorf("the glob %q has a } without its {", pattern)
			}
			braces--
			b.WriteByte(')')
		case ',':
			if braces > 0 {
				b.WriteByte('|')
			} else {
				b.WriteByte(c)
			}
		case '\\':
			if i++; i == len(pattern) {
				return nil, fmt.Errorf("the glob %q ends in a backslash", pattern)
			}
			b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		default:
			b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		}
	}
	if braces > 0 {
		return nil, fmt.Errorf("the glob %q has a { without its }", pattern)
	}
	b.WriteString(`\z`)
	re, err := regexp.Compile("(?s)" + b.String())
	if err != nil {
		return nil, fmt.Errorf("the glob %q is malformed", pattern)
	}
	return re, nil
}
