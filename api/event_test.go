package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/sdk/agent"
)

func TestEvents(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	run := s.run()
	path := "/runs/" + run + "/events"
	watched := s.listen(path+"/stream", s.Agent.Token)

	refs := s.calls(run, agent.Call{Name: "look"}, agent.Call{Name: "no_such"}, agent.Call{Name: "look"})
	s.calls(run, agent.Call{Name: "no_such"})
	s.report(refs[0], s.claim(refs[0]), `"content":"a result"`).ok(http.StatusOK)
	s.claim(refs[2])
	s.asAgent("POST", taskPath(refs[2])+"/cancel", "").ok(http.StatusOK)
	_, err := s.Agent.CompleteRun(t.Context(), run)
	require.NoError(t, err)

	status := func(key string, status toolpark.Status) string {
		return fmt.Sprintf(`task_status {"task_key":"%s","generation":1,"status":"%s"}`, key, status)
	}
	want := []string{
		"run_accepted {}",
		`round_opened {"round":1}`,
		status("r1t0", toolpark.Dispatched), status("r1t1", toolpark.Failed), status("r1t2", toolpark.Dispatched),
		`round_opened {"round":2}`, status("r2t0", toolpark.Failed), `round_settled {"round":2}`,
		status("r1t0", toolpark.Completed),
		status("r1t2", toolpark.Canceled), `round_settled {"round":1}`,
		`run_status {"status":"completed"}`,
	}
	require.Equal(t, want, compacted(s.events(run)))

	follow := func(events <-chan string, from int) {
		t.Helper()
		for i := from; i < len(want); i++ {
			name, data, _ := strings.Cut(want[i], " ")
			told := compacted([]string{next(t, events)})[0]
			require.True(t, strings.HasPrefix(told, fmt.Sprintf(`%d %s {"seq":%d,"type":"%s","data":%s,"created_at":"`, i+1, name, i+1, name, data)), told)
		}
		ended(t, events) // with the run
	}
	t.Run("the stream tells the same", func(*testing.T) { follow(watched, 0) })
	t.Run("and goes on after Last-Event-ID", func(*testing.T) {
		for _, from := range []int{0, 5, len(want) - 1} {
			follow(s.listen(path+"/stream", s.Agent.Token, "Last-Event-ID", fmt.Sprint(from)), from)
		}
	})
	t.Run("a bad Last-Event-ID", func(t *testing.T) {
		for _, id := range []string{"x", "-1", "1.5"} {
			s.badly("GET", path+"/stream", "", "Last-Event-ID", id).refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
		}
	})
	t.Run("page by page", func(t *testing.T) {
		seen := 0
		for query := "?limit=5"; query != ""; {
			page := s.asAgent("GET", path+query, "").ok(http.StatusOK)
			query = ""
			for i := 0; page.raw(fmt.Sprintf("/events/%d", i)) != nil; i++ {
				seen++
				require.Equal(t, fmt.Sprint(seen), string(page.raw(fmt.Sprintf("/events/%d/seq", i))))
			}
			if cursor := page.text("/pagination/next_after"); cursor != "" {
				query = "?limit=5&after=" + cursor
			}
		}
		require.Equal(t, len(want), seen)
	})
}

// Events of settles that race have no gaps, and each is told once.
func TestEventsOfARace(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo().Entry)
	run := s.run()
	s.Work(s.Box, 16, echo())
	watched := s.listen("/runs/"+run+"/events/stream", s.Agent.Token)
	const rounds, calls = 3, 20
	for range rounds {
		round := make([]agent.Call, calls)
		for i := range round {
			round[i] = agent.Call{Name: "echo"}
		}
		s.calls(run, round...)
	}
	settled := 0
	const all = 1 + rounds*(2+2*calls)
	for i := range all {
		told := next(t, watched)
		require.True(t, strings.HasPrefix(told, fmt.Sprintf("%d ", i+1)), told)
		if strings.Contains(told, "round_settled") {
			settled++
		}
	}
	require.Equal(t, rounds, settled)
	require.Len(t, s.eventsPaged(run), all)
}

// A stream has an end even for who has read everything, and for a run that never began.
func TestStreamsEnd(t *testing.T) {
	t.Parallel()
	k := kerneltest.StartAPI(t)
	s := sceneAt(t, k, readOnly("look"))
	s.door = hasty(t, k)
	doomed := s.asAgent("POST", "/runs", newRunBody(function("look", routed(s.Box.ID, "gone")))).ok(http.StatusAccepted).text("/run/public_id")
	s.door = doorOf(t, k)
	watched := s.listen("/runs/"+doomed+"/events/stream", s.Agent.Token)
	k.StartWorker()
	ended(t, watched)
	ended(t, s.listen("/runs/"+doomed+"/events/stream", s.Agent.Token))
	s.asAgent("GET", "/runs/"+doomed+"/context", "").refused(http.StatusConflict, toolpark.CodeRunSettled)

	run := s.run()
	_, err := s.Agent.CompleteRun(t.Context(), run)
	require.NoError(t, err)
	for _, id := range []string{"2", "99"} {
		ended(t, s.listen("/runs/"+run+"/events/stream", s.Agent.Token, "Last-Event-ID", id))
	}
	require.Equal(t, "[]", string(s.asAgent("GET", "/runs/"+run+"/events?after=OTk", "").ok(http.StatusOK).raw("/events")))
}
