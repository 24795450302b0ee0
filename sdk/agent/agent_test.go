package agent_test

import (
	"encoding/json/jsontext"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/sdk/agent"
)

// wire answers one route and keeps what was sent, so that the client's side of the wire can be compared.
type wire struct {
	mu      sync.Mutex
	request *http.Request
	body    string
}

func (w *wire) last() (*http.Request, string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.request, w.body
}

func answer(t *testing.T, status int, header http.Header, body string) (*agent.Client, *wire) {
	w := &wire{}
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		sent, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.mu.Lock()
		w.request, w.body = r, string(sent)
		w.mu.Unlock()
		maps.Copy(rw.Header(), header)
		rw.WriteHeader(status)
		fmt.Fprint(rw, body)
	}))
	t.Cleanup(s.Close)
	return &agent.Client{BaseURL: s.URL + "/", Token: "tp_member_x"}, w
}

func TestCreateRun(t *testing.T) {
	t.Parallel()
	c, w := answer(t, 201, nil, `{"run":{"public_id":"r1","status":"running","approval_mode":"bypass","label":null,
		"metadata":{"n":12345678901234567890},"later":true}}`)
	run, err := c.CreateRun(t.Context(), agent.NewRun{
		Configuration: &agent.Configuration{ToolDefinitions: []jsontext.Value{jsontext.Value(`{"big":1.10}`)}, ApprovalMode: "bypass"},
		Metadata:      jsontext.Value(`{"n":12345678901234567890}`), IdempotencyKey: "k1",
	})
	require.NoError(t, err)
	require.Equal(t, "r1", run.PublicID)
	require.Equal(t, toolpark.RunRunning, run.Status)
	require.Equal(t, `{"n":12345678901234567890}`, string(run.Metadata))
	require.Contains(t, string(run.Raw), `"later":true`)
	r, body := w.last()
	require.Equal(t, "POST /agent_api/v1/runs", r.Method+" "+r.URL.Path)
	require.Equal(t, "Bearer tp_member_x", r.Header.Get("Authorization"))
	require.Equal(t, "k1", r.Header.Get("Idempotency-Key"))
	require.Equal(t, `{"default_runner_executor_public_id":null,"configuration":{"tool_definitions":[{"big":1.10}],`+
		`"approval_mode":"bypass"},"metadata":{"n":12345678901234567890}}`, body)
}

func TestPostRoundSendsArgumentsAsTheyCame(t *testing.T) {
	t.Parallel()
	c, w := answer(t, 201, nil, `{"round":{"number":2,"tasks":[
		{"task_key":"r2t0","tool_call_id":"c1","status":"failed","error":{"key":"invalid_tool_arguments","detail":"cut"}}]}}`)
	round, err := c.PostRound(t.Context(), "r1", agent.NewRound{Calls: []agent.Call{
		{ID: "c1", Name: "echo", Arguments: `{"n":`},
		{Name: "echo", Arguments: jsontext.Value(`{"a":1,"a":2,"s":"\ud83d","d":1e3}`)}, // for the server to judge
		{Name: "echo"},
	}})
	require.NoError(t, err)
	require.Equal(t, 2, round.Number)
	require.Equal(t, &toolpark.TaskError{Key: toolpark.ErrInvalidToolArguments, Detail: "cut"}, round.Tasks[0].Error)
	require.False(t, round.Tasks[0].Succeeded())
	_, body := w.last()
	require.Equal(t, `{"calls":[{"id":"c1","name":"echo","arguments":"{\"n\":"},`+
		`{"name":"echo","arguments":{"a":1,"a":2,"s":"\ud83d","d":1e3}},{"name":"echo"}]}`, body)
}

