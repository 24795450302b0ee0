package runner

import (
	"context"
	"encoding/json/jsontext"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/toolpark/toolpark"
)

// Tool is one function that a worker serves.
type Tool struct {
	Entry
	// Run does the work. It returns when the context ends, which happens when the call was canceled, its
	// claim was lost, or the worker has to go. An error means that the tool could not run (the task
	// fails); a tool that ran and has bad news for the model returns Errorf and no error.
	Run func(ctx context.Context, call Call) (Result, error)
}

// Call is one claimed call of a tool.
type Call struct {
	Ref
	Tool           string
	Input          jsontext.Value // an object that matches the announced schema
	IdempotencyKey string         // the same in every generation: give it to the service you call
	Redelivery     bool           // an earlier generation may have had an effect
	Session        jsontext.Value // the run's metadata
	Deadline       time.Time      // by this machine's clock; the worker moves it on while the tool runs
	// Progress shows a frame, JSON of at most 4 KiB, to whoever watches the run. It never blocks: only
	// the newest frame is sent, a few per second.
	Progress func(frame jsontext.Value)
}

// Result is what a tool answers. Text that cannot be stored (invalid UTF-8, U+0000) is repaired when it
// is reported.
type Result struct {
	Text              string         // what the model reads
	StructuredContent jsontext.Value // any JSON value, for the client; empty means none
	IsError           bool           // the tool ran and reports an error
	Failed            bool           // the tool could not run; the text says why
	Title             string         // one line for people, cut to 256 bytes
	Metadata          jsontext.Value // an object of at most 64 KiB, for a tool's own renderer; empty means none
}

// Text is a result that a model reads.
func Text(text string) Result { return Result{Text: text} }

// Errorf is a result that tells the model what went wrong.
func Errorf(format string, args ...any) Result {
	return Result{Text: fmt.Sprintf(format, args...), IsError: true}
}

// report is a result as it rides a commit.
type report struct {
	Content           string         `json:"content"`
	StructuredContent jsontext.Value `json:"structured_content,omitzero"`
	IsError           bool           `json:"is_error,omitzero"`
	Outcome           string         `json:"outcome,omitzero"`
	Title             string         `json:"title,omitzero"`
	Metadata          jsontext.Value `json:"metadata,omitzero"`
}

func (r Result) report() report {
	w := report{Content: storable(r.Text), IsError: r.IsError, Title: oneLine(r.Title)}
	if len(r.StructuredContent) > 0 {
		w.StructuredContent = r.StructuredContent
	}
	if len(r.Metadata) > 0 {
		w.Metadata = r.Metadata
	}
	if r.Failed {
		w.Outcome = "failed"
	}
	return w
}

// storable replaces what no result may hold.
func storable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// oneLine makes a title of any text.
func oneLine(s string) string {
	s = strings.Join(strings.FieldsFunc(storable(s), func(r rune) bool {
		return r < ' ' || r == 0x7f || r == '\u0085' || r == '\u2028' || r == '\u2029'
	}), " ")
	if len(s) <= toolpark.MaxTitle {
		return s
	}
	cut := toolpark.MaxTitle - len("…")
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
