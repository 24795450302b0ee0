package runner_test

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark/sdk/runner"
)

// server speaks the executor plane's wire, so that its failures can be staged one by one. What the real
// server decides is tested with the real server.
type server struct {
	*httptest.Server
	t *testing.T

	mu      sync.Mutex
	tasks   map[string]*task
	order   []string
	version int
	changed chan struct{} // closed at each change
	pushes  chan string   // lines for the open event stream
	streams int           // event streams that were opened
	// fault may answer a request in place of the server; it returns whether it did.
	fault func(w http.ResponseWriter, verb string, t *task) bool
	// noEvents refuses event streams.
	noEvents bool
	log      []string // "verb key" of each request about a task
}

// task is one piece of work as the server has it.
type task struct {
	key, tool, input string
	timeout          time.Duration
	generation       int
	claimKey, token  string
	deadline         time.Time
	commits          []string // the bodies, in order
	settled          bool
	extensions       int
	frames           []string
}

func newServer(t *testing.T) *server {
	s := &server{t: t, tasks: map[string]*task{}, changed: make(chan struct{}), pushes: make(chan string, 1000)}
	mux := http.NewServeMux()
	const plane = "/agent_api/v1/executor"
	mux.HandleFunc("PUT "+plane+"/announcement", func(w http.ResponseWriter, r *http.Request) {
		if !s.faulty(w, "announce", nil) {
			fmt.Fprint(w, `{"executor":{"public_id":"x1","kind":"runner","display_name":"box"}}`)
		}
	})
	mux.HandleFunc("GET "+plane+"/events", s.events)
	mux.HandleFunc("GET "+plane+"/inbox", s.inbox)
	mux.HandleFunc("POST "+plane+"/progress", func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			TaskKey string         `json:"task_key"`
			Frame   jsontext.Value `json:"frame"`
		}
		require.NoError(t, json.UnmarshalRead(r.Body, &body))
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tasks[body.TaskKey].frames = append(s.tasks[body.TaskKey].frames, string(body.Frame))
		w.WriteHeader(http.StatusAccepted)
	})
	for verb, handle := range map[string]func(http.ResponseWriter, *task, map[string]jsontext.Value, string){
		"POST claim": s.claim, "POST extend": s.extend, "POST commit": s.commit, "GET claim": s.active,
	} {
		method, name, _ := strings.Cut(verb, " ")
		mux.HandleFunc(method+" "+plane+"/inbox/{run}/{key}/"+name, func(w http.ResponseWriter, r *http.Request) {
			raw, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			var body map[string]jsontext.Value
			if len(raw) > 0 {
				require.NoError(t, json.Unmarshal(raw, &body))
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.log = append(s.log, name+" "+r.PathValue("key"))
			task, ok := s.tasks[r.PathValue("key")]
			if !ok || r.PathValue("run") != "run1" {
				refuse(w, 404, "not_found")
				return
			}
			if name == "commit" {
				task.commits = append(task.commits, string(raw))
			}
			if !s.faulty(w, name, task) {
				handle(w, task, body, string(raw))
			}
		})
	}
	s.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *server) faulty(w http.ResponseWriter, verb string, t *task) bool {
	return s.fault != nil && s.fault(w, verb, t)
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":{"code":%q,"message":"staged by the test"}}`, code)
}

// sever ends the connection without an answer.
func sever(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

// touch marks a change of the inbox; the caller holds the lock.
func (s *server) touch() {
	s.version++
	close(s.changed)
	s.changed = make(chan struct{})
}

// add parks work; push says whether the event stream tells of it.
func (s *server) add(t task, push bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.timeout == 0 {
		t.timeout = time.Minute
	}
	if t.input == "" {
		t.input = `{}`
	}
	t.generation = 1
	s.tasks[t.key] = &t
	s.order = append(s.order, t.key)
	s.touch()
	if push {
		s.pushes <- event("work_available", t.key)
	}
}

func event(kind, key string) string {
	return fmt.Sprintf("event: %s\ndata: {\"run_public_id\":\"run1\",\n: a comment\ndata: \"task_key\":%q,\"generation\":1}\n\n", kind, key)
}

func (s *server) events(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.streams++
	refused := s.noEvents
	s.mu.Unlock()
	if refused {
		refuse(w, 404, "not_found")
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	fmt.Fprint(w, ": welcome\n\n")
	w.(http.Flusher).Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case text := <-s.pushes:
			if text == "cut" {
				return
			}
			fmt.Fprint(w, text)
			w.(http.Flusher).Flush()
		}
	}
}

