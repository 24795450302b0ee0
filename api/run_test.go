package api_test

import (
	"encoding/json/jsontext"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
	"uuid"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
)

func TestRunIsAccepted(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	body := `{"default_runner_executor_public_id":"` + s.Box.ID.String() + `","label":"nightly","metadata":{"n":9007199254740993,"d":0.10},` +
		`"configuration":{"approval_mode":"bypass","tool_definitions":[` + string(function("look", routed(s.Box.ID, "look"))) + `,` + string(function("bare", "")) + `]}}`
	made := s.asAgent("POST", "/runs", body).ok(http.StatusCreated)
	require.EqualValues(t, toolpark.RunRunning, made.text("/run/status"))
	require.Equal(t, "bypass", made.text("/run/approval_mode"))
	require.Equal(t, s.Box.ID.String(), made.text("/run/default_runner_executor_public_id"))
	require.Equal(t, "nightly", made.text("/run/label"))
	require.Equal(t, `{"n":9007199254740993,"d":0.10}`, string(made.raw("/run/metadata")))
	require.Equal(t, `{"runners":[],"status":"untouched"}`, sorted(t, made.raw("/run/runner_effects")))
	run := made.text("/run/public_id")
	require.Equal(t, string(made.Body), string(s.asAgent("GET", "/runs/"+run, "").ok(http.StatusOK).Body))

	frozen := s.asAgent("GET", "/runs/"+run+"/context", "").ok(http.StatusOK)
	require.Equal(t, s.Box.ID.String(), frozen.text("/context/environment/default_runner_executor_public_id"))
	require.Equal(t, "bare", frozen.text("/context/tool_definitions/0/function/name"), "in the order of their names")
	require.Equal(t, "look", frozen.text("/context/tool_definitions/1/function/name"))

	empty := s.asAgent("POST", "/runs", `{"default_runner_executor_public_id":null}`).ok(http.StatusCreated)
	require.Equal(t, "null", string(empty.raw("/run/approval_mode")))
	require.Equal(t, "null", string(empty.raw("/run/label")))
	require.Equal(t, "{}", string(empty.raw("/run/metadata")))
}

func sorted(t *testing.T, v jsontext.Value) string {
	t.Helper()
	v = v.Clone()
	require.NoError(t, v.Canonicalize())
	return string(v)
}

