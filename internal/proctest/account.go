package proctest

import (
	"context"
	"encoding/json/jsontext"
	"uuid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/credential"
	"github.com/toolpark/toolpark/internal/postgres"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
)

// Account is a tenant with a person and an agent that answers to her.
type Account struct {
	ID         uuid.UUID
	HumanToken string
	AgentToken string

	db    *postgres.DB
	human uuid.UUID
}

// Executor is a runner of the account and its bearer.
type Executor struct {
	ID    uuid.UUID
	Token string
}

// NewAccount makes a tenant.
func NewAccount(ctx context.Context, db *postgres.DB) (*Account, error) {
	made, err := db.CreateAccount(ctx, "proctest")
	if err != nil {
		return nil, err
	}
	human, err := db.CreateHuman(ctx, made.ID, "ada", "Ada", toolpark.RoleAdmin)
	if err != nil {
		return nil, err
	}
	robot, err := db.CreateAgent(ctx, made.ID, human.ID, "robot", "Robot", false)
	if err != nil {
		return nil, err
	}
	a := &Account{ID: made.ID, db: db, human: human.ID}
	if _, a.HumanToken, err = postgres.CreateCredential(ctx, db.Pool, made.ID, credential.Member, human.ID, "", nil); err != nil {
		return nil, err
	}
	_, a.AgentToken, err = postgres.CreateCredential(ctx, db.Pool, made.ID, credential.Member, robot.ID, "", nil)
	return a, err
}

// Runner makes a runner that takes any call of the account.
func (a *Account) Runner(ctx context.Context, identifier string) (Executor, error) {
	made, err := a.db.CreateExecutor(ctx, a.ID, postgres.NewExecutor{
		Kind: toolpark.Runner, DisplayName: identifier, Identifier: identifier, AssignmentScope: toolpark.AccountWide,
		Manager: a.human,
	})
	if err != nil {
		return Executor{}, err
	}
	_, token, err := postgres.CreateCredential(ctx, a.db.Pool, a.ID, credential.Executor, made.ID, "", nil)
	return Executor{ID: made.ID, Token: token}, err
}

// Effect profiles of tools whose lost claims may, and may not, be taken as if nothing had happened.
var (
	ReadOnly = toolpark.EffectProfile{Kind: toolpark.EffectReadOnly, EffectScope: toolpark.ScopeClosed, Idempotency: toolpark.IdempotentBy, Reconciliation: toolpark.ReconcileNone}
	Writes   = toolpark.EffectProfile{Kind: toolpark.EffectWrite, Destructive: true, EffectScope: toolpark.ScopeOpen, Idempotency: toolpark.IdempotentNone, Reconciliation: toolpark.ReconcileNone}
)

// Entry announces a tool that takes any object.
func Entry(name string, effect toolpark.EffectProfile) runner.Entry {
	return runner.Entry{
		Name: name, Description: "Does " + name + ".", EffectProfile: effect, InputSchema: jsontext.Value(`{"type":"object"}`),
	}
}

// Declare is the definition by which a model calls a tool of an executor under a name.
func Declare(callable string, e Executor, entry runner.Entry) (jsontext.Value, error) {
	return agent.Executor{PublicID: e.ID.String()}.Declare(callable, agent.ServedTool{
		Name: entry.Name, Description: entry.Description, InputSchema: entry.InputSchema,
	})
}
