package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark/internal/catalog"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name                 string
		reserved, namespaced bool
	}{
		{"nexus.graph.delegate_task", true, true},
		{"delegate_task", true, true},
		{"nexus.graph.wait", true, true},
		{"wait", true, true},
		{"nexus.human.ask", true, true},
		{"ask", true, true},
		{"nexus.conversation.spawn", true, true},
		{"spawn", true, true},
		{"send", true, true},
		{"status", true, true},
		{"nexus.conversation.cancel", true, true},
		{"cancel", true, true},
		{"nexus.tools.search", true, true},
		{"tool_search", true, true},
		{"tool_call", true, true},
		{"nexus.runners.list", true, true},
		{"runners_list", true, true},

		{"nexus.memory.read", true, false},
		{"memory_read", true, false},
		{"memory_ls", true, false},
		{"memory_grep", true, false},
		{"memory_write", true, false},
		{"memory_edit", true, false},
		{"nexus.memory.delete", true, false},
		{"memory_delete", true, false},
		{"nexus.skill.load", true, false},
		{"skill", true, false},

		{"nexus.graph", false, true},
		{"nexus.graph.anything", false, true},
		{"nexus.tools.", false, true},
		{"nexus.graphite", false, false},
		{"nexus.memory.other", false, false},
		{"Nexus.Graph.Wait", false, false},
		{"Wait", false, false},
		{"bash", false, false},
		{"", false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.reserved, catalog.Reserved(tc.name))
			require.Equal(t, tc.namespaced, catalog.InReservedNamespace(tc.name))
		})
	}
}
