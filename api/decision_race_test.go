package api_test

import (
	"encoding/json/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
)

// holding is a rule that holds every call for a time.
func holding(hold time.Duration) agent.ApprovalRule {
	return agent.ApprovalRule{Tool: "*", Verdict: "ask", HoldMS: hold.Milliseconds()}
}

// answered posts a decision through a door until it has an answer: while it is pending, or the server is too busy,
// it asks again.
func (s *scene) answered(through *door, ref runner.Ref, verb, body string) answer {
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		a := through.sendBad("POST", base+taskPath(ref)+"/"+verb, s.Admin.Token, body)
		if a.Status != http.StatusAccepted && a.Status != http.StatusServiceUnavailable || time.Now().After(end) {
			return a
		}
	}
}

// dispatches counts how often each task of a run was dispatched.
func (s *scene) dispatches(run string) map[string]int {
	s.t.Helper()
	times := map[string]int{}
	for _, e := range s.eventsPaged(run) {
		var data struct {
			Key    string          `json:"task_key"`
			Status toolpark.Status `json:"status"`
		}
		require.NoError(s.t, json.Unmarshal(e.Data, &data))
		if e.Type == "task_status" && data.Status == toolpark.Dispatched {
			times[data.Key]++
		}
	}
	return times
}

// Of fifty decisions at once through two processes one stands, and everybody reads the same (case 18).
func TestManyDecideAtOnce(t *testing.T) {
	t.Parallel()
	const each = 25
	k := kerneltest.Start(t)
	s := sceneAt(t, k, kerneltest.Entry("bash", kerneltest.Writes))
	doors := []*door{s.door, doorOf(t, k.Another(t))}
	calls := 4
	if full() {
		calls = 40
	}
	run := s.ruled("ask")
	won := map[string]int{}
	for range calls {
		ref := s.call(run, "bash", `{}`)
		var (
			all     sync.WaitGroup
			begin   = make(chan struct{})
			mu      sync.Mutex
			answers = map[string][]answer{}
		)
		for i := range 2 * each {
			all.Go(func() {
				verb := []string{"approve", "deny"}[i%2]
				<-begin
				a := s.answered(doors[i/2%2], ref, verb, "")
				mu.Lock()
				defer mu.Unlock()
				answers[verb] = append(answers[verb], a)
			})
		}
		close(begin)
		all.Wait()

		winner, loser, status := "approve", "deny", toolpark.Dispatched
		if answers["deny"][0].Status == http.StatusOK {
			winner, loser, status = "deny", "approve", toolpark.Failed
		}
		won[winner]++
		for _, a := range append(answers[winner], s.answered(doors[1], ref, winner, "")) {
			a.ok(http.StatusOK)
			require.EqualValues(t, status, a.text("/task/status"))
			require.Equal(t, s.Admin.ID.String(), a.text("/task/approval/decided_by"))
		}
		for _, a := range append(answers[loser], s.answered(doors[0], ref, loser, "")) {
			a.refused(http.StatusConflict, toolpark.CodeNotAwaitingApproval)
			require.EqualValues(t, status, a.text("/error/task/status"))
			require.Equal(t, "human", a.text("/error/task/approval/origin"), "the decision that stands")
		}
		_, claimed := s.Box.Claim(t.Context(), ref, "first")
		_, again := s.Box.Claim(t.Context(), ref, "second")
		require.Error(t, again)
		if winner == "deny" {
			require.Equal(t, toolpark.CodeTaskNotClaimable, code(claimed))
			require.Zero(t, s.dispatches(run)[ref.TaskKey])
			continue
		}
		require.NoError(t, claimed)
		require.Equal(t, 1, s.dispatches(run)[ref.TaskKey])
		s.asAgent("POST", taskPath(ref)+"/cancel", "").ok(http.StatusOK)
		s.answered(doors[1], ref, winner, "").ok(http.StatusOK) // what was decided stays decided
	}
	t.Logf("won: %v", won)
}

