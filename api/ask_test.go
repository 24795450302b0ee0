package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
	"uuid"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
)

// ask appends one ask step. The members are those of the verb, as JSON.
func (s *scene) ask(run, members string) runner.Ref {
	s.t.Helper()
	a := s.asAgent("POST", "/runs/"+run+"/tasks", `{"steps":[{"ask":{`+members+`}}]}`).ok(http.StatusCreated)
	return runner.Ref{Run: run, TaskKey: a.text("/tasks/0/task_key"), Generation: 1}
}

// resolve answers a question as the account's administrator.
func (s *scene) resolve(ref runner.Ref, body string) answer {
	s.t.Helper()
	return s.decide(s.Admin, ref, "resolution", body)
}

// answers commits without a token, as the agent's application.
func (s *scene) answers(ref runner.Ref, body string) answer {
	s.t.Helper()
	return s.sendBad("POST", inboxPath(ref, "commit"), s.AgentAt.Token, body)
}

// stands requires that a question still waits.
func (s *scene) stands(ref runner.Ref) {
	s.t.Helper()
	require.EqualValues(s.t, toolpark.AwaitingInput, s.read(ref).text("/task/status"))
}

func keysOf(waiting []agent.Waiting) (keys []string) {
	for _, w := range waiting {
		keys = append(keys, w.TaskKey)
	}
	return keys
}

