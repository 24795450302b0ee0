package apitest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark/api/apitest"
)

const run = "/agent_api/v1/runs/01900000-0000-7000-8000-000000000001"

// complaints stands in for a test: it keeps what would have failed it.
type complaints struct {
	testing.TB
	said []string
}

// FailNow keeps what failed from ending the real test.
func (c *complaints) FailNow() {}

func (c *complaints) Errorf(format string, args ...any) {
	c.said = append(c.said, fmt.Sprintf(format, args...))
}

// exchange sends one request to a server with one answer and returns what the validator said of it.
func exchange(ctx context.Context, t *testing.T, method, path, body string, status int, contentType, answer string) []string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, err := io.ReadAll(r.Body)
		if err != nil || string(got) != body {
			t.Errorf("the server read %q (%v), not %q", got, err, body)
		}
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Bearer realm="toolpark"`)
		}
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()

	said := &complaints{TB: t}
	client := http.Client{Transport: apitest.NewValidator(said).Transport(server.Client().Transport)}
	request, err := http.NewRequestWithContext(ctx, method, server.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	require.NoError(t, err)
	got, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, answer, string(got), "the caller reads the answer as it came")
	return said.said
}

func TestValidator(t *testing.T) {
	t.Parallel()
	const (
		asJSON = "application/json; charset=utf-8"
		stream = "text/event-stream"

		round   = `{"calls":[{"id":"c1","name":"echo","arguments":{"n":1E100}}]}`
		started = `{"seq":1,"type":"run_accepted","data":{},"created_at":"2026-01-02T03:04:05.6Z"}`
		frame   = `{"task_key":"r1t0","generation":1,"frame":null,"updated_at":"2026-01-02T03:04:05.6Z"}`
		opened  = `{"round":{"number":1,"tasks":[{"task_key":"r1t0","tool_call_id":"c1","name":"echo","status":"dispatched"}]}}`
	)
	settled := func(content string) string {
		return `{"task":{"task_key":"r1t0","kind":"tool","status":"completed","origin":"model","round":1,"parent_task_key":null,
			"callable_name":"echo","tool_name":"echo","tool_alias":null,"tool_call_id":"c1","tool_input":{"n":1E100},
			"addressed_to":{"role":"runner","executor_public_id":"01900000-0000-7000-8000-000000000051"},
			"target":null,"claimed_by":null,"effect_profile":null,"approval":null,"deadline_at":null,
			"timeout_ms":null,"generation":1,"abandoned":null,"retry_safe":false,"output":"","content":` + content + `,"is_error":false,
			"structured_content":null,"created_at":"2026-01-02T03:04:05Z","dispatched_at":null,"claimed_at":null,
			"settled_at":"2026-01-02T03:04:05Z"}}`
	}
	failure := func(code string) string { return `{"error":{"code":"` + code + `","message":"it is wrong"}}` }

	for _, c := range []struct {
		name, method, path, body string
		deliberate               bool
		status                   int
		contentType, answer      string
		complaint                string // empty: none
	}{
		{"a round", "POST", run + "/rounds", round, false, 201, asJSON, opened, ""},
		{"a request with an unknown field", "POST", run + "/rounds", `{"calls":[{"Name":"x","name":"x"}]}`, false, 201, asJSON, opened, "Name"},
		{"a deliberately bad request", "POST", run + "/rounds", `{"calls":`, true, 400, asJSON, failure("bad_request"), ""},
		{"a bad request with a bad answer", "POST", run + "/rounds", `{"calls":`, true, 400, asJSON, `{}`, "error"},
		{"a query parameter out of bounds", "GET", run + "/rounds/1?wait_ms=60001", "", false, 200, asJSON, `{"round":{"number":1,"settled":true,"results":[]}}`, "wait_ms"},
		{"an undocumented field in an answer", "POST", run + "/rounds", round, false, 201, asJSON, strings.Replace(opened, `"number"`, `"extra":1,"number"`, 1), "extra"},
		{"an undocumented status", "POST", run + "/rounds", round, false, 204, asJSON, "", "status is not supported"},
		{"an undocumented code", "POST", run + "/rounds", round, false, 409, asJSON, failure("stale_claim"), "stale_claim"},
		{"a documented code", "POST", run + "/rounds", round, false, 409, asJSON, failure("run_settled"), ""},
		{"a refused credential", "GET", run, "", false, 401, asJSON, failure("unauthorized"), ""},
		{"another content type", "GET", run, "", false, 404, "text/plain", "gone", "text/plain"},
		{"a task", "GET", run + "/tasks/r1t0", "", false, 200, asJSON, settled(`[{"type":"text","text":""}]`), ""},
		{"a task with a block of no known kind", "GET", run + "/tasks/r1t0", "", false, 200, asJSON, settled(`[{"type":"hologram"}]`), "content"},
		{"a number no float can hold", "POST", run + "/rounds", strings.Replace(round, "1E100", "1E999", 1), false, 201, asJSON, opened, ""},
		{"result fields of any kind", "POST", "/agent_api/v1/executor/inbox/01900000-0000-7000-8000-000000000001/r1t0/commit", `{"claim_token":"t","content":5,"is_error":null,"structured_content":null}`, false, 422, asJSON, failure("invalid_content"), ""},
		{"a stream", "GET", run + "/events/stream", "", false, 200, stream, ": hello\n\nid: 1\nevent: run_accepted\ndata: " + started + "\n\nevent: progress\ndata: " + frame + "\n\n", ""},
		{"a durable event without an id", "GET", run + "/events/stream", "", false, 200, stream, "event: run_accepted\ndata: " + started + "\n\n", "run_accepted"},
		{"an event that is not JSON", "GET", run + "/events/stream", "", false, 200, stream, "id: 1\nevent: run_accepted\ndata: {\n\n", "decode"},
		{"an event that is cut off", "GET", run + "/events/stream", "", false, 200, stream, "id: 1\nevent: run_acc", ""},
		{"no such route", "GET", "/agent_api/v1/nothing", "", false, 404, asJSON, failure("not_found"), ""},
		{"no such route, no such shape", "GET", "/agent_api/v1/nothing", "", false, 404, asJSON, `"gone"`, "not an error object"},
		{"a route the document lacks", "GET", "/agent_api/v1/nothing", "", false, 200, asJSON, `{}`, "no such route"},
		{"a method the document lacks", "DELETE", run, "", false, 405, asJSON, failure("method_not_allowed"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			if c.deliberate {
				ctx = apitest.BadRequest(ctx)
			}
			said := exchange(ctx, t, c.method, c.path, c.body, c.status, c.contentType, c.answer)
			if c.complaint == "" {
				require.Empty(t, said)
				return
			}
			require.Len(t, said, 1)
			require.Contains(t, said[0], c.complaint)
		})
	}
}

func TestCoverage(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.RawQuery != "" {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"code":"parameter_invalid","message":"it is wrong"}}`)
			return
		}
		_, _ = io.WriteString(w, `{"status":"ok"}`)
	}))
	defer server.Close()
	v := apitest.NewValidator(t)
	client := http.Client{Transport: v.Transport(server.Client().Transport)}
	get := func(path string) {
		response, err := client.Get(server.URL + path)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
	}

	get("/healthz?a=b")
	require.Equal(t, []int{400}, v.Coverage.Statuses("getHealth"))
	require.Contains(t, v.Coverage.Unserved(t), "getHealth", "a refusal does not show that the route works")
	require.Contains(t, v.Coverage.Unseen(t), "getHealth 200")

	get("/healthz")
	require.Equal(t, []int{200, 400}, v.Coverage.Statuses("getHealth"))
	require.NotContains(t, v.Coverage.Unserved(t), "getHealth")
	require.Contains(t, v.Coverage.Unserved(t), "getReadiness")
	require.NotContains(t, v.Coverage.Unseen(t), "getHealth 200")
}

func TestRequireRoutes(t *testing.T) {
	t.Parallel()
	said := &complaints{TB: t}
	tree := chi.NewRouter()
	tree.Get("/healthz", func(http.ResponseWriter, *http.Request) {})
	apitest.RequireRoutes(said, tree)
	require.Len(t, said.said, 1)
	require.Contains(t, said.said[0], "GET /agent_api/v1/runs/{}/rounds/{}")
}
