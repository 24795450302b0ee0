package api_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
)

func TestExpiryFollowsTheEffectProfile(t *testing.T) {
	t.Parallel()
	effect := func(kind, idempotency string) toolpark.EffectProfile {
		return toolpark.EffectProfile{Kind: kind, EffectScope: toolpark.ScopeOpen, Idempotency: idempotency, Reconciliation: toolpark.ReconcileNone}
	}
	cases := []struct {
		name      string
		effect    toolpark.EffectProfile
		claimed   bool
		status    toolpark.Status
		key       string
		retrySafe string
	}{
		{"never_claimed", effect("write", "none"), false, toolpark.TimedOut, toolpark.ErrToolTimeout, "false"},
		{"keyed_never_claimed", effect("write", "keyed"), false, toolpark.TimedOut, toolpark.ErrToolTimeout, "true"},
		{"pure", effect("pure", "none"), true, toolpark.TimedOut, toolpark.ErrToolTimeout, "false"},
		{"read_only", effect("read_only", "none"), true, toolpark.TimedOut, toolpark.ErrToolTimeout, "false"},
		{"intrinsic", effect("write", "intrinsic"), true, toolpark.TimedOut, toolpark.ErrToolTimeout, "false"},
		{"keyed", effect("write", "keyed"), true, toolpark.Uncertain, toolpark.ErrToolUncertain, "true"},
		{"write", effect("write", "none"), true, toolpark.Uncertain, toolpark.ErrToolUncertain, "false"},
	}
	entries := make([]runner.Entry, len(cases))
	calls := make([]agent.Call, len(cases))
	for i, c := range cases {
		entries[i] = within(kerneltest.Entry(c.name, c.effect), 2*time.Second)
		calls[i] = agent.Call{Name: c.name}
	}
	s := newScene(t, entries...)
	run := s.run()
	refs := s.calls(run, calls...)
	tokens := make([]string, len(cases))
	for i, c := range cases {
		if c.claimed {
			tokens[i] = s.claim(refs[i])
		}
	}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			a := s.settled(refs[i])
			require.EqualValues(t, c.status, a.text("/task/status"))
			require.Equal(t, c.key, a.text("/task/error/key"))
			require.Equal(t, c.retrySafe, string(a.raw("/task/retry_safe")))
			require.Equal(t, `""`, string(a.raw("/task/output")))
			require.Equal(t, `[]`, string(a.raw("/task/content")))
			_, err := s.Box.Claim(t.Context(), refs[i], "late")
			require.Equal(t, toolpark.CodeTaskNotClaimable, code(err))
			if c.claimed {
				late := s.report(refs[i], tokens[i], `"content":"late"`).refused(http.StatusConflict, toolpark.CodeClaimExpired)
				require.Equal(t, string(c.status), late.text("/error/task/status"))
			}
		})
	}
	require.Empty(t, inbox(t, s.Box))
	require.Contains(t, s.events(run), `round_settled {"round":1}`)
	effects, err := s.Agent.Run(t.Context(), run)
	require.NoError(t, err)
	require.Contains(t, string(effects.Raw), `"tasks":3}]`, "three claimed writes: %s", effects.Raw)
}