func TestAQuestionIsAskedAndAnswered(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	run := s.run()
	const question = `"prompt":"Deploy where?","options":["staging","production"],"multi":false`
	ref := s.ask(run, question)

	row := s.read(ref)
	require.Equal(t, "s1-ask-0", ref.TaskKey)
	require.EqualValues(t, toolpark.KindAsk, row.text("/task/kind"))
	require.EqualValues(t, toolpark.AwaitingInput, row.text("/task/status"))
	require.EqualValues(t, toolpark.OriginAuthor, row.text("/task/origin"))
	require.Equal(t, `{`+question+`}`, string(row.raw("/task/tool_input")))
	require.Equal(t, "null", string(row.raw("/task/tool_name")))
	require.Equal(t, "null", string(row.raw("/task/approval")))
	require.Equal(t, "3600000", string(row.raw("/task/timeout_ms")))
	require.Equal(t, fmt.Sprintf(`{"role":"agent_application","executor_public_id":%q}`, s.AgentAt.ID), string(row.raw("/task/addressed_to")))
	require.Equal(t, []string{
		"run_accepted {}",
		`task_status {"task_key":"s1-ask-0","generation":1,"status":"awaiting_input"}`,
		`ask_required {"task_key":"s1-ask-0","generation":1}`,
	}, compacted(s.events(run)))

	listed := s.send("GET", base+"/executor/inbox", s.AgentAt.Token, "").ok(http.StatusOK)
	require.Equal(t, "ask", listed.text("/inbox/0/kind"))
	require.Equal(t, "Deploy where?", listed.text("/inbox/0/prompt"))
	require.Equal(t, `["staging","production"]`, string(listed.raw("/inbox/0/options")))
	require.Equal(t, "false", string(listed.raw("/inbox/0/multi")))
	require.Equal(t, "false", string(listed.raw("/inbox/0/strict_options")))
	require.Nil(t, listed.raw("/inbox/0/tool_input"))
	require.Equal(t, "null", string(listed.raw("/inbox/0/tool_name")))
	asks := s.asAgent("GET", "/asks", "").ok(http.StatusOK)
	require.Equal(t, string(listed.raw("/inbox/0")), string(asks.raw("/asks/0")))

	open := s.ask(run, `"prompt":"What else?","key":"else"`)
	other := s.ask(s.run(), `"prompt":"And there?","key":"there"`)
	for what, c := range map[string]struct {
		filter agent.WaitingFilter
		keys   []string
	}{
		"all":             {agent.WaitingFilter{}, []string{ref.TaskKey, "else", "there"}},
		"of a run":        {agent.WaitingFilter{Run: other.Run}, []string{"there"}},
		"that have aged":  {agent.WaitingFilter{MinAge: time.Hour}, nil},
		"of no such run":  {agent.WaitingFilter{Run: uuid.NewV7().String()}, nil},
		"of some age now": {agent.WaitingFilter{MinAge: time.Millisecond}, []string{ref.TaskKey, "else", "there"}},
	} {
		found, err := s.Admin.Asks(t.Context(), c.filter)
		require.NoError(t, err)
		require.Equal(t, c.keys, keysOf(found), what)
	}
	found, err := s.Human("bob").Asks(t.Context(), agent.WaitingFilter{})
	require.NoError(t, err)
	require.Empty(t, found, "of runs that he may not read")
	s.badly("GET", "/asks?tool=look", "").refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
	s.badly("GET", "/asks?min_age_ms=x", "").refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)

	const first = `{"content":"Staging first.","structured_content":{"id":12345678901234567890}}`
	answered := s.resolve(ref, first).ok(http.StatusOK)
	require.EqualValues(t, toolpark.Completed, answered.text("/task/status"))
	require.Equal(t, "Staging first.", answered.text("/task/output"))
	require.Equal(t, fmt.Sprintf(`{"member_public_id":%q}`, s.Admin.ID), string(answered.raw("/task/answered_by")))
	require.Equal(t, `{"id":12345678901234567890}`, string(answered.raw("/task/structured_content")))
	require.Equal(t, string(answered.Body), string(s.settled(ref).Body))
	require.ElementsMatch(t, []string{"else", "there"}, inbox(t, s.AgentAt))

	require.Equal(t, string(answered.Body), string(s.resolve(ref, first).ok(http.StatusOK).Body), "the same answer again")
	require.Equal(t, string(answered.Body), string(s.resolve(ref, `{"structured_content":{"id":12345678901234567890}, "content":"Staging first."}`).ok(http.StatusOK).Body))
	late := s.resolve(ref, `{"content":"Production!"}`).refused(http.StatusConflict, toolpark.CodeAlreadySettled)
	require.Equal(t, "Staging first.", late.text("/error/task/output"))
	require.Contains(t, late.text("/error/message"), "answered")

	tool := s.call(run, "look", `{}`)
	refusal := s.resolve(tool, first).refused(http.StatusConflict, toolpark.CodeNotAwaitingInput)
	require.EqualValues(t, toolpark.Dispatched, refusal.text("/error/task/status"))
	s.decide(s.Human("eve"), open, "resolution", first).refused(http.StatusNotFound, toolpark.CodeNotFound)
	s.resolve(runner.Ref{Run: run, TaskKey: "gone"}, first).refused(http.StatusNotFound, toolpark.CodeNotFound)

	t.Run("by the agent itself, through its client", func(t *testing.T) {
		task, err := s.Agent.Resolve(t.Context(), run, open.TaskKey, agent.Answer{Text: "Nothing.", Failed: true})
		require.NoError(t, err)
		require.Equal(t, toolpark.Failed, task.Status)
		require.Equal(t, toolpark.ErrToolFailed, task.Error.Key)
		require.Equal(t, "Nothing.", task.Error.Detail)
		_, err = s.Agent.Resolve(t.Context(), run, open.TaskKey, agent.Answer{Text: "Something."})
		require.Equal(t, toolpark.CodeAlreadySettled, code(err))
	})
	var by string
	require.NoError(t, s.Kernel.DB.Pool.QueryRow(t.Context(), `SELECT settled_by FROM tasks WHERE run_id = $1 AND key = $2`, run, ref.TaskKey).Scan(&by))
	require.EqualValues(t, toolpark.ByResolution, by)
}

func TestWhatAnAnswerMayBe(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	run := s.run()
	ref := s.ask(run, `"prompt":"Which?"`)
	for name, c := range map[string]struct {
		body string
		code toolpark.Code
	}{
		"content of a number":     {`{"content":5}`, toolpark.CodeInvalidContent},
		"a block of another kind": {`{"content":[{"type":"hologram"}]}`, toolpark.CodeUnsupportedContentKind},
		"too many blocks":         {`{"content":[` + strings.Repeat(`{"type":"text","text":""},`, toolpark.MaxContentBlocks) + `{}]}`, toolpark.CodeTooManyContentBlocks},
		"an unknown outcome":      {`{"outcome":"maybe"}`, toolpark.CodeInvalidOutcome},
		"more than it may hold":   {`{"content":"` + strings.Repeat("x", toolpark.MaxResult) + `"}`, toolpark.CodeResultTooLarge},
		"a key twice":             {`{"structured_content":{"a":1,"a":2}}`, toolpark.CodeInvalidStructuredContent},
		"an upload of nobody":     {`{"content":[{"type":"resource_link","uri":"nexus://uploads/` + uuid.NewV7().String() + `","name":"x"}]}`, toolpark.CodeUnknownResultUpload},
		"what cannot be stored":   {`{"content":"a\u0000"}`, toolpark.CodeResultUnstorable},
		"a lone surrogate":        {`{"structured_content":"\ud83d"}`, toolpark.CodeResultUnstorable},
	} {
		t.Run(name, func(t *testing.T) {
			s.resolve(ref, c.body).refused(http.StatusUnprocessableEntity, c.code)
			s.answers(ref, c.body).refused(http.StatusUnprocessableEntity, c.code)
			s.stands(ref)
		})
	}
	for _, body := range []string{`{"title":"x"}`, `{"claim_token":"x"}`, `{"Content":"x"}`} {
		s.resolve(ref, body).refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
	}
	s.stands(ref)
	require.Empty(t, s.resolve(ref, `{}`).ok(http.StatusOK).text("/task/output"), "a blank answer is one")
}

