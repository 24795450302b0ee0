package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/sdk/runner"
)

var writeEntry = runner.Entry{
	Name:          "write",
	Title:         "Write a file",
	EffectProfile: writes(toolpark.IdempotentBy),
	Description: "Writes a whole file, in place of the one that may be there, and makes the directories above it. " +
		"To change part of a file use edit. Example: {\"path\": \"notes/today.md\", \"content\": \"# Today\\n\"}",
	InputSchema: schema(`{
		"type": "object",
		"properties": {
			"path": {"type": "string", "minLength": 1, "description": "The file, relative to the working directory."},
			"content": {"type": "string", "description": "The whole content."}
		},
		"required": ["path", "content"],
		"additionalProperties": false
	}`),
}

type writeInput struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

func (s *Sandbox) write(_ context.Context, in writeInput, _ runner.Call) runner.Result {
	s.writing.Lock()
	defer s.writing.Unlock()
	name, err := s.local(in.Path)
	if err != nil {
		return failure(err)
	}
	if dir := filepath.Dir(name); dir != "." {
		if err := s.root.MkdirAll(dir, 0o755); err != nil {
			return failure(s.explain(filepath.Dir(in.Path), err))
		}
	}
	if err := s.replace(name, []byte(in.Content)); err != nil {
		return failure(s.explain(in.Path, err))
	}
	return runner.Result{Text: fmt.Sprintf("Wrote %s to %s.", plural(len(in.Content), "byte"), in.Path), Title: in.Path}
}

// replace puts a file in place whole or not at all, and keeps the permissions of the one before. The
// caller holds writing.
func (s *Sandbox) replace(name string, content []byte) (err error) {
	mode := fs.FileMode(0o644)
	switch info, err := s.root.Lstat(name); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		// Renaming would replace the link and leave its target as it is.
		return errors.New("it is a symbolic link; write to the file it points to")
	case info.IsDir():
		return errors.New("it is a directory")
	case !info.Mode().IsRegular():
		return errors.New("it is not a regular file")
	default:
		mode = info.Mode().Perm()
	}
	temp := filepath.Join(filepath.Dir(name), ".toolpark-"+rand.Text())
	f, err := s.root.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = s.root.Remove(temp)
		}
	}()
	_, err = f.Write(content)
	if err == nil {
		err = f.Chmod(mode) // whatever the umask took away
	}
	if err == nil {
		err = f.Sync() // a crash must not leave an empty file under the name
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return s.root.Rename(temp, name)
}
