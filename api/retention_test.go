package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/api"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/sdk/runner"
)

// detailRoutes are the routes below a run that show or change its details, each with what it answers while they are
// there: 200 without a code. {task} is a task of the first round that has completed.
var detailRoutes = []struct {
	method, pattern, query string
	code                   toolpark.Code
}{
	{"GET", "/context", "", ""},
	{"GET", "/tools", "?format=anthropic", ""},
	{"GET", "/skills", "", ""},
	{"GET", "/rounds/{number}", "?wait_ms=60000", ""},
	{"GET", "/rounds/{number}/messages", "?format=responses", ""},
	{"GET", "/rounds/{number}/tools", "", ""},
	{"GET", "/tasks", "", ""},
	{"GET", "/tasks/{task}", "?wait_ms=60000", ""},
	{"POST", "/tasks/{task}/cancel", "", toolpark.CodeAlreadySettled},
	{"POST", "/tasks/{task}/approve", "", toolpark.CodeNotAuthorized},
	{"POST", "/tasks/{task}/deny", "", toolpark.CodeNotAuthorized},
	{"POST", "/tasks/{task}/resolution", "", toolpark.CodeNotAwaitingInput},
	{"POST", "/tasks/{task}/retry", "", toolpark.CodeNotRetryable},
	{"POST", "/tasks/{task}/abandon", "", toolpark.CodeNotAbandonable},
	{"GET", "/events", "", ""},
	{"GET", "/events/stream", "", ""},
}

// overviewRoutes answer of a pruned run what they answer of any run that has ended.
var overviewRoutes = []string{"POST /complete", "POST /stop", "POST /rounds", "POST /tasks"}

func TestEveryRouteOfARunKnowsRetention(t *testing.T) {
	t.Parallel()
	known := slices.Clone(overviewRoutes)
	for _, route := range detailRoutes {
		known = append(known, route.method+" "+route.pattern)
	}
	require.NoError(t, chi.Walk(routes(t), func(method, pattern string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		if rest, ok := strings.CutPrefix(pattern, base+"/runs/{run}/"); ok && method != http.MethodHead {
			require.Contains(t, known, method+" /"+rest, "say what it answers of a run whose details are pruned")
		}
		return nil
	}))
}

func TestDetailsOfOldRunsArePruned(t *testing.T) {
	t.Parallel()
	k := kerneltest.Start(t)
	s := sceneAt(t, k, kerneltest.Entry("write", kerneltest.Writes), readOnly("look"))
	keeper := sceneAt(t, k, readOnly("look"))
	_, err := k.DB.SetRetention(t.Context(), keeper.ID, nil)
	require.NoError(t, err)

	old, young, kept, open := s.oldRun(), s.oldRun(), keeper.oldRun(), s.run()
	openTask := s.call(open, "look", `{}`)
	before := s.asAgent("GET", "/runs/"+old, "").ok(http.StatusOK)
	require.Equal(t, "touched", before.text("/run/runner_effects/status"))
	k.Age(old, 91)
	k.Age(young, 89)
	k.Age(kept, 4000)
	_, err = k.DB.Pool.Exec(t.Context(), `UPDATE runs SET created_at = created_at - interval '1 year', authored_at = authored_at - interval '1 year'
		WHERE id = $1::uuid`, open)
	require.NoError(t, err)
	s.details(old, http.StatusOK)

	k.Expire()
	check := func(t *testing.T) {
		s.details(old, http.StatusGone)
		s.overview(before)
		s.details(young, http.StatusOK)
		keeper.details(kept, http.StatusOK)
		s.asAgent("GET", taskPath(openTask), "").ok(http.StatusOK)
	}
	t.Run("marked", check)
	require.Equal(t, 1, k.Prune(1, 1))
	t.Run("half pruned", check)
	require.Equal(t, 3, k.Prune(1, 0))
	t.Run("pruned", check)
	for _, table := range []string{"tasks", "task_payloads", "task_results", "task_inputs", "events", "rounds"} {
		require.Zero(t, k.Count(table+` WHERE run_id = $1::uuid`, old), table)
		require.NotZero(t, k.Count(table+` WHERE run_id = $1::uuid`, young), table)
	}

	t.Run("what is shared stays while anybody refers to it", func(t *testing.T) {
		k.Unuse()
		require.Zero(t, k.DeleteUnused())
		s.details(young, http.StatusOK)
		k.Age(young, 2)
		k.Expire()
		k.Prune(100, 0)
		require.Equal(t, 1, k.Count("projections WHERE account_id = $1", s.ID))
		require.Equal(t, 1, k.DeleteUnused(), "the projection; the context is that of the open run, too")
		s.asAgent("GET", "/runs/"+open+"/context", "").ok(http.StatusOK)
		keeper.details(kept, http.StatusOK)
	})

	t.Run("for ever is for ever until somebody says otherwise", func(t *testing.T) {
		days := 3999
		_, err := k.DB.SetRetention(t.Context(), keeper.ID, &days)
		require.NoError(t, err)
		k.Expire()
		keeper.details(kept, http.StatusGone)
		require.Equal(t, 4, k.Prune(100, 0))
	})
}

