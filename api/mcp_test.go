package api_test

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/api/apitest"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/internal/strictjson"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
)

// mcpTool is a tool as an MCP server lists it. What has no place in an announcement is left out.
type mcpTool struct {
	Name         string         `json:"name"`
	Title        string         `json:"title"`
	Description  string         `json:"description"`
	InputSchema  jsontext.Value `json:"inputSchema"`
	OutputSchema jsontext.Value `json:"outputSchema"`
	Annotations  struct {
		Title       string `json:"title"`
		ReadOnly    bool   `json:"readOnlyHint"`
		Destructive *bool  `json:"destructiveHint"` // true unless it says otherwise, like the world being open
		Idempotent  bool   `json:"idempotentHint"`
		OpenWorld   *bool  `json:"openWorldHint"`
	} `json:"annotations"`
}

// mcpTools reads the result of tools/list.
func mcpTools(t *testing.T, list []byte) []mcpTool {
	t.Helper()
	var answer struct {
		Tools []mcpTool `json:"tools"`
	}
	require.NoError(t, json.Unmarshal(list, &answer))
	require.NotEmpty(t, answer.Tools)
	return answer.Tools
}

// entry is how a bridge announces the tool.
func (m mcpTool) entry() runner.Entry {
	unlessDenied := func(hint *bool) bool { return hint == nil || *hint }
	effect := toolpark.EffectProfile{
		Kind: toolpark.EffectWrite, Destructive: unlessDenied(m.Annotations.Destructive),
		EffectScope: toolpark.ScopeClosed, Idempotency: toolpark.IdempotentNone, Reconciliation: toolpark.ReconcileNone,
	}
	if unlessDenied(m.Annotations.OpenWorld) {
		effect.EffectScope = toolpark.ScopeOpen
	}
	if m.Annotations.Idempotent {
		effect.Idempotency = toolpark.IdempotentBy
	}
	if m.Annotations.ReadOnly { // the hints on writing then mean nothing
		effect.Kind, effect.Destructive, effect.Idempotency = toolpark.EffectReadOnly, false, toolpark.IdempotentBy
	}
	e := runner.Entry{
		Name: m.Name, Title: m.Title, Description: m.Description,
		InputSchema: m.InputSchema, OutputSchema: m.OutputSchema, EffectProfile: effect,
	}
	if e.Title == "" {
		e.Title = m.Annotations.Title
	}
	return e
}

// refusal is an entry of an announcement that was refused: which tool, where in its entry, and why.
type refusal struct{ Tool, Place, Reason string }

var entryPath = regexp.MustCompile(`^tools\[(\d+)\]\.(.+)$`)

// bridge announces the tools as a bridge does: what is refused is left out and the rest announced.
func bridge(ctx context.Context, t *testing.T, at kerneltest.Executor, tools []mcpTool) (served []runner.Entry, refused []refusal) {
	t.Helper()
	for _, tool := range tools {
		served = append(served, tool.entry())
	}
	for range 3 { // the entries' grammar is judged first, then whether their names are free
		_, err := at.Announce(ctx, runner.Announcement{Tools: served})
		if err == nil {
			return served, refused
		}
		refusedAs, ok := errors.AsType[*toolpark.Error](err)
		require.True(t, ok, "%v", err)
		entries, ok := refusedAs.Details["entries"].(jsontext.Value)
		require.True(t, ok, "%v", err)
		var problems []struct {
			Path    string `json:"path"`
			Message string `json:"message"`
		}
		require.NoError(t, json.Unmarshal(entries, &problems))
		bad := map[string]bool{}
		for _, p := range problems {
			path := entryPath.FindStringSubmatch(p.Path)
			require.NotNil(t, path, "%s", p.Path)
			i, err := strconv.Atoi(path[1])
			require.NoError(t, err)
			bad[served[i].Name] = true
			refused = append(refused, refusal{served[i].Name, path[2], p.Message})
		}
		served = slices.DeleteFunc(served, func(e runner.Entry) bool { return bad[e.Name] })
	}
	require.Fail(t, "what is left is refused, too", "%v", refused)
	return nil, nil
}

// settle makes a round of calls and waits for their results.
func (s *scene) settle(run string, calls ...agent.Call) []agent.Task {
	s.t.Helper()
	round, err := s.Agent.PostRound(s.t.Context(), run, agent.NewRound{Calls: calls})
	require.NoError(s.t, err)
	settled, err := s.Agent.Round(s.t.Context(), run, round.Number, patience)
	require.NoError(s.t, err)
	require.True(s.t, settled.Settled)
	return settled.Results
}

// offeredTool is what every provider is told of a tool, whatever the form.
type offeredTool struct{ Name, Description, Schema string }

