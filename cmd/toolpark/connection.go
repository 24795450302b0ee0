package main

import (
	"cmp"
	"encoding/json/v2"
	"errors"
	"fmt"
	"os"

	"github.com/toolpark/toolpark/sdk/agent"
)

// Connection says where the API is and who calls it.
type Connection struct {
	URL         string `name:"url" env:"TOOLPARK_URL" placeholder:"URL" help:"The API's address. Default: from the credentials file."`
	Token       string `env:"TOOLPARK_TOKEN" placeholder:"TOKEN" secret:"" help:"A member's bearer. Default: from the credentials file."`
	Credentials string `env:"TOOLPARK_CREDENTIALS" default:".toolpark/credentials.json" help:"The file that toolpark dev writes."`
}

// credentials are what toolpark dev leaves for the other commands.
type credentials struct {
	URL         string `json:"url"`
	AccountID   string `json:"account_id"`
	AgentID     string `json:"agent_public_id"`
	RunnerID    string `json:"runner_public_id"`
	AgentToken  string `json:"agent_token"`
	MemberToken string `json:"member_token"` // of the human whom the agent answers to
	RunnerToken string `json:"runner_token"`
	DatabaseURL string `json:"database_url,omitzero"` // of the private Postgres, when dev runs one
}

// client connects as the member whose bearer is given or, without one, as the member of the credentials file that
// who picks. The file's bearers go to its own server only; used is the file when one of them is used, and empty
// otherwise.
func (c Connection) client(who func(credentials) string) (client *agent.Client, used credentials, err error) {
	var file credentials
	text, err := os.ReadFile(c.Credentials)
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, used, fmt.Errorf("read the credentials in %s: %w", c.Credentials, err)
	}
	client = &agent.Client{BaseURL: c.URL, Token: c.Token}
	if client.BaseURL == "" {
		client.BaseURL = file.URL
	}
	if client.Token == "" && client.BaseURL == file.URL {
		client.Token, used = who(file), file
	}
	if client.BaseURL == "" || client.Token == "" {
		return nil, used, c.missing(file, err != nil)
	}
	return client, used, nil
}

// missing says which of address and bearer is not known, and why the credentials file does not help.
func (c Connection) missing(file credentials, absent bool) error {
	const (
		address = "the API's address, as TOOLPARK_URL or --url"
		bearer  = "a member's bearer, as TOOLPARK_TOKEN or --token"
	)
	switch {
	case absent && c.URL == "" && c.Token == "":
		return fmt.Errorf("there is no credentials file %s: toolpark dev writes one; for another server, give %s, and %s",
			c.Credentials, address, bearer)
	case absent && c.URL == "":
		return fmt.Errorf("there is no credentials file %s that would have the API's address; give %s", c.Credentials, address)
	case absent:
		return fmt.Errorf("there is no credentials file %s that would have a bearer for %s; give %s", c.Credentials, c.URL, bearer)
	case c.URL != "" && c.URL != file.URL:
		return fmt.Errorf("the bearers in %s are for %s, and go to no other server; for %s give %s",
			c.Credentials, cmp.Or(file.URL, "no server"), c.URL, bearer)
	case file.URL == "":
		return fmt.Errorf("the credentials file %s has no url; give %s", c.Credentials, address)
	}
	return fmt.Errorf("the credentials file %s has no bearer for this command; give %s", c.Credentials, bearer)
}

func agentOf(file credentials) string  { return file.AgentToken }
func personOf(file credentials) string { return file.MemberToken }
