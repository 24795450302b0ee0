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

func TestARoundOfCallsComesBackPaired(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo().Entry)
	run := s.run()
	s.Work(s.Box, 8, echo())

	type call struct{ arguments, output, failure string }
	good := func(n int) call {
		input := fmt.Sprintf(`{"n":%d}`, n)
		return call{arguments: input, output: input}
	}
	truncated := call{arguments: `"{\"n\":"`, failure: toolpark.ErrInvalidToolArguments}
	unknown := call{arguments: `{}`, failure: toolpark.ErrUnknownTool}
	many := make([]call, toolpark.MaxCallsPerRound)
	for i := range many {
		many[i] = []call{good(i), truncated, good(i), unknown}[i%4]
	}
	for name, calls := range map[string][]call{
		"bad ones in the middle":   {good(1), truncated, unknown, good(4)},
		"bad ones first":           {truncated, unknown, good(3), good(4)},
		"bad ones last":            {good(1), good(2), unknown, truncated},
		"only bad ones":            {unknown, truncated},
		"as many as a round takes": many,
	} {
		t.Run(name, func(t *testing.T) {
			posted := make([]agent.Call, len(calls))
			for i, c := range calls {
				posted[i] = agent.Call{ID: fmt.Sprintf("c%d", i), Name: "echo", Arguments: jsontext.Value(c.arguments)}
				if c.failure == toolpark.ErrUnknownTool {
					posted[i].Name = "no_such"
				}
			}
			round, err := s.Agent.PostRound(t.Context(), run, agent.NewRound{Calls: posted})
			require.NoError(t, err)
			settled, err := s.Agent.Round(t.Context(), run, round.Number, time.Minute)
			require.NoError(t, err)
			require.True(t, settled.Settled)
			require.Len(t, settled.Results, len(calls))
			for i, c := range calls {
				got := settled.Results[i]
				require.Equal(t, fmt.Sprintf("c%d", i), got.ToolCallID)
				require.Equal(t, fmt.Sprintf("r%dt%d", round.Number, i), got.Key)
				require.Equal(t, c.output, got.Output)
				if c.failure == "" {
					require.True(t, got.Succeeded())
				} else {
					require.Equal(t, toolpark.Failed, got.Status)
					require.Equal(t, c.failure, got.Error.Key)
				}
			}
		})
	}
	_, err := s.Agent.CompleteRun(t.Context(), run)
	require.NoError(t, err)
}

func TestPairingKeys(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	run := s.run()
	rounds := "/runs/" + run + "/rounds"

	t.Run("two calls with one id are refused and nothing is created", func(t *testing.T) {
		before := s.events(run)
		for _, calls := range []string{
			`{"id":"c1","name":"look"},{"id":"c2","name":"look"},{"id":"c1","name":"other"}`,
			`{"id":"c1","name":"look","arguments":{"a":1}},{"id":"c1","name":"look","arguments":{"a":1}}`,
		} {
			a := s.asAgent("POST", rounds, `{"calls":[`+calls+`]}`).refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
			require.Regexp(t, `^/calls/[12]/id$`, a.text("/error/pointer"))
		}
		s.badly("GET", rounds+"/1", "").refused(http.StatusNotFound, toolpark.CodeNotFound)
		require.Equal(t, before, s.events(run))
	})

	t.Run("absent, blank and overlong ids are replaced and the answer says so", func(t *testing.T) {
		long := strings.Repeat("x", toolpark.MaxToolCallID)
		a := s.badly("POST", rounds, `{"calls":[{"name":"look"},{"id":"","name":"look"},{"id":" ","name":"look"},{"id":null,"name":"look"},`+
			`{"id":"`+long+`x","name":"look"},{"id":"a\u0000","name":"look"},{"id":"`+long+`","name":"look"},{"id":"天 1","name":"look"}]}`).ok(http.StatusCreated)
		seen := map[string]bool{}
		for i := range 6 {
			id := a.text(fmt.Sprintf("/round/tasks/%d/tool_call_id", i))
			require.NotEmpty(t, strings.TrimSpace(id))
			require.False(t, seen[id])
			seen[id] = true
			require.Equal(t, "true", string(a.raw(fmt.Sprintf("/round/tasks/%d/tool_call_id_minted", i))))
		}
		for i, own := range []string{long, "天 1"} {
			require.Equal(t, own, a.text(fmt.Sprintf("/round/tasks/%d/tool_call_id", 6+i)))
			require.Nil(t, a.raw(fmt.Sprintf("/round/tasks/%d/tool_call_id_minted", 6+i)))
		}
	})

	t.Run("an id may come again in another round and another run", func(t *testing.T) {
		first := s.calls(run, agent.Call{ID: "call_0", Name: "look", Arguments: jsontext.Value(`{"a":1}`)})[0]
		second := s.calls(run, agent.Call{ID: "call_0", Name: "look", Arguments: jsontext.Value(`{"a":2}`)})[0]
		elsewhere := s.calls(s.run(), agent.Call{ID: "call_0", Name: "look", Arguments: jsontext.Value(`{"a":3}`)})[0]
		for i, ref := range []runner.Ref{first, second, elsewhere} {
			grant, err := s.Box.Claim(t.Context(), ref, "k")
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf(`{"a":%d}`, i+1), string(grant.Task.ToolInput))
			s.report(ref, grant.Token, fmt.Sprintf(`"content":"answer %d"`, i+1)).ok(http.StatusOK)
		}
		for i, ref := range []runner.Ref{first, second, elsewhere} {
			a := s.settled(ref)
			require.Equal(t, "call_0", a.text("/task/tool_call_id"))
			require.Equal(t, fmt.Sprintf("answer %d", i+1), a.text("/task/output"))
		}
	})
}

