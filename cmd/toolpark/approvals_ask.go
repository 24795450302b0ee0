package main

import (
	"bytes"
	"context"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/sdk/agent"
)

// ask shows a call and takes a person's decision about it. More is false when the person wants to see no more.
func (d *desk) ask(ctx context.Context, w agent.Waiting) (more bool, err error) {
	d.show(w)
	var edited jsontext.Value // what is approved in place of the call's own input
	for {
		whole := d.full || len(block(pretty(w.ToolInput), d.columns)) <= shownLines
		question := "[a]pprove, [d]eny, [e]dit, [s]kip, [q]uit? "
		if !whole {
			question = "[f]ull input, " + question
		}
		answer, err := d.readLine(ctx, question)
		if err != nil {
			return false, quit(err)
		}
		switch answer {
		case "a", "approve":
			task, err := d.Client.Approve(ctx, w.Run, w.TaskKey, w.InputDigest, edited)
			if codeOf(err) == toolpark.CodeInputChanged {
				var now agent.Waiting
				if now, err = d.find(ctx, CallRef{w.Run, w.TaskKey}); err == nil {
					w, edited = now, nil
					fmt.Fprintln(d.out, "Not approved: the input has changed. This is what waits now:")
					d.show(w)
					continue
				}
			}
			if settled, err := d.answered(task, err, "approved"); settled || err != nil {
				return true, err
			}
		case "d", "deny":
			reason, err := d.readLine(ctx, "reason for the model, if any: ")
			if err != nil {
				return false, quit(err)
			}
			task, err := d.Client.Deny(ctx, w.Run, w.TaskKey, reason)
			if settled, err := d.answered(task, err, "denied"); settled || err != nil {
				return true, err
			}
		case "e", "edit":
			changed, err := d.editInput(ctx, w, edited)
			if err != nil {
				fmt.Fprintf(d.out, "Not changed: %s\n", line(err.Error()))
				continue
			}
			if edited = changed; edited == nil {
				fmt.Fprintln(d.out, "Unchanged.")
				continue
			}
			fmt.Fprintln(d.out, "If you approve, it runs with this instead:")
			d.showInput(edited)
		case "f", "full":
			fmt.Fprintln(d.out, strings.Join(block(pretty(w.ToolInput), d.columns), "\n"))
		case "s", "skip":
			return true, nil
		case "q", "quit":
			return false, nil
		case "":
		default:
			d.tell("", fmt.Sprintf("Nothing is done: %q is none of the letters in brackets.", answer))
		}
	}
}

// editInput lets a person change an input, and returns it; nil when it is as it was.
func (d *desk) editInput(ctx context.Context, w agent.Waiting, edited jsontext.Value) (jsontext.Value, error) {
	before := edited
	if before == nil {
		before = w.ToolInput
	}
	text := []byte(pretty(before) + "\n")
	changed, err := d.edit(ctx, text)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(changed, text) {
		return edited, nil
	}
	value := jsontext.Value(bytes.TrimSpace(changed))
	if err := value.Compact(jsontext.PreserveRawStrings(true)); err != nil {
		return nil, fmt.Errorf("what you wrote is no JSON: %w", err)
	}
	return value, nil
}

// editorTime is what an editor has to put the terminal in order once it is told to end.
const editorTime = 2 * time.Second

// runEditor opens the text in $VISUAL, $EDITOR or vi, and returns it as it was saved. When ctx ends, so does the editor.
// Nothing stays behind, its backup and swap files included.
func runEditor(ctx context.Context, text []byte) (changed []byte, err error) {
	dir, err := os.MkdirTemp("", "toolpark-*") // which nobody else may read
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "input.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	editor := exec.CommandContext(ctx, "sh", "-c", `exec ${VISUAL:-${EDITOR:-vi}} "$1"`, "sh", file)
	editor.Stdin, editor.Stdout, editor.Stderr = os.Stdin, os.Stdout, os.Stderr
	editor.Cancel = func() error { return editor.Process.Signal(syscall.SIGTERM) }
	editor.WaitDelay = editorTime
	if err := editor.Run(); err != nil {
		return nil, fmt.Errorf("the editor failed: %w", err)
	}
	return os.ReadFile(file)
}
