package api_test

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
)

// A round may bring its own tools. They are assembled and frozen for it alone.
func TestARoundBringsItsOwnTools(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("read"), readOnly("write"), capability("operate"))
	other := s.Runner("other")
	s.Serve(other, readOnly("read"))
	box := s.Box.ID.String()
	run := s.importing()
	rounds := "/runs/" + run + "/rounds"
	frozen := string(s.asAgent("GET", "/runs/"+run+"/context", "").Body)
	post := func(name, more string, headers ...string) answer {
		t.Helper()
		return s.badly("POST", rounds, `{"calls":[{"name":"`+name+`"}]`+more+`}`, headers...)
	}
	// born is how the one call of a round began: its status, or its error.
	born := func(a answer) string {
		t.Helper()
		a.ok(http.StatusCreated)
		return a.text("/round/tasks/0/status") + " " + a.text("/round/tasks/0/error/key")
	}
	const dispatched, unknown = "dispatched ", "failed unknown_tool"

	t.Run("in the three shapes", func(t *testing.T) {
		own := `,"tools":[` + string(function("mine", routed(other.ID, "read"))) + `,` + string(s.catalog()[2].Definition) + `,{"name":"Find","canonical":"nexus.tools.search"}]`
		a := post("mine", own)
		require.Equal(t, dispatched, born(a))
		task := s.asAgent("GET", taskPath(runner.Ref{Run: run, TaskKey: a.text("/round/tasks/0/task_key")}), "").ok(http.StatusOK)
		require.Equal(t, other.ID.String(), task.text("/task/target/runner_executor_public_id"))
		require.Equal(t, unknown, born(post("read", own)), "instead of what the run declares, not beside it")
		require.Equal(t, unknown, born(post("tool_search", own)))
		require.Equal(t, "running ", born(post("runners_list", own)))
		require.Equal(t, "running ", born(s.badly("POST", rounds, `{"calls":[{"name":"Find","arguments":{"query":"mine"}}]`+own+`}`)))
	})

	t.Run("by importing", func(t *testing.T) {
		candidates := `,"runner_executor_public_ids":["` + box + `"]`
		require.Equal(t, dispatched, born(post("read", candidates)))
		require.Equal(t, unknown, born(post("operate", candidates)))
		require.Equal(t, unknown, born(post("tool_search", candidates)))
		require.Equal(t, dispatched, born(post("write", candidates+`,"runner_tool_names":["write","gone"]`)))
		require.Equal(t, unknown, born(post("read", candidates+`,"runner_tool_names":["write"]`)))
		require.Equal(t, unknown, born(post("read", candidates+`,"runner_tool_names":[]`)))
		require.Equal(t, "running ", born(post("runners_list", candidates+`,"kernel_tools":["nexus.runners.list"]`)))
	})

	t.Run("null is as good as absent, and empty declares nothing", func(t *testing.T) {
		require.Equal(t, dispatched, born(post("read", `,"tools":null,"kernel_tools":null,"runner_executor_public_ids":null,"runner_tool_names":null`)))
		require.Equal(t, unknown, born(post("read", `,"tools":[]`)))
	})

	t.Run("narrowed by tool_names", func(t *testing.T) {
		const own = `,"tools":[{"type":"function","name":"f"},{"type":"function","name":"g"}]`
		require.Equal(t, "failed tool_not_served", born(post("f", own+`,"tool_names":["f"]`)), "declared, and nobody serves it")
		require.Equal(t, unknown, born(post("g", own+`,"tool_names":["f"]`)))
		a := post("f", own+`,"tool_names":["read"]`).refused(http.StatusUnprocessableEntity, toolpark.CodeToolNotDeclared)
		require.Equal(t, "/tool_names/0", a.text("/error/pointer"), "what counts is the round's own declaration")
	})

	t.Run("frozen for that round", func(t *testing.T) {
		s.Work(other, 1, echoing(readOnly("read")))
		const call = `"arguments":{"name":"mine","input":{"n":1}}`
		own := `"kernel_tools":["nexus.tools.call","nexus.tools.search"],"runner_executor_public_ids":["` + box + `"],"tools":[` + string(function("mine", routed(other.ID, "read"))) + `]`
		a := s.asAgent("POST", rounds, `{"calls":[{"name":"tool_call",`+call+`},{"name":"tool_search","arguments":{"query":"does"}}],`+own+`}`).ok(http.StatusCreated)
		number := string(a.raw("/round/number"))
		settled := s.asAgent("GET", rounds+"/"+number+"?wait_ms="+ms(patience), "").ok(http.StatusOK)
		require.Equal(t, `{"n":1}`, settled.text("/round/results/0/output"), "what the kernel works out sees the round's own tools")
		require.Contains(t, settled.text("/round/results/1/output"), `"name":"mine"`)
		require.Contains(t, settled.text("/round/results/1/output"), `"name":"write"`)
		require.Equal(t, unknown, born(post("mine", "")), "later rounds are as they were")
		require.Equal(t, frozen, string(s.asAgent("GET", "/runs/"+run+"/context", "").Body), "and so is the run")
	})

	t.Run("refused as a run's would be", func(t *testing.T) {
		refused := func(more string, status int, code toolpark.Code, pointer string) {
			t.Helper()
			a := post("f", more).refused(status, code)
			require.Equal(t, pointer, a.text("/error/pointer"), "%s", a.Body)
		}
		for name, c := range declarationRefusals {
			t.Run(name, func(t *testing.T) {
				members := c.configuration[1 : len(c.configuration)-1]
				pointer := c.pointer
				if rest, ok := strings.CutPrefix(members, `"tool_definitions"`); ok {
					members, pointer = `"tools"`+rest, "/tools"+pointer[len("/tool_definitions"):]
				}
				refused(","+members, 422, c.code, pointer)
			})
		}
		refused(`,"runner_executor_public_ids":[]`, 422, toolpark.CodeRunnerNotDeclared, "/runner_executor_public_ids")
		refused(`,"kernel_tools":[]`, 422, toolpark.CodeRunnerNotDeclared, "/runner_executor_public_ids")
		refused(`,"tools":[`+string(function("f", routed(s.AgentAt.ID, "read")))+`]`, 422, toolpark.CodeRunnerNotEligible, "/tools/0/route/runner_executor_public_id")
		refused(`,"tools":[`+string(function("f", routed(other.ID, "write")))+`]`, 422, toolpark.CodeToolNotServed, "/tools/0/route/tool_name")
	})

	t.Run("a run in which nothing may be called has no mode for them", func(t *testing.T) {
		bare := s.asAgent("POST", "/runs", `{"default_runner_executor_public_id":null}`).ok(http.StatusCreated).text("/run/public_id")
		a := s.asAgent("POST", "/runs/"+bare+"/rounds", `{"calls":[{"name":"f"}],"tools":[{"type":"function","name":"f"}]}`)
		a.refused(http.StatusUnprocessableEntity, toolpark.CodeValidationFailed)
	})

	t.Run("replayed as it was, even when the runner has gone", func(t *testing.T) {
		own := `,"runner_executor_public_ids":["` + box + `"],"tools":[` + string(function("mine", routed(s.Box.ID, "read"))) + `]`
		first := post("mine", own, "Idempotency-Key", "k").ok(http.StatusCreated)
		s.Serve(s.Box)
		again := post("mine", own, "Idempotency-Key", "k").ok(http.StatusCreated)
		require.Equal(t, string(first.Body), string(again.Body))
		require.Equal(t, "true", again.Header.Get("Idempotency-Replayed"))
		require.NoError(t, s.Box.Shutdown(t.Context()))
		again = post("mine", own, "Idempotency-Key", "k").ok(http.StatusCreated)
		require.Equal(t, string(first.Body), string(again.Body))
		post("mine", own, "Idempotency-Key", "k2").refused(http.StatusUnprocessableEntity, toolpark.CodeRunnerNotEligible)
		post("other", own, "Idempotency-Key", "k").refused(http.StatusConflict, toolpark.CodeIdempotencyMismatch)
		post("read", "").ok(http.StatusCreated)
	})
}