// oldRun is a run that has ended, with a round of three calls, what its model was offered, and a step.
func (s *scene) oldRun() string {
	s.t.Helper()
	body := fmt.Sprintf(`{"default_runner_executor_public_id":%q,"label":"nightly","metadata":{"secret":1},"configuration":{"approval_mode":"bypass",
		"tool_definitions":[%s]}}`, s.Box.ID, function("look", routed(s.Box.ID, "look")))
	if served, err := s.Agent.Executor(s.t.Context(), s.Box.ID.String()); err == nil && len(served.ServedTools) == 2 {
		body = strings.Replace(body, `"tool_definitions":[`, `"tool_definitions":[`+string(function("write", routed(s.Box.ID, "write")))+`,`, 1)
	}
	run := s.asAgent("POST", "/runs", body).ok(http.StatusCreated).text("/run/public_id")
	digest := s.asAgent("GET", "/runs/"+run+"/tools?format=anthropic", "").ok(http.StatusOK).text("/projection_digest")
	s.asAgent("POST", "/runs/"+run+"/rounds", `{"calls":[{"name":"look"},{"name":"write"},{"name":"gone"}],"offered":"`+digest+`"}`).ok(http.StatusCreated)
	step, _ := s.step(run, `"name":"look","route":{"kind":"runner"}`)
	for _, ref := range []runner.Ref{{Run: run, TaskKey: "r1t0"}, {Run: run, TaskKey: "r1t1"}, step} {
		now := s.asAgent("GET", taskPath(ref), "").ok(http.StatusOK)
		if now.text("/task/settled_at") != "" {
			continue
		}
		s.report(ref, s.claim(ref), `"content":"done","metadata":{"checkpoint":{"n":1}}`).ok(http.StatusOK)
	}
	s.asAgent("POST", "/runs/"+run+"/complete", "").ok(http.StatusOK)
	return run
}

// details requires that every route that shows a run's details answers with the status.
func (s *scene) details(run string, status int) {
	s.t.Helper()
	for _, route := range detailRoutes {
		path := "/runs/" + run + strings.NewReplacer("{number}", "1", "{task}", "r1t0").Replace(route.pattern) + route.query
		body := ""
		if strings.HasSuffix(route.pattern, "/resolution") {
			body = `{}`
		}
		a := s.asAgent(route.method, path, body)
		switch {
		case status == http.StatusGone:
			a.refused(http.StatusGone, toolpark.CodeDetailsPruned)
		case route.code != "":
			expected, _ := api.Status(route.code)
			a.refused(expected, route.code)
		default:
			a.ok(status)
		}
	}
}

// overview requires that a pruned run reads, alone and in the list, as it did before but for its details.
func (s *scene) overview(before answer) {
	s.t.Helper()
	id := before.text("/run/public_id")
	now := s.asAgent("GET", "/runs/"+id, "").ok(http.StatusOK)
	for _, field := range []string{"status", "approval_mode", "default_runner_executor_public_id", "label", "tasks", "created_at"} {
		require.Equal(s.t, string(before.raw("/run/"+field)), string(now.raw("/run/"+field)), field)
	}
	require.Equal(s.t, `{}`, string(now.raw("/run/metadata")))
	require.Equal(s.t, `{"reason":"execution_details_pruned","runners":[],"status":"unavailable"}`, sorted(s.t, now.raw("/run/runner_effects")))
	listed := s.asAgent("GET", "/runs", "").ok(http.StatusOK)
	require.Contains(s.t, string(listed.Body), string(now.raw("/run")))
	s.asAgent("POST", "/runs/"+id+"/complete", "").ok(http.StatusOK)
	s.asAgent("POST", "/runs/"+id+"/stop", "").refused(http.StatusConflict, toolpark.CodeRunSettled)
	s.asAgent("POST", "/runs/"+id+"/rounds", `{"calls":[{"name":"look"}]}`, "Idempotency-Key", "late").refused(http.StatusConflict, toolpark.CodeRunSettled)
	s.asAgent("POST", "/runs/"+id+"/tasks", `{"steps":[{"tool":{"name":"look","route":{"kind":"runner"}}}]}`).refused(http.StatusConflict, toolpark.CodeRunSettled)
}

