package kerneltest

import (
	"context"
	"encoding/json/jsontext"
	"net/http"
	"time"
	"uuid"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/credential"
	"github.com/toolpark/toolpark/internal/postgres"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
)

// Account is a tenant with a human administrator, an agent that answers to her, and the agent's own
// address.
type Account struct {
	*Kernel
	ID      uuid.UUID
	Admin   Member
	Agent   Member
	AgentAt Executor // the agent's own application
}

// Member is a human or an agent with a bearer.
type Member struct {
	*agent.Client
	ID uuid.UUID
}

// Executor is a delivery address with a bearer.
type Executor struct {
	*runner.Client
	ID uuid.UUID
}

// Account makes a tenant.
func (k *Kernel) Account() *Account {
	k.T.Helper()
	ctx := k.T.Context()
	made, err := k.DB.CreateAccount(ctx, "test")
	require.NoError(k.T, err)
	a := &Account{Kernel: k, ID: made.ID}
	human, err := k.DB.CreateHuman(ctx, a.ID, "ada", "Ada", toolpark.RoleAdmin)
	require.NoError(k.T, err)
	a.Admin = a.member(human.ID)
	robot, err := k.DB.CreateAgent(ctx, a.ID, human.ID, "robot", "Robot", false)
	require.NoError(k.T, err)
	a.Agent = a.member(robot.ID)
	a.AgentAt = a.executor(*robot.ExecutorID)
	return a
}

// Human makes one more person of the account, who is no administrator.
func (a *Account) Human(handle string) Member {
	a.T.Helper()
	human, err := a.DB.CreateHuman(a.T.Context(), a.ID, handle, handle, toolpark.RoleMember)
	require.NoError(a.T, err)
	return a.member(human.ID)
}

// Runner makes a runner of the whole account.
func (a *Account) Runner(identifier string) Executor {
	a.T.Helper()
	return a.Executor(toolpark.Runner, identifier, toolpark.AccountWide)
}

// Executor makes an executor that the administrator manages.
func (a *Account) Executor(kind toolpark.ExecutorKind, identifier string, scope toolpark.Scope) Executor {
	a.T.Helper()
	made, err := a.DB.CreateExecutor(a.T.Context(), a.ID, postgres.NewExecutor{
		Kind: kind, DisplayName: identifier, Identifier: identifier, AssignmentScope: scope, Manager: a.Admin.ID,
	})
	require.NoError(a.T, err)
	return a.executor(made.ID)
}

func (a *Account) member(id uuid.UUID) Member {
	return Member{ID: id, Client: &agent.Client{BaseURL: a.URL, HTTP: a.HTTP, Token: a.Bearer(credential.Member, id)}}
}

func (a *Account) executor(id uuid.UUID) Executor {
	return Executor{ID: id, Client: &runner.Client{BaseURL: a.URL, HTTP: a.HTTP, Token: a.Bearer(credential.Executor, id)}}
}

// Bearer mints a bearer.
func (a *Account) Bearer(plane credential.Plane, owner uuid.UUID) string {
	a.T.Helper()
	_, bearer, err := postgres.CreateCredential(a.T.Context(), a.DB.Pool, a.ID, plane, owner, "", nil)
	require.NoError(a.T, err)
	return bearer
}

// Effect profiles that tests announce.
var (
	ReadOnly = toolpark.EffectProfile{Kind: toolpark.EffectReadOnly, EffectScope: toolpark.ScopeClosed, Idempotency: toolpark.IdempotentBy, Reconciliation: toolpark.ReconcileNone}
	Writes   = toolpark.EffectProfile{Kind: toolpark.EffectWrite, Destructive: true, EffectScope: toolpark.ScopeOpen, Idempotency: toolpark.IdempotentNone, Reconciliation: toolpark.ReconcileNone}
	Keyed    = toolpark.EffectProfile{Kind: toolpark.EffectWrite, EffectScope: toolpark.ScopeOpen, Idempotency: toolpark.IdempotentKeyed, Reconciliation: toolpark.ReconcileNone}
)

// Entry announces a tool that takes any object.
func Entry(name string, effect toolpark.EffectProfile) runner.Entry {
	return runner.Entry{
		Name: name, EffectProfile: effect, Description: "Does " + name + ".", InputSchema: jsontext.Value(`{"type":"object"}`),
	}
}

// Serve announces tools at a runner.
func (a *Account) Serve(r Executor, entries ...runner.Entry) {
	a.T.Helper()
	_, err := r.Announce(a.T.Context(), runner.Announcement{Tools: entries})
	require.NoError(a.T, err)
}

// Run creates a run of the agent that may call every announced tool of the runner under its own name.
func (a *Account) Run(r Executor) string {
	a.T.Helper()
	return a.RunOf(a.Agent, r)
}

// RunOf is Run for another member.
func (a *Account) RunOf(m Member, r Executor) string {
	a.T.Helper()
	served, err := m.Executor(a.T.Context(), r.ID.String())
	require.NoError(a.T, err)
	var definitions []jsontext.Value
	for _, tool := range served.ServedTools {
		if !tool.ModelVisible() {
			continue
		}
		definition, err := served.Declare(tool.Name, tool)
		require.NoError(a.T, err)
		definitions = append(definitions, definition)
	}
	return a.RunWith(m, r.ID.String(), definitions...)
}

// RunWith creates a run with explicit definitions.
func (a *Account) RunWith(m Member, defaultRunner string, definitions ...jsontext.Value) string {
	a.T.Helper()
	run, err := m.CreateRun(a.T.Context(), agent.NewRun{
		DefaultRunner: defaultRunner,
		Configuration: &agent.Configuration{ToolDefinitions: definitions, ApprovalMode: "bypass"},
	})
	require.NoError(a.T, err)
	require.Equal(a.T, toolpark.RunRunning, run.Status)
	return run.PublicID
}

// Work serves tools at a runner until the test ends or stop is called.
func (a *Account) Work(r Executor, slots int, tools ...runner.Tool) (stop func()) {
	a.T.Helper()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = slots + 2
	client := &runner.Client{BaseURL: r.BaseURL, Token: r.Token, HTTP: &http.Client{Transport: transport}}
	w := &runner.Worker{Client: client, Tools: tools, Slots: slots, Grace: time.Second, Log: a.Log}
	return background(a.T, func(ctx context.Context) {
		if err := w.Run(ctx); err != nil {
			a.T.Errorf("runner: %v", err)
		}
		transport.CloseIdleConnections()
	})
}
