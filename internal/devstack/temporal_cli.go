package devstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
)

// The oldest server release whose development server is known to behave as the tests expect.
const (
	minServerMajor = 1
	minServerMinor = 29
)

var (
	serverVersion  = regexp.MustCompile(`Server (\d+)\.(\d+)`)
	cliRequirement = regexp.MustCompile(`(?m)^\s*(?:require\s+)?github\.com/temporalio/cli v(\S+)`)
)

// errNoCLI says how to get the CLI where the source tree is not at hand.
var errNoCLI = errors.New(`no Temporal server: this is not Toolpark's source tree, so the CLI cannot be built. Do one of these:
  - set TEMPORAL_ADDRESS to a server you have
  - install the Temporal CLI (https://temporal.io/setup/install-temporal-cli), server 1.29 or newer, on PATH
  - run this inside a clone of Toolpark`)

// findTemporalCLI returns a Temporal CLI: the one on PATH if it is new enough, else the one built
// from tools/go.mod, building it the first time.
func findTemporalCLI(ctx context.Context, progress io.Writer) (string, error) {
	if path, err := exec.LookPath("temporal"); err == nil {
		out, err := exec.CommandContext(ctx, path, "--version").Output()
		if err == nil && newEnough(string(out)) {
			return path, nil
		}
		sayf(progress, "temporal: %s is older than server %d.%d, passing it over", path, minServerMajor, minServerMinor)
	}
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	requirements, err := os.ReadFile(filepath.Join(root, "tools", "go.mod"))
	if err != nil {
		return "", err
	}
	version := cliRequirement.FindSubmatch(requirements)
	if version == nil {
		return "", fmt.Errorf("%s/tools/go.mod does not require github.com/temporalio/cli", root)
	}
	return builtCLI(ctx, root, string(version[1]), progress)
}

// newEnough reads the answer to `temporal --version`.
func newEnough(answer string) bool {
	found := serverVersion.FindStringSubmatch(answer)
	if found == nil {
		return false
	}
	major, _ := strconv.Atoi(found[1]) // digits, by the expression
	minor, _ := strconv.Atoi(found[2])
	return major > minServerMajor || major == minServerMajor && minor >= minServerMinor
}

// builtCLI returns .toolpark/bin/temporal-<version>, building it if it is not there. Only one of
// several programs builds; the others wait for it.
func builtCLI(ctx context.Context, root, version string, progress io.Writer) (string, error) {
	dir := filepath.Join(root, ".toolpark", "bin")
	path := filepath.Join(dir, "temporal-"+version)
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
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", partial, "github.com/temporalio/cli/cmd/temporal")
	cmd.Dir = filepath.Join(root, "tools")
	cmd.Env = append(os.Environ(), "GOTOOLCHAIN="+runtime.Version(), "GOFLAGS=", "GOWORK=off")
	sayf(progress, "temporal: building the CLI %s, once; this takes some minutes", version)
	if err := runSlow(cmd, "temporal: building the CLI", progress); err != nil {
		return "", fmt.Errorf("build the Temporal CLI: %w", err)
	}
	return path, os.Rename(partial, path)
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