// A tool_call and its child are deleted together or the child first: each is counted once.
func TestPruningCountsChildren(t *testing.T) {
	t.Parallel()
	k := kerneltest.Start(t)
	s := sceneAt(t, k, readOnly("echo"))
	run := s.KernelRun(s.Box)
	for range 3 {
		call := s.Call(run, s.Box, "tool_call", `{"name":"echo","input":{}}`)
		child := call.Child()
		k.Eventually("the child is there", func() bool { return k.Count(`tasks WHERE run_id = $1 AND key = $2`, child.Run, child.Key) == 1 })
		child.Commit(child.Claim(), "done")
		call.Settled()
	}
	s.asAgent("POST", "/runs/"+run+"/complete", "").ok(http.StatusOK)
	k.Age(run, 91)
	k.Expire()
	for left := 5; left >= 0; left-- {
		require.Equal(t, 1, k.Prune(1, 1))
		require.Equal(t, `{"completed":6}`, string(s.asAgent("GET", "/runs/"+run, "").ok(http.StatusOK).raw("/run/tasks")))
		require.Equal(t, left, k.Count(`tasks`))
	}
	k.Prune(1, 0)
	k.Unuse()
	require.Equal(t, 1, k.DeleteUnused(), "its context")
}

func TestRunnerEffects(t *testing.T) {
	t.Parallel()
	k := kerneltest.Start(t)
	writes := kerneltest.Entry("write", kerneltest.Writes)
	s := sceneAt(t, k, writes, readOnly("look"))
	effects := func(run string) string {
		return sorted(t, s.asAgent("GET", "/runs/"+run, "").ok(http.StatusOK).raw("/run/runner_effects"))
	}
	touched := func(tasks int, checkpoint string) string {
		if checkpoint != "" {
			checkpoint = `"checkpoint":` + checkpoint + `,`
		}
		return fmt.Sprintf(`{"runners":[{%s"runner_executor_public_id":"%s","status":"touched","tasks":%d}],"status":"touched"}`,
			checkpoint, s.Box.ID, tasks)
	}
	const untouched = `{"runners":[],"status":"untouched"}`

	t.Run("only what a runner claimed and what writes is evidence", func(t *testing.T) {
		run := s.run()
		s.call(run, "write", `{}`) // nobody claims it
		s.claimed(run, "look")
		require.Equal(t, untouched, effects(run))
		provider := s.Executor(toolpark.ToolsProvider, "pool", toolpark.AccountWide)
		s.Serve(provider, kerneltest.Entry("pooled", kerneltest.Writes))
		pooled, _ := s.step(run, `"name":"pooled"`)
		_, err := provider.Claim(t.Context(), pooled, "k")
		require.NoError(t, err)
		require.Equal(t, untouched, effects(run), "a provider is no runner")
		s.claimed(run, "write")
		require.Equal(t, touched(1, ""), effects(run), "it has not settled")
	})

	for name, c := range map[string]struct{ metadata, checkpoint string }{
		"an object": {`{"checkpoint":{"b":[1, 2],"a":null},"x":1}`, `{"a":null,"b":[1,2]}`},
		"a string":  {`{"checkpoint":"a\u00e9 <&>"}`, `"aé <&>"`},
		"false":     {`{"checkpoint":false}`, `false`},
		"null":      {`{"checkpoint":null}`, `null`},
		"absent":    {`{"other":{"checkpoint":1}}`, ``},
	} {
		t.Run("a checkpoint that is "+name, func(t *testing.T) {
			run := s.run()
			first, firstToken := s.claimed(run, "write")
			second, secondToken := s.claimed(run, "write")
			s.report(second, secondToken, `"content":"x","metadata":{"checkpoint":"the second"}`).ok(http.StatusOK)
			require.Equal(t, touched(2, ""), effects(run), "the first one has none yet")
			s.report(first, firstToken, `"content":"x","metadata":`+c.metadata).ok(http.StatusOK)
			require.Equal(t, touched(2, c.checkpoint), effects(run))
			require.Contains(t, s.asAgent("GET", "/runs", "").text("/runs/0/public_id"), run)
			require.Equal(t, touched(2, ""), sorted(t, s.asAgent("GET", "/runs", "").raw("/runs/0/runner_effects")), "lists do without")
		})
	}

	t.Run("digits are those of the runner", func(t *testing.T) {
		run := s.run()
		ref, token := s.claimed(run, "write")
		s.report(ref, token, `"metadata":{"checkpoint":[12345678901234567890.10,1E2]}`).ok(http.StatusOK)
		require.Equal(t, `[12345678901234567890.10,1E2]`,
			string(s.asAgent("GET", "/runs/"+run, "").raw("/run/runner_effects/runners/0/checkpoint")))
	})

	t.Run("earlier generations are evidence", func(t *testing.T) {
		run := s.run()
		ref, token := s.claimed(run, "write")
		s.report(ref, token, `"outcome":"failed","metadata":{"checkpoint":"before"}`)
		s.settled(ref)
		retried(t, k, ref)
		require.Equal(t, touched(1, `"before"`), effects(run))
		require.Equal(t, touched(1, ""), sorted(t, s.asAgent("GET", "/runs", "").raw("/runs/0/runner_effects")))
		other, otherToken := s.claimed(run, "write")
		s.report(other, otherToken, `"metadata":{"checkpoint":"after"}`).ok(http.StatusOK)
		require.Equal(t, touched(2, `"before"`), effects(run))
		claimAgain(t, k, ref)
		require.Equal(t, touched(2, `"before"`), effects(run), "one task, in two generations")
	})

	t.Run("each runner has its own", func(t *testing.T) {
		other := s.Runner("other")
		s.Serve(other, writes)
		run := s.run()
		ref, token := s.claimed(run, "write")
		s.report(ref, token, `"metadata":{"checkpoint":1}`).ok(http.StatusOK)
		step, _ := s.step(run, `"name":"write","route":{"kind":"runner","runner_executor_public_id":"`+other.ID.String()+`"}`)
		grant, err := other.Claim(t.Context(), step, "k")
		require.NoError(t, err)
		s.sendBad("POST", inboxPath(step, "commit"), other.Token, reportBody(grant.Token, `"metadata":{"checkpoint":2}`)).ok(http.StatusOK)
		now := s.asAgent("GET", "/runs/"+run, "").ok(http.StatusOK)
		seen := map[string]string{}
		for i := range 2 {
			at := fmt.Sprintf("/run/runner_effects/runners/%d/", i)
			seen[now.text(at+"runner_executor_public_id")] = string(now.raw(at + "checkpoint"))
		}
		require.Equal(t, map[string]string{s.Box.ID.String(): "1", other.ID.String(): "2"}, seen)
	})
}

