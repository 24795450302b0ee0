package agent

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"net/url"
	"strconv"
	"time"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/sdk/internal/rest"
)

// Task is one unit of work in a run. Lists and new rounds leave out inputs and results.
type Task struct {
	Key               string              `json:"task_key"`
	ToolCallID        string              `json:"tool_call_id"` // the provider's pairing key
	Kind              toolpark.TaskKind   `json:"kind"`
	Status            toolpark.Status     `json:"status"`
	Origin            toolpark.Origin     `json:"origin"`
	Generation        int                 `json:"generation"`
	CallableName      string              `json:"callable_name"`   // as the model spelled it
	ToolName          string              `json:"tool_name"`       // as the executor serves it, or a kernel tool's name
	ToolAlias         string              `json:"tool_alias"`      // the alias of a kernel tool that was called; "" for none
	ParentKey         string              `json:"parent_task_key"` // the tool_call or ask that made this task; "" for none
	ToolInput         jsontext.Value      `json:"tool_input"`      // what it runs with
	OriginalInput     jsontext.Value      `json:"original_input"`  // what the call asked for, when an approver edited that
	InputDigest       string              `json:"input_digest"`    // what a decision is bound to, while one is needed
	Approval          *toolpark.Approval  `json:"approval"`        // what let it run, or refused it; nil until somebody decides
	Output            string              `json:"output"`          // what a model reads
	Content           jsontext.Value      `json:"content"`         // a list of blocks
	StructuredContent jsontext.Value      `json:"structured_content"`
	IsError           bool                `json:"is_error"`   // the tool ran and reported an error
	RetrySafe         bool                `json:"retry_safe"` // a repeat would carry the same idempotency key
	Abandoned         *Abandoned          `json:"abandoned"`  // who gave the failure up; nil when nobody did
	Error             *toolpark.TaskError `json:"error"`      // why it did not complete
	Title             string              `json:"title"`
	Metadata          jsontext.Value      `json:"metadata"`
	ClaimedAt         time.Time           `json:"claimed_at"`  // zero until an executor has claimed it
	DeadlineAt        time.Time           `json:"deadline_at"` // zero when no clock runs

	Raw jsontext.Value `json:"-"` // the whole object as the server sent it
}

// UnmarshalJSON reads the object and keeps it whole in Raw.
func (t *Task) UnmarshalJSON(b []byte) error {
	type plain Task
	if err := json.Unmarshal(b, (*plain)(t), verbatim); err != nil {
		return err
	}
	t.Raw = jsontext.Value(b).Clone()
	return nil
}

// Succeeded tells whether the task completed and its tool reported no error.
func (t Task) Succeeded() bool { return t.Status == toolpark.Completed && !t.IsError }

// Abandoned is who gave a failure up.
type Abandoned struct {
	At time.Time `json:"at"`
	By string    `json:"by_member_public_id"`
}

type taskAnswer struct {
	Task Task `json:"task"`
}

// Task reads a task. With a wait, at most a minute, it answers once the task has settled or the time is
// up.
func (c *Client) Task(ctx context.Context, run, key string, wait time.Duration) (Task, error) {
	var answer taskAnswer
	err := c.get(ctx, rest.Path("runs", run, "tasks", key), nil, wait, &answer)
	return answer.Task, err
}

// TaskGeneration reads one generation of a task, counted from 1: how it stands, or how it ended before a retry. One
// that never was is not_found.
func (c *Client) TaskGeneration(ctx context.Context, run, key string, generation int) (Task, error) {
	var answer taskAnswer
	query := url.Values{"generation": {strconv.Itoa(generation)}}
	err := c.get(ctx, rest.Path("runs", run, "tasks", key), query, 0, &answer)
	return answer.Task, err
}

// Retry begins a task again that failed, timed out or is uncertain, as its next generation, which is returned.
// Repeating it blindly is no help: once the task lives again it is not_retryable.
func (c *Client) Retry(ctx context.Context, run, key string) (Task, error) {
	var answer taskAnswer
	err := c.create(ctx, rest.Path("runs", run, "tasks", key, "retry"), "", nil, &answer)
	return answer.Task, err
}

// Abandon gives up a task that failed, timed out or is uncertain: it cannot be retried any more. Repeating it
// is no error.
func (c *Client) Abandon(ctx context.Context, run, key string) (Task, error) {
	var answer taskAnswer
	err := c.create(ctx, rest.Path("runs", run, "tasks", key, "abandon"), "", nil, &answer)
	return answer.Task, err
}

// Step is one task that a client authors itself: a call of a tool by its served name, or, with Ask or WaitFor, a
// question to a person or a wait.
type Step struct {
	Name      string         // of the tool, as it is served
	Input     jsontext.Value // the tool's, an object; nil means {}
	Route     *Route         // nil: the client's own application, then the tools providers
	Ask       *Question      // what a person is asked; nil unless this is a question
	WaitFor   string         // the key of a task of the run, or of an earlier step; "" unless this is a wait
	TimeoutMS int64          // 0: as announced, or an hour for a question or a wait
	Key       string         // the task's key, unique in the run; "" mints one
}

// Question is what a person is asked.
type Question struct {
	Prompt  string   `json:"prompt"`                  // at most 8 KiB
	Options []string `json:"options,omitzero"`        // 1–50 answers to choose from; nil: any text
	Multi   bool     `json:"multi,omitzero"`          // several of them may be chosen
	Strict  bool     `json:"strict_options,omitzero"` // an answer must choose from them
}

// Route sends a step to a runner.
type Route struct {
	Kind   string `json:"kind"`                               // "runner"
	Runner string `json:"runner_executor_public_id,omitzero"` // "": the run's default runner
}

// MarshalJSON writes the step as the server takes it: one verb.
func (s Step) MarshalJSON() ([]byte, error) {
	type common struct {
		TimeoutMS int64  `json:"timeout_ms,omitzero"`
		Key       string `json:"key,omitzero"`
	}
	own := common{s.TimeoutMS, s.Key}
	switch {
	case s.Ask != nil:
		type ask struct {
			Question
			common
		}
		return json.Marshal(map[string]ask{"ask": {*s.Ask, own}})
	case s.WaitFor != "":
		type wait struct {
			Task string `json:"task"`
			common
		}
		return json.Marshal(map[string]wait{"wait": {s.WaitFor, own}})
	}
	type tool struct {
		Name  string         `json:"name"`
		Input jsontext.Value `json:"input,omitzero"`
		Route *Route         `json:"route,omitzero"`
		common
	}
	return json.Marshal(map[string]tool{"tool": {s.Name, s.Input, s.Route, own}}, verbatim, jsontext.PreserveRawStrings(true))
}

// AppendTasks authors 1–64 steps, all or none. The idempotency key may be "".
func (c *Client) AppendTasks(ctx context.Context, run string, steps []Step, idempotencyKey string) ([]Task, error) {
	body := struct {
		Steps []Step `json:"steps"`
	}{steps}
	var answer struct {
		Tasks []Task `json:"tasks"`
	}
	err := c.create(ctx, rest.Path("runs", run, "tasks"), idempotencyKey, body, &answer)
	return answer.Tasks, err
}
