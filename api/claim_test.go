package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
	"uuid"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/sdk/runner"
)

func TestClaiming(t *testing.T) {
	t.Parallel()
	s := newScene(t, within(kerneltest.Entry("write", kerneltest.Keyed), time.Minute))
	a := s.asAgent("POST", "/runs", `{"default_runner_executor_public_id":null,"metadata":{"trace":1.50},"configuration":{"approval_mode":"bypass","tool_definitions":[`+
		string(function("write", routed(s.Box.ID, "write")))+`]}}`).ok(http.StatusCreated)
	run := a.text("/run/public_id")
	ref := s.call(run, "write", `{"n":9007199254740993}`)
	before := s.asAgent("GET", taskPath(ref), "").ok(http.StatusOK)
	claim := func(key string) answer {
		t.Helper()
		return s.send("POST", inboxPath(ref, "claim"), s.Box.Token, fmt.Sprintf(`{"claim_key":%q}`, key))
	}

	grant := claim("first").ok(http.StatusOK)
	token := grant.text("/claim/claim_token")
	require.NotEmpty(t, token)
	require.Equal(t, `{"n":9007199254740993}`, string(grant.raw("/task/tool_input")), "claiming is the fetch")
	require.Equal(t, "write", grant.text("/task/tool_name"))
	require.Equal(t, "tool_call", grant.text("/task/kind"))
	require.Equal(t, `{"trace":1.50}`, string(grant.raw("/task/session")))
	require.Equal(t, run+"/"+ref.TaskKey, grant.text("/task/idempotency_key"))
	require.Equal(t, s.Agent.ID.String(), grant.text("/task/requested_by/member_public_id"))
	require.Equal(t, "robot", grant.text("/task/requested_by/handle"))
	require.Equal(t, "agent", grant.text("/task/requested_by/kind"))
	require.Equal(t, "false", string(grant.raw("/task/redelivery")))
	require.Equal(t, "true", string(grant.raw("/task/claimed")))
	require.Equal(t, s.Box.ID.String(), grant.text("/task/addressed_to/executor_public_id"))
	require.Equal(t, "60000", string(grant.raw("/task/timeout_ms")))
	deadline, err := time.Parse(time.RFC3339Nano, grant.text("/claim/deadline_at"))
	require.NoError(t, err)
	earlier, err := time.Parse(time.RFC3339Nano, before.text("/task/deadline_at"))
	require.NoError(t, err)
	require.True(t, deadline.After(earlier), "a first grant restarts the deadline in full")

	again := claim("first").ok(http.StatusOK)
	require.Equal(t, string(grant.Body), string(again.Body), "a repeat gets the same grant, deadline untouched")
	claim("second").refused(http.StatusConflict, toolpark.CodeAlreadyClaimed)

	t.Run("through another process", func(t *testing.T) {
		other := doorOf(t, s.Kernel.Another(t))
		a := other.send("POST", inboxPath(ref, "claim"), s.Box.Token, `{"claim_key":"first"}`).ok(http.StatusOK)
		require.Equal(t, token, a.text("/claim/claim_token"))
	})

	t.Run("a claim makes no event", func(t *testing.T) {
		require.Len(t, s.events(run), 3)
	})

	t.Run("bad bodies", func(t *testing.T) {
		for body, want := range map[string]toolpark.Code{
			`{}`:               toolpark.CodeParameterMissing,
			`{"claim_key":""}`: toolpark.CodeParameterMissing,
			`{"claim_key":5}`:  toolpark.CodeParameterInvalid,
			`{"claim_key":"` + strings.Repeat("é", 65) + `"}`: toolpark.CodeParameterInvalid,
			`{"claim_key":"k","Claim_Key":"x"}`:               toolpark.CodeParameterInvalid,
			`{"claim_key":"k","claim_key":"x"}`:               toolpark.CodeBadRequest,
			`nope`:                                            toolpark.CodeBadRequest,
		} {
			s.sendBad("POST", inboxPath(ref, "claim"), s.Box.Token, body).refused(http.StatusBadRequest, want)
		}
		next := s.call(run, "write", `{}`)
		s.send("POST", inboxPath(next, "claim"), s.Box.Token, `{"claim_key":"`+strings.Repeat("é", 64)+`"}`).ok(http.StatusOK)
	})

	t.Run("the claim is over when the task has settled", func(t *testing.T) {
		s.report(ref, token, `"content":"done"`).ok(http.StatusOK)
		claim("first").refused(http.StatusConflict, toolpark.CodeTaskNotClaimable)
	})
}