func TestRunRefusals(t *testing.T) {
	t.Parallel()
	capability := readOnly("capability")
	capability.Description, capability.InputSchema = "", nil
	s := newScene(t, readOnly("look"), capability)
	private, err := s.Kernel.DB.CreateHuman(t.Context(), s.ID, "bob", "Bob", toolpark.RoleMember)
	require.NoError(t, err)
	bobs := s.executorOf(private.ID, "bobs", readOnly("look"))
	elsewhere := sceneAt(t, s.Kernel, readOnly("look")).Box
	unknown := uuid.NewV7()

	runner := func(id string) string { return `{"default_runner_executor_public_id":` + id + `}` }
	quoted := func(id uuid.UUID) string { return `"` + id.String() + `"` }
	with := func(more string) string { return `{"default_runner_executor_public_id":null,` + more + `}` }
	configured := func(members string) string { return with(`"configuration":{` + members + `}`) }
	tools := func(definitions string) string {
		return configured(`"approval_mode":"bypass","tool_definitions":[` + definitions + `]`)
	}
	route := func(members string) string { return tools(string(function("look", `"route":{`+members+`}`))) }
	schema := func(parameters string) string {
		return tools(`{"type":"function","function":{"name":"f","parameters":` + parameters + `}}`)
	}
	const at = "/configuration/tool_definitions/0"
	for name, c := range map[string]struct {
		body    string
		status  int
		code    toolpark.Code
		pointer string
	}{
		"no selector":                {`{}`, 400, toolpark.CodeParameterMissing, "/default_runner_executor_public_id"},
		"a selector of no text":      {runner(`5`), 400, toolpark.CodeParameterInvalid, "/default_runner_executor_public_id"},
		"a selector of no UUID":      {runner(`"box"`), 400, toolpark.CodeParameterInvalid, "/default_runner_executor_public_id"},
		"a UUID in capitals":         {runner(strings.ToUpper(quoted(s.Box.ID))), 400, toolpark.CodeParameterInvalid, "/default_runner_executor_public_id"},
		"an unknown runner":          {runner(quoted(unknown)), 422, toolpark.CodeRunnerNotEligible, "/default_runner_executor_public_id"},
		"another account's runner":   {runner(quoted(elsewhere.ID)), 422, toolpark.CodeRunnerNotEligible, "/default_runner_executor_public_id"},
		"another person's runner":    {runner(quoted(bobs.ID)), 422, toolpark.CodeRunnerNotEligible, "/default_runner_executor_public_id"},
		"an agent's own application": {runner(quoted(s.AgentAt.ID)), 422, toolpark.CodeRunnerNotEligible, "/default_runner_executor_public_id"},
		"an unknown field":           {with(`"Label":"x"`), 400, toolpark.CodeParameterInvalid, "/Label"},
		"tool_names of no list":      {with(`"tool_names":"look"`), 400, toolpark.CodeParameterInvalid, "/tool_names"},
		"tool_names of numbers":      {with(`"tool_names":[5]`), 400, toolpark.CodeParameterInvalid, "/tool_names/0"},
		"tool_names with U+0000":     {with(`"tool_names":["a\u0000"]`), 400, toolpark.CodeParameterInvalid, "/tool_names/0"},
		"a name that is undeclared":  {with(`"tool_names":["look"]`), 422, toolpark.CodeToolNotDeclared, "/tool_names/0"},
		"a label of two lines":       {with(`"label":"a\nb"`), 400, toolpark.CodeParameterInvalid, "/label"},
		"a label with U+0000":        {with(`"label":"a\u0000"`), 400, toolpark.CodeParameterInvalid, "/label"},
		"a label one byte too long":  {with(`"label":"` + strings.Repeat("é", 128) + `x"`), 400, toolpark.CodeParameterInvalid, "/label"},
		"a label of no text":         {with(`"label":5`), 400, toolpark.CodeParameterInvalid, "/label"},
		"metadata of no object":      {with(`"metadata":[]`), 400, toolpark.CodeParameterInvalid, "/metadata"},
		"metadata with U+0000":       {with(`"metadata":{"a":["x\u0000"]}`), 400, toolpark.CodeParameterInvalid, "/metadata/a/0"},
		"metadata one byte too long": {with(`"metadata":{"a":"` + strings.Repeat("x", toolpark.MaxRunMetadata-7) + `"}`), 413, toolpark.CodeContentTooLarge, "/metadata"},
		"a body too large":           {with(`"metadata":{"a":"` + strings.Repeat("x", toolpark.MaxBody) + `"}`), 413, toolpark.CodeContentTooLarge, ""},
		"no JSON":                    {`{"default_runner_executor_public_id":null`, 400, toolpark.CodeBadRequest, ""},
		"a key twice":                {with(`"label":"a","label":"b"`), 400, toolpark.CodeBadRequest, "/label"},

		"a configuration of no object":  {with(`"configuration":[]`), 400, toolpark.CodeParameterMissing, "/configuration"},
		"a configuration that is null":  {with(`"configuration":null`), 400, toolpark.CodeParameterMissing, "/configuration"},
		"a misspelt configuration":      {configured(`"approval_rule":[]`), 400, toolpark.CodeParameterInvalid, "/configuration/approval_rule"},
		"no approval mode":              {configured(`"tool_definitions":[` + string(function("f", "")) + `]`), 422, toolpark.CodeValidationFailed, "/configuration/approval_mode"},
		"a mode that does not exist":    {configured(`"approval_mode":"never"`), 422, toolpark.CodeValidationFailed, "/configuration/approval_mode"},
		"a malformed approval rule":     {configured(`"approval_mode":"rules","approval_rules":[{"tool":"*","match":"rm *","verdict":"deny"}]`), 422, toolpark.CodeInvalidApprovalRules, "/configuration/approval_rules/0/match"},
		"a kernel tool's name":          {tools(string(function("tool_search", ""))), 422, toolpark.CodeKernelToolRedefined, at + "/function/name"},
		"a kernel tool's full name":     {tools(string(function("nexus.tools.search", ""))), 422, toolpark.CodeKernelToolRedefined, at + "/function/name"},
		"a name twice":                  {tools(string(function("f", "")) + "," + string(function("f", ""))), 422, toolpark.CodeDuplicateToolName, "/configuration/tool_definitions/1"},
		"a name no provider takes":      {tools(string(function("a b", ""))), 422, toolpark.CodeValidationFailed, at + "/function/name"},
		"an unknown member":             {tools(string(function("f", `"defer":true`))), 422, toolpark.CodeValidationFailed, at + "/defer"},
		"another type":                  {tools(`{"type":"web_search"}`), 422, toolpark.CodeValidationFailed, at + "/type"},
		"a schema that does not hold":   {schema(`{"type":"object","properties":{"n":{"type":"nubmer"}}}`), 422, toolpark.CodeValidationFailed, at + "/function/parameters/properties/n/type"},
		"a schema of no object":         {schema(`{"type":"string"}`), 422, toolpark.CodeValidationFailed, at + "/function/parameters"},
		"a reference elsewhere":         {schema(`{"type":"object","properties":{"n":{"$ref":"file:///etc/hostname"}}}`), 422, toolpark.CodeValidationFailed, at + "/function/parameters/properties/n/$ref"},
		"definitions too large":         {tools(string(function("f", `"x":"`+strings.Repeat("x", toolpark.MaxToolDefinitions)+`"`))), 413, toolpark.CodeContentTooLarge, "/configuration/tool_definitions"},
		"a route of another kind":       {route(`"kind":"pool","tool_name":"look"`), 422, toolpark.CodeInvalidToolRoute, at + "/route/kind"},
		"a route without a name":        {route(`"kind":"runner","runner_executor_public_id":` + quoted(s.Box.ID)), 422, toolpark.CodeInvalidToolRoute, at + "/route/tool_name"},
		"a route with more":             {route(`"kind":"runner","tool_name":"look","x":1,"runner_executor_public_id":` + quoted(s.Box.ID)), 422, toolpark.CodeInvalidToolRoute, at + "/route/x"},
		"a route that is null":          {tools(string(function("look", `"route":null`))), 422, toolpark.CodeInvalidToolRoute, at + "/route"},
		"a route to no UUID":            {route(`"kind":"runner","tool_name":"look","runner_executor_public_id":"box"`), 422, toolpark.CodeInvalidToolRoute, at + "/route/runner_executor_public_id"},
		"a route without a target":      {route(`"kind":"runner","tool_name":"look"`), 422, toolpark.CodeRunnerTargetRequired, at + "/route/runner_executor_public_id"},
		"a route to nobody":             {tools(string(function("look", routed(unknown, "look")))), 422, toolpark.CodeRunnerNotEligible, at + "/route/runner_executor_public_id"},
		"a route to another account":    {tools(string(function("look", routed(elsewhere.ID, "look")))), 422, toolpark.CodeRunnerNotEligible, at + "/route/runner_executor_public_id"},
		"a route to another's runner":   {tools(string(function("look", routed(bobs.ID, "look")))), 422, toolpark.CodeRunnerNotEligible, at + "/route/runner_executor_public_id"},
		"a route to what is not served": {tools(string(function("look", routed(s.Box.ID, "Look")))), 422, toolpark.CodeToolNotServed, at + "/route/tool_name"},
		"a route to a capability":       {tools(string(function("look", routed(s.Box.ID, "capability")))), 422, toolpark.CodeToolNotServed, at + "/route/tool_name"},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.badly("POST", "/runs", c.body).refused(c.status, c.code)
			if c.pointer != "" {
				require.Equal(t, c.pointer, a.text("/error/pointer"), "%s", a.Body)
			}
			require.Less(t, len(a.Body), 4096)
		})
	}
	require.Equal(t, "[]", string(s.asAgent("GET", "/runs", "").ok(http.StatusOK).raw("/runs")), "a refused run is in no list")
}