func TestRoundWaits(t *testing.T) {
	t.Parallel()
	const task = `{"task_key":"r1t0","status":"completed","is_error":false,"output":"hi","structured_content":{"d":0.10}}`
	c, w := answer(t, 200, nil, `{"round":{"number":1,"settled":true,"results":[`+task+`]}}`)
	round, err := c.Round(t.Context(), "r 1", 1, 5*time.Minute)
	require.NoError(t, err)
	require.True(t, round.Settled)
	require.True(t, round.Results[0].Succeeded())
	require.Equal(t, `{"d":0.10}`, string(round.Results[0].StructuredContent))
	require.Equal(t, task, string(round.Results[0].Raw))
	r, _ := w.last()
	require.Equal(t, "/agent_api/v1/runs/r%201/rounds/1?wait_ms=60000", r.RequestURI)
}

func TestErrors(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name      string
		status    int
		body      string
		code      toolpark.Code
		retryable bool
	}{
		{
			"refusal", 409, `{"error":{"code":"already_settled","message":"It has settled.","task":{"big":12345678901234567890}}}`,
			toolpark.CodeAlreadySettled, false,
		},
		{"slow down", 429, `{"error":{"code":"rate_limited","message":"x"}}`, toolpark.CodeRateLimited, true},
		{"unavailable", 503, `{"error":{"code":"unavailable","message":"x"}}`, toolpark.CodeUnavailable, true},
		{"a proxy's page", 404, `<html>`, "", true},
		{"an odd error", 400, `{"error":"no"}`, "", true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client, _ := answer(t, c.status, http.Header{"Retry-After": {"7"}}, c.body)
			_, err := client.CancelTask(t.Context(), "r1", "t1")
			var refusal *toolpark.Error
			require.ErrorAs(t, err, &refusal)
			require.Equal(t, c.code, refusal.Code)
			var status *agent.ResponseError
			require.ErrorAs(t, err, &status)
			require.Equal(t, c.status, status.Status)
			require.Equal(t, 7*time.Second, status.RetryAfter)
			require.Equal(t, c.retryable, agent.Retryable(err))
			if c.name == "refusal" {
				require.Equal(t, jsontext.Value(`{"big":12345678901234567890}`), refusal.Details["task"])
			}
		})
	}
}

func TestAnUnreachableServerIsRetryable(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	_, err := (&agent.Client{BaseURL: s.URL}).Run(t.Context(), "r1")
	require.Error(t, err)
	require.True(t, agent.Retryable(err))
	_, err = (&agent.Client{BaseURL: "http://bad host"}).Run(t.Context(), "r1")
	require.False(t, agent.Retryable(err))
}

func TestAppendTasks(t *testing.T) {
	t.Parallel()
	c, w := answer(t, 201, nil, `{"tasks":[{"task_key":"a","status":"dispatched"}]}`)
	tasks, err := c.AppendTasks(t.Context(), "r1", []agent.Step{
		{Name: "bash", Input: jsontext.Value(`{"command":"ls"}`), Route: &agent.Route{Kind: "runner"}, Key: "a"},
	}, "")
	require.NoError(t, err)
	require.Equal(t, toolpark.Dispatched, tasks[0].Status)
	_, body := w.last()
	require.Equal(t, `{"steps":[{"tool":{"name":"bash","input":{"command":"ls"},"route":{"kind":"runner"},"key":"a"}}]}`, body)

	_, err = c.AppendTasks(t.Context(), "r1", []agent.Step{
		{Name: "bash", Input: jsontext.Value(`{"n":1.0,"s":"\u003c"}`), TimeoutMS: 5},
		{Ask: &agent.Question{Prompt: "Which?", Options: []string{"a", "b"}, Multi: true, Strict: true}, Key: "q"},
		{WaitFor: "q", TimeoutMS: 7},
	}, "")
	require.NoError(t, err)
	_, body = w.last()
	require.Equal(t, `{"steps":[{"tool":{"name":"bash","input":{"n":1.0,"s":"\u003c"},"timeout_ms":5}},`+
		`{"ask":{"prompt":"Which?","options":["a","b"],"multi":true,"strict_options":true,"key":"q"}},`+
		`{"wait":{"task":"q","timeout_ms":7}}]}`, body)
}

