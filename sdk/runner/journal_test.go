package runner_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark/sdk/runner"
)

const journalFile = "journal.jsonl"

func openJournal(t *testing.T, dir string) *runner.Journal {
	t.Helper()
	j, err := runner.OpenJournal(dir)
	require.NoError(t, err)
	return j
}

func journalText(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, journalFile))
	require.NoError(t, err)
	return string(text)
}

func TestAClaimIsOnDiskBeforeItIsAskedFor(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	dir := t.TempDir()
	unwritten := 0
	s.fault = func(_ http.ResponseWriter, verb string, tk *task) bool {
		if verb == "claim" && !strings.Contains(journalText(t, dir), `"task_key":"`+tk.key+`"`) {
			unwritten++
		}
		return false
	}
	j := openJournal(t, dir)
	stop := work(t, s, runner.Worker{Tools: []runner.Tool{echo}, Journal: j})
	for i := range 50 {
		s.add(task{key: fmt.Sprintf("t%02d", i), tool: "echo"}, true)
	}
	for i := range 50 {
		s.settled(fmt.Sprintf("t%02d", i))
	}
	require.NoError(t, stop())
	require.Zero(t, unwritten)
	require.NoError(t, j.Close())

	require.NoError(t, openJournal(t, dir).Close())
	require.Empty(t, journalText(t, dir), "what was answered is forgotten")
}

// TestWorkerProcess is no test: it is the worker that TestKilledWorker kills.
func TestWorkerProcess(t *testing.T) {
	url, dir := os.Getenv("TOOLPARK_TEST_URL"), os.Getenv("TOOLPARK_TEST_JOURNAL")
	if url == "" {
		t.Skip("started by TestKilledWorker")
	}
	block := tool("block", func(ctx context.Context, _ runner.Call) (runner.Result, error) {
		fmt.Println("the tool runs")
		<-ctx.Done()
		return runner.Result{}, nil
	})
	w := runner.Worker{Client: &runner.Client{BaseURL: url, Token: "x"}, Tools: []runner.Tool{block}, Journal: openJournal(t, dir)}
	_ = w.Run(t.Context())
}

