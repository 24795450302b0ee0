package main

import (
	"context"
	"crypto/rand"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"uuid"

	"github.com/jackc/pgx/v5"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/credential"
	"github.com/toolpark/toolpark/internal/park"
	"github.com/toolpark/toolpark/internal/postgres"
)

// claimSecret is the secret of claim tokens: made once, so that claims survive a restart.
func (d *dev) claimSecret() (park.Tokens, error) {
	path := filepath.Join(d.state, "claim-secret")
	secret, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		secret = make([]byte, claimSecretBytes)
		rand.Read(secret) // never fails
		err = os.WriteFile(path, secret, 0o600)
	}
	return park.Tokens{Secret: secret}, err
}

// introduce makes sure that there is a demo account whose credentials work, and writes them down for the
// other commands. It makes a new account when those of an earlier start are unknown to the database.
func (d *dev) introduce(ctx context.Context, db *postgres.DB, url, database string) (credentials, error) {
	var access credentials
	text, err := os.ReadFile(d.credentials())
	if err == nil {
		if err := json.Unmarshal(text, &access); err != nil {
			return access, fmt.Errorf("read %s: %w", d.credentials(), err)
		}
		known, err := d.known(ctx, db, access)
		if err != nil {
			return access, err
		}
		if !known {
			access = credentials{}
		}
	}
	if access.AgentToken == "" {
		if access, err = demoAccount(ctx, db); err != nil {
			return access, fmt.Errorf("make the demo account: %w", err)
		}
	}
	access.URL, access.DatabaseURL = url, database
	text, err = json.Marshal(access, jsontext.WithIndent("  "))
	if err != nil {
		return access, err
	}
	return access, os.WriteFile(d.credentials(), append(text, '\n'), 0o600)
}

func (d *dev) known(ctx context.Context, db *postgres.DB, access credentials) (bool, error) {
	for plane, bearer := range map[credential.Plane]string{
		credential.Member: access.AgentToken, credential.Executor: access.RunnerToken,
	} {
		hash, ok := credential.Hash(plane, bearer)
		if !ok {
			return false, nil
		}
		var err error
		if plane == credential.Member {
			_, err = db.MemberByCredential(ctx, hash)
		} else {
			_, _, err = db.ExecutorByCredential(ctx, hash)
		}
		if errors.Is(err, pgx.ErrNoRows) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// demoAccount makes an account with a person, an agent that answers to her, and a runner.
func demoAccount(ctx context.Context, db *postgres.DB) (credentials, error) {
	account, err := db.CreateAccount(ctx, "demo")
	if err != nil {
		return credentials{}, err
	}
	human, err := db.CreateHuman(ctx, account.ID, "you", "You", toolpark.RoleAdmin)
	if err != nil {
		return credentials{}, err
	}
	robot, err := db.CreateAgent(ctx, account.ID, human.ID, "demo-agent", "Demo agent", false)
	if err != nil {
		return credentials{}, err
	}
	runner, err := db.CreateExecutor(ctx, account.ID, postgres.NewExecutor{
		Kind: toolpark.Runner, DisplayName: "demo-runner", Identifier: "demo-runner",
		AssignmentScope: toolpark.AccountWide, Manager: human.ID,
	})
	if err != nil {
		return credentials{}, err
	}
	access := credentials{
		AccountID: account.ID.String(), AgentID: robot.ID.String(), RunnerID: runner.ID.String(),
	}
	for _, mint := range []struct {
		plane credential.Plane
		owner uuid.UUID
		to    *string
	}{
		{credential.Member, human.ID, &access.MemberToken},
		{credential.Member, robot.ID, &access.AgentToken},
		{credential.Executor, runner.ID, &access.RunnerToken},
	} {
		if _, *mint.to, err = postgres.CreateCredential(ctx, db.Pool, account.ID, mint.plane, mint.owner, "toolpark dev", nil); err != nil {
			return credentials{}, err
		}
	}
	return access, nil
}
