package api_test

import (
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
	"uuid"

	"github.com/go-chi/chi/v5"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kernel"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/sdk/runner"
)

// dump is every row of every table as text, one a line. Bytes show as hexadecimal digits.
func dump(t *testing.T, k *kerneltest.Kernel) (lines []string) {
	t.Helper()
	rows, _ := k.DB.Pool.Query(t.Context(), `SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1`)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Greater(t, len(tables), 10)
	for _, table := range tables {
		rows, _ := k.DB.Pool.Query(t.Context(), `
			SELECT (to_jsonb(x) - 'wake_at' - 'wake_attempts' - 'claim_shown')::text
			FROM `+pgx.Identifier{table}.Sanitize()+` x ORDER BY 1`) // alarms ring by themselves
		found, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		for _, row := range found {
			lines = append(lines, table+" "+row)
		}
	}
	return lines
}

// Account B uses the ids of account A on every route that takes one. It reads what it reads of ids that
// never existed, and nothing of A changes.
func TestNothingCrossesAnAccount(t *testing.T) {
	t.Parallel()
	a := newScene(t, readOnly("look"))
	b := sceneAt(t, a.Kernel, readOnly("look"))
	provider := a.Executor(toolpark.ToolsProvider, "pool", toolpark.AccountWide)
	a.Serve(provider, readOnly("pooled"))
	run := a.run()
	waiting := a.call(run, "look", `{}`)
	claimed, token := a.claimed(run, "look")
	held := a.call(a.ruled("ask"), "look", `{}`)
	failed, _ := a.failed(run, "look")
	own := b.run()

	// For each route, a request that would succeed for its owner.
	bodies := map[string][]string{
		"POST /runs/{run}/rounds":                  {`{"calls":[{"name":"look"}]}`},
		"POST /runs/{run}/tasks":                   {`{"steps":[{"tool":{"name":"look","route":{"kind":"runner"}}}]}`},
		"POST /runs/{run}/complete":                {""},
		"POST /runs/{run}/stop":                    {`{"force":true}`, ""},
		"POST /runs/{run}/tasks/{task}/resolution": {`{"content":"stolen"}`},
		"POST /runs/{run}/tasks/{task}/cancel":     {""},
		"POST /runs/{run}/tasks/{task}/retry":      {""},
		"POST /runs/{run}/tasks/{task}/abandon":    {""},
		"POST /runs/{run}/tasks/{task}/approve":    {"", `{"input":{}}`},
		"POST /runs/{run}/tasks/{task}/deny":       {""},
		"POST /executor/inbox/{run}/{task}/claim":  {`{"claim_key":"k"}`},
		"POST /executor/inbox/{run}/{task}/extend": {`{"claim_token":"` + token + `","timeout_ms":1000}`},
		"POST /executor/inbox/{run}/{task}/commit": {reportBody(token, `"content":"stolen"`)},
		"GET /runs/{run}/rounds/{number}/messages": {""},
		"GET /runs/{run}/rounds/{number}/tools":    {""},
		"GET /executor/inbox/{run}/{task}/claim":   {""},
		"GET /runs/{run}/rounds/{number}":          {""},
		"GET /runs/{run}/tasks/{task}":             {""},
		"GET /runs/{run}/events/stream":            {""},
		"GET /runs/{run}/context":                  {""},
		"GET /runs/{run}/skills":                   {""},
		"GET /runs/{run}/tools":                    {""},
		"GET /runs/{run}/events":                   {""},
		"GET /runs/{run}/tasks":                    {""},
		"GET /executors/{executor}":                {""},
		"GET /runs/{run}":                          {""},
	}
	unknownRun, unknownExecutor := uuid.NewV7().String(), uuid.NewV7().String()
	before := dump(t, a.Kernel)
	tried := 0
	require.NoError(t, chi.Walk(routes(t), func(method, pattern string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		pattern = strings.TrimPrefix(pattern, base)
		if !strings.Contains(pattern, "{") {
			return nil
		}
		bearer := b.Admin.Token
		if strings.HasPrefix(pattern, "/executor/") {
			bearer = b.Box.Token
		}
		route := strings.Replace(method, http.MethodHead, http.MethodGet, 1) + " " + pattern
		require.Contains(t, bodies, route, "a new route needs a request here")
		for _, body := range bodies[route] {
			for _, ref := range []runner.Ref{waiting, claimed, held, failed} {
				send := func(run, executor string) (int, string) {
					path := strings.NewReplacer("{run}", run, "{task}", ref.TaskKey, "{number}", "1", "{executor}", executor).Replace(pattern)
					if strings.HasSuffix(path, "/messages") || strings.HasSuffix(pattern, "{run}/tools") {
						path += "?format=responses"
					}
					got := b.sendBad(method, base+path, bearer, body, "Claim-Token", token)
					return got.Status, strings.NewReplacer(run, "ID", executor, "ID").Replace(string(got.Body))
				}
				status, answer := send(ref.Run, a.Box.ID.String())
				unknownStatus, unknownAnswer := send(unknownRun, unknownExecutor)
				require.Equal(t, http.StatusNotFound, status, "%s %s: %s", method, pattern, answer)
				require.Equal(t, unknownStatus, status)
				require.Equal(t, unknownAnswer, answer, "%s %s", method, pattern)
				tried++
			}
		}
		return nil
	}))
	require.Greater(t, tried, 30)

	t.Run("by ids in bodies", func(t *testing.T) {
		same := func(path, bearer string, body func(run, executor string) string) {
			t.Helper()
			theirs := b.sendBad("POST", base+path, bearer, body(run, a.Box.ID.String()))
			unknown := b.sendBad("POST", base+path, bearer, body(unknownRun, unknownExecutor))
			require.Greater(t, theirs.Status, 399)
			require.Equal(t, unknown.Status, theirs.Status)
			replace := strings.NewReplacer(unknownRun, "ID", unknownExecutor, "ID", run, "ID", a.Box.ID.String(), "ID")
			require.Equal(t, replace.Replace(string(unknown.Body)), replace.Replace(string(theirs.Body)))
		}
		same("/executor/progress", b.Box.Token, func(run, _ string) string {
			return fmt.Sprintf(`{"run_public_id":%q,"task_key":%q,"claim_token":%q,"frame":1}`, run, claimed.TaskKey, token)
		})
		same("/runs", b.Agent.Token, func(_, executor string) string {
			return newRunBody(function("look", routed(uuid.MustParse(executor), "look")))
		})
		same("/runs", b.Agent.Token, func(_, executor string) string {
			return `{"default_runner_executor_public_id":"` + executor + `"}`
		})
		same("/runs", b.Agent.Token, func(_, executor string) string {
			return importsOf(executor, `"approval_mode":"bypass",`)
		})
		same("/tools/assembly", b.Agent.Token, func(_, executor string) string { return importsOf(executor, "") })
		same("/runs/"+own+"/rounds", b.Agent.Token, func(_, executor string) string {
			return `{"calls":[{"name":"look"}],"tools":[` + string(function("look", routed(uuid.MustParse(executor), "look"))) + `]}`
		})
		same("/runs/"+own+"/tasks", b.Agent.Token, func(_, executor string) string {
			return `{"steps":[{"tool":{"name":"look","route":{"kind":"runner","runner_executor_public_id":"` + executor + `"}}}]}`
		})
	})

	t.Run("by candidates", func(t *testing.T) {
		got := b.asAgent("POST", "/tools/assembly",
			`{"default_runner_executor_public_id":null,"configuration":{"runner_executor_public_ids":["`+a.Box.ID.String()+`"]}}`).ok(http.StatusOK)
		require.NotContains(t, string(got.Body), a.Box.ID.String())
	})

	t.Run("by lists", func(t *testing.T) {
		for path, bearer := range map[string]string{
			"/runs": b.Admin.Token, "/executors": b.Admin.Token, "/executor": b.Box.Token, "/executor/inbox": b.Box.Token,
		} {
			list := b.send("GET", base+path, bearer, "").ok(http.StatusOK)
			for _, id := range []string{run, a.Box.ID.String(), provider.ID.String(), a.ID.String()} {
				require.NotContains(t, string(list.Body), id, path)
			}
		}
	})

	t.Run("by bare names", func(t *testing.T) {
		a := b.badly("POST", "/runs/"+own+"/tasks", `{"steps":[{"tool":{"name":"pooled"}}]}`)
		a.refused(http.StatusUnprocessableEntity, toolpark.CodeToolNotServed)
	})

	var changed []string
	after := strings.Join(dump(t, a.Kernel), "\n")
	ephemeral := regexp.MustCompile(`^(executors|credentials) `) // when somebody was seen
	for _, line := range before {
		if !ephemeral.MatchString(line) && !strings.Contains(after, line) {
			changed = append(changed, line)
		}
	}
	for _, line := range changed {
		require.NotContains(t, line, run, "nothing changed")
		require.NotContains(t, line, a.ID.String(), "nothing changed")
	}

	t.Run("by an Idempotency-Key", func(t *testing.T) {
		body := newRunBody(function("mine", ""))
		first := a.asAgent("POST", "/runs", body, "Idempotency-Key", "shared").ok(http.StatusCreated)
		second := b.asAgent("POST", "/runs", body, "Idempotency-Key", "shared").ok(http.StatusCreated)
		require.NotEqual(t, first.text("/run/public_id"), second.text("/run/public_id"))
		require.Empty(t, second.Header.Get("Idempotency-Replayed"))
	})

	a.report(claimed, token, `"content":"still mine"`).ok(http.StatusOK)
	require.Equal(t, "still mine", a.settled(claimed).text("/task/output"))
}