func TestAnAnswerThatMustChoose(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	run := s.run()
	for kind, c := range map[string]struct {
		more           string
		taken, refused []string
	}{
		"one of the options": {
			`"strict_options":true`,
			[]string{`{"content":"a"}`, `{"content":" a\n"}`, `{"structured_content":"b","content":"b, I think"}`, `{"content":"x","outcome":"failed"}`},
			[]string{`{}`, `{"content":"c"}`, `{"content":"A"}`, `{"content":"a\nb"}`, `{"structured_content":["a"]}`, `{"structured_content":null,"content":"a"}`, `{"structured_content":"c","content":"a"}`},
		},
		"several of the options": {
			`"strict_options":true,"multi":true`,
			[]string{`{"content":"a"}`, `{"content":"a\n\n b \n"}`, `{"structured_content":["b","a"]}`, `{"structured_content":"a"}`},
			[]string{`{"content":" \n"}`, `{"content":"a\na"}`, `{"content":"a, b"}`, `{"structured_content":[]}`, `{"structured_content":["a","a"]}`, `{"structured_content":["a",1]}`, `{"structured_content":["c"]}`},
		},
		"anything at all": {
			`"multi":true`,
			[]string{`{"content":"neither"}`, `{"structured_content":5}`},
			nil,
		},
	} {
		t.Run(kind, func(t *testing.T) {
			for _, body := range c.taken {
				ref := s.ask(run, `"prompt":"Which?","options":["a","b"],`+c.more)
				for _, bad := range c.refused {
					refusal := s.resolve(ref, bad).refused(http.StatusUnprocessableEntity, toolpark.CodeInvalidContent)
					require.Contains(t, refusal.text("/error/message"), `"a", "b"`, bad)
					s.answers(ref, bad).refused(http.StatusUnprocessableEntity, toolpark.CodeInvalidContent)
				}
				s.stands(ref)
				s.resolve(ref, body).ok(http.StatusOK)
			}
		})
	}
}

