package api_test

import (
	"encoding/json/jsontext"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
)

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
