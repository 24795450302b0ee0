package api_test

import (
	"bufio"
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
	"uuid"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/credential"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
	"github.com/toolpark/toolpark/workflows"
)

// patience bounds what must happen soon. It is long because it only ends a test that fails.
const patience = time.Minute

const base = "/agent_api/v1"

// scene is an account at a running server: its agent, and a runner of the whole account.
type scene struct {
	*kerneltest.Account
	*door
	t   *testing.T
	Box kerneltest.Executor
}

// newScene runs a whole server whose runner serves the entries.
func newScene(t *testing.T, entries ...runner.Entry) *scene {
	t.Helper()
	return sceneAt(t, kerneltest.Start(t), entries...)
}

// sceneAt makes one more account at a server.
func sceneAt(t *testing.T, k *kerneltest.Kernel, entries ...runner.Entry) *scene {
	t.Helper()
	s := &scene{Account: k.Account(), t: t}
	s.door = doorOf(t, k)
	s.Box = s.Runner("box")
	s.Serve(s.Box, entries...)
	return s
}

// doorOf is the HTTP side of a server: raw requests.
func doorOf(t *testing.T, k *kerneltest.Kernel) *door {
	return &door{t: t, url: k.URL, http: k.HTTP}
}

// hasty is one more API process of the server, which answers every long poll at once, as when it shuts
// down: what is staged through it is answered 202 when nobody has judged it.
func hasty(t *testing.T, k *kerneltest.Kernel) *door {
	t.Helper()
	other := k.Another(t)
	other.Drain()
	return doorOf(t, other)
}

// readOnly is an entry of a tool that takes any object and changes nothing.
func readOnly(name string) runner.Entry { return kerneltest.Entry(name, kerneltest.ReadOnly) }

// within gives an entry a timeout.
func within(e runner.Entry, timeout time.Duration) runner.Entry {
	e.TimeoutMS = timeout.Milliseconds()
	return e
}

// run creates a run that may call all that the runner serves.
func (s *scene) run() string {
	s.t.Helper()
	return s.Run(s.Box)
}

// call makes a round of one call.
func (s *scene) call(run, name, arguments string) runner.Ref {
	s.t.Helper()
	return s.calls(run, agent.Call{Name: name, Arguments: jsontext.Value(arguments)})[0]
}

// calls makes a round, and names its tasks in call order.
func (s *scene) calls(run string, calls ...agent.Call) []runner.Ref {
	s.t.Helper()
	round, err := s.Agent.PostRound(s.t.Context(), run, agent.NewRound{Calls: calls})
	require.NoError(s.t, err)
	refs := make([]runner.Ref, len(round.Tasks))
	for i, task := range round.Tasks {
		refs[i] = runner.Ref{Run: run, TaskKey: task.Key, Generation: 1}
	}
	return refs
}

// claim takes the work of a task for the runner.
func (s *scene) claim(ref runner.Ref) (token string) {
	s.t.Helper()
	grant, err := s.Box.Claim(s.t.Context(), ref, uuid.NewV7().String())
	require.NoError(s.t, err)
	return grant.Token
}

// claimed is a call that the runner has claimed.
func (s *scene) claimed(run, name string) (ref runner.Ref, token string) {
	s.t.Helper()
	ref = s.call(run, name, `{}`)
	return ref, s.claim(ref)
}

// report commits as the runner. The fields are the members of the report beside its token, as JSON.
func (s *scene) report(ref runner.Ref, token, fields string) answer {
	s.t.Helper()
	return s.sendBad("POST", inboxPath(ref, "commit"), s.Box.Token, reportBody(token, fields))
}

func reportBody(token, fields string) string {
	if fields != "" {
		fields = "," + fields
	}
	return fmt.Sprintf(`{"claim_token":%q%s}`, token, fields)
}

