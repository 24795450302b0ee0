package declaration_test

import (
	"encoding/json/jsontext"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/declaration"
)

// skilled is a snapshot whose two runners serve skill, for these documents.
func skilled(documents string) declaration.Snapshot {
	s := snapshot()
	for id, runner := range s.Runners {
		runner.Documents = jsontext.Value(documents)
		runner.Tools["skill"] = announced("Load a document", `{"type":"object"}`)
		s.Runners[id] = runner
	}
	return s
}

func TestSkills(t *testing.T) {
	t.Parallel()
	s := skilled(`[{"name":"test","description":"Run the tests"},{"description":"Build it","name":"make"}]`)
	c := assemble(t, importing("", routed("mac_skill", runnerB, "skill"), routed("read_b", runnerB, "read")), &runnerA, s)
	imported := qualified("skill")
	require.Equal(t, []string{"mac_skill", "read", "read_b", imported}, callables(c), "skill is a kernel name")
	require.Equal(t, []declaration.Skill{
		{Name: "make", Description: "Build it", Callable: "mac_skill", Source: "runner", ExecutorPublicID: runnerB},
		{Name: "test", Description: "Run the tests", Callable: "mac_skill", Source: "runner", ExecutorPublicID: runnerB},
		{Name: "make", Description: "Build it", Callable: imported, Source: "runner", ExecutorPublicID: runnerA},
		{Name: "test", Description: "Run the tests", Callable: imported, Source: "runner", ExecutorPublicID: runnerA},
	}, c.Skills, "equal documents stay apart by callable and source")
}

func TestDocumentsWithoutADeclaredSkillJoinNoCatalog(t *testing.T) {
	t.Parallel()
	s := skilled(`[{"name":"make","description":"Build it"}]`)
	require.Empty(t, assemble(t, bypass(routed("read_b", runnerB, "read")), &runnerB, s).Skills)
	require.Empty(t, assemble(t, importing(`"runner_tool_names":["read"],`), &runnerA, s).Skills)
	require.Empty(t, assemble(t, bypass(routed("docs", runnerB, "skill")), nil, skilled(`[]`)).Skills)
}

func TestTheSkillCatalogIsBounded(t *testing.T) {
	t.Parallel()
	documents := func(n int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf(`{"name":"s%d","description":%q}`, i, strings.Repeat("x", 1024))
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	cfg := configuration(t, bypass(routed("docs", runnerB, "skill")))
	_, err := declaration.Assemble(cfg.Sources, nil, declaration.Options{}, skilled(documents(13)))
	require.NoError(t, err)
	_, err = declaration.Assemble(cfg.Sources, nil, declaration.Options{}, skilled(documents(16)))
	requireRefused(t, err, toolpark.CodeSkillCatalogTooLarge, "/configuration/tool_definitions")
}
