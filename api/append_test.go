package api_test

import (
	"encoding/json/jsontext"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
	"uuid"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/api/apitest"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
)

// step appends one tool step and reads its task. The members are those of the verb, as JSON.
func (s *scene) step(run, members string) (runner.Ref, answer) {
	s.t.Helper()
	a := s.asAgent("POST", "/runs/"+run+"/tasks", `{"steps":[{"tool":{`+members+`}}]}`).ok(http.StatusCreated)
	ref := runner.Ref{Run: run, TaskKey: a.text("/tasks/0/task_key"), Generation: 1}
	return ref, s.asAgent("GET", taskPath(ref), "").ok(http.StatusOK)
}

func TestStepsAreAppended(t *testing.T) {
	t.Parallel()
	capability := within(kerneltest.Entry("capability", kerneltest.Keyed), 3*time.Second)
	capability.Description, capability.InputSchema = "", nil
	s := newScene(t, within(readOnly("look"), time.Minute), capability)
	run := s.run()

	a := s.asAgent("POST", "/runs/"+run+"/tasks", `{"steps":[
		{"tool":{"name":"look","route":{"kind":"runner"},"input":{"n":1.0},"key":"mine"}},
		{"tool":{"name":"capability","route":{"kind":"runner","runner_executor_public_id":"`+s.Box.ID.String()+`"},"timeout_ms":500000}}]}`).ok(http.StatusCreated)
	require.Equal(t, "mine", a.text("/tasks/0/task_key"))
	require.Equal(t, "s1-tool-1", a.text("/tasks/1/task_key"))
	mine := s.asAgent("GET", "/runs/"+run+"/tasks/mine", "").ok(http.StatusOK)
	require.Equal(t, `{"n":1.0}`, string(mine.raw("/task/tool_input")))
	require.EqualValues(t, toolpark.OriginAuthor, mine.text("/task/origin"))
	require.Equal(t, "60000", string(mine.raw("/task/timeout_ms")), "as announced")
	require.Equal(t, "null", string(mine.raw("/task/round")))
	require.Equal(t, "author", mine.text("/task/approval/origin"))
	operators := s.asAgent("GET", "/runs/"+run+"/tasks/s1-tool-1", "").ok(http.StatusOK)
	require.Equal(t, "500000", string(operators.raw("/task/timeout_ms")), "as authored")
	require.Equal(t, "{}", string(operators.raw("/task/tool_input")))

	_, second := s.step(run, `"name":"look","route":{"kind":"runner"}`)
	require.Equal(t, "s2-tool-0", second.text("/task/task_key"))
	require.Equal(t, []string{
		"run_accepted {}",
		`task_status {"task_key":"mine","generation":1,"status":"dispatched"}`,
		`task_status {"task_key":"s1-tool-1","generation":1,"status":"dispatched"}`,
		`task_status {"task_key":"s2-tool-0","generation":1,"status":"dispatched"}`,
	}, compacted(s.events(run)))

	t.Run("a replay appends nothing", func(t *testing.T) {
		const body = `{"steps":[{"tool":{"name":"look","route":{"kind":"runner"}}}]}`
		first := s.asAgent("POST", "/runs/"+run+"/tasks", body, "Idempotency-Key", "k").ok(http.StatusCreated)
		again := s.asAgent("POST", "/runs/"+run+"/tasks", body, "Idempotency-Key", "k").ok(http.StatusCreated)
		require.Equal(t, string(first.Body), string(again.Body))
		require.Equal(t, "true", again.Header.Get("Idempotency-Replayed"))
		s.asAgent("POST", "/runs/"+run+"/tasks", `{"steps":[{"tool":{"name":"look","route":{"kind":"runner"},"key":"x"}}]}`, "Idempotency-Key", "k").
			refused(http.StatusConflict, toolpark.CodeIdempotencyMismatch)
	})
}

// compacted drops the blanks that a database may put into JSON.
func compacted(events []string) []string {
	for i, e := range events {
		events[i] = strings.NewReplacer(`" : `, `":`, `, "`, `,"`).Replace(e)
	}
	return events
}