// What a round of a thousand imported tools costs, from the announcement to a call.
func TestAThousandTools(t *testing.T) {
	t.Parallel()
	const count = 1000
	entries, tools := make([]runner.Entry, count), make([]runner.Tool, count)
	for i := range entries {
		entries[i] = entryOf(fmt.Sprintf("tool_%04d", i),
			fmt.Sprintf("Does thing number %d to a file that is named by its path, and says what became of it.", i),
			fmt.Sprintf(`{"type":"object","properties":{"path":{"type":"string","description":"The file of thing %d."},"limit":{"type":"integer","minimum":1}},"required":["path"]}`, i))
		tools[i] = echoing(entries[i])
	}
	s := newScene(t, entries...)
	s.Work(s.Box, 1, tools...)
	timed := timer(t)
	run := s.importing()
	timed("create a run")
	frozen := s.asAgent("GET", "/runs/"+run+"/context", "").ok(http.StatusOK)
	timed("read its context")
	var definitions []jsontext.Value
	require.NoError(t, json.Unmarshal(frozen.raw("/context/tool_definitions"), &definitions))
	require.Len(t, definitions, count+3)

	timed("")
	_, err := s.Agent.Assemble(t.Context(), s.Box.ID.String(), &agent.Configuration{Runners: []string{s.Box.ID.String()}})
	require.NoError(t, err)
	timed("assemble")
	shown, err := s.Agent.Tools(t.Context(), run, toolpark.FormatAnthropic)
	require.NoError(t, err)
	timed("project")
	require.Len(t, shown.Tools, 3, "the kernel's; all others are deferred")

	found := s.result(run, "tool_search", `{"query":"thing number file","limit":20}`)
	timed("search all")
	require.Contains(t, found.Output, `"truncated":true`)
	found = s.result(run, "tool_search", `{"query":"number 777"}`)
	timed("search one")
	require.Contains(t, found.Output, `"name":"tool_0777"`)
	require.Contains(t, found.Output, `"truncated":false`)

	called := s.result(run, "tool_call", `{"name":"tool_0777","input":{"path":"a"}}`)
	timed("call through tool_call")
	require.Equal(t, `{"path":"a"}`, called.Output)
	called = s.result(run, "tool_0999", `{"path":"b"}`)
	timed("call")
	require.Equal(t, `{"path":"b"}`, called.Output)
}

// timer logs how long each thing took since the one before; "" only starts the clock again.
func timer(t *testing.T) func(what string) {
	last := time.Now()
	return func(what string) {
		if what != "" {
			t.Logf("%s: %s", what, time.Since(last).Round(100*time.Microsecond))
		}
		last = time.Now()
	}
}