// asAgent sends a request of the agent.
func (s *scene) asAgent(method, path, body string, headers ...string) answer {
	s.t.Helper()
	return s.send(method, base+path, s.Agent.Token, body, headers...)
}

// badly is asAgent for a request that is wrong on purpose.
func (s *scene) badly(method, path, body string, headers ...string) answer {
	s.t.Helper()
	return s.sendBad(method, base+path, s.Agent.Token, body, headers...)
}

// settled waits for a task to settle and reads it.
func (s *scene) settled(ref runner.Ref) answer {
	s.t.Helper()
	a := s.asAgent("GET", taskPath(ref)+"?wait_ms="+ms(patience), "").ok(http.StatusOK)
	require.NotEmpty(s.t, a.text("/task/settled_at"), "not in time: %s", a.Body)
	return a
}

// events are the types of a run's events in order, with what each is about.
func (s *scene) events(run string) (told []string) {
	s.t.Helper()
	events, next, err := s.Agent.Events(s.t.Context(), run, "")
	require.NoError(s.t, err)
	require.Empty(s.t, next)
	for i, e := range events {
		require.EqualValues(s.t, i+1, e.Seq, "no gaps")
		told = append(told, e.Type+" "+string(e.Data))
	}
	return told
}

func taskPath(ref runner.Ref) string { return "/runs/" + ref.Run + "/tasks/" + ref.TaskKey }

func inboxPath(ref runner.Ref, verb string) string {
	return base + "/executor/inbox/" + ref.Run + "/" + ref.TaskKey + "/" + verb
}

func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// function declares a function; extra are further members of the entry, as JSON.
func function(name, extra string) jsontext.Value {
	if extra != "" {
		extra = "," + extra
	}
	return jsontext.Value(fmt.Sprintf(
		`{"type":"function","function":{"name":%q,"description":"Does %s.","parameters":{"type":"object"}}%s}`, name, name, extra))
}

// routed is the member of an entry that sends it to a runner.
func routed(runner uuid.UUID, served string) string {
	return fmt.Sprintf(`"route":{"kind":"runner","runner_executor_public_id":%q,"tool_name":%q}`, runner, served)
}

// newRunBody is the body that creates a run without a default runner.
func newRunBody(definitions ...jsontext.Value) string {
	list := make([]string, len(definitions))
	for i, d := range definitions {
		list[i] = string(d)
	}
	return `{"default_runner_executor_public_id":null,"configuration":{"approval_mode":"bypass","tool_definitions":[` +
		strings.Join(list, ",") + `]}}`
}

// raw reads the bytes of the value at a JSON pointer; nil when there is none.
func (a answer) raw(pointer string) jsontext.Value {
	a.t.Helper()
	value := a.Body
	for token := range jsontext.Pointer(pointer).Tokens() {
		switch value.Kind() {
		case '{':
			var members map[string]jsontext.Value
			require.NoError(a.t, json.Unmarshal(value, &members), "%s", a.Body)
			value = members[token]
		case '[':
			var elements []jsontext.Value
			require.NoError(a.t, json.Unmarshal(value, &elements), "%s", a.Body)
			i, err := strconv.Atoi(token)
			require.NoError(a.t, err)
			if i >= len(elements) {
				return nil
			}
			value = elements[i]
		default:
			return nil
		}
	}
	return value
}

// text reads the string at a JSON pointer; "" when there is none.
func (a answer) text(pointer string) string {
	a.t.Helper()
	value := a.raw(pointer)
	if value == nil || value.Kind() != '"' {
		return ""
	}
	var text string
	require.NoError(a.t, json.Unmarshal(value, &text))
	return text
}

// code is the code of a refusal that a client met; "" when it met none.
func code(err error) toolpark.Code {
	if refusal, ok := errors.AsType[*toolpark.Error](err); ok {
		return refusal.Code
	}
	return ""
}