func TestStepRefusals(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	elsewhere := sceneAt(t, s.Kernel, readOnly("look")).Box
	run := s.run()
	s.step(run, `"name":"look","route":{"kind":"runner"},"key":"taken"`)
	bare := s.RunWith(s.Agent, "", function("look", ""))
	unknown := uuid.NewV7()
	target := func(id any) string {
		return fmt.Sprintf(`{"tool":{"name":"look","route":{"kind":"runner","runner_executor_public_id":"%s"}}}`, id)
	}
	tool := func(members string) string {
		return `{"tool":{"name":"look","route":{"kind":"runner"},` + members + `}}`
	}
	const good = `{"tool":{"name":"look","route":{"kind":"runner"}}}`
	before := s.events(run)

	for name, c := range map[string]struct {
		run  string
		step string
		code toolpark.Code
		path string
	}{
		"a kernel tool":               {run, `{"tool":{"name":"tool_search","route":{"kind":"runner"}}}`, toolpark.CodeReservedToolName, "/tool/name"},
		"a kernel tool by full name":  {run, `{"tool":{"name":"nexus.human.ask"}}`, toolpark.CodeReservedToolName, "/tool/name"},
		"no default runner":           {bare, good, toolpark.CodeRunnerTargetRequired, "/tool/route"},
		"a null target":               {run, `{"tool":{"name":"look","route":{"kind":"runner","runner_executor_public_id":null}}}`, toolpark.CodeInvalidToolRoute, "/tool/route"},
		"a null route":                {run, `{"tool":{"name":"look","route":null}}`, toolpark.CodeInvalidToolRoute, "/tool/route"},
		"another kind of route":       {run, `{"tool":{"name":"look","route":{"kind":"pool"}}}`, toolpark.CodeInvalidToolRoute, "/tool/route"},
		"a route with more":           {run, `{"tool":{"name":"look","route":{"kind":"runner","tool_name":"x"}}}`, toolpark.CodeInvalidToolRoute, "/tool/route"},
		"a target of no UUID":         {run, target("box"), toolpark.CodeInvalidToolRoute, "/tool/route"},
		"a target in capitals":        {run, target(strings.ToUpper(s.Box.ID.String())), toolpark.CodeInvalidToolRoute, "/tool/route"},
		"an unknown target":           {run, target(unknown), toolpark.CodeRunnerNotEligible, "/tool/route"},
		"another account's runner":    {run, target(elsewhere.ID), toolpark.CodeRunnerNotEligible, "/tool/route"},
		"a target that is no runner":  {run, target(s.AgentAt.ID), toolpark.CodeRunnerNotEligible, "/tool/route"},
		"a name it does not serve":    {run, `{"tool":{"name":"gone","route":{"kind":"runner"}}}`, toolpark.CodeToolNotServed, "/tool/name"},
		"a bare name of a runner":     {run, `{"tool":{"name":"look"}}`, toolpark.CodeToolNotServed, "/tool/name"},
		"a taken key":                 {run, tool(`"key":"taken"`), toolpark.CodeDuplicateTaskKey, "/tool/key"},
		"a key of a later round":      {run, tool(`"key":"r1t0"`), toolpark.CodeDuplicateTaskKey, "/tool/key"},
		"a key of a later append":     {run, tool(`"key":"s3-tool-0"`), toolpark.CodeDuplicateTaskKey, "/tool/key"},
		"a key of a call's own call":  {run, tool(`"key":"r9t9-call-1"`), toolpark.CodeDuplicateTaskKey, "/tool/key"},
		"a key of bad form":           {run, tool(`"key":"-x"`), toolpark.CodeValidationFailed, "/tool/key"},
		"a key of 65":                 {run, tool(`"key":"` + strings.Repeat("k", 65) + `"`), toolpark.CodeValidationFailed, "/tool/key"},
		"an empty name":               {run, `{"tool":{"name":""}}`, toolpark.CodeValidationFailed, "/tool/name"},
		"a name of 129":               {run, `{"tool":{"name":"` + strings.Repeat("n", 129) + `"}}`, toolpark.CodeValidationFailed, "/tool/name"},
		"a name with U+0000":          {run, `{"tool":{"name":"a\u0000"}}`, toolpark.CodeValidationFailed, "/tool/name"},
		"an input of no object":       {run, tool(`"input":[]`), toolpark.CodeValidationFailed, "/tool/input"},
		"an input with U+0000":        {run, tool(`"input":{"a":"\u0000"}`), toolpark.CodeValidationFailed, "/tool/input"},
		"an input one byte too large": {run, tool(`"input":{"s":"` + strings.Repeat("x", toolpark.MaxToolInput-7) + `"}`), toolpark.CodeValidationFailed, "/tool/input"},
		"no time at all":              {run, tool(`"timeout_ms":0`), toolpark.CodeValidationFailed, "/tool/timeout_ms"},
		"more than seven days":        {run, tool(`"timeout_ms":604800001`), toolpark.CodeValidationFailed, "/tool/timeout_ms"},
		"a broken time":               {run, tool(`"timeout_ms":1.5`), toolpark.CodeValidationFailed, "/tool/timeout_ms"},
		"a time of no number":         {run, tool(`"timeout_ms":"5"`), toolpark.CodeValidationFailed, "/tool/timeout_ms"},
		"an unknown member":           {run, tool(`"timeout":5`), toolpark.CodeValidationFailed, "/tool"},
		"a verb of no object":         {run, `{"tool":[]}`, toolpark.CodeValidationFailed, "/tool"},
		"no verb":                     {run, `{}`, toolpark.CodeValidationFailed, ""},
		"two verbs":                   {run, `{"tool":{"name":"look"},"wait":{"task":"taken"}}`, toolpark.CodeValidationFailed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			first := good
			if c.run == bare {
				first = c.step
			}
			a := s.badly("POST", "/runs/"+c.run+"/tasks", `{"steps":[`+first+`,`+c.step+`]}`).refused(http.StatusUnprocessableEntity, c.code)
			i := 1
			if c.run == bare {
				i = 0
			}
			if c.path != "" {
				require.Equal(t, fmt.Sprintf("/steps/%d%s", i, c.path), a.text("/error/steps/0/path"), "%s", a.Body)
			} else {
				require.Regexp(t, "^/steps/1", a.text("/error/steps/0/path"))
			}
			require.EqualValues(t, c.code, a.text("/error/steps/0/code"))
			require.NotEmpty(t, a.text("/error/steps/0/message"))
		})
	}

	t.Run("every bad step is named, the first gives the code", func(t *testing.T) {
		a := s.badly("POST", "/runs/"+run+"/tasks", `{"steps":[`+good+`,{"tool":{"name":"gone","route":{"kind":"runner"}}},`+good+`,`+
			`{"tool":{"name":"wait"}},`+tool(`"key":"twice"`)+`,`+tool(`"key":"twice"`)+`]}`).
			refused(http.StatusUnprocessableEntity, toolpark.CodeToolNotServed)
		require.Equal(t, "/steps/1/tool/name", a.text("/error/steps/0/path"))
		require.EqualValues(t, toolpark.CodeReservedToolName, a.text("/error/steps/1/code"))
		require.Equal(t, "/steps/3/tool/name", a.text("/error/steps/1/path"))
		require.EqualValues(t, toolpark.CodeDuplicateTaskKey, a.text("/error/steps/2/code"))
		require.Equal(t, "/steps/5/tool/key", a.text("/error/steps/2/path"))
		require.Nil(t, a.raw("/error/steps/3"))
	})

	t.Run("of whatever kind", func(t *testing.T) {
		a := s.badly("POST", "/runs/"+run+"/tasks", `{"steps":[{"tool":{"name":"gone","route":{"kind":"runner"}}},`+tool(`"key":"-x"`)+`]}`).
			refused(http.StatusUnprocessableEntity, toolpark.CodeToolNotServed)
		require.Equal(t, "/steps/1/tool/key", a.text("/error/steps/1/path"), "%s", a.Body)
	})

	for _, body := range []string{
		`{}`, `{"steps":[]}`, `{"steps":[` + strings.Repeat(good+",", toolpark.MaxStepsPerAppend) + good + `]}`, `{"steps":{}}`,
		`{"steps":[` + good + `],"x":1}`, `{"steps":["look"]}`,
	} {
		s.badly("POST", "/runs/"+run+"/tasks", body).refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
	}
	require.Equal(t, before, s.events(run), "nothing was created")
}