// offered are the tools that a model is offered, or those of the names.
func (s *scene) offered(run string, format toolpark.Format, names ...string) (tools []offeredTool) {
	s.t.Helper()
	projection, err := s.Agent.Tools(s.t.Context(), run, format, names...)
	require.NoError(s.t, err)
	for _, raw := range projection.Tools {
		if format == toolpark.FormatChatCompletions {
			var chat struct {
				Function jsontext.Value `json:"function"`
			}
			require.NoError(s.t, json.Unmarshal(raw, &chat))
			raw = chat.Function
		}
		var told struct {
			Name        string         `json:"name"`
			Description string         `json:"description"`
			Parameters  jsontext.Value `json:"parameters"`
			InputSchema jsontext.Value `json:"input_schema"`
		}
		require.NoError(s.t, json.Unmarshal(raw, &told))
		tools = append(tools, offeredTool{told.Name, told.Description, string(told.Parameters) + string(told.InputSchema)})
	}
	return tools
}

func namesOfTools(tools []offeredTool) []string {
	names := make([]string, len(tools))
	for i, tool := range tools {
		names[i] = tool.Name
	}
	return names
}

// answering serves the entries with one answer.
func answering(entries []runner.Entry, result runner.Result) []runner.Tool {
	tools := make([]runner.Tool, len(entries))
	for i, e := range entries {
		tools[i] = runner.Tool{Entry: e, Run: func(context.Context, runner.Call) (runner.Result, error) { return result, nil }}
	}
	return tools
}

// What MCP servers list is announced, imported, offered, found and called.
func TestToolsOfMCPServers(t *testing.T) {
	t.Parallel()
	k := kerneltest.Start(t)
	for _, server := range []struct {
		list string

		find  string // a search, and the tools it finds, best first
		found []string

		call, input string // a call, and what the server answers
		text        string
		structured  jsontext.Value
		bad, reason string // an input that the schema refuses, and why
	}{
		{
			list: "server-everything-2026.8.31",
			find: "sampling", found: []string{"trigger-sampling-request", "trigger-sampling-request-async"},
			call: "get-structured-content", input: `{"location":"New York"}`,
			text: "33 degrees, cloudy", structured: jsontext.Value(`{"temperature":33,"conditions":"Cloudy","humidity":82.0}`),
			bad: `{"location":"Paris"}`, reason: "/location",
		},
		{
			list: "server-filesystem-2026.8.31",
			find: "read text", found: []string{"read_text_file", "read_file"},
			call: "read_text_file", input: `{"path":"/srv/notes.txt","head":1e1}`,
			text: "one\ntwo", structured: jsontext.Value(`{"content":"one\ntwo"}`),
			bad: `{"head":10}`, reason: "path",
		},
		{
			list: "server-memory-2026.8.31",
			find: "delete", found: []string{"delete_entities", "delete_observations", "delete_relations"},
			call: "create_entities", input: `{"entities":[{"name":"Ada","entityType":"person","observations":["counts"]}]}`,
			text: "1 entity", structured: jsontext.Value(`{"entities":[{"name":"Ada","entityType":"person","observations":["counts"]}]}`),
			bad: `{"entities":[{"name":"Ada","entityType":"person","observations":[5]}]}`, reason: "/entities/0/observations/0",
		},
		{
			list: "server-sequential-thinking-2026.8.31",
			find: "breaking down", found: []string{"sequentialthinking"},
			call: "sequentialthinking", input: `{"thought":"a","nextThoughtNeeded":"true","thoughtNumber":9007199254740991,"totalThoughts":2}`,
			text: "noted", structured: jsontext.Value(`{"thoughtNumber":1,"totalThoughts":2,"nextThoughtNeeded":true,"branches":[],"thoughtHistoryLength":1}`),
			bad: `{"thought":"a","nextThoughtNeeded":true,"thoughtNumber":9007199254740992,"totalThoughts":2}`, reason: "/thoughtNumber",
		},
	} {
		t.Run(server.list, func(t *testing.T) {
			list, err := os.ReadFile(filepath.Join("testdata", "mcp", server.list+".json"))
			require.NoError(t, err)
			s := sceneAt(t, k)
			entries, refused := bridge(t.Context(), t, s.Box, mcpTools(t, list))
			require.Empty(t, refused)

			row, err := s.Agent.Executor(t.Context(), s.Box.ID.String())
			require.NoError(t, err)
			require.Len(t, row.ServedTools, len(entries))
			for i, e := range entries {
				require.Equal(t, agent.ServedTool{
					Name: e.Name, EffectProfile: e.EffectProfile, Title: e.Title, Description: e.Description,
					InputSchema: e.InputSchema, OutputSchema: e.OutputSchema,
				}, row.ServedTools[i])
			}

			run := s.importing()
			var whole []offeredTool
			for _, e := range entries {
				whole = append(whole, offeredTool{e.Name, e.Description, string(e.InputSchema)})
			}
			slices.SortFunc(whole, func(a, b offeredTool) int { return strings.Compare(a.Name, b.Name) })
			names := namesOfTools(whole)
			for _, format := range []toolpark.Format{toolpark.FormatChatCompletions, toolpark.FormatResponses, toolpark.FormatAnthropic} {
				require.Equal(t, whole, s.offered(run, format, names...), "imported as announced")
				require.Equal(t, []string{"runners_list", "tool_call", "tool_search"}, namesOfTools(s.offered(run, format)), "the rest is to be found")
			}

			results := s.settle(run,
				agent.Call{Name: "tool_search", Arguments: fmt.Sprintf(`{"query":%q}`, server.call)},
				agent.Call{Name: "tool_search", Arguments: fmt.Sprintf(`{"query":%q}`, server.find)},
			)
			tool := whole[slices.Index(names, server.call)]
			canonical, err := strictjson.Canonical(jsontext.Value(tool.Schema))
			require.NoError(t, err)
			require.Equal(t, []offeredTool{{tool.Name, tool.Description, string(canonical)}}, foundTools(t, results[0]))
			require.Equal(t, server.found, namesOfTools(foundTools(t, results[1])))

			s.Work(s.Box, 4, answering(entries, runner.Result{Text: server.text, StructuredContent: server.structured})...)
			called := s.settle(run,
				agent.Call{Name: server.call, Arguments: server.input},
				agent.Call{Name: "tool_call", Arguments: fmt.Sprintf(`{"name":%q,"input":%s}`, server.call, server.input)},
				agent.Call{Name: server.call, Arguments: server.bad},
			)
			for _, task := range called[:2] {
				require.Equal(t, toolpark.Completed, task.Status, "%s", task.Raw)
				require.Equal(t, server.text, task.Output)
				require.Equal(t, string(server.structured), string(task.StructuredContent))
			}
			require.Equal(t, server.input, string(called[0].ToolInput))
			require.Equal(t, toolpark.Failed, called[2].Status)
			require.Equal(t, "invalid_tool_input", called[2].Error.Key)
			require.Contains(t, called[2].Error.Detail, server.reason)
		})
	}
}