func TestArguments(t *testing.T) {
	t.Parallel()
	wants := readOnly("wants")
	wants.InputSchema = jsontext.Value(`{"type":"object","required":["path"],"properties":{"path":{"type":"string"},"id":{"maximum":9007199254740992}}}`)
	s := newScene(t, readOnly("any"), wants)
	run := s.run()
	nested := func(depth int) string { return strings.Repeat(`{"a":`, depth-1) + `{}` + strings.Repeat(`}`, depth-1) }
	quoted := func(text string) string {
		q, err := jsontext.AppendQuote(nil, text)
		require.NoError(t, err)
		return string(q)
	}
	const live, absent = "", "absent"
	cases := []struct {
		tool, arguments, input, failure, detail string
	}{
		{"any", absent, `{}`, live, ""},
		{"any", `null`, `{}`, live, ""},
		{"any", `""`, `{}`, live, ""},
		{"any", `" \n\t "`, `{}`, live, ""},
		{"any", `{}`, `{}`, live, ""},
		{"any", `"null"`, `null`, toolpark.ErrInvalidToolArguments, "must be a JSON object"},
		{"any", `"[]"`, `null`, toolpark.ErrInvalidToolArguments, "must be a JSON object"},
		{"any", `"5"`, `null`, toolpark.ErrInvalidToolArguments, "must be a JSON object"},
		{"any", `[]`, `null`, toolpark.ErrInvalidToolArguments, "must be a JSON object"},
		{"any", `5`, `null`, toolpark.ErrInvalidToolArguments, "must be a JSON object"},
		{"any", `true`, `null`, toolpark.ErrInvalidToolArguments, "must be a JSON object"},
		{"wants", absent, `{}`, toolpark.ErrInvalidToolInput, "path"},
		{"wants", `null`, `{}`, toolpark.ErrInvalidToolInput, "path"},
		{"wants", `""`, `{}`, toolpark.ErrInvalidToolInput, "path"},
		{"wants", `"  "`, `{}`, toolpark.ErrInvalidToolInput, "path"},
		{"wants", `"null"`, `null`, toolpark.ErrInvalidToolArguments, "must be a JSON object"},
		{"wants", `{"path":5}`, `{"path":5}`, toolpark.ErrInvalidToolInput, "/path"},

		// Cut by a token limit, or two answers in one.
		{"any", quoted(`{"path":"/r.txt","content":"line one`), `null`, toolpark.ErrInvalidToolArguments, "byte 36"},
		{"any", quoted(`{"a":1}{"b":2}`), `null`, toolpark.ErrInvalidToolArguments, "byte 7"},
		{"any", quoted(`{"a":1} x`), `null`, toolpark.ErrInvalidToolArguments, "byte 8"},
		{"any", quoted(`{"a":NaN}`), `null`, toolpark.ErrInvalidToolArguments, "byte 5"},

		// One value is checked, stored and run.
		{"any", `{"amount":1,"amount":1000}`, `null`, toolpark.ErrInvalidToolArguments, "/amount"},
		{"any", quoted(`{"amount":1,"amount":1000}`), `null`, toolpark.ErrInvalidToolArguments, "/amount"},
		{"any", `{"amount":1,"Amount":1000}`, `{"amount":1,"Amount":1000}`, live, ""},

		// Digits.
		{"any", `{"id":9007199254740993,"big":12345678901234567890,"d":0.10}`, `{"id":9007199254740993,"big":12345678901234567890,"d":0.10}`, live, ""},
		{"any", quoted(`{ "z":1e5, "a":-0.0 }`), `{"z":1e5,"a":-0.0}`, live, ""},
		{"wants", `{"path":"p","id":9007199254740993}`, `{"path":"p","id":9007199254740993}`, toolpark.ErrInvalidToolInput, "/id"},
		{"wants", `{"path":"p","id":9007199254740992}`, `{"path":"p","id":9007199254740992}`, live, ""},
		{"any", `{"x":1e999}`, `{"x":1e999}`, live, ""},
		{"any", `{"x":1e1001}`, `null`, toolpark.ErrInvalidToolArguments, "/x"},
		{"any", `{"x":1e131072}`, `null`, toolpark.ErrInvalidToolArguments, "/x"},
		{"any", `{"x":[` + strings.TrimSuffix(strings.Repeat(`1e999999,`, 100), ",") + `]}`, `null`, toolpark.ErrInvalidToolArguments, "/x/0"},

		// Text that cannot be stored.
		{"any", `{"t":"a\u0000b"}`, `null`, toolpark.ErrInvalidToolInput, "/t"},
		{"any", `{"a\u0000b":1}`, `null`, toolpark.ErrInvalidToolInput, "U+0000"},
		{"any", `{"t":"a\ud83db"}`, `null`, toolpark.ErrInvalidToolInput, "/t"},
		{"any", "{\"t\":\"\xff\"}", `null`, toolpark.ErrInvalidToolInput, "/t"},
		{"any", `"{\"t\":\"\u0000\"}"`, `null`, toolpark.ErrInvalidToolInput, ""},
		{"any", `"a\ud83db"`, `null`, toolpark.ErrInvalidToolInput, ""},
		{"any", `{"t":"a\\u0000b 😀"}`, `{"t":"a\\u0000b 😀"}`, live, ""},

		// Nesting.
		{"any", nested(100), nested(100), live, ""},
		{"any", nested(toolpark.MaxJSONDepth), nested(toolpark.MaxJSONDepth), live, ""},
		{"any", nested(1000), `null`, toolpark.ErrInvalidToolArguments, "128"},
		{"any", quoted(nested(1000)), `null`, toolpark.ErrInvalidToolArguments, "128"},
		{"any", quoted(nested(20_000)), `null`, toolpark.ErrInvalidToolArguments, "128"},

		// Size.
		{"any", `{"s":"` + strings.Repeat("x", toolpark.MaxToolInput-8) + `"}`, `{"s":"` + strings.Repeat("x", toolpark.MaxToolInput-8) + `"}`, live, ""},
		{"any", `{"s":"` + strings.Repeat("x", toolpark.MaxToolInput-7) + `"}`, `null`, toolpark.ErrToolInputTooLarge, "65537"},
	}
	calls := make([]string, len(cases))
	for i, c := range cases {
		calls[i] = fmt.Sprintf(`{"id":"c%d","name":%q`, i, c.tool)
		if c.arguments != absent {
			calls[i] += `,"arguments":` + c.arguments
		}
		calls[i] += `}`
	}
	posted := s.badly("POST", "/runs/"+run+"/rounds", `{"calls":[`+strings.Join(calls, ",")+`]}`).ok(http.StatusCreated)
	round := s.asAgent("GET", "/runs/"+run+"/rounds/1", "").ok(http.StatusOK)
	require.Equal(t, "false", string(round.raw("/round/settled")))
	for i, c := range cases {
		at := fmt.Sprintf("/round/results/%d", i)
		about := fmt.Sprintf("%.80s: %.300s", c.arguments, round.raw(at))
		require.Equal(t, fmt.Sprintf("c%d", i), round.text(at+"/tool_call_id"))
		require.Equal(t, c.input, string(round.raw(at+"/tool_input")), about)
		require.Equal(t, c.failure, round.text(at+"/error/key"), about)
		require.Contains(t, round.text(at+"/error/detail"), c.detail, about)
		status := toolpark.Dispatched
		if c.failure != live {
			status = toolpark.Failed
		}
		require.EqualValues(t, status, round.text(at+"/status"), about)
		require.EqualValues(t, status, posted.text(fmt.Sprintf("/round/tasks/%d/status", i)))
	}

	t.Run("what the decoder cannot pass over is no body", func(t *testing.T) {
		for _, arguments := range []string{nested(20_000), `{"a":NaN}`, `{"a":`} {
			s.badly("POST", "/runs/"+run+"/rounds", `{"calls":[{"name":"any","arguments":`+arguments+`}]}`).
				refused(http.StatusBadRequest, toolpark.CodeBadRequest)
		}
	})
}

