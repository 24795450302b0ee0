package api_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"uuid"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/api"
	"github.com/toolpark/toolpark/api/apitest"
)

// routes is the true tree.
func routes(t *testing.T) chi.Routes {
	t.Helper()
	tree, ok := (&api.Server{Metrics: prometheus.NewRegistry()}).Handler().(chi.Routes)
	require.True(t, ok)
	return tree
}

func TestTheDocumentDescribesExactlyTheRoutes(t *testing.T) {
	t.Parallel()
	apitest.RequireRoutes(t, routes(t))
}

func TestEveryRouteKeepsToItsPlane(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	tn := d.newTenant()
	parameter := regexp.MustCompile(`\{\w+\}`)
	guarded := 0
	require.NoError(t, chi.Walk(routes(t), func(method, pattern string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		if !strings.HasPrefix(pattern, "/agent_api/") {
			return nil
		}
		wrong := tn.runnerBearer
		if strings.HasPrefix(pattern, "/agent_api/v1/executor/") || pattern == "/agent_api/v1/executor" {
			wrong = tn.humanBearer
		}
		path := parameter.ReplaceAllString(pattern, uuid.NewV7().String())
		for _, bearer := range []string{"", wrong} {
			a := d.sendBad(method, path, bearer, "").ok(http.StatusUnauthorized)
			if method != http.MethodHead {
				a.refused(http.StatusUnauthorized, toolpark.CodeUnauthorized)
			}
		}
		guarded++
		return nil
	}))
	require.Greater(t, guarded, 20)
}

// One run and its calls touch every route that the document has, each with success.
func TestEveryRouteServes(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	run := s.run()
	works := func(method, path, bearer, body string, headers ...string) answer {
		t.Helper()
		a := s.send(method, path, bearer, body, headers...)
		require.Less(t, a.Status, 300, "%s %s: %s", method, path, a.Body)
		return a
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/openapi.json"} {
		works("GET", path, "", "")
	}
	works("POST", base+"/tools/assembly", s.Agent.Token, `{"default_runner_executor_public_id":null}`)
	works("PUT", base+"/profile/configuration", s.Agent.Token, `{"configuration":{}}`)
	ref, token := s.claimed(run, "look")
	digest := works("GET", base+"/runs/"+run+"/tools?format=anthropic", s.Agent.Token, "").text("/projection_digest")
	works("POST", base+"/runs/"+run+"/rounds", s.Agent.Token, `{"calls":[{"name":"gone"}],"offered":"`+digest+`"}`)
	waiting, _ := s.step(run, `"name":"look","route":{"kind":"runner"}`)
	s.listen("/executor/events", s.Box.Token)
	s.listen("/runs/"+run+"/events/stream", s.Agent.Token)
	for _, path := range []string{
		"/approvals", "/asks", "/tools", "/profile", "/runs/" + run + "/skills", "/runs/" + run + "/rounds/2/tools",
		"/executors", "/executors/" + s.Box.ID.String(), "/runs", "/runs/" + run, "/runs/" + run + "/context", "/runs/" + run + "/tasks",
		taskPath(ref), "/runs/" + run + "/rounds/1", "/runs/" + run + "/events",
	} {
		works("GET", base+path, s.Agent.Token, "")
	}
	for _, path := range []string{"/executor", "/executor/inbox"} {
		works("GET", base+path, s.Box.Token, "")
	}
	works("GET", inboxPath(ref, "claim"), s.Box.Token, "", "Claim-Token", token)
	works("POST", inboxPath(ref, "extend"), s.Box.Token, `{"claim_token":"`+token+`","timeout_ms":60000}`)
	works("POST", base+"/executor/progress", s.Box.Token, `{"run_public_id":"`+run+`","task_key":"`+ref.TaskKey+`","claim_token":"`+token+`","frame":1}`)
	works("POST", base+taskPath(waiting)+"/cancel", s.Agent.Token, "")
	asking := s.ruled("ask")
	works("POST", base+taskPath(s.call(asking, "look", `{}`))+"/approve", s.Admin.Token, "")
	works("POST", base+taskPath(s.call(asking, "look", `{}`))+"/deny", s.Admin.Token, "")
	works("POST", base+taskPath(s.ask(run, `"prompt":"Which?"`))+"/resolution", s.Admin.Token, `{"content":"That."}`)
	s.report(ref, token, `"content":"done"`).ok(http.StatusOK)
	failed, _ := s.failed(run, "look")
	works("POST", base+taskPath(failed)+"/retry", s.Agent.Token, "")
	again := s.claim(failed)
	s.report(failed, again, `"outcome":"failed"`).ok(http.StatusOK)
	works("POST", base+taskPath(failed)+"/abandon", s.Agent.Token, "")
	works("GET", base+"/runs/"+run+"/rounds/1/messages?format=anthropic", s.Agent.Token, "")
	works("POST", base+"/runs/"+run+"/complete", s.Agent.Token, "")
	works("POST", base+"/runs/"+s.run()+"/stop", s.Agent.Token, "")
	works("POST", base+"/executor/shutdown", s.Box.Token, "")
	require.Empty(t, s.Kernel.Coverage.Unserved(t))
}

// HEAD is GET without the body, wherever GET is no stream.
func TestHead(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	run := s.run()
	ref, token := s.claimed(run, "look")
	for _, c := range []struct{ path, bearer string }{
		{"/healthz", ""},
		{"/readyz", ""},
		{"/metrics", ""},
		{"/openapi.json", ""},
		{base + "/executors?kind=runner&limit=1", s.Agent.Token},
		{base + "/executors?no=such", s.Agent.Token},
		{base + "/runs/" + run, s.Agent.Token},
		{base + "/runs/" + uuid.NewV7().String(), s.Agent.Token},
		{base + taskPath(ref) + "?wait_ms=10", s.Agent.Token},
		{base + "/executor/inbox", s.Box.Token},
		{inboxPath(ref, "claim"), s.Box.Token},
	} {
		whole, head := s.sendBad("GET", c.path, c.bearer, "", "Claim-Token", token), s.sendBad("HEAD", c.path, c.bearer, "", "Claim-Token", token)
		require.Equal(t, whole.Status, head.Status, c.path)
		require.Equal(t, whole.Header.Get("Content-Type"), head.Header.Get("Content-Type"), c.path)
		require.NotEmpty(t, whole.Body, c.path)
		require.Empty(t, head.Body, c.path)
	}
	for path, allow := range map[string]string{
		"/executor/events":                "GET",
		"/runs/" + run + "/events/stream": "GET",
		"/executor/shutdown":              "POST",
	} {
		a := s.send("HEAD", base+path, "", "").ok(http.StatusMethodNotAllowed)
		require.Equal(t, allow, a.Header.Get("Allow"), path)
	}
	s.send("HEAD", "/nothing", "", "").ok(http.StatusNotFound)
}
