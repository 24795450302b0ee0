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
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/envelope"
	"github.com/toolpark/toolpark/sdk/agent"
)

// PersonFlags are those of the commands by which a person deals with what waits.
type PersonFlags struct {
	Connection `embed:""`
	JSON       bool `name:"json" help:"Print JSON, and ask nothing."`
	Full       bool `help:"Show what is long whole."`
}

// Look says what of all that waits is listed, and how often.
type Look struct {
	InRun  string        `name:"run" placeholder:"ID" help:"Only what waits in this run."`
	MinAge time.Duration `placeholder:"DURATION" help:"Only what waits for at least so long, such as 10m."`
	Watch  bool          `help:"Go on, and look every 2 seconds. What was skipped is not offered again."`
}

// watchEvery is how long --watch waits between two looks.
const watchEvery = 2 * time.Second

// Statuses of toolpark approvals and toolpark asks beside 0.
const (
	exitNotDecided = 1 // a decision or an answer did not take, or the approved call could not run
	exitNoAnswer   = 2 // wrong usage (exitMisused), or the API refused or could not be reached
)

// desk is where a person sees what waits, and decides.
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

func (c PersonFlags) desk() (*desk, error) {
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

// pile is what waits for a person in one way.
type pile struct {
	list func(context.Context, agent.WaitingFilter) ([]agent.Waiting, error)
	none string // what is said when nothing waits
	show func(agent.Waiting)
	ask  func(context.Context, agent.Waiting) (more bool, err error) // shows it first; more is false to see no more
}

// work shows what waits and, when a person sits there, asks about each.
func (c PersonFlags) work(ctx context.Context, look Look, tool string, of func(*desk) pile) error {
	if look.Watch && c.JSON {
		return exitError{exitNoAnswer, errors.New("--json prints one list; it does not go with --watch")}
	}
	d, err := c.desk()
	if err != nil {
		return err
	}
	filter := agent.WaitingFilter{Run: look.InRun, Tool: tool, MinAge: look.MinAge}
	decides := !c.JSON && term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd()))
	switch err := d.list(ctx, of(d), filter, decides, look.Watch); {
	case ctx.Err() != nil && !look.Watch:
		return exitError{exitNoAnswer, errors.New("interrupted: what was decided stands, the rest waits")}
	case err != nil && ctx.Err() == nil:
		return exitError{exitNoAnswer, err}
	}
	return nil
}

// list shows what waits and decides about it, once or until the context ends.
func (d *desk) list(ctx context.Context, p pile, filter agent.WaitingFilter, decides, watch bool) error {
	seen := map[string]bool{}
	for {
		waiting, err := p.list(ctx, filter)
		if err != nil && (!watch || !agent.Retryable(err)) {
			return fmt.Errorf("list what waits: %w", err)
		}
		if d.json {
			return d.printJSON(waiting)
		}
		waiting = slices.DeleteFunc(waiting, func(w agent.Waiting) bool { return seen[generation(w)] })
		switch {
		case err != nil:
			fmt.Fprintf(os.Stderr, "toolpark: trying again: %v\n", err)
		case len(waiting) == 0 && len(seen) == 0:
			fmt.Fprintln(d.out, p.none)
			seen[""] = true // said
		}
		for i, w := range waiting {
			seen[generation(w)] = true
			if !decides {
				p.show(w)
				continue
			}
			fmt.Fprintf(d.out, "%d of %d\n", i+1, len(waiting))
			if more, err := p.ask(ctx, w); err != nil || !more {
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

// generation names what a person decides about.
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

// CallRef names a task as it is shown: RUN/KEY.
type CallRef struct{ Run, Key string }

// UnmarshalText reads RUN/KEY.
func (r *CallRef) UnmarshalText(text []byte) error {
	var ok bool
	r.Run, r.Key, ok = strings.Cut(string(text), "/")
	if !ok || r.Run == "" || r.Key == "" || strings.Contains(r.Key, "/") {
		return errors.New("expected RUN/KEY, as the list shows it")
	}
	return nil
}

// answered tells what came of a decision. It has not settled when the person may try another one; an error ends
// the session.
func (d *desk) answered(task *agent.Task, err error, as string) (settled bool, _ error) {
	code := codeOf(err)
	exit, isExit := errors.AsType[exitError](err)
	switch {
	case err == nil:
		fmt.Fprintf(d.out, "%s\n\n", outcome(task, as))
		return true, nil
	case tooLate(code), isExit && exit.code == exitNotDecided:
		d.tell("Too late: ", err.Error())
		fmt.Fprintln(d.out)
		return true, nil
	case code == toolpark.CodeUnauthorized, code == toolpark.CodeNotAuthorized:
		return false, err
	}
	d.tell("Not "+as+": ", err.Error())
	return false, nil
}

// tell prints what somebody else may have worded: on the line when it fits there, else set apart.
func (d *desk) tell(intro, text string) {
	if text = line(text); utf8.RuneCountInString(intro+text) > max(d.columns, narrowest) {
		text = "\n" + strings.Join(block(text, d.columns), "\n")
		intro = strings.TrimSuffix(intro, " ")
	}
	fmt.Fprintln(d.out, intro+text)
}

// tooLate tells whether somebody or the clock was faster, or the task never waited for this.
func tooLate(code toolpark.Code) bool {
	return code == toolpark.CodeNotAwaitingApproval || code == toolpark.CodeAlreadySettled || code == toolpark.CodeNotAwaitingInput
}

// quit is what the end of the input means.
func quit(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// readLine reads what a person types. It reads no further, so that an editor finds the terminal free.
func (d *desk) readLine(ctx context.Context, question string) (string, error) {
	d.forget()
	fmt.Fprint(d.out, question)
	type read struct {
		text string
		err  error
	}
	got := make(chan read, 1)
	go func() { // an interrupt does not end a read, so this one may outlive the command
		text, err := d.in.ReadString('\n')
		got <- read{text, err}
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(d.out)
		return "", ctx.Err()
	case r := <-got:
		if r.err != nil {
			fmt.Fprintln(d.out)
			return "", r.err
		}
		return strings.TrimSpace(r.text), nil
	}
}

// decided says what came of a decision that was made without asking anybody.
func (d *desk) decided(task *agent.Task, err error, as string) error {
	switch {
	case tooLate(codeOf(err)):
		return exitError{exitNotDecided, err}
	case err != nil:
		return exitError{exitNoAnswer, err}
	case d.json && task == nil:
		err = d.printJSON(map[string]any{pendingAs(as): map[string]string{"status": "pending"}})
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

// pendingAs is the API's name for what no worker has judged yet.
func pendingAs(as string) string {
	if as == answeredAs {
		return "resolution"
	}
	return "decision"
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
