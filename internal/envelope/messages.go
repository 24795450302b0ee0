package envelope

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/strictjson"
)

// Result is how one call ended, as a model needs to read it.
type Result struct {
	CallID  string              // the provider's pairing key
	Text    string              // what the tool reported, as Output gives it
	IsError bool                // the tool ran and reported an error
	Failure *toolpark.TaskError // why the call did not complete; it is read in place of Text
	Edited  jsontext.Value      // what the call ran with, when an approver put that in place of its own; nil when nobody did
}

// Said to a model in front of, or in place of, the text of a tool that reported an error.
const (
	errorPrefix = "The tool reported an error:\n"
	errorSilent = "The tool reported an error and gave no reason."
)

// editedPrefix and the input that ran stand in front of what came of it: at most maxEdited bytes of it.
const (
	editedPrefix = "Whoever approved this call changed its input first. It ran with: "
	maxEdited    = 8 << 10
)

// noted puts in front of a text that its call was edited, if it was.
func (r Result) noted(text string) string {
	if r.Edited == nil {
		return text
	}
	note := editedPrefix + strictjson.CutString(string(r.Edited), maxEdited)
	if text == "" {
		return note
	}
	return note + "\n" + text
}

// text is what the model reads, and whether the wire should mark it as an error. A failure is never
// silent, or a model would read it as success.
func (r Result) text() (text string, isError bool) {
	switch {
	case r.Failure != nil:
		return Failure(*r.Failure), true
	case r.IsError && r.Text == "":
		return errorSilent, true
	}
	return r.Text, r.IsError
}

// marked is the text for a wire that has no mark for errors of its own.
func (r Result) marked() string {
	text, _ := r.text()
	if r.Failure == nil && r.IsError && r.Text != "" {
		text = errorPrefix + text
	}
	return r.noted(text)
}

type chatMessage struct {
	Role       string `json:"role"`
	ToolCallID string `json:"tool_call_id"`
	Content    string `json:"content"`
}

type responsesItem struct {
	Type   string `json:"type"`
	CallID string `json:"call_id"`
	Output string `json:"output"`
}

type anthropicMessage struct {
	Role    string           `json:"role"`
	Content []anthropicBlock `json:"content"`
}

type anthropicBlock struct {
	Type      string `json:"type"`
	ToolUseID string `json:"tool_use_id"`
	Content   string `json:"content,omitempty"` // the wire refuses empty text, but content may be left out
	IsError   bool   `json:"is_error,omitzero"`
}

// Messages renders the results of a round as a JSON list of provider messages, ready to append to a
// conversation: one result for every call, in the order given. No results render as an empty list.
func Messages(format toolpark.Format, results []Result) (jsontext.Value, error) {
	messages := []any{}
	switch format {
	case toolpark.FormatChatCompletions:
		for _, r := range results {
			messages = append(messages, chatMessage{Role: "tool", ToolCallID: r.CallID, Content: r.marked()})
		}
	case toolpark.FormatResponses:
		for _, r := range results {
			messages = append(messages, responsesItem{Type: "function_call_output", CallID: r.CallID, Output: r.marked()})
		}
	case toolpark.FormatAnthropic:
		blocks := make([]anthropicBlock, len(results))
		for i, r := range results {
			text, isError := r.text()
			blocks[i] = anthropicBlock{Type: "tool_result", ToolUseID: r.CallID, Content: r.noted(text), IsError: isError}
		}
		if len(blocks) > 0 { // the wire has no message without content
			messages = append(messages, anthropicMessage{Role: "user", Content: blocks})
		}
	default:
		return nil, fmt.Errorf("render results: unknown format %q", format)
	}
	return json.Marshal(messages)
}
