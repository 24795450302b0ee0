// Package sandbox serves one directory as tools: bash, read, write, edit, grep and glob.
//
// The file tools cannot leave the directory: neither ".." nor a symbolic link reaches outside it. bash
// starts there with a clean environment, but it is a shell of this user and can go where the user can;
// its effect profile says so.
package sandbox

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/sdk/runner"
)

// Sandbox is one directory and its tools.
type Sandbox struct {
	root *os.Root
	dir  string // absolute, without symbolic links
	bash string // the shell's binary
	env  []string

	// writing serialises write and edit: an edit reads, changes and replaces the file.
	writing sync.Mutex
}

// Open opens a directory. The search path is what commands see as PATH, and where bash is found.
func Open(dir, searchPath string) (*Sandbox, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("open the sandbox: %w", err)
	}
	bash, err := findBash(searchPath)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the sandbox: %w", err)
	}
	return &Sandbox{root: root, dir: dir, bash: bash, env: []string{
		"PATH=" + searchPath, "HOME=" + dir, "PWD=" + dir, "LANG=C.UTF-8", "TERM=dumb", "SHELL=" + bash,
	}}, nil
}

// Dir is the directory, absolute and without symbolic links.
func (s *Sandbox) Dir() string { return s.dir }

// Close lets go of the directory. Tools fail afterwards.
func (s *Sandbox) Close() error { return s.root.Close() }

// Tools are the sandbox's tools, ready for a runner.
func (s *Sandbox) Tools() []runner.Tool {
	return []runner.Tool{
		tool(bashEntry, s.runBash),
		tool(readEntry, s.read),
		tool(writeEntry, s.write),
		tool(editEntry, s.edit),
		tool(grepEntry, s.grep),
		tool(globEntry, s.glob),
	}
}

// tool makes a runner's tool of a function over its decoded input.
func tool[In any](entry runner.Entry, run func(context.Context, In, runner.Call) runner.Result) runner.Tool {
	return runner.Tool{Entry: entry, Run: func(ctx context.Context, call runner.Call) (runner.Result, error) {
		var in In
		if err := json.Unmarshal(call.Input, &in, json.RejectUnknownMembers(true)); err != nil {
			return runner.Errorf("The input does not match the schema of %s: %v.", entry.Name, err), nil
		}
		result := run(ctx, in, call)
		result.Text = clean(result.Text)
		return result, nil
	}}
}

// readOnly is the profile of a tool that only looks.
var readOnly = toolpark.EffectProfile{
	Kind: toolpark.EffectReadOnly, EffectScope: toolpark.ScopeClosed,
	Idempotency: toolpark.IdempotentBy, Reconciliation: toolpark.ReconcileNone,
}

// writes is the profile of a tool that changes files of the sandbox.
func writes(idempotency string) toolpark.EffectProfile {
	return toolpark.EffectProfile{
		Kind: toolpark.EffectWrite, Destructive: true, EffectScope: toolpark.ScopeClosed,
		Idempotency: idempotency, Reconciliation: toolpark.ReconcileNone,
	}
}

// local turns a path as a model gives it, relative or absolute, into one below the root.
func (s *Sandbox) local(path string) (string, error) {
	if strings.ContainsRune(path, 0) {
		return "", errors.New("the path holds a NUL character")
	}
	if filepath.IsAbs(path) {
		rel, err := filepath.Rel(s.dir, path)
		if err != nil || !filepath.IsLocal(rel) {
			return "", fmt.Errorf("%s is outside %s", path, s.dir)
		}
		path = rel
	}
	if path == "" {
		return ".", nil
	}
	if !filepath.IsLocal(path) {
		return "", fmt.Errorf("%s is outside %s", path, s.dir)
	}
	return path, nil
}

// openFile opens a regular file for reading. It does not wait on pipes and devices.
func (s *Sandbox) openFile(path string) (*os.File, fs.FileInfo, error) {
	name, err := s.local(path)
	if err != nil {
		return nil, nil, err
	}
	f, err := s.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, s.explain(path, err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = fmt.Errorf("%s is a directory", path)
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is not a regular file", path)
	default:
		return f, info, nil
	}
	_ = f.Close()
	return nil, nil, err
}

// explain says in plain words why a path cannot be used.
func (s *Sandbox) explain(path string, err error) error {
	var cause *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s does not exist", path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: permission denied", path)
	case errors.As(err, &cause) && cause.Err.Error() == "path escapes from parent":
		return fmt.Errorf("%s is outside %s", path, s.dir)
	case errors.As(err, &cause):
		return fmt.Errorf("%s: %w", path, cause.Err)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// failure is an error as a model reads it: one short sentence.
func failure(err error) runner.Result { return runner.Errorf("%v.", err) }

// schema is a closed object schema, checked when the program starts to be JSON.
func schema(text string) jsontext.Value {
	v := jsontext.Value(text)
	if err := v.Compact(); err != nil {
		panic(fmt.Sprintf("a schema of the sandbox is not JSON: %v", err))
	}
	return v
}