// retried sets a settled task's generation aside, as a retry does.
func retried(t *testing.T, k *kerneltest.Kernel, ref runner.Ref) {
	t.Helper()
	for _, statement := range []string{
		`INSERT INTO task_generations (run_id, task_key, generation, account_id, facts)
			SELECT run_id, key, generation, account_id, row_to_json(t) FROM tasks t WHERE run_id = $1::uuid AND key = $2`,
		`UPDATE tasks SET generation = generation + 1, claimed_by = NULL, claimed_at = NULL, claim_token_hash = NULL
			WHERE run_id = $1::uuid AND key = $2`,
	} {
		_, err := k.DB.Pool.Exec(t.Context(), statement, ref.Run, ref.TaskKey)
		require.NoError(t, err)
	}
}

// claimAgain lets the runner of the generation that was set aside claim the newest one, too.
func claimAgain(t *testing.T, k *kerneltest.Kernel, ref runner.Ref) {
	t.Helper()
	_, err := k.DB.Pool.Exec(t.Context(), `UPDATE tasks SET claimed_by = addressed_to[1], claimed_at = clock_timestamp(), claim_token_hash = 'x'
		WHERE run_id = $1::uuid AND key = $2`, ref.Run, ref.TaskKey)
	require.NoError(t, err)
}
