package api_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kernel"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/sdk/runner"
)

// What is said in a decision is in the database, if it was accepted, and nowhere else (case 29).
func TestDecisionsAreKeptToThemselves(t *testing.T) {
	t.Parallel()
	const refused, payload = "MARK-refused-5b1e", "MARK-payload-d09a"
	logs := &syncBuffer{}
	k := kerneltest.StartAPI(t).Another(t, func(c *kernel.Config) {
		c.Log = slog.New(slog.NewJSONHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	k.StartWorker()
	s := sceneAt(t, k, kerneltest.Entry("bash", kerneltest.Writes))
	run := s.ruled("ask")
	refs := []runner.Ref{
		s.call(run, "bash", `{"password":"`+payload+`"}`), s.call(run, "bash", `{"password":"`+payload+`"}`),
	}
	approved, denied := refs[0], refs[1]

	for _, verb := range []string{"approve", "deny"} {
		s.sendBad("POST", base+taskPath(approved)+"/"+verb, refused, "").refused(http.StatusUnauthorized, toolpark.CodeUnauthorized)
		s.decide(s.Admin, approved, verb+"?token="+refused, "").refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
		s.decide(s.Admin, approved, verb, `{"`+refused+`":"`+refused+`"}`).refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
		s.decide(s.Admin, approved, verb, `{"a":"`+refused).refused(http.StatusBadRequest, toolpark.CodeBadRequest)
		s.decide(s.Admin, runner.Ref{Run: run, TaskKey: refused}, verb, "").refused(http.StatusNotFound, toolpark.CodeNotFound)
	}
	s.decide(s.Admin, approved, "approve", `{"input_digest":"`+refused+`"}`).refused(http.StatusConflict, toolpark.CodeInputChanged)
	s.decide(s.Admin, approved, "approve", `{"input":{"a":"\u0000`+refused+`"}}`).refused(http.StatusUnprocessableEntity, toolpark.CodeValidationFailed)
	s.decide(s.Admin, approved, "deny", `{"reason":"\u0000`+refused+`"}`).refused(http.StatusUnprocessableEntity, toolpark.CodeValidationFailed)
	s.sendBad("GET", base+"/approvals?tool="+refused+"%00", s.Admin.Token, "").refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)

	s.decide(s.Admin, approved, "approve", `{"input":{"edited":"`+payload+`"}}`).ok(http.StatusOK)
	s.decide(s.Admin, denied, "deny", `{"reason":"`+payload+`"}`).ok(http.StatusOK)
	s.report(approved, s.claim(approved), `"content":"done"`).ok(http.StatusOK)
	for _, ref := range refs {
		s.settled(ref)
	}
	past := history(t, k, run, refs)
	stored := strings.Join(dump(t, k), "\n")
	require.Contains(t, stored, payload)
	require.NotContains(t, stored, refused)
	require.Contains(t, logs.String(), "/tasks/{task}/approve")
	for _, mark := range []string{refused, payload, s.Admin.Token} {
		require.NotContains(t, logs.String(), mark)
		require.NotContains(t, past, mark)
	}
}