// executorOf is a runner that only one human's agents may use.
func (s *scene) executorOf(manager uuid.UUID, identifier string, entries ...runner.Entry) kerneltest.Executor {
	s.t.Helper()
	e := s.Executor(toolpark.Runner, identifier, toolpark.UserPrivate)
	_, err := s.Kernel.DB.Pool.Exec(s.t.Context(), `UPDATE executors SET manager_id = $1 WHERE id = $2`, manager, e.ID)
	require.NoError(s.t, err)
	s.Serve(e, entries...)
	return e
}

func TestRunsWaitForAWorker(t *testing.T) {
	t.Parallel()
	k := kerneltest.StartAPI(t)
	s := sceneAt(t, k, readOnly("look"))
	s.door = hasty(t, k)
	good := newRunBody(function("look", routed(s.Box.ID, "look")))
	bad := newRunBody(function("look", routed(s.Box.ID, "gone")))

	accepting := s.asAgent("POST", "/runs", good, "Idempotency-Key", "good").ok(http.StatusAccepted)
	require.EqualValues(t, toolpark.RunAccepting, accepting.text("/run/status"))
	run := "/runs/" + accepting.text("/run/public_id")
	doomed := s.asAgent("POST", "/runs", bad, "Idempotency-Key", "bad").ok(http.StatusAccepted)
	again := s.asAgent("POST", "/runs", good, "Idempotency-Key", "good").ok(http.StatusAccepted)
	require.Equal(t, accepting.text("/run/public_id"), again.text("/run/public_id"))
	require.Equal(t, "true", again.Header.Get("Idempotency-Replayed"))

	t.Run("an accepting run takes no work", func(t *testing.T) {
		for path, body := range map[string]string{
			"/rounds": `{"calls":[{"name":"look"}]}`, "/tasks": `{"steps":[{"tool":{"name":"look"}}]}`, "/complete": "", "/stop": "",
		} {
			s.asAgent("POST", run+path, body).refused(http.StatusConflict, toolpark.CodeRunAccepting)
		}
		s.asAgent("GET", run+"/context", "").refused(http.StatusConflict, toolpark.CodeRunAccepting)
	})

	k.StartWorker()
	require.Eventually(t, func() bool {
		return s.asAgent("GET", run, "").text("/run/status") == string(toolpark.RunRunning) &&
			s.asAgent("GET", "/runs/"+doomed.text("/run/public_id"), "").text("/run/status") == string(toolpark.RunRefused)
	}, patience, 50*time.Millisecond)

	t.Run("a replay shows the run as it is now", func(t *testing.T) {
		now := s.asAgent("POST", "/runs", good, "Idempotency-Key", "good").ok(http.StatusCreated)
		require.Equal(t, accepting.text("/run/public_id"), now.text("/run/public_id"))
		require.EqualValues(t, toolpark.RunRunning, now.text("/run/status"))
	})

	t.Run("a refused run is only a record of the refusal", func(t *testing.T) {
		path := "/runs/" + doomed.text("/run/public_id")
		refused := s.asAgent("GET", path, "").ok(http.StatusOK)
		require.EqualValues(t, toolpark.CodeToolNotServed, refused.text("/run/refusal/code"))
		require.NotEmpty(t, refused.text("/run/refusal/message"))
		require.Equal(t, "/configuration/tool_definitions/0/route/tool_name", refused.text("/run/refusal/pointer"))
		list := s.asAgent("GET", "/runs", "").ok(http.StatusOK)
		require.Contains(t, string(list.Body), accepting.text("/run/public_id"))
		require.NotContains(t, string(list.Body), doomed.text("/run/public_id"))
		require.Equal(t, "[]", string(s.asAgent("GET", path+"/events", "").ok(http.StatusOK).raw("/events")))
		for sub, body := range map[string]string{"/rounds": `{"calls":[{"name":"look"}]}`, "/tasks": `{"steps":[{"tool":{"name":"look"}}]}`, "/complete": "", "/stop": ""} {
			s.asAgent("POST", path+sub, body).refused(http.StatusConflict, toolpark.CodeRunSettled)
		}
	})

	t.Run("its key is free again", func(t *testing.T) {
		a := s.asAgent("POST", "/runs", good, "Idempotency-Key", "bad").ok(http.StatusAccepted)
		require.Empty(t, a.Header.Get("Idempotency-Replayed"))
	})
}