func (s *server) inbox(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faulty(w, "inbox", nil) {
		return
	}
	if wait, _ := strconv.Atoi(r.URL.Query().Get("wait_ms")); wait > 0 && r.URL.Query().Get("unless") == strconv.Itoa(s.version) {
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-time.After(time.Duration(wait) * time.Millisecond):
		case <-r.Context().Done():
		}
		s.mu.Lock()
	}
	var rows []string
	after := r.URL.Query().Get("after")
	next := "null"
	for _, key := range s.order {
		if t := s.tasks[key]; !t.settled && key > after {
			if len(rows) == 2 { // small pages, so that they are followed
				next = strconv.Quote(strings.Split(rows[1], "\x00")[0])
				break
			}
			rows = append(rows, key+"\x00"+s.row(t))
		}
	}
	for i := range rows {
		_, rows[i], _ = strings.Cut(rows[i], "\x00")
	}
	fmt.Fprintf(w, `{"version":"%d","inbox":[%s],"pagination":{"next_after":%s}}`, s.version, strings.Join(rows, ","), next)
}

func (s *server) row(t *task) string {
	return fmt.Sprintf(`{"kind":"tool_call","run_public_id":"run1","task_key":%q,"generation":%d,"redelivery":false,`+
		`"tool_name":%q,"tool_input":%s,"idempotency_key":"run1/%s","session":{"user":7},"timeout_ms":%d,"claimed":%t,"parent_public_id":null}`,
		t.key, t.generation, t.tool, t.input, t.key, t.timeout.Milliseconds(), t.token != "")
}

func (s *server) grant(w http.ResponseWriter, t *task) {
	fmt.Fprintf(w, `{"task":%s,"claim":{"claim_token":%q,"deadline_at":%q}}`, s.row(t), t.token, t.deadline.Format(time.RFC3339Nano))
}

func (s *server) claim(w http.ResponseWriter, t *task, body map[string]jsontext.Value, _ string) {
	key := string(body["claim_key"])
	switch {
	case t.settled:
		refuse(w, 409, "task_not_claimable")
	case t.token != "" && t.claimKey != key:
		refuse(w, 409, "already_claimed")
	default:
		if t.token == "" {
			t.claimKey, t.token, t.deadline = key, "token-"+t.key, time.Now().Add(t.timeout)
			s.touch()
		}
		s.grant(w, t)
	}
}

func (s *server) extend(w http.ResponseWriter, t *task, body map[string]jsontext.Value, _ string) {
	ms, err := strconv.Atoi(string(body["timeout_ms"]))
	require.NoError(s.t, err)
	t.extensions++
	t.deadline = time.Now().Add(time.Duration(ms) * time.Millisecond)
	s.grant(w, t)
}

func (s *server) commit(w http.ResponseWriter, t *task, body map[string]jsontext.Value, _ string) {
	require.Equal(s.t, strconv.Quote("token-"+t.key), string(body["claim_token"]))
	t.settled = true
	s.touch()
	fmt.Fprint(w, `{"task":{"status":"completed"}}`)
}

func (s *server) active(w http.ResponseWriter, t *task, _ map[string]jsontext.Value, _ string) {
	fmt.Fprintf(w, `{"claim":{"active":%t,"deadline_at":null}}`, !t.settled)
}

// with runs a function over one task under the lock.
func (s *server) with(key string, f func(t *task)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.tasks[key])
}

// settled waits until the task has settled and returns the last body that was committed.
func (s *server) settled(key string) string {
	s.t.Helper()
	var last string
	require.Eventually(s.t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		t := s.tasks[key]
		if t.settled && len(t.commits) > 0 {
			last = t.commits[len(t.commits)-1]
		}
		return last != ""
	}, 10*time.Second, 5*time.Millisecond, "task %s was not settled by a commit", key)
	return last
}

// count is how many requests were made of a verb about a task.
func (s *server) count(entry string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, e := range s.log {
		if e == entry {
			n++
		}
	}
	return n
}

// work starts a worker and returns what stops it and waits for its end.
func work(t *testing.T, s *server, w runner.Worker) (stop func() error) {
	t.Helper()
	w.Client = &runner.Client{BaseURL: s.URL, Token: "secret"}
	if w.Log == nil {
		w.Log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := contextOf(t)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	var once sync.Once
	var err error
	stop = func() error {
		once.Do(func() {
			cancel()
			select {
			case err = <-ended:
			case <-time.After(20 * time.Second):
				err = fmt.Errorf("the worker did not stop")
			}
		})
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}
