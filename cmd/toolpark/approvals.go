package main

import (
	"bufio"
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/envelope"
	"github.com/toolpark/toolpark/sdk/agent"
)

// ApprovalsCmd shows the calls that wait for a decision, and decides.
type ApprovalsCmd struct {
	Connection `embed:""`
	JSON       bool `name:"json" help:"Print JSON, and ask nothing."`
	Full       bool `help:"Show inputs whole, however long."`

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

// Statuses of toolpark approvals beside 0.
const (
	exitNotDecided = 1 // a decision did not take, or the approved call could not run
	exitNoAnswer   = 2 // wrong usage, or the API refused or could not be reached
)

// desk is where a person sees calls and decides.
type desk struct {
	*agent.Client
	in      *bufio.Reader
	forget  func() // drops what was typed before a question was asked: it is no answer to it
	out     io.Writer
	edit    func(context.Context, []byte) ([]byte, error)
	columns int
	full    bool
	json    bool
}

func (c *ApprovalsCmd) desk() (*desk, error) {
	client, _, err := c.client(personOf)
	if err != nil {
		return nil, exitError{exitNoAnswer, err}
	}
	d := &desk{
		Client: client, in: bufio.NewReader(os.Stdin), forget: func() { forgetTyped(os.Stdin) }, out: os.Stdout,
		edit: runEditor, columns: 80, full: c.Full, json: c.JSON,
	}
	if columns, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && columns > 0 {
		d.columns = columns
	}
	return d, nil
}

// ApprovalsListCmd shows what waits for a decision.
type ApprovalsListCmd struct {
	InRun  string        `name:"run" placeholder:"ID" help:"Only calls of this run."`
	Tool   string        `placeholder:"NAME" help:"Only calls of this tool, by the name it is served under."`
	MinAge time.Duration `placeholder:"DURATION" help:"Only calls that wait for at least so long, such as 10m."`
	Watch  bool          `help:"Go on, and look every 2 seconds."`
}

// watchEvery is how long --watch waits between two looks.
const watchEvery = 2 * time.Second

// Run lists the calls and, when a person sits there, asks about each.
func (c *ApprovalsListCmd) Run(ctx context.Context, all *ApprovalsCmd) error {
	if c.Watch && all.JSON {
		return exitError{exitNoAnswer, errors.New("--json prints one list; it does not go with --watch")}
	}
	d, err := all.desk()
	if err != nil {
		return err
	}
	filter := agent.WaitingFilter{Run: c.InRun, Tool: c.Tool, MinAge: c.MinAge}
	decides := !all.JSON && term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd()))
	switch err := d.list(ctx, filter, decides, c.Watch); {
	case ctx.Err() != nil && !c.Watch:
		return exitError{exitNoAnswer, errors.New("interrupted: what was decided stands, the rest waits")}
	case err != nil && ctx.Err() == nil:
		return exitError{exitNoAnswer, err}
	}
	return nil
}

// list shows what waits and decides about it, once or until the context ends.
func (d *desk) list(ctx context.Context, filter agent.WaitingFilter, decides, watch bool) error {
	seen := map[string]bool{}
	for {
		waiting, err := d.Approvals(ctx, filter)
		if err != nil && (!watch || !agent.Retryable(err)) {
			return fmt.Errorf("list what waits for approval: %w", err)
		}
		if d.json {
			return d.printJSON(waiting)
		}
		waiting = slices.DeleteFunc(waiting, func(w agent.Waiting) bool { return seen[generation(w)] })
		switch {
		case err != nil:
			fmt.Fprintf(os.Stderr, "toolpark: trying again: %v\n", err)
		case len(waiting) == 0 && len(seen) == 0:
			fmt.Fprintln(d.out, "No call waits for approval.")
			seen[""] = true // said
		}
		for i, w := range waiting {
			seen[generation(w)] = true
			if !decides {
				d.show(w)
				continue
			}
			fmt.Fprintf(d.out, "%d of %d\n", i+1, len(waiting))
			if more, err := d.ask(ctx, w); err != nil || !more {
				return err
			}
		}
		if !watch {
			return nil
		}
		if err := pause(ctx, watchEvery); err != nil {
			return err
		}
	}
}

// generation names what is decided about.
func generation(w agent.Waiting) string {
	return fmt.Sprintf("%s/%s/%d", w.Run, w.TaskKey, w.Generation)
}

func (d *desk) printJSON(value any) error {
	text, err := json.Marshal(value, jsontext.WithIndent("  "), jsontext.AllowDuplicateNames(true), jsontext.PreserveRawStrings(true),
		json.FormatNilSliceAsNull(false))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(d.out, visible(string(text)))
	return err
}

// CallRef names a call as it is shown: RUN/KEY.
type CallRef struct{ Run, Key string }

// UnmarshalText reads RUN/KEY.
func (r *CallRef) UnmarshalText(text []byte) error {
	var ok bool
	r.Run, r.Key, ok = strings.Cut(string(text), "/")
	if !ok || r.Run == "" || r.Key == "" || strings.Contains(r.Key, "/") {
		return errors.New("expected RUN/KEY, as toolpark approvals shows it")
	}
	return nil
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

// decided says what came of a decision that was made without asking anybody.
func (d *desk) decided(task *agent.Task, err error, as string) error {
	switch {
	case codeOf(err) == toolpark.CodeNotAwaitingApproval:
		return exitError{exitNotDecided, err}
	case err != nil:
		return exitError{exitNoAnswer, err}
	case d.json && task == nil:
		err = d.printJSON(map[string]any{"decision": map[string]string{"status": "pending"}})
	case d.json:
		err = d.printJSON(task.Raw)
	default:
		fmt.Fprintln(d.out, outcome(task, as))
	}
	if err == nil && as == "approved" && task != nil && task.Status == toolpark.Failed {
		return exitError{exitNotDecided, errors.New("the approved call could not run")}
	}
	return err
}

// outcome says what a decision made of a call.
func outcome(task *agent.Task, as string) string {
	switch {
	case task == nil:
		return as + ", and no worker has taken note yet; it will"
	case as == "approved" && task.Error != nil:
		return as + ", but it did not run: " + line(envelope.Failure(*task.Error))
	}
	return as
}

func codeOf(err error) toolpark.Code {
	if e, ok := errors.AsType[*toolpark.Error](err); ok {
		return e.Code
	}
	return ""
}