// foundTools are the tools that a search shows.
func foundTools(t *testing.T, search agent.Task) (tools []offeredTool) {
	t.Helper()
	require.Equal(t, toolpark.Completed, search.Status, "%s", search.Raw)
	var answer struct {
		Tools []struct {
			Definition struct {
				Function struct {
					Name        string         `json:"name"`
					Description string         `json:"description"`
					Parameters  jsontext.Value `json:"parameters"`
				} `json:"function"`
			} `json:"definition"`
		} `json:"tools"`
		Truncated bool `json:"truncated"`
	}
	require.NoError(t, json.Unmarshal(search.StructuredContent, &answer))
	require.False(t, answer.Truncated)
	for _, tool := range answer.Tools {
		f := tool.Definition.Function
		tools = append(tools, offeredTool{f.Name, f.Description, string(f.Parameters)})
	}
	return tools
}

// What servers are known to list and an announcement may not hold is refused by name, with the place and
// the reason; the rest is announced without it.
func TestMCPToolsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	tools := mcpTools(t, []byte(`{"tools":[
		{"name":"described","description":"Works.","inputSchema":{"type":"object"}},
		{"name":"undescribed","inputSchema":{"type":"object"}}]}`))
	bad := []struct{ tool, place, reason string }{
		{`{"name":"no type","inputSchema":{}}`, "input_schema", `give it "type": "object"`},
		{`{"name":"no schema","inputSchema":null}`, "input_schema", "a schema must be an object"},
		{`{"name":"text","inputSchema":{"type":"string"}}`, "input_schema", `give it "type": "object"`},
		{`{"name":"nullable","inputSchema":{"type":["object","null"]}}`, "input_schema", `give it "type": "object"`},
		{`{"name":"misspelled","inputSchema":{"type":"object","properties":{"n":{"type":"nubmer"}}}}`, "input_schema", `at /properties/n/type, "type" must be one of`},
		{`{"name":"required flag","inputSchema":{"type":"object","properties":{"n":{"required":true}}}}`, "input_schema", `at /properties/n/required, "required" must be an array`},
		{`{"name":"null property","inputSchema":{"type":"object","properties":{"n":null}}}`, "input_schema", "at /properties/n, a schema must be an object, true or false"},
		{`{"name":"empty enum","inputSchema":{"type":"object","properties":{"n":{"enum":[]}}}}`, "input_schema", `at /properties/n/enum, "enum" must be an array with at least one value`},
		{`{"name":"left behind","inputSchema":{"type":"object","properties":{"n":{"$ref":"#/components/schemas/Page"}}}}`, "input_schema", `"#/components/schemas/Page" names no schema of the document`},
		{`{"name":"elsewhere","inputSchema":{"type":"object","properties":{"n":{"$ref":"https://example.com/page.json"}}}}`, "input_schema", `"https://example.com/page.json" leaves the document and is never fetched`},
		{`{"name":"file","inputSchema":{"type":"object"},"outputSchema":{"$ref":"file:///etc/hostname"}}`, "output_schema", `"file:///etc/hostname" leaves the document and is never fetched`},
		{`{"name":"look-ahead","inputSchema":{"type":"object","properties":{"n":{"pattern":"^(?!-)[a-z-]+$"}}}}`, "input_schema", "at /properties/n/pattern, the pattern is not in RE2 syntax"},
		{`{"name":"draft 4","inputSchema":{"type":"object","properties":{"n":{"minimum":0,"exclusiveMinimum":true}}}}`, "input_schema", `"exclusiveMinimum" must be a number`},
		{`{"name":"` + strings.Repeat("n", 129) + `","inputSchema":{"type":"object"}}`, "name", "is longer than 128 characters"},
		{`{"name":"ask","inputSchema":{"type":"object"}}`, "name", "only the kernel serves"},
		{`{"name":"nexus.tools.list","inputSchema":{"type":"object"}}`, "name", "only the kernel serves"},
	}
	good := len(tools)
	for _, b := range bad {
		tools = append(tools, mcpTools(t, []byte(`{"tools":[`+b.tool+`]}`))...)
	}

	served, refused := bridge(apitest.BadRequest(t.Context()), t, s.Box, tools)
	require.Len(t, refused, len(bad))
	for i, b := range bad {
		require.Equal(t, tools[good+i].Name, refused[i].Tool)
		require.Equal(t, b.place, refused[i].Place, b.tool)
		require.Contains(t, refused[i].Reason, b.reason, b.tool)
	}
	require.Len(t, served, good)
	run := s.importing()
	require.Equal(t, []offeredTool{{"described", "Works.", `{"type":"object"}`}}, s.offered(run, toolpark.FormatAnthropic, "described"))
	_, err := s.Agent.Tools(t.Context(), run, toolpark.FormatAnthropic, "undescribed")
	require.Equal(t, toolpark.CodeToolNotDeclared, code(err), "a model cannot choose a tool that does not say what it does")
}

