package runner_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark/sdk/runner"
)

func TestCommitsAreRepeatedUntilAnswered(t *testing.T) {
	t.Parallel()
	cases := map[string]func(w http.ResponseWriter){
		"connection lost": sever,
		"unavailable":     func(w http.ResponseWriter) { refuse(w, 503, "unavailable") },
		"a proxy's 404":   func(w http.ResponseWriter) { http.Error(w, "<html>no such host</html>", http.StatusNotFound) },
		"pending": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusAccepted)
			fmt.Fprint(w, `{"commit":{"status":"pending"}}`)
		},
	}
	for name, answer := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.fault = func(w http.ResponseWriter, verb string, tk *task) bool {
				if verb == "commit" && len(tk.commits) < 4 {
					answer(w)
					return true
				}
				return false
			}
			work(t, s, runner.Worker{Tools: []runner.Tool{echo}})
			s.add(task{key: "t1", tool: "echo"}, true)
			s.settled("t1")
			s.with("t1", func(tk *task) {
				require.GreaterOrEqual(t, len(tk.commits), 4)
				for _, body := range tk.commits {
					require.Equal(t, tk.commits[0], body, "the same report under the same token")
				}
			})
		})
	}
}

func TestRetryAfterIsObeyed(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	var refused, again time.Time
	s.fault = func(w http.ResponseWriter, verb string, tk *task) bool {
		if verb != "commit" {
			return false
		}
		if len(tk.commits) == 1 {
			refused = time.Now()
			w.Header().Set("Retry-After", "1")
			refuse(w, 429, "rate_limited")
			return true
		}
		again = time.Now()
		return false
	}
	work(t, s, runner.Worker{Tools: []runner.Tool{echo}})
	s.add(task{key: "t1", tool: "echo"}, true)
	s.settled("t1")
	s.with("t1", func(*task) { require.GreaterOrEqual(t, again.Sub(refused), time.Second) })
}

func TestARefusedResultIsReplacedByAnError(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.fault = func(w http.ResponseWriter, verb string, tk *task) bool {
		if verb == "commit" && len(tk.commits) == 1 {
			refuse(w, 422, "result_too_large")
			return true
		}
		return false
	}
	work(t, s, runner.Worker{Tools: []runner.Tool{echo}})
	s.add(task{key: "t1", tool: "echo"}, true)
	body := s.settled("t1")
	require.Contains(t, body, "result_too_large: staged by the test")
	require.Contains(t, body, `"is_error":true`)
	require.Equal(t, 2, s.count("commit t1"))
}

func TestACommitAfterTheClaimIsFinal(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"claim_expired", "claim_canceled", "stale_claim", "result_unstorable"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.fault = func(w http.ResponseWriter, verb string, tk *task) bool {
				if verb == "commit" && tk.key == "t1" {
					tk.settled = true
					refuse(w, 409, code)
					return true
				}
				return false
			}
			work(t, s, runner.Worker{Tools: []runner.Tool{echo}, Slots: 1})
			s.add(task{key: "t1", tool: "echo"}, true)
			s.add(task{key: "t2", tool: "echo"}, true)
			s.settled("t2") // by the same slot, so t1 is over
			require.Equal(t, 1, s.count("commit t1"))
		})
	}
}