// An approval around the end of the hold runs the call or does not: what its caller was told is so (case 19).
func TestApprovalsAroundTheEndOfTheHold(t *testing.T) {
	t.Parallel()
	k := kerneltest.Start(t)
	s := sceneAt(t, k, kerneltest.Entry("bash", kerneltest.Writes))
	run := s.ruled("ask", holding(time.Hour), holding(1500*time.Millisecond)) // the shorter wins
	offsets := []time.Duration{-200 * time.Millisecond, -10 * time.Millisecond, 0, 10 * time.Millisecond}
	rounds, width := 1, 32
	if full() {
		rounds, width = 8, 100
	}
	told := map[int]int{}
	for range rounds {
		calls := make([]agent.Call, width)
		for i := range calls {
			calls[i].Name = "bash"
		}
		refs := s.calls(run, calls...)
		end, err := time.Parse(time.RFC3339Nano, s.read(refs[0]).text("/task/deadline_at"))
		require.NoError(t, err)
		answers := make([]answer, width)
		var all sync.WaitGroup
		for i, ref := range refs {
			all.Go(func() {
				time.Sleep(time.Until(end.Add(offsets[i%len(offsets)])))
				answers[i] = s.answered(s.door, ref, "approve", "")
			})
		}
		all.Wait()
		for i, a := range answers {
			s.keepsItsWord(a, refs[i])
			told[a.Status]++
		}
	}
	for key, times := range s.dispatches(run) {
		require.Equal(t, 1, times, key)
	}
	t.Logf("told: %v", told)
}

// keepsItsWord holds the answer to an approval against what became of the call.
func (s *scene) keepsItsWord(a answer, ref runner.Ref) {
	s.t.Helper()
	switch a.Status {
	case http.StatusOK:
		require.EqualValues(s.t, toolpark.Dispatched, s.read(ref).text("/task/status"), "200 means that it runs")
		s.claim(ref)
	case http.StatusConflict:
		a.refused(http.StatusConflict, toolpark.CodeNotAwaitingApproval)
		settled := s.settled(ref)
		require.EqualValues(s.t, toolpark.TimedOut, settled.text("/task/status"), "409 means that it never runs")
		require.Equal(s.t, toolpark.ErrApprovalExpired, settled.text("/task/error/key"))
		require.Equal(s.t, "null", string(settled.raw("/task/approval")))
		require.Equal(s.t, "null", string(settled.raw("/task/dispatched_at")))
	default:
		require.Fail(s.t, "neither", "%s", a.Body)
	}
}

// The same while no worker runs over the end of the hold: what was staged in time counts, however late it is judged.
func TestApprovalsAcrossTheEndOfTheHoldWithoutAWorker(t *testing.T) {
	t.Parallel()
	const width = 12
	k := kerneltest.StartAPI(t)
	work := k.StartWorker()
	s := sceneAt(t, k, kerneltest.Entry("bash", kerneltest.Writes))
	run := s.ruled("ask", holding(2500*time.Millisecond))
	work()
	busy := hasty(t, k)
	calls := make([]agent.Call, width)
	for i := range calls {
		calls[i].Name = "bash"
	}
	refs := s.calls(run, calls...)
	end, err := time.Parse(time.RFC3339Nano, s.read(refs[0]).text("/task/deadline_at"))
	require.NoError(t, err)
	first := make([]answer, width)
	var all sync.WaitGroup
	for i, ref := range refs {
		all.Go(func() {
			if i%3 > 0 {
				time.Sleep(time.Until(end.Add(time.Duration(i%3-1)*10*time.Millisecond - 5*time.Millisecond)))
			}
			first[i] = busy.sendBad("POST", base+taskPath(ref)+"/approve", s.Admin.Token, "")
		})
	}
	all.Wait()
	time.Sleep(time.Until(end) + 100*time.Millisecond)
	late := s.call(run, "bash", `{}`) // is not over yet, and shows that nobody judges
	require.EqualValues(t, toolpark.NeedsApproval, s.read(late).text("/task/status"))
	for _, ref := range refs {
		require.EqualValues(t, toolpark.NeedsApproval, s.read(ref).text("/task/status"), "only a worker decides")
		busy.sendBad("POST", base+taskPath(ref)+"/deny", s.Admin.Token, "").refused(http.StatusConflict, toolpark.CodeNotAwaitingApproval)
	}
	k.StartWorker()
	pending := 0
	for i, ref := range refs {
		switch first[i].Status {
		case http.StatusAccepted: // staged in time: the truth is that it runs
			pending++
			require.Equal(t, "pending", first[i].text("/decision/status"))
			require.EqualValues(t, toolpark.Dispatched, s.answered(s.door, ref, "approve", "").ok(http.StatusOK).text("/task/status"))
			row := s.read(ref)
			dispatched, err := time.Parse(time.RFC3339Nano, row.text("/task/dispatched_at"))
			require.NoError(t, err)
			due, err := time.Parse(time.RFC3339Nano, row.text("/task/deadline_at"))
			require.NoError(t, err)
			require.Equal(t, strconv.FormatInt(due.Sub(dispatched).Milliseconds(), 10), strings.TrimSpace(string(row.raw("/task/timeout_ms"))),
				"no time of the approval's counts against the deadline")
			s.claim(ref)
		default:
			s.keepsItsWord(first[i], ref)
		}
	}
	require.GreaterOrEqual(t, pending, width/3)
}