func TestARunIsReplayed(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	body := newRunBody(function("look", routed(s.Box.ID, "look")))
	first := s.asAgent("POST", "/runs", body, "Idempotency-Key", "k").ok(http.StatusCreated)
	id := first.text("/run/public_id")
	again := s.asAgent("POST", "/runs", body, "Idempotency-Key", "k").ok(http.StatusCreated)
	require.Equal(t, string(first.Body), string(again.Body))
	require.Equal(t, "true", again.Header.Get("Idempotency-Replayed"))

	s.asAgent("POST", "/runs", newRunBody(), "Idempotency-Key", "k").refused(http.StatusConflict, toolpark.CodeIdempotencyMismatch)
	other := s.send("POST", base+"/runs", s.Admin.Token, body, "Idempotency-Key", "k").ok(http.StatusCreated)
	require.NotEqual(t, id, other.text("/run/public_id"), "a key belongs to its sender")

	_, err := s.Agent.CompleteRun(t.Context(), id)
	require.NoError(t, err)
	over := s.asAgent("POST", "/runs", body, "Idempotency-Key", "k").ok(http.StatusCreated)
	require.EqualValues(t, toolpark.RunCompleted, over.text("/run/status"))

	t.Run("after a refusal the key is free", func(t *testing.T) {
		bad := newRunBody(function("look", routed(s.Box.ID, "gone")))
		s.asAgent("POST", "/runs", bad, "Idempotency-Key", "r").refused(http.StatusUnprocessableEntity, toolpark.CodeToolNotServed)
		s.asAgent("POST", "/runs", body, "Idempotency-Key", "r").ok(http.StatusCreated)
	})
}

