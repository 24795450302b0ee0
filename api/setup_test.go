package api_test

import (
	"bytes"
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"uuid"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/api"
	"github.com/toolpark/toolpark/api/apitest"
	"github.com/toolpark/toolpark/internal/credential"
	"github.com/toolpark/toolpark/internal/devstack/devtest"
	"github.com/toolpark/toolpark/internal/postgres"
)

// door is a running API over a database of the test's own.
type door struct {
	*api.Server
	t    *testing.T
	url  string
	http *http.Client // every exchange is held to the OpenAPI document
	logs *syncBuffer

	temporalDown atomic.Bool
}

func newDoor(t *testing.T) *door {
	t.Helper()
	return newDoorOver(t, devtest.Database(t))
}

func newDoorOver(t *testing.T, databaseURL string) *door {
	t.Helper()
	db, err := postgres.Open(t.Context(), databaseURL, 10)
	require.NoError(t, err)
	t.Cleanup(db.Close)
	logs := &syncBuffer{}
	server := &api.Server{
		DB:      db,
		Log:     slog.New(slog.NewJSONHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Metrics: prometheus.NewRegistry(),
	}
	d := &door{Server: server, t: t, logs: logs}
	server.Temporal = func(context.Context) error {
		if d.temporalDown.Load() {
			return errors.New("no")
		}
		return nil
	}
	listener := httptest.NewServer(server.Handler())
	t.Cleanup(listener.Close)
	d.url = listener.URL
	d.http = &http.Client{Transport: apitest.NewValidator(t).Transport(listener.Client().Transport)}
	return d
}

// syncBuffer is a log that may be read while it is written.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// answer is what came back.
type answer struct {
	t      *testing.T
	Status int
	Header http.Header
	Body   jsontext.Value
}

// send makes a request as the holder of the bearer. The headers are name, value, name, value …
func (d *door) send(method, path, bearer, body string, headers ...string) answer {
	d.t.Helper()
	return d.sendAs(d.t.Context(), method, path, bearer, body, headers...)
}

// sendBad is send for a request that is wrong on purpose.
func (d *door) sendBad(method, path, bearer, body string, headers ...string) answer {
	d.t.Helper()
	return d.sendAs(apitest.BadRequest(d.t.Context()), method, path, bearer, body, headers...)
}

func (d *door) sendAs(ctx context.Context, method, path, bearer, body string, headers ...string) answer {
	d.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, d.url+path, strings.NewReader(body))
	require.NoError(d.t, err)
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := d.http.Do(r)
	require.NoError(d.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(d.t, err)
	return answer{t: d.t, Status: response.StatusCode, Header: response.Header, Body: text}
}

// get reads the value at a JSON pointer of the body; nil when there is none.
func (a answer) get(pointer string) any {
	a.t.Helper()
	var value any
	require.NoError(a.t, json.Unmarshal(a.Body, &value), "%s", a.Body)
	for token := range jsontext.Pointer(pointer).Tokens() {
		object, _ := value.(map[string]any)
		value = object[token]
	}
	return value
}

// refused checks that the answer is the one error shape with this status and code.
func (a answer) refused(status int, code toolpark.Code) answer {
	a.t.Helper()
	require.Equal(a.t, status, a.Status, "%s", a.Body)
	require.Equal(a.t, string(code), a.get("/error/code"), "%s", a.Body)
	require.NotEmpty(a.t, a.get("/error/message"))
	require.Equal(a.t, "application/json; charset=utf-8", a.Header.Get("Content-Type"))
	return a
}

func (a answer) ok(status int) answer {
	a.t.Helper()
	require.Equal(a.t, status, a.Status, "%s", a.Body)
	return a
}

// tenant is an account with a human, an agent of theirs, a runner of theirs, and a bearer of each.
type tenant struct {
	account                 uuid.UUID
	human, agent            postgres.Member
	runner                  uuid.UUID
	humanBearer, botBearer  string
	runnerBearer, appBearer string
}

func (d *door) newTenant() tenant {
	d.t.Helper()
	ctx := d.t.Context()
	account, err := d.DB.CreateAccount(ctx, "acme")
	require.NoError(d.t, err)
	human, err := d.DB.CreateHuman(ctx, account.ID, "ada", "Ada", toolpark.RoleMember)
	require.NoError(d.t, err)
	agent, err := d.DB.CreateAgent(ctx, account.ID, human.ID, "bot", "Bot", false)
	require.NoError(d.t, err)
	tn := tenant{account: account.ID, human: human, agent: agent}
	tn.humanBearer = d.mint(tn.account, credential.Member, human.ID)
	tn.botBearer = d.mint(tn.account, credential.Member, agent.ID)
	tn.appBearer = d.mint(tn.account, credential.Executor, *agent.ExecutorID)
	tn.runner, tn.runnerBearer = d.newExecutor(tn, toolpark.Runner, "box", toolpark.UserPrivate)
	return tn
}

// newExecutor makes an executor that the tenant's human manages.
func (d *door) newExecutor(tn tenant, kind toolpark.ExecutorKind, identifier string, scope toolpark.Scope) (uuid.UUID, string) {
	d.t.Helper()
	executor, err := d.DB.CreateExecutor(d.t.Context(), tn.account, postgres.NewExecutor{
		Kind: kind, Manager: tn.human.ID, Identifier: identifier, DisplayName: identifier, AssignmentScope: scope,
	})
	require.NoError(d.t, err)
	return executor.ID, d.mint(tn.account, credential.Executor, executor.ID)
}

func (d *door) mint(account uuid.UUID, plane credential.Plane, owner uuid.UUID) string {
	d.t.Helper()
	_, bearer, err := postgres.CreateCredential(d.t.Context(), d.DB.Pool, account, plane, owner, "", nil)
	require.NoError(d.t, err)
	return bearer
}