func TestCancelingATask(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"), kerneltest.Entry("write", kerneltest.Writes))
	run := s.run()

	t.Run("unclaimed", func(t *testing.T) {
		ref := s.call(run, "look", `{}`)
		a := s.asAgent("POST", taskPath(ref)+"/cancel", "").ok(http.StatusOK)
		require.EqualValues(t, toolpark.Canceled, a.text("/task/status"))
		require.Equal(t, toolpark.ErrTaskCanceled, a.text("/task/error/key"))
		_, err := s.Box.Claim(t.Context(), ref, "k")
		require.Equal(t, toolpark.CodeTaskNotClaimable, code(err))
		again := s.asAgent("POST", taskPath(ref)+"/cancel", `{}`).refused(http.StatusConflict, toolpark.CodeAlreadySettled)
		require.EqualValues(t, toolpark.Canceled, again.text("/error/task/status"))
	})

	t.Run("claimed", func(t *testing.T) {
		ref, token := s.claimed(run, "write")
		pushed := s.listen("/executor/events", s.Box.Token)
		s.asAgent("POST", taskPath(ref)+"/cancel", "").ok(http.StatusOK)
		require.Equal(t, fmt.Sprintf(` work_canceled {"run_public_id":"%s","task_key":"%s","generation":1,"reason":"canceled"}`, run, ref.TaskKey), next(t, pushed))
		a := s.report(ref, token, `"content":"too late"`).refused(http.StatusConflict, toolpark.CodeClaimCanceled)
		require.EqualValues(t, toolpark.Canceled, a.text("/error/task/status"))
		active, err := s.Box.ClaimActive(t.Context(), ref, token)
		require.NoError(t, err)
		require.False(t, active)
		require.Equal(t, `""`, string(s.settled(ref).raw("/task/output")))
	})

	t.Run("settled", func(t *testing.T) {
		ref, token := s.claimed(run, "look")
		s.report(ref, token, `"content":"first"`).ok(http.StatusOK)
		a := s.asAgent("POST", taskPath(ref)+"/cancel", "").refused(http.StatusConflict, toolpark.CodeAlreadySettled)
		require.Equal(t, "first", a.text("/error/task/output"))
	})

	t.Run("unknown", func(t *testing.T) {
		s.asAgent("POST", "/runs/"+run+"/tasks/r99t0/cancel", "").refused(http.StatusNotFound, toolpark.CodeNotFound)
		s.badly("POST", "/runs/"+run+"/tasks/r1t0/cancel", `{"force":true}`).refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
		s.badly("GET", "/runs/"+run+"/tasks/%00", "").refused(http.StatusNotFound, toolpark.CodeNotFound)
		s.badly("GET", "/runs/"+run+"/tasks/"+fmt.Sprintf("%09000d", 1), "").refused(http.StatusNotFound, toolpark.CodeNotFound)
		s.badly("GET", "/runs/"+run+"/tasks/%FF", "").refused(http.StatusNotFound, toolpark.CodeNotFound)
	})
}

func TestACancelWaitsForAWorker(t *testing.T) {
	t.Parallel()
	k := kerneltest.StartAPI(t)
	stop := k.StartWorker()
	s := sceneAt(t, k, readOnly("look"))
	run := s.run()
	ref, token := s.claimed(run, "look")
	open := s.call(run, "look", `{}`)
	stop()
	waits := s.door
	s.door = hasty(t, k)

	a := s.asAgent("POST", taskPath(ref)+"/cancel", "").ok(http.StatusAccepted)
	require.Equal(t, "pending", a.text("/cancel/status"))
	s.asAgent("POST", taskPath(ref)+"/cancel", "").ok(http.StatusAccepted) // the same wish
	s.asAgent("POST", taskPath(open)+"/cancel", "").ok(http.StatusAccepted)

	_, err := s.Box.Claim(t.Context(), open, "k")
	require.Equal(t, toolpark.CodeTaskNotClaimable, code(err), "nobody can claim from the moment the cancel is staged")
	_, err = s.Box.Extend(t.Context(), ref, token, time.Minute)
	require.Equal(t, toolpark.CodeNotExtendable, code(err))
	active, err := s.Box.ClaimActive(t.Context(), ref, token)
	require.NoError(t, err)
	require.False(t, active)
	s.report(ref, token, `"content":"after the cancel"`).ok(http.StatusAccepted)

	k.StartWorker()
	s.door = waits
	require.EqualValues(t, toolpark.Canceled, s.settled(ref).text("/task/status"), "the first that settles wins")
	require.EqualValues(t, toolpark.Canceled, s.settled(open).text("/task/status"))
	s.report(ref, token, `"content":"after the cancel"`).refused(http.StatusConflict, toolpark.CodeClaimCanceled)
}

