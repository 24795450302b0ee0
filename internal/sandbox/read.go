package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/toolpark/toolpark/sdk/runner"
)

const (
	defaultLines = 2000
	maxLines     = 10_000
	maxLineShown = 2000      // bytes of one line
	maxShown     = 128 << 10 // bytes of one answer
	sniffed      = 8 << 10   // bytes in which a NUL means a binary file
)

var readEntry = runner.Entry{
	Name:          "read",
	Title:         "Read a file",
	EffectProfile: readOnly,
	Description: "Reads a text file and returns its lines with their numbers, from line offset on. " +
		"Up to 2000 lines come at once; the answer says how to read on. " +
		"Example: {\"path\": \"cmd/main.go\", \"offset\": 120, \"limit\": 40}",
	InputSchema: schema(`{
		"type": "object",
		"properties": {
			"path": {"type": "string", "minLength": 1, "description": "The file, relative to the working directory."},
			"offset": {"type": "integer", "minimum": 1, "description": "The first line to return. Default 1."},
			"limit": {"type": "integer", "minimum": 1, "maximum": 10000, "description": "How many lines. Default 2000."}
		},
		"required": ["path"],
		"additionalProperties": false
	}`),
}

type readInput struct {
	Path   string `json:"path"`
	Offset int    `json:"offset"`
	Limit  int    `json:"limit"`
}

func (s *Sandbox) read(ctx context.Context, in readInput, _ runner.Call) runner.Result {
	first, limit := max(in.Offset, 1), defaultLines
	if in.Limit > 0 {
		limit = min(in.Limit, maxLines)
	}
	f, info, err := s.openFile(in.Path)
	if err != nil {
		return failure(err)
	}
	defer f.Close()
	if info.Size() == 0 {
		return runner.Result{Text: "(the file is empty)", Title: in.Path}
	}
	lines := bufio.NewReaderSize(f, 64<<10)
	if start, _ := lines.Peek(sniffed); bytes.IndexByte(start, 0) >= 0 {
		return runner.Errorf("%s is a binary file of %d bytes.", in.Path, info.Size())
	}
	var b strings.Builder
	number := 0
	for ctx.Err() == nil {
		shown := number + 1 - first
		if shown >= limit || b.Len() >= maxShown {
			if _, err := lines.Peek(1); err == nil {
				fmt.Fprintf(&b, "(more lines follow: read on with offset %d)", number+1)
			}
			return runner.Result{Text: strings.TrimSuffix(b.String(), "\n"), Title: in.Path}
		}
		line, length, err := readLine(ctx, lines)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return failure(s.explain(in.Path, err))
		}
		if number++; number < first {
			continue
		}
		fmt.Fprintf(&b, "%6d\t%s", number, clean(line))
		if length > len(line) {
			fmt.Fprintf(&b, "… (%d more bytes)", length-len(line))
		}
		b.WriteByte('\n')
	}
	if ctx.Err() != nil {
		return runner.Errorf("The call was canceled.")
	}
	if number < first {
		return runner.Errorf("%s has only %s.", in.Path, plural(number, "line"))
	}
	return runner.Result{Text: strings.TrimSuffix(b.String(), "\n"), Title: in.Path}
}

// readLine reads one line of any length and keeps as much of it as is shown. The error is io.EOF when
// there is none, or when the call was canceled: a line of a sparse file may go on for terabytes.
func readLine(ctx context.Context, r *bufio.Reader) (line string, length int, err error) {
	var kept []byte
	for ctx.Err() == nil {
		part, err := r.ReadSlice('\n')
		ended := err == nil
		part = bytes.TrimSuffix(part, []byte("\n"))
		length += len(part)
		kept = append(kept, part[:min(len(part), maxLineShown+utf8.UTFMax-len(kept))]...)
		switch {
		case ended, errors.Is(err, io.EOF) && length > 0:
			return trim(string(kept), maxLineShown), length, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return "", 0, err
		}
	}
	return "", 0, io.EOF
}
