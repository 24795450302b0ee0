package main

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"uuid"

	"github.com/toolpark/toolpark/internal/postgres"
)

// AdminCmd manages who may use an installation, straight in its database.
type AdminCmd struct {
	DatabaseConfig `embed:""`
	In             string `name:"in" env:"TOOLPARK_ACCOUNT" placeholder:"ACCOUNT" help:"The account's id. Not needed while there is only one."`
	JSON           bool   `name:"json" help:"Print JSON instead of a table."`

	Account    AccountCmd    `cmd:"" help:"Tenants."`
	Member     MemberCmd     `cmd:"" help:"Humans and agents."`
	Executor   ExecutorCmd   `cmd:"" help:"Runners and tools providers."`
	Credential CredentialCmd `cmd:"" help:"Bearers of members and executors."`
	Retention  RetentionCmd  `cmd:"" help:"How long the details of ended runs are kept."`

	db *postgres.DB
}

// adminConnections is enough: a command does one thing after the other.
const adminConnections = 2

// AfterApply opens the database for the subcommand that runs next. That it cannot is no misuse of the command line.
func (c *AdminCmd) AfterApply(ctx context.Context) (err error) {
	if c.db, err = postgres.Open(ctx, c.DatabaseURL, adminConnections); err != nil {
		return exitError{1, err}
	}
	return nil
}

// account is the account that the command is about.
func (c *AdminCmd) account(ctx context.Context) (uuid.UUID, error) {
	account, err := c.wholeAccount(ctx)
	return account.ID, err
}

func (c *AdminCmd) wholeAccount(ctx context.Context) (postgres.Account, error) {
	accounts, err := c.db.Accounts(ctx)
	if err != nil {
		return postgres.Account{}, err
	}
	for _, account := range accounts {
		if account.ID.String() == c.In || (c.In == "" && len(accounts) == 1) {
			return account, nil
		}
	}
	switch {
	case len(accounts) == 0:
		return postgres.Account{}, fmt.Errorf("there is no account yet; make one with: toolpark admin account create NAME")
	case c.In == "":
		return postgres.Account{}, fmt.Errorf("there are %d accounts; say which with --in ACCOUNT", len(accounts))
	}
	return postgres.Account{}, fmt.Errorf("there is no account %s", c.In)
}

// member finds a member by handle or id.
func (c *AdminCmd) member(ctx context.Context, account uuid.UUID, name string) (postgres.Member, error) {
	members, err := c.db.Members(ctx, account)
	if err != nil {
		return postgres.Member{}, err
	}
	for _, member := range members {
		if member.Handle == name || member.ID.String() == name {
			return member, nil
		}
	}
	return postgres.Member{}, fmt.Errorf("there is no member %s in this account", name)
}

// executor finds an executor by id, or by identifier while only one has it.
func (c *AdminCmd) executor(ctx context.Context, account uuid.UUID, name string) (postgres.ExecutorDescription, error) {
	executors, err := c.db.Executors(ctx, account)
	if err != nil {
		return postgres.ExecutorDescription{}, err
	}
	var found []postgres.ExecutorDescription
	for _, executor := range executors {
		if executor.ID.String() == name || executor.Identifier == name {
			found = append(found, executor)
		}
	}
	switch len(found) {
	case 0:
		return postgres.ExecutorDescription{}, fmt.Errorf("there is no executor %s in this account", name)
	case 1:
		return found[0], nil
	}
	return postgres.ExecutorDescription{}, fmt.Errorf("%d executors are called %s; use the id", len(found), name)
}

// print writes a value as JSON, or its rows as a table under a header.
func (c *AdminCmd) print(value any, header []string, rows [][]string) error {
	if c.JSON {
		text, err := json.Marshal(value, jsontext.WithIndent("  "), json.Deterministic(true))
		if err != nil {
			return err
		}
		_, err = fmt.Println(string(text))
		return err
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, strings.ToUpper(strings.Join(header, "\t")))
	for _, row := range rows {
		fmt.Fprintln(out, strings.Join(row, "\t"))
	}
	return out.Flush()
}

// expiry is when something made now ends; nil when it does not.
func expiry(after time.Duration) *time.Time {
	if after == 0 {
		return nil
	}
	at := time.Now().Add(after)
	return &at
}

func optional[T fmt.Stringer](v *T) string {
	if v == nil {
		return "-"
	}
	return (*v).String()
}

func instant(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Format(time.RFC3339)
}