func TestCompletingARun(t *testing.T) {
	t.Parallel()
	s := newScene(t, kerneltest.Entry("write", kerneltest.Writes))
	run := s.run()
	ref, token := s.claimed(run, "write")
	s.asAgent("POST", "/runs/"+run+"/complete", "").refused(http.StatusConflict, toolpark.CodeRunBusy)
	live := s.asAgent("GET", "/runs/"+run, "").ok(http.StatusOK)
	require.Equal(t, `{"dispatched":1}`, string(live.raw("/run/tasks")))
	require.Equal(t, `{"runners":[{"runner_executor_public_id":"`+s.Box.ID.String()+`","status":"touched","tasks":1}],"status":"touched"}`,
		sorted(t, live.raw("/run/runner_effects")))

	s.report(ref, token, `"content":"done"`).ok(http.StatusOK)
	done := s.asAgent("POST", "/runs/"+run+"/complete", "").ok(http.StatusOK)
	require.EqualValues(t, toolpark.RunCompleted, done.text("/run/status"))
	require.NotEmpty(t, done.text("/run/ended_at"))
	require.Equal(t, `{"completed":1}`, string(done.raw("/run/tasks")))
	s.asAgent("POST", "/runs/"+run+"/complete", `{}`).ok(http.StatusOK) // a repeat
	s.asAgent("POST", "/runs/"+run+"/stop", "").refused(http.StatusConflict, toolpark.CodeRunSettled)
	s.asAgent("POST", "/runs/"+run+"/rounds", `{"calls":[{"name":"write"}]}`).refused(http.StatusConflict, toolpark.CodeRunSettled)
	s.asAgent("POST", "/runs/"+run+"/tasks", `{"steps":[{"tool":{"name":"write","route":{"kind":"runner"}}}]}`).refused(http.StatusConflict, toolpark.CodeRunSettled)
	events := s.events(run)
	require.Equal(t, `run_status {"status":"completed"}`, events[len(events)-1])
	require.Equal(t, "done", s.settled(ref).text("/task/output"), "its results stay readable")
}