// listen opens a stream of server-sent events and returns them as they come, as "id name data".
func (s *scene) listen(path, bearer string, headers ...string) <-chan string {
	s.t.Helper()
	ctx, hangUp := context.WithCancel(s.t.Context())
	s.t.Cleanup(hangUp)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+base+path, nil)
	require.NoError(s.t, err)
	r.Header.Set("Authorization", "Bearer "+bearer)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := s.http.Do(r)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { response.Body.Close() })
	require.Equal(s.t, http.StatusOK, response.StatusCode)
	return readEvents(ctx, response.Body)
}

// readEvents reads a stream event by event, as "id name data" with an empty id for what has none.
func readEvents(ctx context.Context, body io.Reader) <-chan string {
	events := make(chan string)
	go func() {
		defer close(events)
		var id, name, data string
		scanner := bufio.NewScanner(body)
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			field, value, _ := strings.Cut(scanner.Text(), ": ")
			switch field {
			case "id":
				id = value
			case "event":
				name = value
			case "data":
				data = value
			}
			if scanner.Text() != "" || name == "" {
				continue
			}
			select {
			case events <- id + " " + name + " " + data:
			case <-ctx.Done():
				return
			}
			id, name, data = "", "", ""
		}
	}()
	return events
}

// next is what a stream says next.
func next(t *testing.T, events <-chan string) string {
	t.Helper()
	select {
	case e, open := <-events:
		require.True(t, open, "the stream has ended")
		return e
	case <-time.After(patience):
		t.Fatal("nothing came")
		return ""
	}
}

// ended requires that a stream says nothing more and ends.
func ended(t *testing.T, events <-chan string) {
	t.Helper()
	select {
	case e, open := <-events:
		require.False(t, open, "one more event: %s", e)
	case <-time.After(patience):
		t.Fatal("the stream goes on")
	}
}

// echo answers with its own input.
func echo() runner.Tool {
	return runner.Tool{Entry: readOnly("echo"), Run: func(_ context.Context, c runner.Call) (runner.Result, error) {
		return runner.Result{Text: string(c.Input), StructuredContent: c.Input}, nil
	}}
}

// overCode is how a run that is ending or has ended refuses new work.
func (s *scene) overCode(run string) toolpark.Code {
	s.t.Helper()
	now, err := s.Agent.Run(s.t.Context(), run)
	require.NoError(s.t, err)
	if now.Status == toolpark.RunStopping {
		return toolpark.CodeRunStopping
	}
	return toolpark.CodeRunSettled
}

// member is a further member of the account.
func (s *scene) member(id uuid.UUID) kerneltest.Member {
	s.t.Helper()
	return kerneltest.Member{ID: id, Client: &agent.Client{BaseURL: s.URL, HTTP: s.HTTP, Token: s.Bearer(credential.Member, id)}}
}

// history is all that Temporal keeps of a run and its tasks.
func history(t *testing.T, k *kerneltest.Kernel, run string, refs []runner.Ref) string {
	t.Helper()
	ids := []string{workflows.RunWorkflowID(uuid.MustParse(run))}
	for _, ref := range refs {
		ids = append(ids, workflows.TaskWorkflowID(uuid.MustParse(run), ref.TaskKey, 1))
	}
	var all strings.Builder
	for _, id := range ids {
		described, err := k.Temporal.DescribeWorkflow(t.Context(), id, "")
		require.NoError(t, err)
		all.WriteString(described.RawResponse.String())
		events := k.Temporal.GetWorkflowHistory(t.Context(), id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			event, err := events.Next()
			require.NoError(t, err)
			all.WriteString(event.String())
		}
	}
	return all.String()
}

// eventsPaged are all of a run's events, however many.
func (s *scene) eventsPaged(run string) (all []agent.Event) {
	s.t.Helper()
	for after := ""; ; {
		events, next, err := s.Agent.Events(s.t.Context(), run, after)
		require.NoError(s.t, err)
		all = append(all, events...)
		if next == "" {
			return all
		}
		after = next
	}
}
