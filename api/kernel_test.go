package api_test

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/api/apitest"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
)

// importing creates a run of the agent that imports all of the box's tools and some of the kernel's.
func (s *scene) importing(definitions ...jsontext.Value) string {
	s.t.Helper()
	run, err := s.Agent.CreateRun(s.t.Context(), agent.NewRun{DefaultRunner: s.Box.ID.String(), Configuration: &agent.Configuration{
		ToolDefinitions: definitions,
		KernelTools:     []string{"nexus.tools.search", "nexus.tools.call", "nexus.runners.list"},
		Runners:         []string{s.Box.ID.String()},
		ApprovalMode:    "bypass",
	}})
	require.NoError(s.t, err)
	require.Equal(s.t, toolpark.RunRunning, run.Status)
	return run.PublicID
}

// result makes one call and waits for its result. The names, if any, narrow the round.
func (s *scene) result(run, name, arguments string, names ...string) agent.Task {
	s.t.Helper()
	round, err := s.Agent.PostRound(s.t.Context(), run, agent.NewRound{
		Calls: []agent.Call{{Name: name, Arguments: arguments}}, ToolNames: names,
	})
	require.NoError(s.t, err)
	settled, err := s.Agent.Round(s.t.Context(), run, round.Number, patience)
	require.NoError(s.t, err)
	require.True(s.t, settled.Settled)
	return settled.Results[0]
}

// echoing is a tool that answers with its own input.
func echoing(e runner.Entry) runner.Tool {
	return runner.Tool{Entry: e, Run: func(_ context.Context, call runner.Call) (runner.Result, error) {
		return runner.Text(string(call.Input)), nil
	}}
}

// entryOf is a tool of a description and an input schema.
func entryOf(name, description, schema string) runner.Entry {
	e := readOnly(name)
	e.Description, e.InputSchema = description, jsontext.Value(schema)
	return e
}

func TestRunnersList(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	leaving, second := s.Runner("leaving"), s.Runner("second")
	for _, r := range []kerneltest.Executor{s.Box, second, leaving} {
		_, err := r.Announce(t.Context(), runner.Announcement{Tools: []runner.Entry{}, Environment: jsontext.Value(`{"z":1.0,"os":"linux"}`)})
		require.NoError(t, err)
	}
	require.NoError(t, leaving.Shutdown(t.Context()))
	list := func(selected string, candidates ...string) (run string) {
		t.Helper()
		made, err := s.Agent.CreateRun(t.Context(), agent.NewRun{DefaultRunner: selected, Configuration: &agent.Configuration{
			KernelTools: []string{"nexus.runners.list"}, Runners: candidates, RunnerToolNames: &[]string{}, ApprovalMode: "bypass",
		}})
		require.NoError(t, err)
		return made.PublicID
	}
	entry := func(r kerneltest.Executor, name string) string {
		return fmt.Sprintf(`{"display_name":%q,"environment":{"os":"linux","z":1.0},"runner_executor_public_id":%q}`, name, r.ID)
	}
	run := list(s.Box.ID.String(), second.ID.String(), leaving.ID.String(), s.Box.ID.String())
	want := `{"current_runner_executor_public_id":"` + s.Box.ID.String() + `","runners":[` + entry(second, "second") + `,` + entry(s.Box, "box") + `]}`
	task := s.result(run, "runners_list", `{}`)
	require.Equal(t, want, task.Output, "the eligible candidates in declared order")
	require.Equal(t, want, string(task.StructuredContent))
	require.Equal(t, want, s.result(run, "runners_list", "").Output, "no arguments are as good")
	require.Equal(t, toolpark.ErrInvalidToolInput, s.result(run, "runners_list", `{"kind":"runner"}`).Error.Key)

	require.NoError(t, second.Shutdown(t.Context()))
	s.Serve(leaving)
	require.Equal(t, want, s.result(run, "runners_list", `{}`).Output, "frozen with the run")

	none := list("", s.Box.ID.String())
	require.Equal(t, `{"current_runner_executor_public_id":null,"runners":[`+entry(s.Box, "box")+`]}`, s.result(none, "runners_list", `{}`).Output)
	require.Equal(t, `{"current_runner_executor_public_id":null,"runners":[]}`, s.result(list(""), "runners_list", `{}`).Output)
}

