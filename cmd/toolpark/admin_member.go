package main

import (
	"context"
	"fmt"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/postgres"
)

// MemberCmd manages humans and agents.
type MemberCmd struct {
	Create MemberCreateCmd `cmd:"" help:"Make a human, or an agent with its own address."`
	List   MemberListCmd   `cmd:"" help:"List members."`
	Remove MemberRemoveCmd `cmd:"" help:"End a member's access at once."`
}

// MemberCreateCmd makes a member.
type MemberCreateCmd struct {
	Kind      string `arg:"" enum:"human,agent" help:"human or agent."`
	Handle    string `arg:"" help:"2 to 32 of a-z, 0-9, _ and -; unique in the account."`
	Name      string `help:"Display name; the handle when left out."`
	Admin     bool   `help:"A human who may read every run of the account."`
	Steward   string `placeholder:"HANDLE" help:"The human an agent answers to."`
	MayDecide bool   `help:"An agent that may approve and deny, its own calls included."`
}

// Validate refuses flags that the kind does not have.
func (c *MemberCreateCmd) Validate() error {
	switch {
	case c.Kind == "agent" && c.Steward == "":
		return fmt.Errorf("an agent needs --steward HANDLE")
	case c.Kind == "agent" && c.Admin:
		return fmt.Errorf("only a human may be --admin")
	case c.Kind == "human" && (c.Steward != "" || c.MayDecide):
		return fmt.Errorf("--steward and --may-decide are for agents")
	}
	return nil
}

// Run makes the member and prints it.
func (c *MemberCreateCmd) Run(ctx context.Context, admin *AdminCmd) error {
	account, err := admin.account(ctx)
	if err != nil {
		return err
	}
	name := c.Name
	if name == "" {
		name = c.Handle
	}
	var member postgres.Member
	if c.Kind == "agent" {
		var steward postgres.Member
		if steward, err = admin.member(ctx, account, c.Steward); err != nil {
			return err
		}
		member, err = admin.db.CreateAgent(ctx, account, steward.ID, c.Handle, name, c.MayDecide)
	} else {
		role := toolpark.RoleMember
		if c.Admin {
			role = toolpark.RoleAdmin
		}
		member, err = admin.db.CreateHuman(ctx, account, c.Handle, name, role)
	}
	if err != nil {
		return err
	}
	return printMembers(admin, member, []postgres.Member{member})
}

// MemberListCmd lists members.
type MemberListCmd struct{}

// Run prints all members of the account.
func (MemberListCmd) Run(ctx context.Context, admin *AdminCmd) error {
	account, err := admin.account(ctx)
	if err != nil {
		return err
	}
	members, err := admin.db.Members(ctx, account)
	if err != nil {
		return err
	}
	return printMembers(admin, members, members)
}

// MemberRemoveCmd removes a member.
type MemberRemoveCmd struct {
	Member string `arg:"" help:"Handle or id."`
}

// Run removes the member; an agent's own address is revoked with it.
func (c *MemberRemoveCmd) Run(ctx context.Context, admin *AdminCmd) error {
	account, err := admin.account(ctx)
	if err != nil {
		return err
	}
	member, err := admin.member(ctx, account, c.Member)
	if err != nil {
		return err
	}
	if err := admin.db.RemoveMember(ctx, account, member.ID); err != nil {
		return err
	}
	member.Status = "removed"
	return printMembers(admin, member, []postgres.Member{member})
}

func printMembers(admin *AdminCmd, value any, members []postgres.Member) error {
	var rows [][]string
	for _, m := range members {
		rows = append(rows, []string{
			m.ID.String(), string(m.Kind), m.Handle, string(m.Role), m.Status, optional(m.StewardID), optional(m.ExecutorID),
		})
	}
	return admin.print(value, []string{"member", "kind", "handle", "role", "status", "steward", "own address"}, rows)
}
