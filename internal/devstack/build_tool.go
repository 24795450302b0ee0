package devstack

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// buildTool is a program that tools/go.mod pins and that is built when it is first wanted.
type buildTool struct {
	name    string // how it is called here and in progress
	module  string // whose version is its own
	program string // the package to build
}

// path returns .toolpark/bin/<name>-<version>, building it if it is not there. Only one of several
// programs builds; the others wait for it.
func (t buildTool) path(ctx context.Context, progress io.Writer) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	version, err := t.version(root)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, ".toolpark", "bin")
	path := filepath.Join(dir, t.name+"-"+version)
	if executable(path) {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	lock, err := lockDir(ctx, dir, buildWait, progress)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if executable(path) {
		return path, nil
	}
	partial := path + ".partial"
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", partial, t.program)
	cmd.Dir = filepath.Join(root, "tools")
	cmd.Env = append(os.Environ(), "GOTOOLCHAIN="+runtime.Version(), "GOFLAGS=", "GOWORK=off")
	sayf(progress, "temporal: building %s %s, once; this takes some minutes", t.name, version)
	if err := runSlow(cmd, "temporal: building "+t.name, progress); err != nil {
		return "", fmt.Errorf("build %s: %w", t.name, err)
	}
	return path, os.Rename(partial, path)
}

// version is the tool's version in tools/go.mod.
func (t buildTool) version(root string) (string, error) {
	requirements, err := os.ReadFile(filepath.Join(root, "tools", "go.mod"))
	if err != nil {
		return "", err
	}
	line := regexp.MustCompile(`(?m)^\s*(?:require\s+)?` + regexp.QuoteMeta(t.module) + ` v(\S+)`)
	version := line.FindSubmatch(requirements)
	if version == nil {
		return "", fmt.Errorf("%s/tools/go.mod does not require %s", root, t.module)
	}
	return string(version[1]), nil
}

// moduleRoot finds Toolpark's source tree above the working directory or above this program.
func moduleRoot() (string, error) {
	var starts []string
	if dir, err := os.Getwd(); err == nil {
		starts = append(starts, dir)
	}
	if program, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(program))
	}
	for _, dir := range starts {
		for ; ; dir = filepath.Dir(dir) {
			mod, err := os.ReadFile(filepath.Join(dir, "tools", "go.mod"))
			if err == nil && strings.Contains(string(mod), "module github.com/toolpark/toolpark/tools") {
				return dir, nil
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return "", errNoCLI
}
