package devstack

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"regexp"
	"strconv"
)

// The oldest server release whose development server is known to behave as the tests expect.
const (
	minServerMajor = 1
	minServerMinor = 29
)

var serverVersion = regexp.MustCompile(`Server (\d+)\.(\d+)`)

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
	cli := buildTool{name: "temporal", module: "github.com/temporalio/cli", program: "github.com/temporalio/cli/cmd/temporal"}
	return cli.path(ctx, progress)
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