func TestKernelToolsHaveNoAddressee(t *testing.T) {
	t.Parallel()
	k := kerneltest.StartAPI(t)
	stop := k.StartWorker()
	s := sceneAt(t, k, readOnly("look"))
	provider := s.Executor(toolpark.ToolsProvider, "pool", toolpark.AccountWide)
	s.Serve(provider, readOnly("memory_read"))
	run := s.importing()
	stop()
	waiting := s.calls(run, agent.Call{Name: "tool_call", Arguments: `{"name":"look","input":{}}`}, agent.Call{Name: "tool_search", Arguments: `{"query":"a"}`})
	for _, ref := range waiting {
		task := s.asAgent("GET", taskPath(ref), "").ok(http.StatusOK)
		require.EqualValues(t, toolpark.Running, task.text("/task/status"))
		require.Equal(t, "null", string(task.raw("/task/addressed_to")))
		require.Equal(t, "60000", string(task.raw("/task/timeout_ms")), "it parks on a clock like every other")
		require.NotEmpty(t, task.text("/task/deadline_at"))
		for _, e := range []kerneltest.Executor{s.Box, s.AgentAt, provider} {
			_, err := e.Claim(t.Context(), ref, "k")
			require.Equal(t, toolpark.CodeNotAddressedHere, code(err))
			s.sendBad("POST", inboxPath(ref, "commit"), e.Token, reportBody("tp_claim_x", `"content":"forged"`)).
				refused(http.StatusConflict, toolpark.CodeNotAddressedHere)
			require.Empty(t, inbox(t, e))
		}
	}
	k.StartWorker()
	require.EqualValues(t, toolpark.Completed, s.settled(waiting[1]).text("/task/status"), "once a worker runs, the kernel works it out")
	child := childOf(waiting[0])
	require.Eventually(t, func() bool { return slices.Contains(inbox(t, s.Box), child.TaskKey) }, patience, patience/400)
	_, err := s.AgentAt.Claim(t.Context(), child, "k")
	require.Equal(t, toolpark.CodeNotAddressedHere, code(err))
	s.report(child, s.claim(child), `"content":"done"`).ok(http.StatusOK)
	require.Equal(t, "done", s.settled(waiting[0]).text("/task/output"))
}

// A kernel tool that a round does not declare is a name like any that nobody serves.
func TestAWithheldKernelToolIsUnknown(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	s.Work(s.Box, 1, echoing(readOnly("look")))
	bare, all := s.run(), s.importing()
	for run, names := range map[string][]string{bare: nil, all: {"look"}} {
		calls := []agent.Call{{Name: "look", Arguments: `{"n":1}`}}
		for _, name := range kernelNames {
			calls = append(calls, agent.Call{Name: name, Arguments: `{"name":"look","input":{}}`})
		}
		round, err := s.Agent.PostRound(t.Context(), run, agent.NewRound{Calls: calls, ToolNames: names})
		require.NoError(t, err)
		settled, err := s.Agent.Round(t.Context(), run, round.Number, patience)
		require.NoError(t, err)
		require.True(t, settled.Settled)
		require.Equal(t, `{"n":1}`, settled.Results[0].Output, "one bad name never fails the round")
		for _, task := range settled.Results[1:] {
			require.Equal(t, toolpark.ErrUnknownTool, task.Error.Key, task.CallableName)
		}
	}
}

// kernelNames are all names that the kernel keeps for itself, in both spellings, live or not.
var kernelNames = []string{
	"nexus.graph.delegate_task", "delegate_task", "nexus.graph.wait", "wait", "nexus.human.ask", "ask",
	"nexus.conversation.spawn", "spawn", "nexus.conversation.send", "send", "nexus.conversation.status", "status",
	"nexus.conversation.cancel", "cancel", "nexus.memory.read", "memory_read", "nexus.memory.ls", "memory_ls",
	"nexus.memory.grep", "memory_grep", "nexus.memory.write", "memory_write", "nexus.memory.edit", "memory_edit",
	"nexus.memory.delete", "memory_delete", "nexus.skill.load", "skill", "nexus.tools.search", "tool_search",
	"nexus.tools.call", "tool_call", "nexus.runners.list", "runners_list",
}

