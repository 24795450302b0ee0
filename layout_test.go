package toolpark_test

import (
	"bufio"
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/toolpark/toolpark"

// layers says what each package may import of this module, by path below it; "*" ends a prefix. A
// package that is not listed is refused, so that a new one finds its place here.
var layers = map[string][]string{
	".":                    {},
	"sdk/*":                {".", "sdk/*"},
	"schema":               {".", "internal/strictjson"},
	"schema/migrations":    {},
	"internal/strictjson":  {"."},
	"internal/catalog":     {"."},
	"internal/credential":  {},
	"internal/visibility":  {},
	"internal/notify":      {"."},
	"internal/watchdog":    {},
	"internal/envelope":    {".", "internal/strictjson"},
	"internal/form":        {".", "internal/strictjson"},
	"internal/approval":    {".", "internal/form", "internal/strictjson"},
	"internal/declaration": {".", "internal/approval", "internal/catalog", "internal/form", "internal/strictjson", "schema"},
	"internal/postgres":    {".", "internal/credential", "internal/declaration", "internal/notify"},
	"internal/park":        {".", "internal/approval", "internal/catalog", "internal/declaration", "internal/envelope", "internal/notify", "internal/postgres", "internal/strictjson", "schema"},
	"activities":           {".", "internal/park", "internal/postgres"},
	"workflows":            {".", "activities", "internal/catalog", "internal/visibility"},
	"worker":               {".", "activities", "internal/park", "internal/visibility", "workflows"},
	"api":                  {".", "internal/approval", "internal/catalog", "internal/credential", "internal/declaration", "internal/envelope", "internal/notify", "internal/park", "internal/postgres", "internal/strictjson", "schema", "workflows"},
	"internal/kernel":      {"api", "internal/notify", "internal/park", "internal/postgres", "schema", "worker", "workflows"},
	"internal/sandbox":     {".", "internal/watchdog", "sdk/runner"},
	"internal/devstack":    {"internal/devstack/npm", "internal/visibility", "internal/watchdog"},
	"internal/devstack/*":  {"internal/devstack", "internal/devstack/*", "schema/migrations"},
	"cmd/toolpark":         {".", "api", "internal/*", "schema/migrations", "sdk/*"},
	"api/apitest":          {".", "schema"},
	"internal/kerneltest":  {".", "api", "api/apitest", "internal/*", "sdk/*", "worker", "workflows"},
	"internal/bench":       {".", "internal/*", "schema/migrations", "sdk/*"},
	"internal/chaos":       {".", "internal/*", "schema/migrations", "sdk/*", "workflows"},
	"internal/proctest":    {".", "internal/*", "schema/migrations", "sdk/*"},
}

// pure packages decide and compute: they know neither the database nor Temporal.
var pure = []string{".", "schema", "internal/strictjson", "internal/catalog", "internal/approval", "internal/form", "internal/declaration", "internal/envelope"}

func TestImportsPointOneWay(t *testing.T) {
	t.Parallel()
	packages := imports(t)
	require.NotEmpty(t, packages)
	for name, imported := range packages {
		allowed, listed := allowance(name)
		require.True(t, listed, "package %s has no place in the layout", name)
		for _, other := range imported {
			below, ours := below(other)
			if !ours {
				continue
			}
			require.True(t, matches(allowed, below), "%s must not import %s", name, below)
		}
	}
	for _, name := range pure {
		for _, other := range packages[name] {
			require.NotContains(t, other, "go.temporal.io/", "%s is pure", name)
			require.NotContains(t, other, "jackc/pgx", "%s is pure", name)
		}
	}
	for name, imported := range packages {
		for _, other := range imported {
			_, ours := below(other)
			if strings.HasPrefix(name, "sdk/") && !ours {
				require.NotContains(t, strings.Split(other, "/")[0], ".", "%s must not import %s: sdk packages stand on the standard library", name, other)
			}
		}
	}
}

// imports lists every package of the module with what its code, tests apart, imports.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...").Output()
	require.NoError(t, err)
	packages := map[string][]string{}
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		name, ours := below(fields[0])
		require.True(t, ours)
		packages[name] = fields[1:]
	}
	return packages
}

// below is a package's path below the module; "." is the module itself.
func below(importPath string) (string, bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

func allowance(name string) ([]string, bool) {
	if allowed, ok := layers[name]; ok {
		return allowed, true
	}
	for pattern, allowed := range layers {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok && strings.HasPrefix(name, prefix) {
			return allowed, true
		}
	}
	return nil, false
}

func matches(allowed []string, name string) bool {
	for _, pattern := range allowed {
		if prefix, ok := strings.CutSuffix(pattern, "*"); pattern == name || (ok && strings.HasPrefix(name, prefix)) {
			return true
		}
	}
	return false
}
