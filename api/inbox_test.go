package api_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
)

// full tells whether a test runs with the counts of a real storm rather than a few.
func full() bool { return os.Getenv("TOOLPARK_FULL") == "1" }

func TestInbox(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	run := s.run()
	read := func(query string) answer {
		t.Helper()
		return s.send("GET", base+"/executor/inbox"+query, s.Box.Token, "").ok(http.StatusOK)
	}

	empty := read("")
	require.Equal(t, "[]", string(empty.raw("/inbox")))
	require.NotEmpty(t, empty.text("/version"))
	require.Equal(t, string(empty.Body), string(read("?wait_ms=1").Body))

	t.Run("a wait ends when a row comes", func(t *testing.T) {
		answers := make(chan answer)
		go func() { answers <- read("?wait_ms=60000") }()
		ref := s.call(run, "look", `{"n":1.0}`)
		select {
		case a := <-answers:
			require.Equal(t, ref.TaskKey, a.text("/inbox/0/task_key"))
			require.Equal(t, `{"n":1.0}`, string(a.raw("/inbox/0/tool_input")))
			require.Equal(t, "false", string(a.raw("/inbox/0/claimed")))
			require.Equal(t, "null", string(a.raw("/inbox/0/conversation_public_id")))
			require.Equal(t, "null", string(a.raw("/inbox/0/parent_public_id")))
			require.NotEmpty(t, a.text("/inbox/0/workspace_public_id"))
			require.NotEqual(t, empty.text("/version"), a.text("/version"))
		case <-time.After(patience):
			t.Fatal("the wait did not end")
		}
		s.report(ref, s.claim(ref), ``).ok(http.StatusOK)
		require.Equal(t, empty.text("/version"), read("").text("/version"), "a settled row is not listed")
	})

	t.Run("the version tells of every claim", func(t *testing.T) {
		ref := s.call(run, "look", `{}`)
		unclaimed := read("")
		require.Equal(t, string(unclaimed.Body), string(read("?wait_ms=60000").Body), "an unclaimed row is answered at once")
		changed := make(chan answer)
		go func() { changed <- read("?wait_ms=60000&unless=" + unclaimed.text("/version")) }()
		token := s.claim(ref)
		select {
		case a := <-changed:
			require.NotEqual(t, unclaimed.text("/version"), a.text("/version"))
		case <-time.After(patience):
			t.Fatal("the wait did not end")
		}
		claimed := read("")
		require.Equal(t, "true", string(claimed.raw("/inbox/0/claimed")), "a claimed row lists for its claimant")
		_, err := s.Box.Extend(t.Context(), ref, token, time.Minute)
		require.NoError(t, err)
		require.Equal(t, claimed.text("/version"), read("").text("/version"), "an extension does not count")
		require.Equal(t, claimed.text("/version"), read("?wait_ms=1&unless="+claimed.text("/version")).text("/version"))
		require.Equal(t, claimed.text("/version"), read("?wait_ms=60000&unless=another").text("/version"))
		go func() { changed <- read("?wait_ms=60000&unless=" + claimed.text("/version")) }()
		s.asAgent("POST", taskPath(ref)+"/cancel", "").ok(http.StatusOK)
		select {
		case a := <-changed:
			require.Equal(t, empty.text("/version"), a.text("/version"))
		case <-time.After(patience):
			t.Fatal("the wait did not end")
		}
	})

	t.Run("page by page, oldest first", func(t *testing.T) {
		var refs []string
		for range 3 {
			for _, ref := range s.calls(run, agent.Call{Name: "look"}, agent.Call{Name: "look"}) {
				refs = append(refs, ref.TaskKey)
			}
		}
		var seen []string
		for query := "?limit=4"; query != ""; {
			page := read(query)
			query = ""
			for i := 0; page.raw(fmt.Sprintf("/inbox/%d", i)) != nil; i++ {
				seen = append(seen, page.text(fmt.Sprintf("/inbox/%d/task_key", i)))
			}
			if cursor := page.text("/pagination/next_after"); cursor != "" {
				query = "?limit=4&after=" + cursor
			}
		}
		require.Equal(t, refs, seen)
	})

	for _, query := range []string{
		"limit=0", "limit=201", "after=", "after=%25", "after=e30", "after=eyJLZXkiOiJcdTAwMDAifQ", "after=eyJBdCI6IngifQ",
		"wait_ms=-1", "wait_ms=60001", "since=1", "unless=a&unless=b",
	} {
		s.sendBad("GET", base+"/executor/inbox?"+query, s.Box.Token, "").refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
	}
}

// Handing over is not owning: a runner that was cut off while the inbox was handed to it finds the same
// rows at once, and so does every other connection.
func TestPollsThatAreCut(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo().Entry)
	run := s.run()
	cuts := 40
	if full() {
		cuts = 1000
	}
	poll := *s.Box.Client
	for i := range cuts {
		ctx, cut := context.WithCancel(t.Context())
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			_, _ = poll.Inbox(ctx, runner.InboxQuery{Wait: time.Minute})
		}()
		ref := s.call(run, "echo", `{}`)
		time.AfterFunc(time.Duration(i%20)*time.Millisecond, cut)
		again, err := s.Box.Inbox(t.Context(), runner.InboxQuery{Wait: time.Minute})
		require.NoError(t, err)
		require.Len(t, again.Rows, 1, "the unclaimed row is offered again")
		require.Equal(t, ref.TaskKey, again.Rows[0].TaskKey)
		s.report(ref, s.claim(ref), `"content":"done"`).ok(http.StatusOK)
		<-answered
		cut()
	}
	now, err := s.Agent.Run(t.Context(), run)
	require.NoError(t, err)
	require.Contains(t, string(now.Raw), fmt.Sprintf(`"tasks":{"completed":%d}`, cuts))
}

func TestWorkIsPushed(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	run := s.run()
	about := func(ref runner.Ref) string {
		return fmt.Sprintf(`{"run_public_id":"%s","task_key":"%s","generation":1`, run, ref.TaskKey)
	}
	presence := func() string {
		t.Helper()
		a := s.send("GET", base+"/executors/"+s.Box.ID.String(), s.Agent.Token, "").ok(http.StatusOK)
		return string(a.raw("/executor/presence"))
	}
	require.Equal(t, "false", presence())
	waiting := s.call(run, "look", `{}`)
	pushed := s.listen("/executor/events", s.Box.Token)
	require.Equal(t, " work_available "+about(waiting)+"}", next(t, pushed), "what came before the stream")
	require.Equal(t, "true", presence())

	other := s.listen("/executor/events", s.Runner("other").Token)
	ref := s.call(run, "look", `{}`)
	require.Equal(t, " work_available "+about(ref)+"}", next(t, pushed))
	s.report(ref, s.claim(ref), ``).ok(http.StatusOK) // its own commit is no news
	s.asAgent("POST", taskPath(waiting)+"/cancel", "").ok(http.StatusOK)
	require.Equal(t, " work_canceled "+about(waiting)+`,"reason":"canceled"}`, next(t, pushed))
	select {
	case e := <-other:
		t.Fatal("another's work: " + e)
	default:
	}

	soon, _ := s.step(run, `"name":"look","route":{"kind":"runner"},"timeout_ms":300`)
	require.Equal(t, " work_available "+about(soon)+"}", next(t, pushed))
	require.Equal(t, " work_canceled "+about(soon)+`,"reason":"expired"}`, next(t, pushed))
}
