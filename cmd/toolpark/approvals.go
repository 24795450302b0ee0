package main

import (
	"context"
	"encoding/json/jsontext"
	"errors"
	"fmt"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/sdk/agent"
)

// ApprovalsCmd shows the calls that wait for a decision, and decides.
type ApprovalsCmd struct {
	PersonFlags `embed:""`

	List    ApprovalsListCmd `cmd:"" default:"withargs" help:"Show what waits and, at a terminal, decide one after the other (the default)."`
	Approve ApproveCmd       `cmd:"" help:"Let a call run."`
	Deny    DenyCmd          `cmd:"" help:"Refuse a call."`
}

// Help says who decides, and what the exit status tells.
func (*ApprovalsCmd) Help() string {
	return "You decide as the person of the credentials file, or as the member of --token. An approval is of the input that was " +
		"shown and of no other. Exit status: 0 what was asked is done; 1 a decision did not take, or the approved call " +
		"could not run; 2 wrong usage, or the API refused or could not be reached."
}

// ApprovalsListCmd shows what waits for a decision.
type ApprovalsListCmd struct {
	Look `embed:""`
	Tool string `placeholder:"NAME" help:"Only calls of this tool, by the name it is served under."`
}

// Run lists the calls and, when a person sits there, asks about each.
func (c *ApprovalsListCmd) Run(ctx context.Context, all *ApprovalsCmd) error {
	return all.work(ctx, c.Look, c.Tool, (*desk).calls)
}

// calls are what waits for a decision.
func (d *desk) calls() pile {
	return pile{list: d.Approvals, none: "No call waits for approval.", show: d.show, ask: d.ask}
}

// ApproveCmd lets a call run.
type ApproveCmd struct {
	Call   CallRef `arg:"" placeholder:"RUN/KEY" help:"The call, as the list names it."`
	Digest string  `placeholder:"DIGEST" help:"Of the input that you saw. Default: the call is shown now, and approved as shown."`
	Input  string  `placeholder:"JSON" help:"Run it with this input in place of its own."`
}

// Run approves the call. An input that changed is shown and not approved.
func (c *ApproveCmd) Run(ctx context.Context, all *ApprovalsCmd) error {
	d, err := all.desk()
	if err != nil {
		return err
	}
	return c.approve(ctx, d)
}

func (c *ApproveCmd) approve(ctx context.Context, d *desk) error {
	var input jsontext.Value
	if c.Input != "" {
		if input = jsontext.Value(c.Input); !input.IsValid(jsontext.AllowDuplicateNames(true)) {
			return exitError{exitNoAnswer, errors.New("--input must be JSON")}
		}
	}
	digest := c.Digest
	if digest == "" {
		w, err := d.find(ctx, c.Call)
		if err != nil {
			return err
		}
		if !d.json {
			d.show(w)
		}
		digest = w.InputDigest
	}
	task, err := d.Client.Approve(ctx, c.Call.Run, c.Call.Key, digest, input)
	if codeOf(err) == toolpark.CodeInputChanged {
		w, err := d.find(ctx, c.Call)
		if err != nil {
			return err
		}
		if !d.json {
			d.show(w)
		}
		return exitError{exitNotDecided, fmt.Errorf("not approved: the call waits with the input of digest %s, not of %s",
			line(w.InputDigest), line(digest))}
	}
	return d.decided(task, err, "approved")
}

// DenyCmd refuses a call.
type DenyCmd struct {
	Call   CallRef `arg:"" placeholder:"RUN/KEY" help:"The call, as the list names it."`
	Reason string  `placeholder:"TEXT" help:"What the model reads."`
}

// Run denies the call.
func (c *DenyCmd) Run(ctx context.Context, all *ApprovalsCmd) error {
	d, err := all.desk()
	if err != nil {
		return err
	}
	task, err := d.Client.Deny(ctx, c.Call.Run, c.Call.Key, c.Reason)
	return d.decided(task, err, "denied")
}

// find reads a call that waits.
func (d *desk) find(ctx context.Context, call CallRef) (agent.Waiting, error) {
	waiting, err := d.Approvals(ctx, agent.WaitingFilter{Run: call.Run})
	if err != nil {
		return agent.Waiting{}, exitError{exitNoAnswer, err}
	}
	for _, w := range waiting {
		if w.TaskKey == call.Key {
			return w, nil
		}
	}
	task, err := d.Task(ctx, call.Run, call.Key, 0)
	if err != nil {
		return agent.Waiting{}, exitError{exitNoAnswer, fmt.Errorf("read call %s/%s: %w", call.Run, call.Key, err)}
	}
	return agent.Waiting{}, exitError{exitNotDecided, fmt.Errorf("the call waits for no decision: it is %s", task.Status)}
}
