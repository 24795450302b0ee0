package workflows_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kerneltest"
)

// Every saved query of docs/operations.md finds what the manual says, on a real server.
func TestTheSavedQueriesOfTheManual(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	s.Serve(s.runner, kerneltest.Entry("echo", kerneltest.ReadOnly), kerneltest.Entry("change", kerneltest.Writes))

	parked, claimed := s.echo(time.Hour), s.echo(time.Hour)
	claimed.Claim() // it is shown after five seconds
	run := s.run
	held, denied := s.held(`{}`), s.held(`{}`)
	s.run = run
	_, err := s.Admin.Deny(t.Context(), denied.Ref.Run, denied.Key, "")
	require.NoError(t, err)
	lost := s.Step(s.run, s.runner, "change", `{}`, time.Hour)
	s.started(lost)
	lost.Claim()
	s.expire(lost)
	require.NoError(t, s.Delivery.Wake(t.Context(), &lost.Row().Task))
	require.Equal(t, toolpark.Uncertain, lost.Settled().Status)
	terminated := s.echo(time.Hour)
	require.NoError(t, s.Temporal.TerminateWorkflow(t.Context(), terminated.WorkflowID(), "", "by hand"))

	// What is an hour and more from now has happened, so that there is something to be found.
	soon := map[string]string{"HOUR_AGO": at(time.Minute), "DAY_AGO": at(-24 * time.Hour), "NOW": at(2 * time.Hour)}
	now := map[string]string{"HOUR_AGO": at(-time.Hour), "DAY_AGO": at(time.Minute), "NOW": at(0)}
	want := map[string][]*kerneltest.Task{
		"what has waited for a person for over an hour":   {held},
		"tasks of the last day whose effect is uncertain": {lost},
		"all that a runner holds":                         {claimed},
		"all that waits for a runner":                     {parked},
		"overdue parks":                                   {parked},
		"open parks of an account":                        {parked, claimed, held},
		"open parks of a tool":                            {parked, claimed, held},
		"failures of a tool in the last day":              {denied},
		"the tasks of a run":                              {parked, claimed, lost},
		"what was terminated by hand in the last day":     {terminated},
		"workflows that broke in the last day":            nil,
	}
	queries := savedQueries(t)
	require.Len(t, queries, len(want), "each query of the manual is tried here")
	for find, query := range queries {
		tasks, known := want[find]
		require.True(t, known, "the manual has a query that is not tried: %s", find)
		for _, timely := range []map[string]string{soon, now} {
			asked := query
			for word, value := range timely {
				asked = strings.ReplaceAll(asked, word, value)
			}
			asked = strings.NewReplacer("EXECUTOR", s.runner.ID.String(), "ACCOUNT", s.ID.String(), "RUN/", s.run+"/", "TOOL'", "echo'").Replace(asked)
			if asked != query && timely["NOW"] == now["NOW"] && regexp.MustCompile(`_AGO|NOW`).MatchString(query) {
				tasks = nil // it is too early, or too late
			}
			ids := make([]string, len(tasks))
			for i, task := range tasks {
				ids[i] = task.WorkflowID()
			}
			s.finds(find, asked, terminated.WorkflowID(), ids)
		}
	}
}

// finds waits until a query finds these workflows of the shop. What was terminated by hand may have begun again.
func (s *shop) finds(what, query, terminated string, want []string) {
	s.T.Helper()
	want = slices.Sorted(slices.Values(want))
	s.Eventually(what+": "+query, func() bool {
		page, err := s.Temporal.ListWorkflow(s.T.Context(), &workflowservice.ListWorkflowExecutionsRequest{
			Query: query + ` AND TaskQueue = "` + s.Queue + `"`,
		})
		require.NoError(s.T, err)
		var found []string
		for _, execution := range page.GetExecutions() {
			id := execution.GetExecution().GetWorkflowId()
			if id != terminated || slices.Contains(want, terminated) {
				found = append(found, id)
			}
		}
		return slices.Equal(slices.Sorted(slices.Values(found)), want)
	})
}

// savedQueries reads the table of the manual: what is found, and by which query.
func savedQueries(t *testing.T) map[string]string {
	t.Helper()
	manual, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(manual), "### Saved queries\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n##")
	queries := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| ([^|]+) \\| `([^`]+)` \\|$").FindAllStringSubmatch(section, -1) {
		queries[row[1]] = row[2]
	}
	require.Len(t, queries, strings.Count(section, "\n| ")-2, "each row but the head's two is a query")
	return queries
}

// at is a time as a query takes it.
func at(from time.Duration) string { return time.Now().Add(from).UTC().Format(time.RFC3339) }