func TestTheApplicationAnswers(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	run := s.run()
	ref := s.ask(run, `"prompt":"Which?"`)
	const report = `{"content":"That one.","title":"Chosen","metadata":{"by":"ada"}}`

	_, err := s.AgentAt.Claim(t.Context(), ref, "k")
	require.Equal(t, toolpark.CodeNotClaimableKind, code(err))
	_, err = s.Box.Claim(t.Context(), ref, "k")
	require.Equal(t, toolpark.CodeNotAddressedHere, code(err))
	s.answers(ref, `{"claim_token":"tp_claim_guess","content":"x"}`).refused(http.StatusConflict, toolpark.CodeStaleClaim)
	s.sendBad("POST", inboxPath(ref, "commit"), s.Box.Token, report).refused(http.StatusConflict, toolpark.CodeNotAddressedHere)
	s.stands(ref)
	answered := s.answers(ref, report).ok(http.StatusOK)
	require.Equal(t, fmt.Sprintf(`{"executor_public_id":%q}`, s.AgentAt.ID), string(answered.raw("/task/answered_by")))
	require.Equal(t, "That one.", answered.text("/task/output"))
	require.Equal(t, "Chosen", answered.text("/task/title"))
	require.Equal(t, `{"by":"ada"}`, string(answered.raw("/task/metadata")))
	require.Equal(t, "null", string(answered.raw("/task/claimed_by")))
	require.Equal(t, string(answered.Body), string(s.answers(ref, report).ok(http.StatusOK).Body))
	late := s.answers(ref, `{"content":"Another."}`).refused(http.StatusConflict, toolpark.CodeAlreadySettled)
	require.Equal(t, "That one.", late.text("/error/task/output"))
	s.resolve(ref, `{"content":"Another."}`).refused(http.StatusConflict, toolpark.CodeAlreadySettled)

	t.Run("only what is addressed to it, without a token", func(t *testing.T) {
		tool := s.call(run, "look", `{}`)
		s.answers(tool, report).refused(http.StatusConflict, toolpark.CodeNotAddressedHere)
		s.sendBad("POST", inboxPath(tool, "commit"), s.Box.Token, report).refused(http.StatusConflict, toolpark.CodeStaleClaim)
	})

	t.Run("nobody's, when a human made the run", func(t *testing.T) {
		own := s.RunWith(s.Admin, "")
		made, err := s.Admin.AppendTasks(t.Context(), own, []agent.Step{{Ask: &agent.Question{Prompt: "Which?"}}}, "")
		require.NoError(t, err)
		ref := runner.Ref{Run: own, TaskKey: made[0].Key}
		s.answers(ref, report).refused(http.StatusConflict, toolpark.CodeNotAddressedHere)
		require.Empty(t, inbox(t, s.AgentAt))
		waiting, err := s.Admin.Asks(t.Context(), agent.WaitingFilter{Run: own})
		require.NoError(t, err)
		require.Equal(t, "Which?", waiting[0].Prompt)
		task, err := s.Admin.Resolve(t.Context(), own, ref.TaskKey, agent.Answer{Text: "This."})
		require.NoError(t, err)
		require.Equal(t, "This.", task.Output)
		require.Contains(t, string(task.Raw), `"addressed_to":null`)
	})

	t.Run("and serves tools beside it", func(t *testing.T) {
		s.Work(s.AgentAt, 1, echoing(readOnly("own")))
		s.Eventually("it has announced", func() bool {
			return s.send("GET", base+"/executor", s.AgentAt.Token, "").ok(http.StatusOK).text("/executor/served_tools/0/name") == "own"
		})
		run := s.RunWith(s.Agent, "", function("own", ""))
		question := s.ask(run, `"prompt":"Which?"`)
		for range 3 {
			require.Equal(t, `{"n":1}`, s.result(run, "own", `{"n":1}`).Output)
		}
		s.stands(question)
		s.resolve(question, `{"content":"None."}`).ok(http.StatusOK)
	})
}

func TestAQuestionEnds(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	run := s.run()

	t.Run("by its clock", func(t *testing.T) {
		ref := s.ask(run, `"prompt":"Which?","timeout_ms":1`)
		a := s.settled(ref)
		require.EqualValues(t, toolpark.TimedOut, a.text("/task/status"))
		require.Equal(t, toolpark.ErrAskTimeout, a.text("/task/error/key"))
		late := s.resolve(ref, `{"content":"x"}`).refused(http.StatusConflict, toolpark.CodeAlreadySettled)
		require.EqualValues(t, toolpark.TimedOut, late.text("/error/task/status"))
		s.answers(ref, `{"content":"x"}`).refused(http.StatusConflict, toolpark.CodeAlreadySettled)
	})

	t.Run("by a cancel", func(t *testing.T) {
		ref := s.ask(run, `"prompt":"Which?"`)
		a := s.asAgent("POST", taskPath(ref)+"/cancel", "").ok(http.StatusOK)
		require.EqualValues(t, toolpark.Canceled, a.text("/task/status"))
		s.resolve(ref, `{"content":"x"}`).refused(http.StatusConflict, toolpark.CodeAlreadySettled)
		found, err := s.Admin.Asks(t.Context(), agent.WaitingFilter{Run: run})
		require.NoError(t, err)
		require.Empty(t, found)
	})

	t.Run("once, however many answer", func(t *testing.T) {
		ref := s.ask(run, `"prompt":"Which?"`)
		const people = 12
		answers := make([]answer, people)
		barrier := make(chan struct{})
		var race sync.WaitGroup
		for i := range people {
			race.Go(func() {
				<-barrier
				body := fmt.Sprintf(`{"content":"answer %d"}`, i)
				if i%2 == 0 {
					answers[i] = s.resolve(ref, body)
				} else {
					answers[i] = s.answers(ref, body)
				}
			})
		}
		close(barrier)
		race.Wait()
		stands := s.settled(ref).text("/task/output")
		for i, a := range answers {
			if a.Status == http.StatusOK {
				require.Equal(t, fmt.Sprintf("answer %d", i), stands)
				require.Equal(t, stands, a.text("/task/output"))
				continue
			}
			a.refused(http.StatusConflict, toolpark.CodeAlreadySettled)
			require.Equal(t, stands, a.text("/error/task/output"))
		}
	})

	t.Run("and begins again when it is retried", func(t *testing.T) {
		ref := s.ask(run, `"prompt":"Which?"`)
		s.resolve(ref, `{"content":"Nobody knows.","outcome":"failed"}`).ok(http.StatusOK)
		again, err := s.Agent.Retry(t.Context(), run, ref.TaskKey)
		require.NoError(t, err)
		require.Equal(t, toolpark.AwaitingInput, again.Status)
		require.Equal(t, 2, again.Generation)
		found, err := s.Admin.Asks(t.Context(), agent.WaitingFilter{Run: run})
		require.NoError(t, err)
		require.Equal(t, []string{ref.TaskKey}, keysOf(found))
		require.True(t, found[0].Redelivery)
		require.Contains(t, inbox(t, s.AgentAt), ref.TaskKey)
		a := s.resolve(ref, `{"content":"Nobody knows.","outcome":"failed"}`).ok(http.StatusOK)
		require.Equal(t, "2", string(a.raw("/task/generation")), "what was answered before counts no more")
		require.EqualValues(t, toolpark.Failed, a.text("/task/status"))
	})

	t.Run("with its run", func(t *testing.T) {
		run := s.run()
		ref := s.ask(run, `"prompt":"Which?"`)
		s.asAgent("POST", "/runs/"+run+"/stop", `{"force":true}`).ok(http.StatusOK)
		require.EqualValues(t, toolpark.Canceled, s.settled(ref).text("/task/status"))
	})
}