// Each refusal applies although those after it would, too.
func TestClaimRefusalsComeInOrder(t *testing.T) {
	t.Parallel()
	s := newScene(t, within(readOnly("soon"), time.Second), readOnly("look"))
	other := s.Runner("other")
	run := s.run()
	refused := func(e kerneltest.Executor, ref runner.Ref, want toolpark.Code) {
		t.Helper()
		_, err := e.Claim(t.Context(), ref, "fresh")
		require.Equal(t, want, code(err))
	}
	over := s.call(run, "soon", `{}`)
	held, _ := s.claimed(run, "look")
	free := s.call(run, "look", `{}`)
	dead := s.call(run, "no_such", `{}`)

	refused(other, held, toolpark.CodeNotAddressedHere)
	refused(other, free, toolpark.CodeNotAddressedHere)
	refused(s.Box, dead, toolpark.CodeNotAddressedHere) // a failed birth has no addressee
	refused(s.Box, held, toolpark.CodeAlreadyClaimed)
	refused(s.Box, runner.Ref{Run: run, TaskKey: "r99t0"}, toolpark.CodeNotFound)
	refused(s.Box, runner.Ref{Run: uuid.NewV7().String(), TaskKey: "r1t0"}, toolpark.CodeNotFound)
	refused(s.Box, runner.Ref{Run: "x", TaskKey: "r1t0"}, toolpark.CodeNotFound)

	t.Run("eligibility comes last", func(t *testing.T) {
		require.NoError(t, s.Box.Shutdown(t.Context()))
		refused(other, free, toolpark.CodeNotAddressedHere)
		refused(s.Box, held, toolpark.CodeAlreadyClaimed)
		refused(s.Box, free, toolpark.CodeNotEligible)
		s.Serve(s.Box, readOnly("look"))
		bob := s.Human("bob")
		_, err := s.Kernel.DB.Pool.Exec(t.Context(), `UPDATE executors SET assignment_scope = 'user_private', manager_id = $1 WHERE id = $2`, bob.ID, s.Box.ID)
		require.NoError(t, err)
		refused(s.Box, free, toolpark.CodeNotEligible)
		_, err = s.Kernel.DB.Pool.Exec(t.Context(), `UPDATE executors SET assignment_scope = 'account_wide' WHERE id = $1`, s.Box.ID)
		require.NoError(t, err)
		_, err = s.Box.Claim(t.Context(), free, "now")
		require.NoError(t, err)
	})

	s.settled(over)
	refused(s.Box, over, toolpark.CodeTaskNotClaimable)
	refused(other, over, toolpark.CodeNotAddressedHere)
}

func TestPastItsDeadlineNobodyClaims(t *testing.T) {
	t.Parallel()
	k := kerneltest.StartAPI(t)
	stop := k.StartWorker()
	s := sceneAt(t, k, within(readOnly("soon"), 1500*time.Millisecond))
	run := s.run()
	held, token := s.claimed(run, "soon")
	free := s.call(run, "soon", `{}`)
	stop() // nobody settles them
	s.door = hasty(t, k)
	require.Eventually(t, func() bool {
		_, err := s.Box.Claim(t.Context(), free, "same")
		return code(err) == toolpark.CodeTaskNotClaimable
	}, patience, 100*time.Millisecond)
	require.Eventually(t, func() bool {
		_, err := s.Box.Extend(t.Context(), held, token, time.Second)
		return code(err) == toolpark.CodeNotExtendable
	}, patience, 100*time.Millisecond)
}

func TestShuttingDown(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	run := s.run()
	ref, token := s.claimed(run, "look")
	require.NoError(t, s.Box.Shutdown(t.Context()))
	self, err := s.Box.Self(t.Context())
	require.NoError(t, err)
	require.True(t, self.ShuttingDown)
	executors, err := s.Agent.Executors(t.Context(), "")
	require.NoError(t, err)
	require.Empty(t, executors)
	born := s.asAgent("GET", taskPath(s.call(run, "look", `{}`)), "").ok(http.StatusOK)
	require.Equal(t, toolpark.ErrRunnerNotEligible, born.text("/task/error/key"))
	s.badly("POST", "/runs", newRunBody(function("look", routed(s.Box.ID, "look")))).refused(http.StatusUnprocessableEntity, toolpark.CodeRunnerNotEligible)
	_, err = s.Box.Extend(t.Context(), ref, token, time.Minute)
	require.NoError(t, err)
	s.report(ref, token, `"content":"what it claimed it may finish"`).ok(http.StatusOK)
}

