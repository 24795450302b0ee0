package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"uuid"

	"github.com/toolpark/toolpark/internal/postgres"
)

// RetentionCmd manages how long the details of ended runs are kept.
type RetentionCmd struct {
	Show RetentionShowCmd `cmd:"" help:"Show what the account keeps."`
	Set  RetentionSetCmd  `cmd:"" help:"Change what the account keeps; the next pruning goes by it."`
}

// RetentionShowCmd shows the retention of an account.
type RetentionShowCmd struct{}

// Run prints it.
func (RetentionShowCmd) Run(ctx context.Context, admin *AdminCmd) error {
	account, err := admin.wholeAccount(ctx)
	if err != nil {
		return err
	}
	return printRetention(admin, account)
}

// maxRetentionDays is a hundred years: longer is for ever, which has a flag of its own.
const maxRetentionDays = 36_500

// RetentionSetCmd changes the retention of an account.
type RetentionSetCmd struct {
	Days *int `xor:"retention" placeholder:"N" help:"Delete the details of a run this many days after its end, 1 to 36500."`
	Keep bool `xor:"retention" help:"Keep them for ever."`
}

// Validate refuses what says nothing, or no possible time.
func (c *RetentionSetCmd) Validate() error {
	switch {
	case c.Days == nil && !c.Keep:
		return errors.New("say how long: --days N, or --keep")
	case c.Days != nil && (*c.Days < 1 || *c.Days > maxRetentionDays):
		return fmt.Errorf("--days must be 1 to %d", maxRetentionDays)
	}
	return nil
}

// Run changes it and prints it.
func (c *RetentionSetCmd) Run(ctx context.Context, admin *AdminCmd) error {
	id, err := admin.account(ctx)
	if err != nil {
		return err
	}
	account, err := admin.db.SetRetention(ctx, id, c.Days)
	if err != nil {
		return err
	}
	return printRetention(admin, account)
}

// retentionLine is what an account keeps.
type retentionLine struct {
	Account uuid.UUID `json:"account_id"`
	Name    string    `json:"name"`
	Days    *int      `json:"execution_details_retention_days"` // null: for ever
}

func printRetention(admin *AdminCmd, account postgres.Account) error {
	line := retentionLine{Account: account.ID, Name: account.Name, Days: account.RetentionDays}
	kept := "for ever"
	if line.Days != nil {
		kept = strconv.Itoa(*line.Days) + " days"
	}
	return admin.print(line, []string{"account", "name", "details kept"}, [][]string{{line.Account.String(), line.Name, kept}})
}