func TestRoundRefusals(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"), readOnly("other"))
	run := s.run()
	rounds := "/runs/" + run + "/rounds"
	before := s.events(run)
	for name, c := range map[string]struct {
		body    string
		code    toolpark.Code
		pointer string
	}{
		"no calls":              {`{}`, toolpark.CodeParameterInvalid, "/calls"},
		"empty calls":           {`{"calls":[]}`, toolpark.CodeParameterInvalid, "/calls"},
		"too many calls":        {`{"calls":[` + strings.Repeat(`{"name":"look"},`, toolpark.MaxCallsPerRound) + `{"name":"look"}]}`, toolpark.CodeParameterInvalid, "/calls"},
		"a million calls":       {`{"calls":[` + strings.Repeat(`0,`, 1<<20) + `0]}`, toolpark.CodeParameterInvalid, "/calls"},
		"calls of no list":      {`{"calls":{"name":"look"}}`, toolpark.CodeParameterInvalid, "/calls"},
		"an unknown field":      {`{"calls":[{"name":"look"}],"tool_name":["look"]}`, toolpark.CodeParameterInvalid, "/tool_name"},
		"a field in other case": {`{"calls":[{"id":"c1","name":"read_note","Name":"delete_note"}]}`, toolpark.CodeParameterInvalid, "/calls/0"},
		"a name twice":          {`{"calls":[{"id":"c1","name":"look","name":"other"}]}`, toolpark.CodeBadRequest, "/calls/0/name"},
		"arguments twice":       {`{"calls":[{"id":"c1","name":"look","arguments":{},"arguments":{}}]}`, toolpark.CodeBadRequest, "/calls/0/arguments"},
		"no name":               {`{"calls":[{"id":"c1"}]}`, toolpark.CodeParameterInvalid, "/calls/0/name"},
		"a name of no text":     {`{"calls":[{"id":"c1","name":5}]}`, toolpark.CodeParameterInvalid, "/calls/0/name"},
		"an id of no text":      {`{"calls":[{"id":5,"name":"look"}]}`, toolpark.CodeParameterInvalid, "/calls/0/id"},
		"a call of no object":   {`{"calls":["look"]}`, toolpark.CodeParameterInvalid, "/calls/0"},
		"a lone surrogate":      {`{"calls":[{"id":"\ud83d","name":"look"}]}`, toolpark.CodeBadRequest, "/calls/0/id"},
		"a deep unknown field":  {`{"calls":[{"name":"look"}],"x":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`, toolpark.CodeBadRequest, ""},
		"tool_names of no list": {`{"calls":[{"name":"look"}],"tool_names":"look"}`, toolpark.CodeParameterInvalid, "/tool_names"},
		"tool_names of numbers": {`{"calls":[{"name":"look"}],"tool_names":["look",1]}`, toolpark.CodeParameterInvalid, "/tool_names/1"},
		"endless tool_names":    {`{"calls":[{"name":"look"}],"tool_names":["look"` + strings.Repeat(`,"look"`, toolpark.MaxToolNames) + `]}`, toolpark.CodeParameterInvalid, "/tool_names"},
		"trailing data":         {`{"calls":[{"name":"look"}]}{}`, toolpark.CodeBadRequest, ""},
		"no JSON":               {`{"calls":[{"name":"look","arguments":NaN}]}`, toolpark.CodeBadRequest, "/calls/0/arguments"},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.badly("POST", rounds, c.body).refused(http.StatusBadRequest, c.code)
			if c.pointer != "" {
				require.Equal(t, c.pointer, a.text("/error/pointer"), "%s", a.Body)
			}
		})
	}
	t.Run("a name in tool_names that is not declared", func(t *testing.T) {
		a := s.asAgent("POST", rounds, `{"calls":[{"name":"look"}],"tool_names":["look","missing"]}`).
			refused(http.StatusUnprocessableEntity, toolpark.CodeToolNotDeclared)
		require.Equal(t, "/tool_names/1", a.text("/error/pointer"))
	})
	require.Equal(t, before, s.events(run), "nothing was created")

	t.Run("a call outside tool_names fails alone", func(t *testing.T) {
		a := s.asAgent("POST", rounds, `{"calls":[{"name":"look"},{"name":"other"}],"tool_names":["other"]}`).ok(http.StatusCreated)
		require.Equal(t, toolpark.ErrUnknownTool, a.text("/round/tasks/0/error/key"))
		require.EqualValues(t, toolpark.Dispatched, a.text("/round/tasks/1/status"))
	})

	t.Run("tool_names up to their bound, or null", func(t *testing.T) {
		for _, names := range []string{`["look"` + strings.Repeat(`,"look"`, toolpark.MaxToolNames-1) + `]`, `null`} {
			a := s.asAgent("POST", rounds, `{"calls":[{"name":"look"}],"tool_names":`+names+`}`).ok(http.StatusCreated)
			require.EqualValues(t, toolpark.Dispatched, a.text("/round/tasks/0/status"))
		}
	})

	t.Run("a name is anything at all", func(t *testing.T) {
		for _, name := range []string{"", strings.Repeat("n", 129), `x\u0000`, "delegate_task", "nexus.tools.search", strings.Repeat("天", 9000), "Look", "look "} {
			a := s.badly("POST", rounds, `{"calls":[{"id":"c","name":"`+name+`"}]}`).ok(http.StatusCreated)
			require.Equal(t, toolpark.ErrUnknownTool, a.text("/round/tasks/0/error/key"), name)
			require.NotEmpty(t, a.text("/round/tasks/0/error/detail"))
		}
	})

	t.Run("a round that was never opened", func(t *testing.T) {
		for _, number := range []string{"99", "0", "-1", "01", "x", "99999999999999999999"} {
			s.badly("GET", rounds+"/"+number, "").refused(http.StatusNotFound, toolpark.CodeNotFound)
			s.badly("GET", rounds+"/"+number+"/messages?format=responses", "").refused(http.StatusNotFound, toolpark.CodeNotFound)
		}
	})
}

