package main

import (
	"context"
	"errors"
	"fmt"
	"time"
	"uuid"

	"github.com/jackc/pgx/v5"

	"github.com/toolpark/toolpark/internal/credential"
	"github.com/toolpark/toolpark/internal/postgres"
)

// CredentialCmd manages bearers.
type CredentialCmd struct {
	Create CredentialCreateCmd `cmd:"" help:"Mint a bearer for a member or an executor."`
	List   CredentialListCmd   `cmd:"" help:"List credentials."`
	Rotate CredentialRotateCmd `cmd:"" help:"Replace a credential by a new one of the same owner."`
	Revoke CredentialRevokeCmd `cmd:"" help:"End a credential at once."`
}

// CredentialCreateCmd mints a bearer.
type CredentialCreateCmd struct {
	Member   string        `xor:"owner" required:"" placeholder:"HANDLE" help:"The member it is for."`
	Executor string        `xor:"owner" required:"" placeholder:"ID" help:"The executor it is for: id, or identifier."`
	Label    string        `help:"A note for people."`
	Expires  time.Duration `placeholder:"720h" help:"How long it works; for ever when left out."`
}

// Run mints the credential and shows its bearer, once.
func (c *CredentialCreateCmd) Run(ctx context.Context, admin *AdminCmd) error {
	account, err := admin.account(ctx)
	if err != nil {
		return err
	}
	plane, owner, err := c.owner(ctx, admin, account)
	if err != nil {
		return err
	}
	made, bearer, err := postgres.CreateCredential(ctx, admin.db.Pool, account, plane, owner, c.Label, expiry(c.Expires))
	if err != nil {
		return err
	}
	return printBearer(admin, made, bearer)
}

func (c *CredentialCreateCmd) owner(ctx context.Context, admin *AdminCmd, account uuid.UUID) (credential.Plane, uuid.UUID, error) {
	if c.Member != "" {
		member, err := admin.member(ctx, account, c.Member)
		return credential.Member, member.ID, err
	}
	executor, err := admin.executor(ctx, account, c.Executor)
	return credential.Executor, executor.ID, err
}

// CredentialListCmd lists credentials.
type CredentialListCmd struct{}

// Run prints all credentials of the account, never a bearer.
func (CredentialListCmd) Run(ctx context.Context, admin *AdminCmd) error {
	account, err := admin.account(ctx)
	if err != nil {
		return err
	}
	credentials, err := admin.db.Credentials(ctx, account)
	if err != nil {
		return err
	}
	return printCredentials(admin, credentials, credentials)
}

// CredentialRotateCmd replaces a credential.
type CredentialRotateCmd struct {
	Credential string        `arg:"" help:"Id."`
	Expires    time.Duration `placeholder:"720h" help:"How long the new one works; for ever when left out."`
}

// Run revokes the old credential, mints a new one and shows its bearer, once.
func (c *CredentialRotateCmd) Run(ctx context.Context, admin *AdminCmd) error {
	account, id, err := admin.credential(ctx, c.Credential)
	if err != nil {
		return err
	}
	made, bearer, err := admin.db.RotateCredential(ctx, account, id, expiry(c.Expires))
	if err != nil {
		return noCredential(err, c.Credential)
	}
	return printBearer(admin, made, bearer)
}

// CredentialRevokeCmd revokes a credential.
type CredentialRevokeCmd struct {
	Credential string `arg:"" help:"Id."`
}

// Run revokes the credential.
func (c *CredentialRevokeCmd) Run(ctx context.Context, admin *AdminCmd) error {
	account, id, err := admin.credential(ctx, c.Credential)
	if err != nil {
		return err
	}
	revoked, err := postgres.RevokeCredential(ctx, admin.db.Pool, account, id)
	if err != nil {
		return noCredential(err, c.Credential)
	}
	return printCredentials(admin, revoked, []postgres.Credential{revoked})
}

func (c *AdminCmd) credential(ctx context.Context, text string) (account, id uuid.UUID, err error) {
	if id, err = uuid.Parse(text); err != nil {
		return account, id, fmt.Errorf("%q is not a credential's id; see: toolpark admin credential list", text)
	}
	account, err = c.account(ctx)
	return account, id, err
}

func noCredential(err error, id string) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("there is no credential %s in this account that still works", id)
	}
	return err
}

// printBearer shows a new credential. In a table the bearer stands on a line of its own, to be copied.
func printBearer(admin *AdminCmd, made postgres.Credential, bearer string) error {
	value := struct {
		postgres.Credential
		Bearer string `json:"bearer"`
	}{made, bearer}
	if err := printCredentials(admin, value, []postgres.Credential{made}); err != nil || admin.JSON {
		return err
	}
	_, err := fmt.Printf("\nBearer, shown this once:\n%s\n", bearer)
	return err
}

func printCredentials(admin *AdminCmd, value any, credentials []postgres.Credential) error {
	var rows [][]string
	for _, c := range credentials {
		rows = append(rows, []string{
			c.ID.String(), string(c.Plane), c.OwnerID.String(), c.Label, instant(c.ExpiresAt), instant(c.RevokedAt),
		})
	}
	return admin.print(value, []string{"credential", "plane", "owner", "label", "expires", "revoked"}, rows)
}
