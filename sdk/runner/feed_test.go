package runner_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark/sdk/runner"
)

func TestPushedWorkIsClaimedWithoutReadingTheInbox(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.fault = func(w http.ResponseWriter, verb string, _ *task) bool {
		if verb == "inbox" {
			refuse(w, 503, "unavailable")
		}
		return verb == "inbox"
	}
	work(t, s, runner.Worker{Tools: []runner.Tool{echo}})
	for i := range 20 {
		s.add(task{key: fmt.Sprintf("t%d", i), tool: "echo", input: `{"n":12345678901234567890,"d":0.10}`}, true)
	}
	for i := range 20 {
		require.Equal(t, fmt.Sprintf(`{"claim_token":"token-t%d","content":"{\"n\":12345678901234567890,\"d\":0.10}"}`, i),
			s.settled(fmt.Sprintf("t%d", i)))
		require.Equal(t, 1, s.count(fmt.Sprintf("claim t%d", i)))
	}
}

func TestWorkThatWasThereBeforeIsFound(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for i := range 5 { // three pages
		s.add(task{key: fmt.Sprintf("t%d", i), tool: "echo"}, false)
	}
	work(t, s, runner.Worker{Tools: []runner.Tool{echo}, Slots: 2})
	for i := range 5 {
		s.settled(fmt.Sprintf("t%d", i))
	}
}

func TestWithoutEventStreamTheInboxIsPolled(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.noEvents = true
	work(t, s, runner.Worker{Tools: []runner.Tool{echo}})
	for i := range 5 {
		time.Sleep(20 * time.Millisecond)
		s.add(task{key: fmt.Sprintf("t%d", i), tool: "echo"}, false)
		s.settled(fmt.Sprintf("t%d", i))
	}
}

func TestLostPushIsMadeUpByReconnecting(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	work(t, s, runner.Worker{Tools: []runner.Tool{echo}})
	s.add(task{key: "t1", tool: "echo"}, true)
	s.settled("t1")
	s.pushes <- "cut"
	s.add(task{key: "t2", tool: "echo"}, false)
	s.settled("t2")
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.streams >= 2
	}, 5*time.Second, 10*time.Millisecond)
}
