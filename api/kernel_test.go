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
	"time"

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

// wrapped makes one tool_call and names the task that it made, once that is there.
func (s *scene) wrapped(run, name, input string) (wrapper, child runner.Ref) {
	s.t.Helper()
	wrapper = s.call(run, "tool_call", fmt.Sprintf(`{"name":%q,"input":%s}`, name, input))
	child = childOf(wrapper)
	require.Eventually(s.t, func() bool {
		return s.badly("GET", taskPath(child), "").Status == http.StatusOK
	}, patience, patience/1000)
	return wrapper, child
}

func childOf(wrapper runner.Ref) runner.Ref {
	return runner.Ref{Run: wrapper.Run, TaskKey: wrapper.TaskKey + "-call-1", Generation: 1}
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

// found is what a search answers.
type found struct {
	Tools []struct {
		Name       string         `json:"name"`
		Definition jsontext.Value `json:"definition"`
		Route      jsontext.Value `json:"route"`
		Skills     jsontext.Value `json:"skills"`
	} `json:"tools"`
	Truncated bool `json:"truncated"`
}

// names are the callable names that were found, in order.
func (f found) names() []string {
	names := []string{}
	for _, t := range f.Tools {
		names = append(names, t.Name)
	}
	return names
}

// search calls tool_search with words, and perhaps further members of its input.
func (s *scene) search(run, query, more string, names ...string) found {
	s.t.Helper()
	task := s.result(run, "tool_search", fmt.Sprintf(`{"query":%q%s}`, query, more), names...)
	require.Equal(s.t, toolpark.Completed, task.Status, "%s", task.Raw)
	require.False(s.t, task.IsError)
	var f found
	require.NoError(s.t, json.Unmarshal(task.StructuredContent, &f, json.RejectUnknownMembers(true)))
	return f
}

func TestToolSearch(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	announcement := runner.Announcement{
		Tools: []runner.Entry{
			entryOf("tint", "Makes a photo darker.", `{"type":"object","properties":{"z":{"maximum":1.0},"a":{}}}`),
			entryOf("photo_tint", "Turns it.", `{"type":"object"}`),
			entryOf("crop", "Cuts a PHOTO, to tint it.", `{"type":"object"}`),
			entryOf("read", "Reads.", `{"type":"object"}`),
			entryOf("read/all", "Reads everything.", `{"type":"object"}`),
			readOnly("skill"), capability("operate"),
		},
		Documents: []runner.Document{{Name: "darkroom", Description: "How to develop a film."}},
	}
	_, err := s.Box.Announce(t.Context(), announcement)
	require.NoError(t, err)
	box := s.Box.ID.String()
	run := s.importing(
		function("mac_skill", routed(s.Box.ID, "skill")),
		jsontext.Value(`{"type":"function","name":"strict_one","strict":true,"parameters":{"type":"object","properties":{"n":{"maximum":1.0}}}}`),
	)

	t.Run("its result is canonical JSON, as text and as structure", func(t *testing.T) {
		task := s.result(run, "tool_search", `{"query":"tint"}`)
		require.Equal(t, `{"tools":[{"definition":{"function":{"description":"Makes a photo darker.","name":"tint",`+
			`"parameters":{"properties":{"a":{},"z":{"maximum":1.0}},"type":"object"},"strict":false},"type":"function"},"name":"tint",`+
			`"route":{"kind":"runner","runner_executor_public_id":"`+box+`","tool_name":"tint"},"skills":[]}],"truncated":false}`, task.Output)
		require.Equal(t, task.Output, string(task.StructuredContent))
	})

	t.Run("what it finds, in order", func(t *testing.T) {
		all := s.search(run, "reads everything", "")
		require.Len(t, all.Tools, 1)
		readAll := all.Tools[0].Name
		require.Regexp(t, `^read_all__[0-9a-f]{12}$`, readAll)
		for query, want := range map[string][]string{
			"read":                  {"read"},                       // an exact name alone
			"photo tint":            {"photo_tint", "tint", "crop"}, // by name, then by description, then by name
			"tInT PHOTO":            {"photo_tint", "tint", "crop"},
			"reads":                 {"read", readAll},
			"read/all":              {readAll},
			"darkroom":              {"mac_skill"},
			"FILM develop":          {"mac_skill"},
			"strict_one":            {"strict_one"},
			"reads nothing":         {},
			"operate":               {},
			"tool_search":           {"tool_search"},
			box + " cuts":           {"crop"},
			"crop " + s.ID.String(): {},
		} {
			f := s.search(run, query, "")
			require.Equal(t, want, f.names(), query)
			require.False(t, f.Truncated)
		}
	})

	t.Run("definitions are whole", func(t *testing.T) {
		f := s.search(run, "strict_one", "")
		require.Equal(t, `{"function":{"name":"strict_one","parameters":{"properties":{"n":{"maximum":1.0}},"type":"object"},"strict":true},"type":"function"}`,
			string(f.Tools[0].Definition))
		require.Empty(t, f.Tools[0].Route, "without a route there is none to show")
		f = s.search(run, "mac_skill", "")
		require.Equal(t, `[{"callable":"mac_skill","description":"How to develop a film.","executor_public_id":"`+box+`","name":"darkroom","source":"runner"}]`,
			string(f.Tools[0].Skills))
	})

	t.Run("a limit", func(t *testing.T) {
		f := s.search(run, box, "")
		require.Len(t, f.Tools, 5, "by default")
		require.True(t, f.Truncated)
		f = s.search(run, box, `,"limit":1`)
		require.Len(t, f.Tools, 1)
		require.True(t, f.Truncated)
		f = s.search(run, box, `,"limit":20`)
		require.Len(t, f.Tools, 6)
		require.False(t, f.Truncated)
	})

	t.Run("bounds are of the schema", func(t *testing.T) {
		for _, input := range []string{
			`{}`, `{"query":""}`, `{"query":5}`, `{"query":"a","limit":0}`, `{"query":"a","limit":21}`, `{"query":"a","limit":1.5}`,
			`{"query":"a","limit":"5"}`, `{"query":"a","more":1}`, `{"Query":"a"}`, `{"query":"` + strings.Repeat("x", 1001) + `"}`,
		} {
			task := s.result(run, "tool_search", input)
			require.Equal(t, toolpark.Failed, task.Status, input)
			require.Equal(t, toolpark.ErrInvalidToolInput, task.Error.Key, input)
		}
	})

	t.Run("a blank query is an error result that says so", func(t *testing.T) {
		for _, query := range []string{" ", `\t\n `, "\u3000"} {
			task := s.result(run, "tool_search", `{"query":"`+query+`"}`)
			require.Equal(t, toolpark.Completed, task.Status)
			require.True(t, task.IsError)
			require.Contains(t, task.Output, "blank")
		}
	})

	t.Run("of a narrowed round", func(t *testing.T) {
		f := s.search(run, box, `,"limit":20`, "tool_search", "crop")
		require.Equal(t, []string{"crop"}, f.names())
		require.Empty(t, s.search(run, "photo", "", "tool_search").names())
		task := s.result(run, "tool_search", `{"query":"a"}`, "crop")
		require.Equal(t, toolpark.ErrUnknownTool, task.Error.Key)
	})

	t.Run("never of a later announcement", func(t *testing.T) {
		s.Serve(s.Box, readOnly("later"))
		require.Empty(t, s.search(run, "later", "").names())
		require.Equal(t, []string{"crop"}, s.search(run, "crop", "").names())
		_, err := s.Box.Announce(t.Context(), announcement)
		require.NoError(t, err)
	})
}

func TestToolSearchKeepsWholeSchemasWithinItsBound(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	var entries []runner.Entry
	for _, name := range []string{"a_large", "b_large", "c_large", "huge"} {
		size := 30 << 10
		if name == "huge" {
			size = 70 << 10
		}
		entries = append(entries, entryOf(name, "Large.", `{"type":"object","description":"`+strings.Repeat("x", size)+`"}`))
	}
	s.Serve(s.Box, entries...)
	run := s.importing()
	f := s.search(run, "large", "")
	require.Equal(t, []string{"a_large", "b_large"}, f.names())
	require.True(t, f.Truncated)
	f = s.search(run, "c_large", "")
	require.Equal(t, []string{"c_large"}, f.names(), "more words find the rest")
	require.False(t, f.Truncated)
	f = s.search(run, "huge", "")
	require.Empty(t, f.names())
	require.True(t, f.Truncated)
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

func TestToolCallEndsAsItsChildDoes(t *testing.T) {
	t.Parallel()
	promising := readOnly("promising")
	promising.OutputSchema = jsontext.Value(`{"type":"object","required":["n"]}`)
	s := newScene(t, readOnly("look"), promising, within(readOnly("brief"), 300*time.Millisecond),
		within(kerneltest.Entry("risky", kerneltest.Writes), 700*time.Millisecond), within(kerneltest.Entry("slow", kerneltest.Keyed), time.Hour))
	run := s.importing()
	for name, c := range map[string]struct {
		tool, report string // no report: the tool is left to its deadline; the risky one is claimed
		status       toolpark.Status
		key          string
	}{
		"completed":             {"look", `"content":"done","title":"Done","metadata":{"z":1.0,"a":2},"structured_content":{"n":12345678901234567890}`, toolpark.Completed, ""},
		"completed with null":   {"look", `"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"structured_content":null`, toolpark.Completed, ""},
		"completed and blank":   {"look", `"content":""`, toolpark.Completed, ""},
		"an error":              {"look", `"content":"no such file","is_error":true`, toolpark.Completed, ""},
		"a failure":             {"look", `"content":"no sandbox","outcome":"failed"`, toolpark.Failed, toolpark.ErrToolFailed},
		"a broken promise":      {"promising", `"content":"x","structured_content":{}`, toolpark.Failed, toolpark.ErrOutputSchemaMismatch},
		"what cannot be stored": {"look", `"content":"a\u0000"`, toolpark.Failed, toolpark.ErrResultUnstorable},
		"a deadline":            {"brief", "", toolpark.TimedOut, toolpark.ErrToolTimeout},
		"an uncertain end":      {"risky", "", toolpark.Uncertain, toolpark.ErrToolUncertain},
	} {
		t.Run(name, func(t *testing.T) {
			wrapper, child := s.wrapped(run, c.tool, `{"path":"a"}`)
			if c.report != "" || c.tool == "risky" {
				token := s.claim(child)
				if c.report != "" {
					s.report(child, token, c.report)
				}
			}
			end, made := s.settled(wrapper), s.settled(child)
			require.EqualValues(t, c.status, end.text("/task/status"), "%s", end.Body)
			require.Equal(t, c.key, end.text("/task/error/key"))
			for _, fact := range []string{"status", "is_error", "error", "output", "content", "structured_content", "title", "metadata", "rejected_result"} {
				require.Equal(t, string(made.raw("/task/"+fact)), string(end.raw("/task/"+fact)), fact)
			}
			require.Equal(t, "tool_call", end.text("/task/tool_name"))
			require.Equal(t, "kernel", end.text("/task/approval/origin"))
			require.Equal(t, wrapper.TaskKey, made.text("/task/parent_task_key"))
			require.Equal(t, c.tool, made.text("/task/tool_name"))
			require.EqualValues(t, toolpark.OriginModel, made.text("/task/origin"))
			require.Equal(t, "mode", made.text("/task/approval/origin"))
			require.Equal(t, "null", string(made.raw("/task/round")))
			require.Equal(t, "null", string(made.raw("/task/tool_call_id")), "the result is paired with the wrapper")
		})
	}

	t.Run("it has no clock of its own while the child lives", func(t *testing.T) {
		wrapper, child := s.wrapped(run, "slow", `{}`)
		waiting := s.asAgent("GET", taskPath(wrapper), "").ok(http.StatusOK)
		require.EqualValues(t, toolpark.Running, waiting.text("/task/status"))
		require.Equal(t, "null", string(waiting.raw("/task/deadline_at")))
		parked := s.asAgent("GET", taskPath(child), "").ok(http.StatusOK)
		require.EqualValues(t, toolpark.Dispatched, parked.text("/task/status"))
		require.Equal(t, "3600000", string(parked.raw("/task/timeout_ms")), "as announced, longer than the wrapper's own")
		require.Equal(t, toolpark.EffectWrite, parked.text("/task/effect_profile/kind"))
		s.report(child, s.claim(child), `"content":"late and good"`).ok(http.StatusOK)
		require.Equal(t, "late and good", s.settled(wrapper).text("/task/output"))
	})
}

func TestToolCallOfWhatCannotRun(t *testing.T) {
	t.Parallel()
	strict := entryOf("strict", "Takes a path.", `{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}`)
	s := newScene(t, readOnly("read"), strict)
	run := s.importing(jsontext.Value(`{"name":"Go","canonical":"nexus.tools.call"}`), jsontext.Value(`{"type":"function","name":"nobody"}`))
	call := func(input string, names ...string) agent.Task {
		t.Helper()
		return s.result(run, "tool_call", input, names...)
	}
	for name, c := range map[string]struct {
		input, key, detail string
		child              bool
	}{
		"an unknown name":          {`{"name":"gone","input":{}}`, toolpark.ErrUnknownTool, "gone", true},
		"a served name, guessed":   {`{"name":"Read","input":{}}`, toolpark.ErrUnknownTool, "Read", true},
		"a canonical name":         {`{"name":"nexus.tools.search","input":{}}`, toolpark.ErrUnknownTool, "nexus.tools.search", true},
		"a name that is empty":     {`{"name":"","input":{}}`, toolpark.ErrUnknownTool, "", true},
		"a name without end":       {`{"name":"` + strings.Repeat("n", 9000) + `","input":{}}`, toolpark.ErrUnknownTool, "", true},
		"itself":                   {`{"name":"tool_call","input":{"name":"read","input":{}}}`, toolpark.ErrInvalidToolInput, "itself", false},
		"itself under an alias":    {`{"name":"Go","input":{"name":"read","input":{}}}`, toolpark.ErrInvalidToolInput, "itself", false},
		"an input that is refused": {`{"name":"strict","input":{"path":5}}`, toolpark.ErrInvalidToolInput, "/path", true},
		"an input that lacks":      {`{"name":"strict","input":{}}`, toolpark.ErrInvalidToolInput, "path", true},
		"what nobody serves":       {`{"name":"nobody","input":{}}`, toolpark.ErrToolNotServed, "nobody", true},
		"a search out of bounds":   {`{"name":"tool_search","input":{"query":"a","limit":21}}`, toolpark.ErrInvalidToolInput, "/limit", true},
		"no input":                 {`{"name":"read"}`, toolpark.ErrInvalidToolInput, "input", false},
		"an input of no object":    {`{"name":"read","input":"{}"}`, toolpark.ErrInvalidToolInput, "/input", false},
		"a name with U+0000":       {`{"name":"a\u0000","input":{}}`, toolpark.ErrInvalidToolInput, "/name", false},
	} {
		t.Run(name, func(t *testing.T) {
			task := call(c.input)
			require.Equal(t, toolpark.Failed, task.Status)
			require.Equal(t, c.key, task.Error.Key, "%s", task.Raw)
			require.Contains(t, task.Error.Detail, c.detail)
			child := s.badly("GET", taskPath(childOf(runner.Ref{Run: run, TaskKey: task.Key})), "")
			if !c.child {
				child.refused(http.StatusNotFound, toolpark.CodeNotFound)
				return
			}
			require.Equal(t, c.key, child.ok(http.StatusOK).text("/task/error/key"))
			require.Equal(t, task.Error.Detail, child.text("/task/error/detail"))
			require.Equal(t, "null", string(child.raw("/task/approval")), "it did not come so far")
		})
	}

	t.Run("what the round withholds", func(t *testing.T) {
		require.Equal(t, toolpark.ErrUnknownTool, call(`{"name":"read","input":{}}`, "tool_call", "strict").Error.Key)
	})

	t.Run("what a runner no longer serves, or that has gone", func(t *testing.T) {
		s.Serve(s.Box, strict)
		require.Equal(t, toolpark.ErrToolNotServed, call(`{"name":"read","input":{}}`).Error.Key)
		require.NoError(t, s.Box.Shutdown(t.Context()))
		require.Equal(t, toolpark.ErrRunnerNotEligible, call(`{"name":"strict","input":{"path":"a"}}`).Error.Key)
	})
}

// Digits, key order and spelling survive every way that a call can take (cases 6 and 17).
func TestCallsUnderAliases(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("read"))
	s.Work(s.Box, 2, echoing(readOnly("read")))
	run := s.importing(
		jsontext.Value(`{"name":"Go","canonical":"nexus.tools.call","params":{"tool":{"maps_to":"name"},"args":{"maps_to":"input","description":"What it takes."}}}`),
		jsontext.Value(`{"name":"Find","canonical":"nexus.tools.search","params":{"words":{"maps_to":"query"},"query":{"maps_to":"limit","description":"How many."}}}`),
	)
	const input = `{"id":9007199254740993,"big":12345678901234567890,"d":0.10,"tool":"x","e":1E+2,"\u0061<":"\u00e9"}`

	t.Run("are stored under the wire name, mapped, with the alias beside it", func(t *testing.T) {
		task := s.result(run, "Go", `{"args":`+input+`, "tool":"read"}`)
		require.Equal(t, toolpark.Completed, task.Status, "%s", task.Raw)
		require.Equal(t, "Go", task.CallableName)
		require.Equal(t, "tool_call", task.ToolName)
		require.Equal(t, "Go", task.ToolAlias)
		require.Equal(t, `{"input":`+input+`,"name":"read"}`, string(task.ToolInput))
		require.Equal(t, input, task.Output, "the runner was given what the model gave")
		child, err := s.Agent.Task(t.Context(), run, task.Key+"-call-1", 0)
		require.NoError(t, err)
		require.Equal(t, input, string(child.ToolInput))
		require.Empty(t, child.ToolAlias)
	})

	t.Run("are held to the alias's own parameters", func(t *testing.T) {
		for _, arguments := range []string{`{"name":"read","input":{}}`, `{"tool":"read","args":{},"name":"read"}`, `{"tool":"read"}`} {
			task := s.result(run, "Go", arguments)
			require.Equal(t, toolpark.ErrInvalidToolInput, task.Error.Key, arguments)
			require.Equal(t, arguments, string(task.ToolInput), "as the model gave it")
		}
	})

	t.Run("exchange names", func(t *testing.T) {
		task := s.result(run, "Find", `{"query":1,"words":"read"}`)
		require.Equal(t, `{"limit":1,"query":"read"}`, string(task.ToolInput))
		require.Contains(t, task.Output, `"name":"read"`)
	})

	t.Run("through tool_call", func(t *testing.T) {
		task := s.result(run, "tool_call", `{"name":"Find","input":{"words":"read"}}`)
		require.Contains(t, task.Output, `"name":"read"`)
		child, err := s.Agent.Task(t.Context(), run, task.Key+"-call-1", 0)
		require.NoError(t, err)
		require.Equal(t, "Find", child.CallableName)
		require.Equal(t, "tool_search", child.ToolName)
		require.Equal(t, "Find", child.ToolAlias)
		require.Equal(t, `{"query":"read"}`, string(child.ToolInput))
	})

	t.Run("kernel tools through tool_call", func(t *testing.T) {
		list := s.result(run, "runners_list", `{}`)
		require.Equal(t, list.Output, s.result(run, "tool_call", `{"name":"runners_list","input":{}}`).Output)
		blank := s.result(run, "tool_call", `{"name":"tool_search","input":{"query":" "}}`)
		require.True(t, blank.IsError)
		narrowed := s.result(run, "tool_call", `{"name":"tool_search","input":{"query":"does"}}`, "tool_call", "tool_search")
		require.Equal(t, `{"tools":[],"truncated":false}`, narrowed.Output, "the child sees what its round may call")
	})
}

func TestCancelingAToolCall(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	run := s.importing()
	work := s.listen("/executor/events", s.Box.Token)
	told := func(event string, child runner.Ref) {
		t.Helper()
		got := next(t, work)
		require.True(t, strings.HasPrefix(got, " "+event+" "), got)
		require.Contains(t, got, child.TaskKey)
	}
	canceled := func(ref runner.Ref) {
		t.Helper()
		a := s.settled(ref)
		require.EqualValues(t, toolpark.Canceled, a.text("/task/status"))
		require.Equal(t, toolpark.ErrTaskCanceled, a.text("/task/error/key"))
	}

	t.Run("cancels its child and tells the claimant", func(t *testing.T) {
		wrapper, child := s.wrapped(run, "look", `{}`)
		told("work_available", child)
		token := s.claim(child)
		s.asAgent("POST", taskPath(wrapper)+"/cancel", "").ok(http.StatusOK)
		told("work_canceled", child)
		canceled(wrapper)
		canceled(child)
		late := s.report(child, token, `"content":"late"`).refused(http.StatusConflict, toolpark.CodeClaimCanceled)
		require.EqualValues(t, toolpark.Canceled, late.text("/error/task/status"))
		s.asAgent("POST", taskPath(wrapper)+"/cancel", "").refused(http.StatusConflict, toolpark.CodeAlreadySettled)
	})

	t.Run("unclaimed", func(t *testing.T) {
		wrapper, child := s.wrapped(run, "look", `{}`)
		told("work_available", child)
		s.asAgent("POST", taskPath(wrapper)+"/cancel", "").ok(http.StatusOK)
		canceled(child)
		_, err := s.Box.Claim(t.Context(), child, "k")
		require.Equal(t, toolpark.CodeTaskNotClaimable, code(err))
		require.Empty(t, inbox(t, s.Box))
		require.Contains(t, next(t, work), "work_canceled")
	})

	t.Run("by canceling its child", func(t *testing.T) {
		wrapper, child := s.wrapped(run, "look", `{}`)
		told("work_available", child)
		s.asAgent("POST", taskPath(child)+"/cancel", "").ok(http.StatusOK)
		canceled(wrapper)
		require.Contains(t, next(t, work), "work_canceled")
	})

	t.Run("by a forced stop", func(t *testing.T) {
		wrapper, child := s.wrapped(run, "look", `{}`)
		told("work_available", child)
		s.asAgent("POST", "/runs/"+run+"/stop", `{"force":true}`).ok(http.StatusOK)
		canceled(wrapper)
		canceled(child)
		require.Eventually(t, func() bool {
			return s.asAgent("GET", "/runs/"+run, "").text("/run/status") == string(toolpark.RunCanceled)
		}, patience, patience/400)
		events := strings.Join(compacted(s.events(run)), "\n")
		for _, status := range []string{"dispatched", "canceled"} {
			require.Contains(t, events, fmt.Sprintf(`task_status {"task_key":"r1t0-call-1","generation":1,"status":%q}`, status))
		}
		for number := 1; number <= 4; number++ {
			require.Equal(t, 1, strings.Count(events, fmt.Sprintf(`round_settled {"round":%d}`, number)), events)
		}
	})
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