func TestKernelNamesAtTheOtherDoors(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	run := s.run()
	for _, name := range kernelNames {
		t.Run(name, func(t *testing.T) {
			for _, route := range []string{``, `,"route":{"kind":"runner","runner_executor_public_id":"` + s.Box.ID.String() + `"}`} {
				a := s.asAgent("POST", "/runs/"+run+"/tasks", `{"steps":[{"tool":{"name":"`+name+`"`+route+`}}]}`)
				a.refused(http.StatusUnprocessableEntity, toolpark.CodeReservedToolName)
				require.Equal(t, "/steps/0/tool/name", a.text("/error/steps/0/path"))
			}
			memory := strings.Contains(name, "memory") || strings.Contains(name, "skill")
			_, err := s.Box.Announce(apitest.BadRequest(t.Context()), runner.Announcement{Tools: []runner.Entry{readOnly("look"), readOnly(name)}})
			if memory {
				require.NoError(t, err, "a provider may serve memory, and every executor its own skills")
				return
			}
			require.Equal(t, toolpark.CodeReservedNamespace, code(err))
			require.ErrorContains(t, err, "tools[1].name")
		})
	}
	t.Run("names under a reserved namespace", func(t *testing.T) {
		for _, name := range []string{"nexus.graph", "nexus.graph.anything", "nexus.human.x", "nexus.conversation.x.y", "nexus.tools.", "nexus.runners.x"} {
			_, err := s.Box.Announce(apitest.BadRequest(t.Context()), runner.Announcement{Tools: []runner.Entry{readOnly(name)}})
			require.Equal(t, toolpark.CodeReservedNamespace, code(err), name)
		}
		s.Serve(s.Box, readOnly("nexus.graphite"), readOnly("Wait"))
	})
}

// Names that no provider takes are announced, imported and called; the runner is given its own spelling.
func TestImportedNamesReachTheRunnerAsSpelled(t *testing.T) {
	t.Parallel()
	names := []string{
		strings.Repeat("n", 76), strings.Repeat("n", 75) + "m", strings.Repeat("n", 128), strings.Repeat("n", 127) + "m",
		"repo.list-tags", "repo_list_tags", "repo/list tags", "天気", "翻訳", "openDoc", "OpenDoc", "caf\u00e9", "cafe\u0301",
		"memory_read", "skill", "a\"b", "{{tool_call}}",
	}
	s := newScene(t)
	tools := make([]runner.Tool, len(names))
	for i, name := range names {
		tools[i] = runner.Tool{Entry: readOnly(name), Run: func(_ context.Context, call runner.Call) (runner.Result, error) {
			return runner.Text(name + " " + call.Tool), nil
		}}
	}
	entries := make([]runner.Entry, len(tools))
	for i := range tools {
		entries[i] = tools[i].Entry
	}
	s.Serve(s.Box, entries...)
	s.Work(s.Box, 4, tools...)
	run := s.importing()
	frozen := s.asAgent("GET", "/runs/"+run+"/context", "").ok(http.StatusOK)
	var calls []agent.Call
	var served []string
	for i, callable := range frozen.names("/context/tool_definitions") {
		if name := frozen.text(fmt.Sprintf("/context/tool_definitions/%d/route/tool_name", i)); name != "" {
			wrapped, err := json.Marshal(map[string]any{"name": callable, "input": map[string]int{"n": i}})
			require.NoError(t, err)
			calls = append(calls, agent.Call{Name: callable}, agent.Call{Name: "tool_call", Arguments: string(wrapped)})
			served = append(served, name)
		}
	}
	require.ElementsMatch(t, names, served)
	round, err := s.Agent.PostRound(t.Context(), run, agent.NewRound{Calls: calls})
	require.NoError(t, err)
	settled, err := s.Agent.Round(t.Context(), run, round.Number, patience)
	require.NoError(t, err)
	for i, task := range settled.Results {
		name := served[i/2]
		require.Equal(t, name+" "+name, task.Output, "%s", task.Raw)
	}
}