// After the last worker has gone, what was answered in time still counts, and what was not does not.
func TestAnswersWaitForAWorker(t *testing.T) {
	t.Parallel()
	s := sceneAt(t, kerneltest.StartAPI(t))
	run := s.BareRun()
	inTime, byApplication := s.ask(run, `"prompt":"Which?"`), s.ask(run, `"prompt":"Which?"`)
	late := s.ask(run, `"prompt":"Which?"`)
	impatient := *s
	impatient.door = hasty(t, s.Kernel)

	pending := impatient.resolve(inTime, `{"content":"soon"}`).ok(http.StatusAccepted)
	require.Equal(t, "pending", pending.text("/resolution/status"))
	pending = impatient.answers(byApplication, `{"content":"mine"}`).ok(http.StatusAccepted)
	require.Equal(t, "pending", pending.text("/commit/status"))
	s.overdue(inTime)
	s.overdue(late)
	impatient.resolve(late, `{"content":"late"}`).ok(http.StatusAccepted)

	stop := s.StartWorker()
	require.Equal(t, "soon", s.settled(inTime).text("/task/output"))
	require.Equal(t, "mine", s.settled(byApplication).text("/task/output"))
	require.Equal(t, toolpark.ErrAskTimeout, s.settled(late).text("/task/error/key"))
	s.resolve(inTime, `{"content":"soon"}`).ok(http.StatusOK)
	s.answers(byApplication, `{"content":"mine"}`).ok(http.StatusOK)
	s.resolve(late, `{"content":"late"}`).refused(http.StatusConflict, toolpark.CodeAlreadySettled)

	stop()
	across := s.ask(run, `"prompt":"Which?"`)
	impatient.resolve(across, `{"content":"across"}`).ok(http.StatusAccepted)
	impatient.resolve(across, `{"content":"another"}`).ok(http.StatusAccepted)
	s.StartWorker()
	require.Equal(t, "across", s.settled(across).text("/task/output"))
	s.resolve(across, `{"content":"another"}`).refused(http.StatusConflict, toolpark.CodeAlreadySettled)
}

func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	s := sceneAt(t, kerneltest.StartAPI(t))
	ref := s.ask(s.BareRun(), `"prompt":"Which?"`)
	impatient := *s
	impatient.door = hasty(t, s.Kernel)
	for i := range toolpark.MaxReportsPerClaim {
		impatient.resolve(ref, fmt.Sprintf(`{"content":"%d"}`, i)).ok(http.StatusAccepted)
	}
	impatient.resolve(ref, `{"content":"more"}`).refused(http.StatusTooManyRequests, toolpark.CodeRateLimited)
	impatient.resolve(ref, `{"content":"5"}`).ok(http.StatusAccepted)
	s.StartWorker()
	require.Equal(t, "0", s.settled(ref).text("/task/output"))
}