func TestWaitingForATask(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	run := s.run()
	ref, token := s.claimed(run, "look")

	live := s.asAgent("GET", taskPath(ref)+"?wait_ms=1", "").ok(http.StatusOK)
	require.Equal(t, "null", string(live.raw("/task/settled_at")))
	require.Equal(t, "null", string(live.raw("/task/output")))
	require.Equal(t, "null", string(live.raw("/task/content")))
	require.Equal(t, s.Box.ID.String(), live.text("/task/claimed_by"))
	round := s.asAgent("GET", "/runs/"+run+"/rounds/1?wait_ms=1", "").ok(http.StatusOK)
	require.Equal(t, "false", string(round.raw("/round/settled")))
	s.asAgent("GET", "/runs/"+run+"/rounds/1/messages?format=responses", "").refused(http.StatusConflict, toolpark.CodeRunBusy)

	answers := make(chan string)
	for _, path := range []string{taskPath(ref), "/runs/" + run + "/rounds/1", "/runs/" + run + "/rounds/1/messages"} {
		query := "?wait_ms=60000"
		if path[len(path)-1] == 's' {
			query += "&format=responses"
		}
		go func() { answers <- string(s.asAgent("GET", path+query, "").Body) }()
	}
	s.report(ref, token, `"content":"it came true"`).ok(http.StatusOK)
	for range 3 {
		select {
		case body := <-answers:
			require.Contains(t, body, "it came true")
		case <-time.After(patience):
			t.Fatal("a wait did not end")
		}
	}
	for _, query := range []string{"wait_ms=-1", "wait_ms=60001", "wait_ms=x", "wait_ms=", "wait_ms=1.5", "wait=1", "wait_ms=1&wait_ms=1"} {
		s.badly("GET", taskPath(ref)+"?"+query, "").refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
		s.badly("GET", "/runs/"+run+"/rounds/1?"+query, "").refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
	}
}

func TestTasksAreListedPageByPage(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	run := s.run()
	s.calls(run, agent.Call{Name: "look"}, agent.Call{Name: "no_such"}, agent.Call{Name: "look"})
	s.step(run, `"name":"look","route":{"kind":"runner"},"input":{"secret":1}`)
	var seen []string
	for after := ""; ; {
		page := s.asAgent("GET", "/runs/"+run+"/tasks?limit=3"+after, "").ok(http.StatusOK)
		require.NotContains(t, string(page.Body), "tool_input")
		require.NotContains(t, string(page.Body), "secret")
		require.NotContains(t, string(page.Body), `"content"`)
		for i := 0; page.raw(fmt.Sprintf("/tasks/%d", i)) != nil; i++ {
			seen = append(seen, page.text(fmt.Sprintf("/tasks/%d/task_key", i)))
		}
		cursor := page.text("/pagination/next_after")
		if cursor == "" {
			break
		}
		after = "&after=" + cursor
	}
	require.Equal(t, []string{"r1t0", "r1t1", "r1t2", "s1-tool-0"}, seen)
	for _, query := range []string{"limit=0", "limit=201", "after=", "after=*", "after=W10", "after=IlwIg", "after=Ilx1MDAwMCI"} {
		s.badly("GET", "/runs/"+run+"/tasks?"+query, "").refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
		s.badly("GET", "/runs/"+run+"/events?"+query, "").refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
	}
}

func TestTheShortestDeadline(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	run := s.run()
	for range 5 {
		ref, _ := s.step(run, `"name":"look","route":{"kind":"runner"},"timeout_ms":1`)
		a := s.settled(ref)
		require.EqualValues(t, toolpark.TimedOut, a.text("/task/status"))
	}
	ref, a := s.step(run, `"name":"look","route":{"kind":"runner"},"timeout_ms":604800000`)
	deadline, err := time.Parse(time.RFC3339Nano, a.text("/task/deadline_at"))
	require.NoError(t, err)
	require.Greater(t, time.Until(deadline), 6*24*time.Hour)
	s.report(ref, s.claim(ref), `"content":"long before"`).ok(http.StatusOK)
}