func TestWhereACallGoes(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("shared"), readOnly("box_only"))
	first := s.Executor(toolpark.ToolsProvider, "first", toolpark.AccountWide)
	second := s.Executor(toolpark.ToolsProvider, "second", toolpark.UserPrivate)
	s.Serve(first, within(readOnly("pooled"), time.Hour), readOnly("shared"))
	s.Serve(second, within(kerneltest.Entry("pooled", kerneltest.Writes), time.Minute))
	s.Serve(s.AgentAt, readOnly("own"), readOnly("shared"))
	run := s.RunWith(s.Agent, s.Box.ID.String(),
		function("own", ""), function("pooled", ""), function("shared", ""), function("box_only", ""), function("nobody", ""),
		function("routed", routed(s.Box.ID, "shared")))
	task := func(name string) answer {
		t.Helper()
		return s.asAgent("GET", taskPath(s.call(run, name, `{}`)), "").ok(http.StatusOK)
	}

	t.Run("a route goes to its runner", func(t *testing.T) {
		a := task("routed")
		require.EqualValues(t, toolpark.Runner, a.text("/task/addressed_to/role"))
		require.Equal(t, s.Box.ID.String(), a.text("/task/addressed_to/executor_public_id"))
		require.Equal(t, `{"kind":"runner","runner_executor_public_id":"`+s.Box.ID.String()+`","tool_name":"shared"}`, string(a.raw("/task/target")))
		require.Equal(t, "routed", a.text("/task/callable_name"))
		require.Equal(t, "shared", a.text("/task/tool_name"))
	})
	t.Run("a bare name goes to the agent's own application first", func(t *testing.T) {
		for _, name := range []string{"own", "shared"} {
			a := task(name)
			require.EqualValues(t, toolpark.AgentApplication, a.text("/task/addressed_to/role"))
			require.Equal(t, s.AgentAt.ID.String(), a.text("/task/addressed_to/executor_public_id"))
			require.Equal(t, "null", string(a.raw("/task/target")))
		}
		_, a := s.step(run, `"name":"shared"`)
		require.EqualValues(t, toolpark.AgentApplication, a.text("/task/addressed_to/role"))
	})
	t.Run("then to every provider that serves it, judged by the strictest", func(t *testing.T) {
		a := task("pooled")
		require.Equal(t, `{"role":"tools_provider"}`, string(a.raw("/task/addressed_to")))
		require.Equal(t, toolpark.EffectWrite, a.text("/task/effect_profile/kind"))
		require.Equal(t, toolpark.IdempotentNone, a.text("/task/effect_profile/idempotency"))
		require.Equal(t, "60000", string(a.raw("/task/timeout_ms")))
	})
	t.Run("and never to a runner", func(t *testing.T) {
		for _, name := range []string{"box_only", "nobody"} {
			require.Equal(t, toolpark.ErrToolNotServed, task(name).text("/task/error/key"))
		}
	})
	t.Run("the application claims and reports like a runner", func(t *testing.T) {
		ref := s.call(run, "own", `{"n":1}`)
		grant, err := s.AgentAt.Claim(t.Context(), ref, "k")
		require.NoError(t, err)
		_, err = s.AgentAt.Commit(t.Context(), ref, grant.Token, runner.Text("done at home"))
		require.NoError(t, err)
		require.Equal(t, "done at home", s.settled(ref).text("/task/output"))
	})
	t.Run("a human's run has no application", func(t *testing.T) {
		a := s.RunWith(s.Admin, "", function("shared", ""), function("own", ""))
		round, err := s.Admin.PostRound(t.Context(), a, agent.NewRound{Calls: []agent.Call{{Name: "shared"}, {Name: "own"}}})
		require.NoError(t, err)
		require.Equal(t, toolpark.Dispatched, round.Tasks[0].Status, "the pool")
		require.Equal(t, toolpark.ErrToolNotServed, round.Tasks[1].Error.Key)
	})
	t.Run("a provider whose scope does not admit the agent is left out", func(t *testing.T) {
		bob := s.Human("bob")
		made, err := s.Kernel.DB.CreateAgent(t.Context(), s.ID, bob.ID, "bobs", "Bob's", false)
		require.NoError(t, err)
		bobs := s.member(made.ID)
		run := s.RunWith(bobs, "", function("pooled", ""))
		round, err := bobs.PostRound(t.Context(), run, agent.NewRound{Calls: []agent.Call{{Name: "pooled"}}})
		require.NoError(t, err)
		ref := runner.Ref{Run: run, TaskKey: round.Tasks[0].Key}
		_, err = second.Claim(t.Context(), ref, "k")
		require.Equal(t, toolpark.CodeNotAddressedHere, code(err))
		_, err = first.Claim(t.Context(), ref, "k")
		require.NoError(t, err)
	})
	t.Run("one of a pool gets it", func(t *testing.T) {
		ref := s.call(run, "pooled", `{}`)
		errs := make([]error, 2)
		var race sync.WaitGroup
		for i, e := range []kerneltest.Executor{first, second} {
			race.Go(func() { _, errs[i] = e.Claim(t.Context(), ref, "k") })
		}
		race.Wait()
		winner, loser := first, second
		if errs[0] != nil {
			winner, loser = second, first
			errs[0], errs[1] = errs[1], errs[0]
		}
		require.NoError(t, errs[0])
		require.Equal(t, toolpark.CodeAlreadyClaimed, code(errs[1]))
		require.Contains(t, inbox(t, winner), ref.TaskKey)
		require.NotContains(t, inbox(t, loser), ref.TaskKey, "it lists for the claimant only")
		_, err := loser.Claim(t.Context(), ref, "again")
		require.Equal(t, toolpark.CodeAlreadyClaimed, code(err))
		_, err = s.Box.Claim(t.Context(), ref, "k")
		require.Equal(t, toolpark.CodeNotAddressedHere, code(err))
		a := s.asAgent("GET", taskPath(ref), "").ok(http.StatusOK)
		require.Equal(t, winner.ID.String(), a.text("/task/claimed_by"))

		grant, err := winner.Claim(t.Context(), ref, "k")
		require.NoError(t, err)
		_, err = loser.Commit(t.Context(), ref, grant.Token, runner.Text("with another's token"))
		require.Equal(t, toolpark.CodeStaleClaim, code(err))
		_, err = loser.Extend(t.Context(), ref, grant.Token, time.Second)
		require.Equal(t, toolpark.CodeNotClaimant, code(err))
		_, err = winner.Commit(t.Context(), ref, grant.Token, runner.Text("mine"))
		require.NoError(t, err)
		_, err = loser.Commit(t.Context(), ref, grant.Token, runner.Text("mine"))
		require.Equal(t, toolpark.CodeStaleClaim, code(err))
	})
}