func TestKilledWorker(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	dir := t.TempDir()
	s.add(task{key: "t1", tool: "block"}, false)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWorkerProcess$", "-test.v")
	cmd.Env = append(os.Environ(), "TOOLPARK_TEST_URL="+s.URL, "TOOLPARK_TEST_JOURNAL="+dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	seen, buffer := "", make([]byte, 4096)
	for !strings.Contains(seen, "the tool runs") {
		n, err := out.Read(buffer)
		require.NoError(t, err, seen)
		seen += string(buffer[:n])
	}
	_, err = runner.OpenJournal(dir)
	require.ErrorContains(t, err, "another runner", "a journal has one process at a time")
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.Zero(t, s.count("commit t1"))

	runs := 0
	block := tool("block", func(context.Context, runner.Call) (runner.Result, error) {
		runs++
		return runner.Result{}, nil
	})
	j := openJournal(t, dir)
	stop := work(t, s, runner.Worker{Tools: []runner.Tool{block}, Journal: j})
	require.Equal(t, `{"claim_token":"token-t1","content":"interrupted; effects unknown","is_error":true}`, s.settled("t1"))
	require.NoError(t, stop())
	require.Zero(t, runs, "lost work is reported and not done again")
	require.NoError(t, j.Close())
}

func TestAReportThatWasNotAnsweredIsRepeatedAfterARestart(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	dir := t.TempDir()
	s.fault = func(w http.ResponseWriter, verb string, _ *task) bool {
		if verb == "commit" {
			sever(w)
		}
		return verb == "commit"
	}
	j := openJournal(t, dir)
	stop := work(t, s, runner.Worker{Tools: []runner.Tool{echo}, Journal: j, Grace: 200 * time.Millisecond})
	s.add(task{key: "t1", tool: "echo", input: `{"a":1}`}, true)
	require.Eventually(t, func() bool { return strings.Contains(journalText(t, dir), "report") }, 5*time.Second, 5*time.Millisecond)
	require.NoError(t, stop())
	require.NoError(t, j.Close())

	s.mu.Lock()
	s.fault = nil
	s.mu.Unlock()
	work(t, s, runner.Worker{Tools: []runner.Tool{echo}, Journal: openJournal(t, dir)})
	require.Equal(t, `{"claim_token":"token-t1","content":"{\"a\":1}"}`, s.settled("t1"))
}

func TestAClaimThatWasNeverUsedIsUsedAfterARestart(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	dir := t.TempDir()
	s.fault = func(w http.ResponseWriter, verb string, _ *task) bool {
		if verb == "claim" {
			sever(w)
		}
		return verb == "claim"
	}
	j := openJournal(t, dir)
	stop := work(t, s, runner.Worker{Tools: []runner.Tool{echo}, Journal: j, Grace: 200 * time.Millisecond})
	s.add(task{key: "t1", tool: "echo", input: `{"a":1}`}, true)
	require.Eventually(t, func() bool { return s.count("claim t1") > 0 }, 5*time.Second, 5*time.Millisecond)
	require.NoError(t, stop())
	require.NoError(t, j.Close())

	s.mu.Lock()
	s.fault = nil
	s.mu.Unlock()
	work(t, s, runner.Worker{Tools: []runner.Tool{echo}, Journal: openJournal(t, dir)})
	require.Equal(t, `{"claim_token":"token-t1","content":"{\"a\":1}"}`, s.settled("t1"))
}

func TestARetriedTaskIsNotTakenForTheOneOfTheJournal(t *testing.T) {
	t.Parallel()
	for name, report := range map[string]string{"lost": ``, "unreported": `,"report":{"content":"of the first generation"}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "journal.jsonl"), []byte(
				`{"claim_key":"k1","task":{"run_public_id":"run1","task_key":"t1","generation":1}`+report+"}\n"), 0o600))
			s.add(task{key: "t1", tool: "ask"}, false)
			s.with("t1", func(t *task) { t.generation = 2 })
			var held string
			ask := tool("ask", func(_ context.Context, call runner.Call) (runner.Result, error) {
				held = journalText(t, dir)
				return runner.Text(fmt.Sprintf("generation %d", call.Generation)), nil
			})
			work(t, s, runner.Worker{Tools: []runner.Tool{ask}, Slots: 1, Journal: openJournal(t, dir)})
			require.Equal(t, `{"claim_token":"token-t1","content":"generation 2"}`, s.settled("t1"))
			last := held[strings.LastIndex(strings.TrimSpace(held), "\n")+1:]
			require.Contains(t, last, `"generation":2`, "a process that comes after knows that this generation was begun")
			require.NotContains(t, last, "report")
		})
	}
}

func TestJournalFile(t *testing.T) {
	t.Parallel()
	const a = `{"claim_key":"a","task":{"run_public_id":"run1","task_key":"ta","generation":1}}`
	const b = `{"claim_key":"b","task":{"run_public_id":"run1","task_key":"tb","generation":2}}`
	cases := []struct {
		name, before, after, err string
	}{
		{"empty", "", "", ""},
		{"one claim", a + "\n", a + "\n", ""},
		{"a claim that is done", a + "\n" + b + "\n" + `{"claim_key":"a","done":true}` + "\n", b + "\n", ""},
		{"the last line is cut", a + "\n" + b[:40], a + "\n", ""},
		{"the last line is zeros", a + "\n" + strings.Repeat("\x00", 80) + "\n", a + "\n", ""},
		{"a line in the middle is damaged", a + "\n" + b[:40] + "\n" + a + "\n", "", "line 2"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, journalFile), []byte(c.before), 0o600))
			j, err := runner.OpenJournal(dir)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.Equal(t, c.before, journalText(t, dir), "a damaged journal is left as it is")
				return
			}
			require.NoError(t, err)
			require.NoError(t, j.Close())
			require.Equal(t, c.after, journalText(t, dir))
		})
	}
}

func TestJournalIsTheOwnersAlone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state", "runner")
	require.NoError(t, openJournal(t, dir).Close())
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	info, err = os.Stat(filepath.Join(dir, journalFile))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}