func TestCallsAfterAnAnnouncementChanged(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"), within(kerneltest.Entry("write", kerneltest.Keyed), time.Hour))
	run := s.run()
	born := func(name string) answer {
		t.Helper()
		ref := s.call(run, name, `{}`)
		return s.asAgent("GET", taskPath(ref), "").ok(http.StatusOK)
	}

	s.Serve(s.Box, readOnly("write"))
	a := born("look")
	require.Equal(t, toolpark.ErrToolNotServed, a.text("/task/error/key"), "the name is not served any more")
	a = born("write")
	require.EqualValues(t, toolpark.Dispatched, a.text("/task/status"))
	require.Equal(t, "3600000", string(a.raw("/task/timeout_ms")), "the timeout of the acceptance stays")
	require.Equal(t, toolpark.EffectWrite, a.text("/task/effect_profile/kind"), "and the effect profile")

	require.NoError(t, s.Box.Shutdown(t.Context()))
	require.Equal(t, toolpark.ErrRunnerNotEligible, born("write").text("/task/error/key"))
	s.Serve(s.Box, readOnly("write"))
	require.EqualValues(t, toolpark.Dispatched, born("write").text("/task/status"), "announcing takes the shutdown back")

	_, err := s.Kernel.DB.Pool.Exec(t.Context(), `UPDATE executors SET status = 'revoked' WHERE id = $1`, s.Box.ID)
	require.NoError(t, err)
	require.Equal(t, toolpark.ErrRunnerNotEligible, born("write").text("/task/error/key"))
}