// A tool whose served name no provider takes, or whose name is a kernel tool's, is found and called under
// the name that its import gave it; the runner reads its own spelling.
func TestUnusualNamesAreImportedAndCalled(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	long := strings.Repeat("n", 127)
	served := []string{long + "a", long + "b", "repo.list-tags", "repo/list tags", `quote"back\slash`, "天気", "caf\u00e9", "cafe\u0301", "memory_read"}
	tools := make([]runner.Tool, len(served))
	for i, name := range served {
		tools[i] = runner.Tool{Entry: readOnly(name), Run: func(_ context.Context, c runner.Call) (runner.Result, error) {
			return runner.Text(c.Tool), nil
		}}
	}
	entries := make([]runner.Entry, len(tools))
	for i, tool := range tools {
		entries[i] = tool.Entry
	}
	s.Serve(s.Box, entries...)
	run := s.importing()

	searches := make([]agent.Call, len(served))
	for i, name := range served {
		query, err := json.Marshal(map[string]string{"query": name})
		require.NoError(t, err)
		searches[i] = agent.Call{Name: "tool_search", Arguments: string(query)}
	}
	var calls []agent.Call
	for i, task := range s.settle(run, searches...) {
		found := foundTools(t, task)
		require.NotEmpty(t, found, "the served name finds its tool")
		callable := found[0].Name
		require.Regexp(t, `^[A-Za-z0-9_-]{1,49}__[0-9a-f]{12}$`, callable, served[i])
		calls = append(calls, agent.Call{Name: callable}, agent.Call{Name: "tool_call", Arguments: fmt.Sprintf(`{"name":%q,"input":{}}`, callable)})
	}
	s.Work(s.Box, 4, tools...)
	for i, task := range s.settle(run, calls...) {
		require.Equal(t, toolpark.Completed, task.Status, "%s", task.Raw)
		require.Equal(t, served[i/2], task.Output)
	}
}
