package main

import (
	"context"
	"errors"
	"fmt"
	"time"
	"uuid"

	"github.com/jackc/pgx/v5"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/postgres"
)

// ExecutorCmd manages delivery addresses for work.
type ExecutorCmd struct {
	Create        ExecutorCreateCmd `cmd:"" help:"Make a runner or a tools provider."`
	List          ExecutorListCmd   `cmd:"" help:"List executors."`
	Revoke        ExecutorRevokeCmd `cmd:"" help:"End an executor for good."`
	RepairPairing ExecutorRepairCmd `cmd:"" help:"End all credentials of an executor and mint a new one."`
}

// ExecutorCreateCmd makes an executor.
type ExecutorCreateCmd struct {
	Kind       toolpark.ExecutorKind `arg:"" enum:"runner,tools_provider" help:"runner or tools_provider."`
	Identifier string                `arg:"" help:"Unique among the manager's executors."`
	Manager    string                `required:"" placeholder:"HANDLE" help:"The human who answers for it."`
	Name       string                `help:"Display name; the identifier when left out."`
	Scope      toolpark.Scope        `default:"user_private" enum:"user_private,account_wide" help:"Whose calls it takes: user_private, or account_wide."`
}

// Run makes the executor and prints it.
func (c *ExecutorCreateCmd) Run(ctx context.Context, admin *AdminCmd) error {
	account, err := admin.account(ctx)
	if err != nil {
		return err
	}
	manager, err := admin.member(ctx, account, c.Manager)
	if err != nil {
		return err
	}
	name := c.Name
	if name == "" {
		name = c.Identifier
	}
	executor, err := admin.db.CreateExecutor(ctx, account, postgres.NewExecutor{
		Kind: c.Kind, Manager: manager.ID, Identifier: c.Identifier, DisplayName: name, AssignmentScope: c.Scope,
	})
	if err != nil {
		return err
	}
	return printExecutor(admin, executor)
}

// ExecutorListCmd lists executors.
type ExecutorListCmd struct{}

// Run prints all executors of the account.
func (ExecutorListCmd) Run(ctx context.Context, admin *AdminCmd) error {
	account, err := admin.account(ctx)
	if err != nil {
		return err
	}
	executors, err := admin.db.Executors(ctx, account)
	if err != nil {
		return err
	}
	lines := make([]executorLine, len(executors))
	for i, executor := range executors {
		lines[i] = newExecutorLine(executor)
	}
	return printExecutors(admin, lines, lines)
}

// ExecutorRevokeCmd revokes an executor.
type ExecutorRevokeCmd struct {
	Executor string `arg:"" help:"Id, or identifier."`
}

// Run revokes the executor: no credential of it works again.
func (c *ExecutorRevokeCmd) Run(ctx context.Context, admin *AdminCmd) error {
	account, err := admin.account(ctx)
	if err != nil {
		return err
	}
	executor, err := admin.executor(ctx, account, c.Executor)
	if err != nil {
		return err
	}
	err = admin.db.RevokeExecutor(ctx, account, executor.ID)
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("executor %s is revoked already", executor.ID)
	}
	if err != nil {
		return err
	}
	executor.Status = "revoked"
	return printExecutor(admin, executor)
}

// ExecutorRepairCmd pairs an executor anew.
type ExecutorRepairCmd struct {
	Executor string        `arg:"" help:"Id, or identifier."`
	Expires  time.Duration `placeholder:"720h" help:"How long the new credential works; for ever when left out."`
}

// Run advances the epoch and shows the new credential's bearer, once.
func (c *ExecutorRepairCmd) Run(ctx context.Context, admin *AdminCmd) error {
	account, err := admin.account(ctx)
	if err != nil {
		return err
	}
	executor, err := admin.executor(ctx, account, c.Executor)
	if err != nil {
		return err
	}
	made, bearer, err := admin.db.RepairPairing(ctx, account, executor.ID, expiry(c.Expires))
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("executor %s is revoked", executor.ID)
	}
	if err != nil {
		return err
	}
	return printBearer(admin, made, bearer)
}

// executorLine is an executor without what it serves.
type executorLine struct {
	ID              uuid.UUID             `json:"id"`
	Kind            toolpark.ExecutorKind `json:"kind"`
	Identifier      string                `json:"identifier"`
	DisplayName     string                `json:"display_name"`
	Status          string                `json:"status"`
	AssignmentScope toolpark.Scope        `json:"assignment_scope"`
	CredentialEpoch int                   `json:"credential_epoch"`
	ShuttingDown    bool                  `json:"shutting_down"`
	LastSeenAt      *time.Time            `json:"last_seen_at"`
}

func newExecutorLine(e postgres.ExecutorDescription) executorLine {
	return executorLine{
		ID: e.ID, Kind: e.Kind, Identifier: e.Identifier, DisplayName: e.DisplayName, Status: e.Status,
		AssignmentScope: e.AssignmentScope, CredentialEpoch: e.CredentialEpoch, ShuttingDown: e.ShuttingDown,
		LastSeenAt: e.LastSeenAt,
	}
}

func printExecutor(admin *AdminCmd, executor postgres.ExecutorDescription) error {
	line := newExecutorLine(executor)
	return printExecutors(admin, line, []executorLine{line})
}

func printExecutors(admin *AdminCmd, value any, lines []executorLine) error {
	var rows [][]string
	for _, e := range lines {
		rows = append(rows, []string{
			e.ID.String(), string(e.Kind), e.Identifier, e.Status, string(e.AssignmentScope), instant(e.LastSeenAt),
		})
	}
	return admin.print(value, []string{"executor", "kind", "identifier", "status", "scope", "last seen"}, rows)
}
