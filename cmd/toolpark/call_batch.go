package main

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/envelope"
	"github.com/toolpark/toolpark/sdk/agent"
)

// calls are what is to be called: one call of the command line, or those of the file.
func (c *CallCmd) calls() ([]agent.Call, error) {
	switch {
	case c.File == "" && c.Name == "":
		return nil, errors.New(`say what to call: toolpark call bash '{"command":"uname -a"}', or --file FILE`)
	case c.File == "":
		return []agent.Call{{Name: c.Name, Arguments: c.Arguments}}, nil // the server judges the arguments
	case c.Name != "":
		return nil, errors.New("give either a tool or --file, not both")
	}
	in := os.Stdin
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	calls, err := readCalls(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.File, err)
	}
	return calls, nil
}

// readCalls reads a list of {id?, name, arguments}. Arguments go on as they are, duplicate keys and all:
// the server judges each call by itself.
func readCalls(r io.Reader) ([]agent.Call, error) {
	var entries []struct {
		ID        string         `json:"id"`
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
	}
	if err := json.UnmarshalRead(r, &entries, json.RejectUnknownMembers(true), jsontext.AllowDuplicateNames(true)); err != nil {
		return nil, fmt.Errorf("expected a JSON list of {id?, name, arguments}: %w", err)
	}
	if len(entries) == 0 {
		return nil, errors.New("the list of calls is empty")
	}
	calls := make([]agent.Call, len(entries))
	for i, e := range entries {
		calls[i] = agent.Call{ID: e.ID, Name: e.Name}
		if e.Arguments != nil {
			calls[i].Arguments = e.Arguments
		}
	}
	return calls, nil
}

// printTasks writes the task objects as the server sent them, in call order.
func printTasks(w io.Writer, tasks []agent.Task) error {
	list := make([]jsontext.Value, len(tasks))
	for i, task := range tasks {
		list[i] = task.Raw
	}
	text, err := json.Marshal(list, jsontext.WithIndent("  "), jsontext.AllowDuplicateNames(true), jsontext.PreserveRawStrings(true))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", text)
	return err
}

// printResults writes each output under a line that names its call and says how it ended. The output of a
// single call stands alone, so that it can be piped on.
func printResults(w io.Writer, calls []agent.Call, tasks []agent.Task) error {
	var b strings.Builder
	for i, task := range tasks {
		if len(tasks) > 1 {
			fmt.Fprintf(&b, "--- %s %s: %s\n", task.ToolCallID, calls[i].Name, verdict(task))
		}
		b.WriteString(task.Output)
		if task.Output != "" && !strings.HasSuffix(task.Output, "\n") {
			b.WriteByte('\n')
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// failure is what did not succeed, nil when everything did.
func failure(calls []agent.Call, tasks []agent.Task) error {
	bad := 0
	for _, task := range tasks {
		if !task.Succeeded() {
			bad++
		}
	}
	switch {
	case bad == 0:
		return nil
	case len(tasks) == 1:
		return fmt.Errorf("%s: %s", calls[0].Name, verdict(tasks[0]))
	}
	return fmt.Errorf("%d of %d calls did not succeed", bad, len(tasks))
}

// verdict is how a task ended, in a few words.
func verdict(task agent.Task) string {
	switch {
	case task.Error != nil:
		return fmt.Sprintf("%s: %s", task.Status, envelope.Failure(*task.Error))
	case task.IsError:
		return fmt.Sprintf("%s with an error", task.Status)
	}
	return string(task.Status)
}

// progress is how far a task is that has not settled.
func progress(task agent.Task) string {
	switch {
	case task.Status == toolpark.NeedsApproval:
		return "not approved yet"
	case !task.ClaimedAt.IsZero():
		return "running"
	case task.Status == toolpark.Dispatched:
		return "not claimed yet"
	}
	return string(task.Status)
}

// waitsFor says what has not settled.
func waitsFor(tasks []agent.Task) string {
	const shown = 3
	var live []string
	for _, task := range tasks {
		if !task.Status.Settled() {
			live = append(live, fmt.Sprintf("%s (%s)", task.CallableName, progress(task)))
		}
	}
	if len(live) > shown {
		live = append(live[:shown], fmt.Sprintf("%d more", len(live)-shown))
	}
	return strings.Join(live, ", ")
}