func TestExtending(t *testing.T) {
	t.Parallel()
	s := newScene(t, within(kerneltest.Entry("write", kerneltest.Writes), 30*time.Second), readOnly("free"))
	other := s.Runner("other")
	run := s.run()
	ref, token := s.claimed(run, "write")
	extend := func(ref runner.Ref, token, timeout string) answer {
		t.Helper()
		return s.sendBad("POST", inboxPath(ref, "extend"), s.Box.Token, fmt.Sprintf(`{"claim_token":%q,"timeout_ms":%s}`, token, timeout))
	}

	first := extend(ref, token, "30000").ok(http.StatusOK)
	require.Equal(t, token, first.text("/claim/claim_token"))
	require.Equal(t, "write", first.text("/task/tool_name"))
	shorter := extend(ref, token, "1").ok(http.StatusOK)
	require.Equal(t, first.text("/claim/deadline_at"), shorter.text("/claim/deadline_at"), "extending never shortens")
	events := s.events(run)
	require.Contains(t, events[len(events)-1], `task_deadline_extended {"task_key":"r1t0","generation":1,"deadline_at":"`)
	require.NotContains(t, events[len(events)-2], "extended", "a move of nothing is no event")

	for _, timeout := range []string{"0", "-1", "1.5", "1e3", `"5"`, "null", "true", "99999999999999999999", "{}"} {
		extend(ref, token, timeout).refused(http.StatusUnprocessableEntity, toolpark.CodeInvalidTimeoutMS)
	}
	s.sendBad("POST", inboxPath(ref, "extend"), s.Box.Token, fmt.Sprintf(`{"claim_token":%q}`, token)).
		refused(http.StatusUnprocessableEntity, toolpark.CodeInvalidTimeoutMS)
	extend(ref, token, "30001").refused(http.StatusConflict, toolpark.CodeExtensionTooLong)
	extend(ref, token, "9223372036854775807").refused(http.StatusConflict, toolpark.CodeExtensionTooLong)
	extend(ref, "tp_claim_other", "1000").refused(http.StatusConflict, toolpark.CodeNotClaimant)
	extend(ref, "tp_claim_other", "30001").refused(http.StatusConflict, toolpark.CodeNotClaimant)
	s.sendBad("POST", inboxPath(ref, "extend"), s.Box.Token, `{"timeout_ms":5}`).refused(http.StatusBadRequest, toolpark.CodeParameterMissing)
	_, err := other.Extend(t.Context(), ref, token, time.Second)
	require.Equal(t, toolpark.CodeNotClaimant, code(err))
	extend(runner.Ref{Run: run, TaskKey: "r9t9"}, token, "1000").refused(http.StatusNotFound, toolpark.CodeNotFound)

	free, freeToken := s.claimed(run, "free")
	extend(free, freeToken, "3600000").ok(http.StatusOK)
	extend(free, freeToken, "3600001").refused(http.StatusConflict, toolpark.CodeExtensionTooLong)
	unclaimed := s.call(run, "free", `{}`)
	extend(unclaimed, freeToken, "1000").refused(http.StatusConflict, toolpark.CodeNotClaimant)

	s.report(ref, token, `"content":"done"`).ok(http.StatusOK)
	extend(ref, token, "1000").refused(http.StatusConflict, toolpark.CodeNotExtendable)
}

func TestAnExtensionHoldsTheDeadlineOff(t *testing.T) {
	t.Parallel()
	s := newScene(t, within(readOnly("brief"), time.Second))
	run := s.run()
	ref, token := s.claimed(run, "brief")
	read := func() (active bool, deadline time.Time) {
		t.Helper()
		a := s.send("GET", inboxPath(ref, "claim"), s.Box.Token, "", "Claim-Token", token).ok(http.StatusOK)
		deadline, err := time.Parse(time.RFC3339Nano, a.text("/claim/deadline_at"))
		require.NoError(t, err)
		return string(a.raw("/claim/active")) == "true", deadline
	}
	active, first := read()
	require.True(t, active)
	for deadline := first; deadline.Before(first.Add(2 * time.Second)); {
		_, err := s.Box.Extend(t.Context(), ref, token, time.Second)
		require.NoError(t, err)
		active, deadline = read()
		require.True(t, active)
	}
	s.report(ref, token, `"content":"in time"`).ok(http.StatusOK)
	active, _ = read()
	require.False(t, active)
	require.Equal(t, "in time", s.settled(ref).text("/task/output"))
}

func TestReadingAClaim(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	run := s.run()
	ref, token := s.claimed(run, "look")
	read := func(ref runner.Ref, headers ...string) answer {
		t.Helper()
		return s.sendBad("GET", inboxPath(ref, "claim"), s.Box.Token, "", headers...)
	}
	require.Equal(t, "true", string(read(ref, "Claim-Token", token).ok(http.StatusOK).raw("/claim/active")))
	require.Equal(t, "false", string(read(ref, "Claim-Token", token+"x").ok(http.StatusOK).raw("/claim/active")))
	read(ref).refused(http.StatusBadRequest, toolpark.CodeParameterMissing)
	read(runner.Ref{Run: run, TaskKey: "r7t0"}, "Claim-Token", token).refused(http.StatusNotFound, toolpark.CodeNotFound)
	s.sendBad("GET", inboxPath(ref, "claim")+"?claim_token="+token, s.Box.Token, "").refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
}