// What is secret, or was refused, is kept nowhere: not in the log, the database or Temporal.
func TestSecretsAreKeptNowhere(t *testing.T) {
	t.Parallel()
	const refusedMark = "MARK-refused-7f3a"
	logs := &syncBuffer{}
	k := kerneltest.StartAPI(t).Another(t, func(c *kernel.Config) {
		c.Log = slog.New(slog.NewJSONHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	k.StartWorker()
	s := sceneAt(t, k, within(readOnly("look"), 500*time.Millisecond), readOnly("long"))
	run := s.run()
	ref, token := s.claimed(run, "long")
	const payload = "MARK-payload-91cc"
	secret := s.call(run, "long", `{"password":"`+payload+`"}`)
	secretToken := s.claim(secret)
	lost := s.call(run, "look", `{"password":"`+payload+`"}`)
	s.claim(lost)

	// As a bearer, a claim token, a query value, an id, and in bodies that are refused.
	for _, bearer := range []string{"tp_member_" + refusedMark, "tp_executor_" + refusedMark, refusedMark} {
		s.sendBad("GET", base+"/runs", bearer, "").refused(http.StatusUnauthorized, toolpark.CodeUnauthorized)
		s.sendBad("GET", base+"/executor/inbox", bearer, "").refused(http.StatusUnauthorized, toolpark.CodeUnauthorized)
	}
	s.report(ref, refusedMark, `"content":"x"`).refused(http.StatusConflict, toolpark.CodeStaleClaim)
	s.sendBad("GET", inboxPath(ref, "claim"), s.Box.Token, "", "Claim-Token", refusedMark)
	s.sendBad("POST", inboxPath(ref, "extend"), s.Box.Token, `{"claim_token":"`+refusedMark+`","timeout_ms":5}`).refused(http.StatusConflict, toolpark.CodeNotClaimant)
	s.badly("GET", "/runs?access_token="+refusedMark, "").refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
	s.badly("GET", "/runs?after="+refusedMark, "").refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
	s.badly("GET", "/runs/"+refusedMark, "").refused(http.StatusNotFound, toolpark.CodeNotFound)
	s.badly("GET", "/"+refusedMark, "").refused(http.StatusNotFound, toolpark.CodeNotFound)
	s.badly("POST", "/runs", `{"default_runner_executor_public_id":null,"`+refusedMark+`":1}`).refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
	s.badly("POST", "/runs", `{"default_runner_executor_public_id":null,"label":"`+refusedMark+`\n"}`).refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
	s.badly("POST", "/runs/"+run+"/rounds", `{"calls":[{"name":"`+refusedMark+`","id":5}]}`).refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
	s.badly("POST", "/runs/"+run+"/tasks", `{"steps":[{"tool":{"name":"look","input":{"a":"`+refusedMark+`"},"key":"-"}}]}`).refused(http.StatusUnprocessableEntity, toolpark.CodeValidationFailed)
	s.report(ref, token, `"content":"`+refusedMark+`","title":"a\nb"`).refused(http.StatusUnprocessableEntity, toolpark.CodeInvalidTitle)
	s.sendBad("PUT", base+"/executor/announcement", s.Box.Token, `{"tools":[{"name":"`+refusedMark+`"}]}`).refused(http.StatusUnprocessableEntity, toolpark.CodeInvalidAnnouncement)
	s.sendBad("PUT", base+"/executor/announcement", s.Box.Token, `{"tools":`+refusedMark).refused(http.StatusBadRequest, toolpark.CodeBadRequest)

	// What was accepted is in the database and nowhere else.
	s.report(secret, secretToken, `"content":"`+payload+`","metadata":{"m":"`+payload+`"}`).ok(http.StatusOK)
	s.report(ref, token, `"content":"a\u0000`+refusedMark+`"`).refused(http.StatusUnprocessableEntity, toolpark.CodeResultUnstorable)
	s.settled(lost)

	secrets := []string{refusedMark, s.Admin.Token, s.Agent.Token, s.Box.Token, token, secretToken}
	stored := strings.Join(dump(t, k), "\n")
	require.Contains(t, stored, payload)
	past := history(t, k, run, []runner.Ref{ref, secret, lost})
	require.Contains(t, logs.String(), "/agent_api/v1/runs/{run}/rounds")
	for _, secret := range secrets {
		for _, form := range []string{secret, hex.EncodeToString([]byte(secret)), strings.TrimPrefix(strings.TrimPrefix(secret, "tp_member_"), "tp_executor_")} {
			require.NotContains(t, stored, form, "database")
			require.NotContains(t, logs.String(), form, "log")
			require.NotContains(t, past, form, "history")
		}
	}
	require.NotContains(t, logs.String(), payload)
	require.NotContains(t, past, payload)

	t.Run("bearers of no use", func(t *testing.T) {
		for _, header := range []string{"", "Bearer", "Bearer ", "Bearer " + s.Agent.Token + " "} {
			a := s.sendBad("GET", base+"/runs", "", "", "Authorization", header)
			if a.Status == http.StatusOK {
				// Go's own client and server cut a trailing space off before anybody sees it.
				require.True(t, strings.HasSuffix(header, s.Agent.Token+" "))
				continue
			}
			a.refused(http.StatusUnauthorized, toolpark.CodeUnauthorized)
		}
	})
}
