package sandbox

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/toolpark/toolpark/sdk/runner"
)

const maxPaths = 1000

var globEntry = runner.Entry{
	Name:          "glob",
	Title:         "Find files",
	EffectProfile: readOnly,
	Description: "Finds files by a pattern over their paths and returns the paths in order. " +
		"* and ? match within one directory, ** matches any number of directories, {a,b} and [abc] choose. " +
		"Up to 1000 paths are returned, one a line; one with a quote, a backslash or a character that does not print, " +
		"like a line break, is quoted and escaped as in \"a\\nb\". Example: {\"pattern\": \"**/*_test.go\"}",
	InputSchema: schema(`{
		"type": "object",
		"properties": {
			"pattern": {"type": "string", "minLength": 1, "maxLength": 1000, "description": "The pattern, relative to path."},
			"path": {"type": "string", "description": "The directory to search. Default: the working directory."}
		},
		"required": ["pattern"],
		"additionalProperties": false
	}`),
}

type globInput struct {
	Pattern string `json:"pattern"`
	Path    string `json:"path"`
}

func (s *Sandbox) glob(ctx context.Context, in globInput, _ runner.Call) runner.Result {
	match, err := compileGlob(strings.TrimPrefix(in.Pattern, "./"))
	if err != nil {
		return failure(err)
	}
	start, err := s.local(in.Path)
	if err != nil {
		return failure(err)
	}
	prefix := ""
	if start = path.Clean(start); start != "." {
		prefix = start + "/"
	}
	var found []string
	err = s.walk(ctx, start, func(name string, _ fs.DirEntry) error {
		if !match.MatchString(strings.TrimPrefix(name, prefix)) {
			return nil
		}
		if len(found) == maxPaths {
			return errEnough
		}
		found = append(found, shownPath(name))
		return nil
	})
	switch {
	case errors.Is(err, errEnough):
		found = append(found, "(there is more: narrow the pattern or the path)")
	case err != nil:
		return failure(err)
	case len(found) == 0:
		found = append(found, "No file matches.")
	}
	return runner.Result{Text: strings.Join(found, "\n"), Title: in.Pattern}
}