func TestProgress(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	run := s.run()
	ref, token := s.claimed(run, "look")
	post := func(ref runner.Ref, token, frame string) answer {
		t.Helper()
		return s.sendBad("POST", base+"/executor/progress", s.Box.Token,
			fmt.Sprintf(`{"run_public_id":%q,"task_key":%q,"claim_token":%q,"frame":%s}`, ref.Run, ref.TaskKey, token, frame))
	}
	watched := s.listen("/runs/"+run+"/events/stream", s.Agent.Token)
	for range 3 {
		next(t, watched) // accepted, opened, dispatched
	}
	require.Equal(t, "accepted", post(ref, token, `{"done":1.0}`).ok(http.StatusAccepted).text("/progress/status"))
	told := next(t, watched)
	require.True(t, strings.HasPrefix(told, ` progress {"task_key":"r1t0","generation":1,"frame":{"done":1.0},`), "without an id: %s", told)
	require.Equal(t, "dropped", post(ref, token, `{"done":2}`).ok(http.StatusAccepted).text("/progress/status"), "faster than four a second")
	require.Eventually(t, func() bool {
		return post(ref, token, `null`).ok(http.StatusAccepted).text("/progress/status") == "accepted"
	}, patience, 100*time.Millisecond)
	require.Contains(t, next(t, watched), `"frame":null`)

	late := s.listen("/runs/"+run+"/events/stream", s.Agent.Token, "Last-Event-ID", "3")
	require.Contains(t, next(t, late), `"frame":null`, "the last frame is kept")

	post(ref, token, `"`+strings.Repeat("x", toolpark.MaxProgressFrame-1)+`"`).refused(http.StatusRequestEntityTooLarge, toolpark.CodeContentTooLarge)
	post(ref, token, `"a\u0000"`).refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
	post(ref, "other", `1`).refused(http.StatusConflict, toolpark.CodeNotClaimant)
	post(ref, "", `1`).refused(http.StatusBadRequest, toolpark.CodeParameterMissing)
	post(runner.Ref{Run: run, TaskKey: "r9t9"}, token, `1`).refused(http.StatusNotFound, toolpark.CodeNotFound)
	s.sendBad("POST", base+"/executor/progress", s.Box.Token, `{"run_public_id":"`+run+`","task_key":"a\u0000","claim_token":"t","frame":1}`).
		refused(http.StatusNotFound, toolpark.CodeNotFound)
	s.sendBad("POST", base+"/executor/progress", s.Box.Token, `{"run_public_id":"x","task_key":"r1t0","claim_token":"t","frame":1}`).
		refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
	s.sendBad("POST", base+"/executor/progress", s.Box.Token, `{"run_public_id":"`+run+`","task_key":"r1t0","claim_token":"t"}`).
		refused(http.StatusBadRequest, toolpark.CodeParameterMissing)

	s.report(ref, token, `"content":"done"`).ok(http.StatusOK)
	post(ref, token, `1`).refused(http.StatusConflict, toolpark.CodeNotClaimant)
	frames := func() (keys []string) {
		require.NoError(t, s.Kernel.DB.Pool.QueryRow(t.Context(), `SELECT array_agg(task_key) FROM progress`).Scan(&keys))
		return keys
	}
	require.Empty(t, frames(), "kept until the task settles")

	// One that passed the door before the task settled, and came to the table after it.
	id := toolpark.TaskID{Account: s.ID, Run: uuid.MustParse(run), Key: ref.TaskKey}
	kept, err := s.Kernel.DB.Progress(t.Context(), id, 1, []byte(`1`))
	require.NoError(t, err)
	require.False(t, kept)
	require.Empty(t, frames())

	// One that came to the table while the task was settling goes with the next sweep; a live one stays.
	live, liveToken := s.claimed(run, "look")
	require.Equal(t, "accepted", post(live, liveToken, `1`).ok(http.StatusAccepted).text("/progress/status"))
	_, err = s.Kernel.DB.Pool.Exec(t.Context(), `
		INSERT INTO progress (account_id, run_id, task_key, generation, frame, updated_at) VALUES ($1, $2, $3, 1, '1', now())`,
		id.Account, id.Run, id.Key)
	require.NoError(t, err)
	_, err = s.Kernel.DB.Sweep(t.Context(), 100)
	require.NoError(t, err)
	require.Equal(t, []string{live.TaskKey}, frames())
}