func TestStoppingARun(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	status := func(run string) toolpark.RunStatus {
		t.Helper()
		now, err := s.Agent.Run(t.Context(), run)
		require.NoError(t, err)
		return now.Status
	}

	t.Run("without live tasks it ends at once", func(t *testing.T) {
		run := s.run()
		a := s.asAgent("POST", "/runs/"+run+"/stop", "").ok(http.StatusOK)
		require.EqualValues(t, toolpark.RunCanceled, a.text("/run/status"))
		s.asAgent("POST", "/runs/"+run+"/stop", "").ok(http.StatusOK) // a repeat
		s.asAgent("POST", "/runs/"+run+"/complete", "").refused(http.StatusConflict, toolpark.CodeRunSettled)
		require.Equal(t, []string{"run_accepted {}", `run_status {"status":"canceled"}`}, s.events(run))
	})

	t.Run("live tasks may be claimed and finish", func(t *testing.T) {
		run := s.run()
		claimed, token := s.claimed(run, "look")
		waiting := s.call(run, "look", `{}`)
		a := s.asAgent("POST", "/runs/"+run+"/stop", `{"force":false}`).ok(http.StatusOK)
		require.EqualValues(t, toolpark.RunStopping, a.text("/run/status"))
		s.asAgent("POST", "/runs/"+run+"/rounds", `{"calls":[{"name":"look"}]}`).refused(http.StatusConflict, toolpark.CodeRunStopping)
		s.asAgent("POST", "/runs/"+run+"/tasks", `{"steps":[{"tool":{"name":"look"}}]}`).refused(http.StatusConflict, toolpark.CodeRunStopping)
		s.asAgent("POST", "/runs/"+run+"/complete", "").refused(http.StatusConflict, toolpark.CodeRunStopping)
		s.report(claimed, token, `"content":"a"`).ok(http.StatusOK)
		require.Equal(t, toolpark.RunStopping, status(run))
		s.report(waiting, s.claim(waiting), `"content":"b"`).ok(http.StatusOK)
		require.Equal(t, toolpark.RunCanceled, status(run), "the last settle ends it")
		events := s.events(run)
		require.Equal(t, `run_status {"status":"canceled"}`, events[len(events)-1])
		require.Equal(t, `round_settled {"round":2}`, events[len(events)-2])
	})

	t.Run("force cancels them all", func(t *testing.T) {
		run := s.run()
		claimed, token := s.claimed(run, "look")
		waiting := s.call(run, "look", `{}`)
		pushed := s.listen("/executor/events", s.Box.Token)
		require.Contains(t, next(t, pushed), `work_available {"run_public_id":"`+run+`","task_key":"`+waiting.TaskKey)
		s.asAgent("POST", "/runs/"+run+"/stop", "").ok(http.StatusOK)
		s.asAgent("POST", "/runs/"+run+"/stop", `{"force":true}`).ok(http.StatusOK) // the force may come later
		for _, ref := range []runner.Ref{claimed, waiting} {
			a := s.settled(ref)
			require.EqualValues(t, toolpark.Canceled, a.text("/task/status"))
			require.Equal(t, toolpark.ErrTaskCanceled, a.text("/task/error/key"))
		}
		told := next(t, pushed) + next(t, pushed)
		require.Equal(t, 2, strings.Count(told, "work_canceled"), told)
		require.Equal(t, 2, strings.Count(told, `"reason":"canceled"`), told)
		s.report(claimed, token, `"content":"late"`).refused(http.StatusConflict, toolpark.CodeClaimCanceled)
		require.Eventually(t, func() bool { return status(run) == toolpark.RunCanceled }, patience, 50*time.Millisecond)
	})

	t.Run("bad bodies", func(t *testing.T) {
		run := s.run()
		s.badly("POST", "/runs/"+run+"/stop", `{"force":"yes"}`).refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
		s.badly("POST", "/runs/"+run+"/stop", `{"Force":true}`).refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
		s.badly("POST", "/runs/"+run+"/complete", `{"force":true}`).refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
		require.Equal(t, toolpark.RunRunning, status(run))
	})
}