// inbox are the keys of an executor's inbox.
func inbox(t *testing.T, e kerneltest.Executor) (keys []string) {
	t.Helper()
	rows, err := e.Inbox(t.Context(), runner.InboxQuery{})
	require.NoError(t, err)
	for _, row := range rows.Rows {
		keys = append(keys, row.TaskKey)
	}
	return keys
}

// A served name reaches its runner byte for byte, whatever a model may call it.
func TestServedNamesArriveAsSpelled(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	long := strings.Repeat("n", 75)
	names := []string{
		long + "a", long + "b", strings.Repeat("m", 127) + "a", strings.Repeat("m", 127) + "b", "repo.list-tags", "repo_list_tags",
		"repo/list tags", "天気", "翻訳", "openDoc", "OpenDoc", "caf\u00e9", "cafe\u0301", `quote"back\slash`,
	}
	entries := make([]runner.Entry, len(names))
	definitions := make([]jsontext.Value, len(names))
	for i, name := range names {
		entries[i] = readOnly(name)
		definitions[i] = function(fmt.Sprintf("f%d", i), routed(s.Box.ID, name))
	}
	s.Serve(s.Box, entries...)
	run := s.RunWith(s.Agent, "", definitions...)
	calls := make([]agent.Call, len(names))
	for i := range names {
		calls[i] = agent.Call{Name: fmt.Sprintf("f%d", i)}
	}
	for i, ref := range s.calls(run, calls...) {
		grant, err := s.Box.Claim(t.Context(), ref, "k")
		require.NoError(t, err, names[i])
		require.Equal(t, names[i], grant.Task.ToolName)
	}
	for _, impossible := range []string{strings.Repeat("n", 129), "", " leading", "trailing ", "a\tb", "a\nb", "a\u0000b"} {
		_, err := s.Box.Announce(apitest.BadRequest(t.Context()), runner.Announcement{Tools: []runner.Entry{readOnly("fine"), readOnly(impossible)}})
		require.Equal(t, toolpark.CodeInvalidAnnouncement, code(err), "%q", impossible)
		require.ErrorContains(t, err, "tools[1].name")
	}
	self := s.send("GET", base+"/executor", s.Box.Token, "").ok(http.StatusOK)
	require.Equal(t, names[0], self.text("/executor/served_tools/0/name"), "the announcement before stands")
}
