package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/sdk/runner"
)

// maxEdited bounds the file that edit and grep hold in memory.
const maxEdited = 8 << 20

var editEntry = runner.Entry{
	Name:          "edit",
	Title:         "Edit a file",
	EffectProfile: writes(toolpark.IdempotentNone),
	Description: "Replaces old_string by new_string in a file. old_string must occur exactly once, white space included: " +
		"give enough lines around it, or set replace_all to replace every occurrence. " +
		"Example: {\"path\": \"go.mod\", \"old_string\": \"go 1.26\", \"new_string\": \"go 1.27\"}",
	InputSchema: schema(`{
		"type": "object",
		"properties": {
			"path": {"type": "string", "minLength": 1, "description": "The file, relative to the working directory."},
			"old_string": {"type": "string", "minLength": 1, "description": "The text to replace, exactly as it stands."},
			"new_string": {"type": "string", "description": "The text to put there."},
			"replace_all": {"type": "boolean", "description": "Replace every occurrence. Default false."}
		},
		"required": ["path", "old_string", "new_string"],
		"additionalProperties": false
	}`),
}

type editInput struct {
	Path       string `json:"path"`
	Old        string `json:"old_string"`
	New        string `json:"new_string"`
	ReplaceAll bool   `json:"replace_all"`
}

func (s *Sandbox) edit(_ context.Context, in editInput, _ runner.Call) runner.Result {
	if in.Old == in.New {
		return runner.Errorf("old_string and new_string are the same.")
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	content, err := s.content(in.Path)
	if err != nil {
		return failure(err)
	}
	old := []byte(in.Old)
	if len(old) == 0 {
		return runner.Errorf("old_string is empty.")
	}
	count := bytes.Count(content, old)
	switch {
	case count == 0:
		return runner.Errorf("old_string does not occur in %s.", in.Path)
	case in.ReplaceAll:
	case bytes.LastIndex(content, old) != bytes.Index(content, old): // Count does not see overlaps
		return runner.Errorf("old_string occurs more than once in %s; give more of the text around it, or set replace_all.", in.Path)
	}
	name, err := s.local(in.Path)
	if err == nil {
		err = s.replace(name, bytes.ReplaceAll(content, old, []byte(in.New)))
	}
	if err != nil {
		return failure(s.explain(in.Path, err))
	}
	return runner.Result{Text: fmt.Sprintf("Replaced %s in %s.", plural(count, "occurrence"), in.Path), Title: in.Path}
}

// content reads a file that may be held in memory.
func (s *Sandbox) content(path string) ([]byte, error) {
	f, info, err := s.openFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size() > maxEdited {
		return nil, fmt.Errorf("%s has %d bytes, more than the %d MiB that can be edited", path, info.Size(), maxEdited>>20)
	}
	content, err := io.ReadAll(io.LimitReader(f, maxEdited+1))
	if err != nil {
		return nil, s.explain(path, err)
	}
	if len(content) > maxEdited {
		return nil, fmt.Errorf("%s grows too fast to be edited", path)
	}
	return content, nil
}
