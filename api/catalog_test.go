package api_test

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/sdk/agent"
)

// published is an entry of the catalog, with no other field.
type published struct {
	Canonical     string                 `json:"canonical_name"`
	Name          string                 `json:"name"`
	EffectProfile toolpark.EffectProfile `json:"effect_profile"`
	Definition    jsontext.Value         `json:"definition"`
	Template      string                 `json:"template"`
}

func (s *scene) catalog() []published {
	s.t.Helper()
	var answer struct {
		Tools []published `json:"tools"`
	}
	got := s.asAgent("GET", "/tools", "").ok(http.StatusOK)
	require.NoError(s.t, json.Unmarshal(got.Body, &answer, json.RejectUnknownMembers(true)))
	return answer.Tools
}

func TestTheCatalog(t *testing.T) {
	t.Parallel()
	s := sceneAt(t, kerneltest.StartAPI(t))
	tools := s.catalog()

	t.Run("it lists what runs, in canonical order, and no name that is only reserved", func(t *testing.T) {
		names := make([]string, len(tools))
		for i, tool := range tools {
			names[i] = tool.Canonical + " " + tool.Name
		}
		require.Equal(t, []string{
			"nexus.graph.wait wait", "nexus.human.ask ask", "nexus.runners.list runners_list", "nexus.tools.call tool_call",
			"nexus.tools.search tool_search",
		}, names)
	})

	t.Run("each has every field", func(t *testing.T) {
		for _, tool := range tools {
			require.Contains(t, []string{toolpark.ScopeClosed, toolpark.ScopeOpen}, tool.EffectProfile.EffectScope)
			var definition struct {
				Type     string `json:"type"`
				Function struct {
					Name        string         `json:"name"`
					Description string         `json:"description"`
					Parameters  jsontext.Value `json:"parameters"`
				} `json:"function"`
			}
			require.NoError(t, json.Unmarshal(tool.Definition, &definition, json.RejectUnknownMembers(true)))
			require.Equal(t, "function", definition.Type)
			require.Equal(t, tool.Name, definition.Function.Name)
			require.Contains(t, string(definition.Function.Parameters), `"additionalProperties":false`)
			plain := strings.NewReplacer("{{tool_search}}", "tool_search", "{{tool_call}}", "tool_call", "{{runners_list}}", "runners_list")
			require.Equal(t, plain.Replace(tool.Template), definition.Function.Description, "macros are rendered as wire names")
		}
		require.Contains(t, tools[4].Template, "{{tool_call}}")
	})

	t.Run("it reads the same to every member, every time", func(t *testing.T) {
		first := s.asAgent("GET", "/tools", "").ok(http.StatusOK)
		require.Equal(t, string(first.Body), string(s.send("GET", base+"/tools", s.Admin.Token, "").ok(http.StatusOK).Body))
		s.badly("GET", "/tools?limit=5", "").refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
	})

	t.Run("selecting names and splicing definitions come to the same", func(t *testing.T) {
		var canonical []string
		var definitions []jsontext.Value
		for _, tool := range tools {
			canonical, definitions = append(canonical, tool.Canonical), append(definitions, tool.Definition)
		}
		byName, err := s.Agent.Assemble(t.Context(), "", &agent.Configuration{KernelTools: canonical})
		require.NoError(t, err)
		require.Len(t, byName.ToolDefinitions, len(tools))
		slices.Reverse(definitions)
		spliced, err := s.Agent.Assemble(t.Context(), "", &agent.Configuration{ToolDefinitions: definitions})
		require.NoError(t, err)
		require.Equal(t, byName, spliced)
		both, err := s.Agent.Assemble(t.Context(), "", &agent.Configuration{ToolDefinitions: definitions, KernelTools: canonical})
		require.NoError(t, err)
		require.Equal(t, byName, both, "kernel_tools does not override what is declared")
	})

	t.Run("the SDK reads it", func(t *testing.T) {
		read, err := s.Agent.KernelTools(t.Context())
		require.NoError(t, err)
		require.Len(t, read, len(tools))
		require.Equal(t, tools[0].Template, read[0].Template)
	})
}