func TestARoundIsReplayed(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	run := s.run()
	const body = `{"calls":[{"name":"look","arguments":{"n":1}},{"name":"no_such"}]}`
	post := func(run, body, key string) answer {
		t.Helper()
		return s.asAgent("POST", "/runs/"+run+"/rounds", body, "Idempotency-Key", key)
	}
	first := post(run, body, "k1").ok(http.StatusCreated)
	require.Empty(t, first.Header.Get("Idempotency-Replayed"))
	events := s.events(run)

	again := post(run, body, "k1").ok(http.StatusCreated)
	require.Equal(t, "true", again.Header.Get("Idempotency-Replayed"))
	require.Equal(t, string(first.Body), string(again.Body), "minted ids included")
	require.Equal(t, events, s.events(run))

	post(run, `{"calls":[{"name":"look","arguments":{"n":2}}]}`, "k1").refused(http.StatusConflict, toolpark.CodeIdempotencyMismatch)
	post(s.run(), body, "k1").refused(http.StatusConflict, toolpark.CodeIdempotencyMismatch)
	for _, key := range []string{"", strings.Repeat("k", 65), "ö"} {
		s.badly("POST", "/runs/"+run+"/rounds", body, "Idempotency-Key", key).refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
	}

	other := s.send("POST", base+"/runs/"+run+"/rounds", s.Admin.Token, body, "Idempotency-Key", "k1").ok(http.StatusCreated)
	require.Equal(t, "2", string(other.raw("/round/number")), "a key belongs to its sender")

	_, err := s.Agent.StopRun(t.Context(), run, true)
	require.NoError(t, err)
	over := post(run, body, "k1").ok(http.StatusCreated)
	require.Equal(t, string(first.Body), string(over.Body), "the original answer, whatever became of the run")
	post(run, `{"calls":[{"name":"look"}]}`, "k2").refused(http.StatusConflict, s.overCode(run))
}

