package declaration_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json/jsontext"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"uuid"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/declaration"
)

// serving is a snapshot in which runner A serves tools of these names.
func serving(names ...string) declaration.Snapshot {
	tools := map[string]declaration.Served{}
	for _, name := range names {
		tools[name] = announced("Does "+name, `{"type":"object"}`)
	}
	return declaration.Snapshot{Runners: map[uuid.UUID]declaration.Runner{
		runnerA: {DisplayName: "box a", Environment: jsontext.Value(`{}`), Tools: tools},
		runnerB: {DisplayName: "box b", Environment: jsontext.Value(`{}`), Tools: tools},
	}}
}

// importing is a configuration that imports from runner A, with further members, each with a comma behind it.
func importing(members string, entries ...string) jsontext.Value {
	return with(`"runner_executor_public_ids":["`+runnerB.String()+`","`+runnerA.String()+`"],`+members, entries...)
}

// qualified is the name that is promised for a served name of runner A that cannot be a callable's.
func qualified(served string) string {
	sum := sha256.Sum256([]byte(runnerA.String() + "\x00" + served))
	clean := regexp.MustCompile(`[^A-Za-z0-9_-]`).ReplaceAllString(served, "_")
	return clean[:min(49, len(clean))] + "__" + hex.EncodeToString(sum[:6])
}

func TestToolsOfTheSelectedRunnerAreImported(t *testing.T) {
	t.Parallel()
	c := assemble(t, importing(""), &runnerA, snapshot())
	require.Equal(t, []string{"read"}, callables(c), "an operator's capability is none of a model's")
	require.Equal(t, `[{"type":"function","function":{"name":"read","description":"Read a file","parameters":{"type":"object","properties":{"path":{"maxLength":1.0e3}}}},`+
		`"route":{"kind":"runner","runner_executor_public_id":"`+runnerA.String()+`","tool_name":"read"},"defer_loading":true}]`, definitions(t, c))
	read := tool(t, c, "read")
	require.Equal(t, []byte{1, 2, 3}, read.Served.OutputSchemaHash)
	require.Equal(t, int64(5_000), *read.Served.TimeoutMS)
}

func TestWhichToolsAreImported(t *testing.T) {
	t.Parallel()
	all := []string{"bash", "edit", "read"}
	for _, tc := range []struct {
		name    string
		raw     jsontext.Value
		def     *uuid.UUID
		options declaration.Options
		want    []string
	}{
		{"all", importing(""), &runnerA, declaration.Options{}, all},
		{"all, said by null", importing(`"runner_tool_names":null,`), &runnerA, declaration.Options{}, all},
		{"none", importing(`"runner_tool_names":[],`), &runnerA, declaration.Options{}, nil},
		{"some", importing(`"runner_tool_names":["read","bash"],`), &runnerA, declaration.Options{}, []string{"bash", "read"}},
		{"some that are not served", importing(`"runner_tool_names":["Read","rea","bash ","edit"],`), &runnerA, declaration.Options{}, []string{"edit"}},
		{"no runner is selected", importing(""), nil, declaration.Options{}, nil},
		{"a run without an import field", bypass(), &runnerA, declaration.Options{}, nil},
		{"import fields that are null", with(`"kernel_tools":null,"runner_executor_public_ids":null,"runner_tool_names":null,`), &runnerA, declaration.Options{}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c, err := declaration.Assemble(configuration(t, tc.raw).Sources, tc.def, tc.options, serving(all...))
			require.NoError(t, err)
			require.ElementsMatch(t, tc.want, callables(&c))
		})
	}
}

func TestAnImportThatIsDeclaredAlreadyIsSkipped(t *testing.T) {
	t.Parallel()
	c := assemble(t, importing("", routed("look", runnerA, "read"), routed("bash", runnerB, "bash")), &runnerA, serving("read", "bash", "edit"))
	require.Equal(t, []string{"bash", qualified("bash"), "edit", "look"}, callables(c))
	require.Equal(t, runnerB, tool(t, c, "bash").Route.Runner)
	require.Equal(t, declaration.Route{Runner: runnerA, ToolName: "bash"}, *tool(t, c, qualified("bash")).Route)
}

func TestNamesThatCannotBeCallables(t *testing.T) {
	t.Parallel()
	// The inputs of case 17, and names that somebody has already.
	long := strings.Repeat("a", 64)
	served := []string{
		strings.Repeat("n", 75) + "1", strings.Repeat("n", 75) + "2", // 76 characters that differ at the end
		strings.Repeat("天", 127) + "地", strings.Repeat("天", 128),
		"repo.list-tags", "repo_list_tags", "repo/list tags", "天気", "翻訳", "openDoc", "OpenDoc",
		"caf\u00e9", "cafe\u0301", // two forms of one name
		long, long + "b",
		"tool_search", "delegate_task", "nexus.memory.read", "memory_read", "skill", // kernel names, live or not
		"mine",
	}
	legal := map[string]bool{"repo_list_tags": true, "openDoc": true, "OpenDoc": true, long: true}
	c := assemble(t, importing("", `{"type":"function","name":"mine"}`), &runnerA, serving(served...))
	require.Len(t, c.Tools, len(served)+1)
	byServed := map[string]string{}
	for _, t := range c.Tools {
		if t.Route != nil {
			byServed[t.Route.ToolName] = t.Name
		}
	}
	for _, name := range served {
		want := qualified(name)
		if legal[name] {
			want = name
		}
		require.Equal(t, want, byServed[name])
		require.Regexp(t, `^[A-Za-z0-9_-]{1,64}$`, byServed[name])
	}
	require.Len(t, slices.Compact(slices.Sorted(maps.Values(byServed))), len(served), "distinct served names get distinct callables")
	require.Equal(t, qualified("repo.list-tags"), "repo_list-tags__"+qualified("repo.list-tags")[16:])
	require.Len(t, byServed[strings.Repeat("天", 128)], 49+2+12)
}

func TestAQualifiedNameIsAnotherOnEachRunner(t *testing.T) {
	t.Parallel()
	a := callables(assemble(t, importing(""), &runnerA, serving("list tags")))
	b := callables(assemble(t, importing(""), &runnerB, serving("list tags")))
	require.NotEqual(t, a, b)
	require.Equal(t, a[0][:len("list_tags__")], b[0][:len("list_tags__")])
}

func TestANameThatIsTakenEvenWhenQualifiedIsRefused(t *testing.T) {
	t.Parallel()
	const at = "/configuration/runner_executor_public_ids"
	_, err := declaration.Assemble(configuration(t, importing("")).Sources, &runnerA, declaration.Options{},
		serving("list tags", qualified("list tags")))
	requireRefused(t, err, toolpark.CodeDuplicateToolName, at)

	_, err = declaration.Assemble(configuration(t, importing("", fmt.Sprintf(`{"type":"function","name":%q}`, qualified("list tags")))).Sources,
		&runnerA, declaration.Options{}, serving("list tags"))
	requireRefused(t, err, toolpark.CodeDuplicateToolName, at)
}