func TestResolve(t *testing.T) {
	t.Parallel()
	c, w := answer(t, 202, nil, `{"resolution":{"status":"pending"}}`)
	task, err := c.Resolve(t.Context(), "r1", "q", agent.Answer{Text: "a", StructuredContent: jsontext.Value(`["a"]`)})
	require.NoError(t, err)
	require.Nil(t, task, "nobody judged it in time")
	_, body := w.last()
	require.Equal(t, `{"content":"a","structured_content":["a"]}`, body)
	_, err = c.Resolve(t.Context(), "r1", "q", agent.Answer{Failed: true})
	require.NoError(t, err)
	_, body = w.last()
	require.Equal(t, `{"outcome":"failed"}`, body)
}

func TestAsks(t *testing.T) {
	t.Parallel()
	c, _ := answer(t, 200, nil, `{"asks":[{"kind":"ask","task_key":"q","tool_name":null,"prompt":"Which?","options":["a"],"multi":false,
		"strict_options":true}],"pagination":{"next_after":null}}`)
	asks, err := c.Asks(t.Context(), agent.WaitingFilter{})
	require.NoError(t, err)
	require.Equal(t, agent.Question{Prompt: "Which?", Options: []string{"a"}, Strict: true}, asks[0].Question)
}

func TestExecutorsFollowPages(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next := map[string]string{"": `"c1"`, "c1": `null`}[r.URL.Query().Get("after")]
		fmt.Fprintf(w, `{"executors":[{"public_id":"x-%s","kind":%q,"served_tools":[{"name":"bash","description":"d",
			"input_schema":{"type":"object"}},{"name":"raw","input_schema":null}],"last_seen_at":null}],"pagination":{"next_after":%s}}`,
			r.URL.Query().Get("after"), r.URL.Query().Get("kind"), next)
	}))
	t.Cleanup(s.Close)
	all, err := (&agent.Client{BaseURL: s.URL}).Executors(t.Context(), toolpark.Runner)
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, "x-c1", all[1].PublicID)
	require.True(t, all[0].ServedTools[0].ModelVisible())
	require.False(t, all[0].ServedTools[1].ModelVisible())
	definition, err := all[1].Declare("shell", all[1].ServedTools[0])
	require.NoError(t, err)
	require.Equal(t, `{"type":"function","function":{"name":"shell","description":"d","parameters":{"type":"object"}},`+
		`"route":{"kind":"runner","runner_executor_public_id":"x-c1","tool_name":"bash"}}`, string(definition))
}

func TestStream(t *testing.T) {
	t.Parallel()
	c, w := answer(t, 200, http.Header{"Content-Type": {"text/event-stream"}}, ": hello\n\n"+
		"id: 5\r\nevent: task_status\r\ndata: {\"seq\":5,\"type\":\"task_status\",\"data\":{\"status\":\"completed\"}}\r\n\r\n"+
		"event: progress\ndata:{\"frame\":\ndata: 1}\n\n"+
		": heartbeat\n\nevent: empty\n\nid: 6\nevent: run_status\ndata: {\"seq\":6,\"type\":\"run_status\",\"data\":{}}\n\nevent: cut")
	var got []string
	var last error
	for event, err := range c.Stream(t.Context(), "r1", 4) {
		if last = err; err == nil {
			got = append(got, fmt.Sprintf("%d %s %s", event.Seq, event.Type, event.Data))
		}
	}
	require.Equal(t, []string{`5 task_status {"status":"completed"}`, "0 progress {\"frame\":\n1}", `6 run_status {}`}, got)
	require.ErrorIs(t, last, io.EOF)
	r, _ := w.last()
	require.Equal(t, "4", r.Header.Get("Last-Event-ID"))
}

func TestStreamThatIsNone(t *testing.T) {
	t.Parallel()
	c, _ := answer(t, 200, http.Header{"Content-Type": {"application/json"}}, `{}`)
	for _, err := range c.Stream(t.Context(), "r1", 0) {
		require.ErrorContains(t, err, "not an event stream")
	}
	c, _ = answer(t, 404, nil, `{"error":{"code":"not_found","message":"No such run."}}`)
	for _, err := range c.Stream(t.Context(), "r1", 0) {
		require.ErrorContains(t, err, "No such run.")
	}
}