func TestManySendersOfOneKey(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	run := s.run()
	bodies := make(chan string)
	const senders = 8
	for range senders {
		go func() {
			round, err := s.Agent.PostRound(t.Context(), run, agent.NewRound{
				Calls: []agent.Call{{Name: "look"}}, IdempotencyKey: "same",
			})
			bodies <- fmt.Sprint(round.Number, round.Tasks, err)
		}()
	}
	first := <-bodies
	for range senders - 1 {
		require.Equal(t, first, <-bodies)
	}
	require.Contains(t, first, "<nil>")
	s.badly("GET", "/runs/"+run+"/rounds/2", "").refused(http.StatusNotFound, toolpark.CodeNotFound)
}

// The largest round that the bounds allow goes in, and comes back.
func TestTheLargestRound(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	run := s.run()
	input := `{"s":"` + strings.Repeat("<", toolpark.MaxToolInput-8) + `"}`
	calls := make([]agent.Call, toolpark.MaxCallsPerRound)
	for i := range calls {
		calls[i] = agent.Call{Name: "look", Arguments: jsontext.Value(input)}
	}
	refs := s.calls(run, calls...)
	last := refs[len(refs)-1]
	grant, err := s.Box.Claim(t.Context(), last, "k")
	require.NoError(t, err)
	require.Equal(t, input, string(grant.Task.ToolInput))
	round, err := s.Agent.Round(t.Context(), run, 1, 0)
	require.NoError(t, err)
	require.Len(t, round.Results, toolpark.MaxCallsPerRound)
	rows, err := s.Box.Inbox(t.Context(), runner.InboxQuery{})
	require.NoError(t, err)
	require.Len(t, rows.Rows, toolpark.MaxCallsPerRound)

	large := `{"calls":[{"name":"look","arguments":{"s":"` + strings.Repeat("x", toolpark.MaxRoundsBody) + `"}}]}`
	s.badly("POST", "/runs/"+run+"/rounds", large).refused(http.StatusRequestEntityTooLarge, toolpark.CodeContentTooLarge)
}
