package proctest

import (
	"bytes"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"sync"

	"github.com/toolpark/toolpark/sdk/runner"
)

// Ledger is what executors were told, read off the wire: every grant of a claim, and every commit that
// was answered with a settled task. Executors that are to be audited share one and send their requests
// through its clients.
type Ledger struct {
	mu      sync.Mutex
	grants  map[runner.Ref]map[string]bool // the tokens that a task was granted under
	commits map[taskName][]jsontext.Value  // the settled tasks that commits were answered with
}

type taskName struct{ run, key string }

// NewLedger makes an empty ledger.
func NewLedger() *Ledger {
	return &Ledger{grants: map[runner.Ref]map[string]bool{}, commits: map[taskName][]jsontext.Value{}}
}

// Client notes what passes through it. It keeps so many connections open for requests at once.
func (l *Ledger) Client(connections int) *http.Client {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.MaxIdleConnsPerHost = connections
	return &http.Client{Transport: &noting{ledger: l, base: base}}
}

type noting struct {
	ledger *Ledger
	base   http.RoundTripper
}

func (n *noting) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := n.base.RoundTrip(r)
	if err != nil || r.Method != http.MethodPost || response.StatusCode != http.StatusOK {
		return response, err
	}
	verb := path.Base(r.URL.Path)
	if verb != "claim" && verb != "commit" {
		return response, nil
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, n.ledger.note(r, verb, body)
}

func (l *Ledger) note(r *http.Request, verb string, body []byte) error {
	var answer struct {
		Task  jsontext.Value `json:"task"`
		Claim struct {
			Token string `json:"claim_token"`
		} `json:"claim"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if verb == "commit" {
		key := path.Dir(r.URL.Path)
		name := taskName{run: path.Base(path.Dir(key)), key: path.Base(key)}
		l.commits[name] = append(l.commits[name], answer.Task)
		return nil
	}
	var ref runner.Ref
	if err := json.Unmarshal(answer.Task, &ref); err != nil {
		return err
	}
	if l.grants[ref] == nil {
		l.grants[ref] = map[string]bool{}
	}
	l.grants[ref][answer.Claim.Token] = true
	return nil
}

// Counts are how many tasks were granted, and of how many a commit was answered.
func (l *Ledger) Counts() (granted, answered int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.grants), len(l.commits)
}

// Check holds the ledger against the results as they are read now: no task was granted under two tokens,
// and every commit that was answered with a settled task was told what is still true. Call it when the
// executors are done.
func (l *Ledger) Check(finished []Finished) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for ref, tokens := range l.grants {
		if len(tokens) > 1 {
			errs = append(errs, fmt.Errorf("task %s of run %s was granted %d times", ref.TaskKey, ref.Run, len(tokens)))
		}
	}
	for _, f := range finished {
		for _, round := range f.Rounds {
			for _, result := range round.Results {
				for _, told := range l.commits[taskName{f.Run, result.Key}] {
					if !bytes.Equal(told, result.Raw) {
						errs = append(errs, fmt.Errorf("a commit to task %s of run %s was told\n%s\nbut stored is\n%s",
							result.Key, f.Run, told, result.Raw))
					}
				}
			}
		}
	}
	return errors.Join(errs...)
}