func TestWhoMayReadARun(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	steward := s.Human("steward")
	made, err := s.Kernel.DB.CreateAgent(t.Context(), s.ID, steward.ID, "helper", "Helper", false)
	require.NoError(t, err)
	helper := s.member(made.ID)
	creator, stranger := s.Human("creator"), s.Human("stranger")

	type reader struct {
		name   string
		bearer string
		reads  bool
	}
	for name, c := range map[string]struct {
		by      kerneltest.Member
		readers []reader
	}{
		"an agent's": {helper, []reader{
			{"the agent", helper.Token, true},
			{"its steward", steward.Token, true},
			{"an administrator", s.Admin.Token, true},
			{"another agent", s.Agent.Token, false},
			{"another human", stranger.Token, false},
		}},
		"a human's": {creator, []reader{
			{"the creator", creator.Token, true},
			{"an administrator", s.Admin.Token, true},
			{"an agent", helper.Token, false},
			{"another human", stranger.Token, false},
			{"another steward", steward.Token, false},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			run := s.RunOf(c.by, s.Box)
			round, err := c.by.PostRound(t.Context(), run, agent.NewRound{Calls: []agent.Call{{ID: "c", Name: "no_such"}}})
			require.NoError(t, err)
			path := base + "/runs/" + run
			for _, r := range c.readers {
				list := s.send("GET", base+"/runs", r.bearer, "").ok(http.StatusOK)
				require.Equal(t, r.reads, strings.Contains(string(list.Body), run), r.name)
				for _, route := range []struct{ method, path, body string }{
					{"GET", "", ""},
					{"GET", "/context", ""},
					{"GET", "/events", ""},
					{"GET", "/tasks", ""},
					{"GET", "/tasks/" + round.Tasks[0].Key, ""},
					{"GET", "/rounds/1", ""},
					{"GET", "/rounds/1/messages?format=responses", ""},
					{"POST", "/rounds", `{"calls":[{"name":"no_such"}]}`},
					{"POST", "/tasks/" + round.Tasks[0].Key + "/cancel", ""},
					{"POST", "/tasks", `{"steps":[{"tool":{"name":"no_such"}}]}`},
				} {
					a := s.send(route.method, path+route.path, r.bearer, route.body)
					require.Equal(t, !r.reads, a.Status == http.StatusNotFound, "%s: %s %s: %s", r.name, route.method, route.path, a.Body)
				}
				if !r.reads {
					s.send("POST", path+"/stop", r.bearer, "").refused(http.StatusNotFound, toolpark.CodeNotFound)
					s.send("POST", path+"/complete", r.bearer, "").refused(http.StatusNotFound, toolpark.CodeNotFound)
					s.sendBad("GET", path+"/events/stream", r.bearer, "").refused(http.StatusNotFound, toolpark.CodeNotFound)
				}
			}
			s.send("POST", path+"/stop", c.readers[1].bearer, "").ok(http.StatusOK)
		})
	}
}

func TestRunsAreListedPageByPage(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	var made []string
	for i := range 5 {
		a := s.asAgent("POST", "/runs", fmt.Sprintf(`{"default_runner_executor_public_id":null,"label":"run %d"}`, i)).ok(http.StatusCreated)
		made = append([]string{a.text("/run/public_id")}, made...)
	}
	var seen []string
	for after := ""; ; {
		page := s.asAgent("GET", "/runs?limit=2"+after, "").ok(http.StatusOK)
		for i := 0; page.raw(fmt.Sprintf("/runs/%d", i)) != nil; i++ {
			seen = append(seen, page.text(fmt.Sprintf("/runs/%d/public_id", i)))
		}
		cursor := page.text("/pagination/next_after")
		if cursor == "" {
			break
		}
		after = "&after=" + cursor
	}
	require.Equal(t, made, seen, "newest first, each once")
	for _, query := range []string{"limit=0", "limit=201", "limit=x", "after=", "after=x", "after=%22", "after=IiI", "limit=1&limit=2", "sort=x"} {
		s.badly("GET", "/runs?"+query, "").refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
	}
}
