package main

import (
	"context"
	"time"

	"github.com/toolpark/toolpark/internal/postgres"
)

// AccountCmd manages tenants.
type AccountCmd struct {
	Create AccountCreateCmd `cmd:"" help:"Make an account."`
	List   AccountListCmd   `cmd:"" help:"List all accounts."`
}

// AccountCreateCmd makes an account.
type AccountCreateCmd struct {
	Name string `arg:"" help:"For people; need not be unique."`
}

// Run makes the account and prints it.
func (c *AccountCreateCmd) Run(ctx context.Context, admin *AdminCmd) error {
	account, err := admin.db.CreateAccount(ctx, c.Name)
	if err != nil {
		return err
	}
	return printAccounts(admin, account, []postgres.Account{account})
}

// AccountListCmd lists accounts.
type AccountListCmd struct{}

// Run prints all accounts.
func (AccountListCmd) Run(ctx context.Context, admin *AdminCmd) error {
	accounts, err := admin.db.Accounts(ctx)
	if err != nil {
		return err
	}
	return printAccounts(admin, accounts, accounts)
}

func printAccounts(admin *AdminCmd, value any, accounts []postgres.Account) error {
	var rows [][]string
	for _, a := range accounts {
		rows = append(rows, []string{a.ID.String(), a.Name, a.CreatedAt.Format(time.RFC3339)})
	}
	return admin.print(value, []string{"account", "name", "created"}, rows)
}
