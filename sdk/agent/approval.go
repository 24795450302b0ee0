package agent

import (
	"context"
	"encoding/json/jsontext"
	"net/url"
	"strconv"
	"time"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/sdk/internal/rest"
)

// ApprovalRule says what becomes of the calls that it matches. Of all that match, deny beats ask beats allow.
type ApprovalRule struct {
	Tool    string          `json:"tool"`             // globs over the served or wire name, with "|" between them
	Path    string          `json:"path,omitzero"`    // where in the input a text must be, dotted; "": anywhere
	Match   *string         `json:"match,omitzero"`   // a glob over that text; nil: any text
	Verdict string          `json:"verdict"`          // "allow", "ask" or "deny"
	Reason  string          `json:"reason,omitzero"`  // what the model reads of a denial; one line, at most 256 bytes
	Origin  toolpark.Origin `json:"origin,omitzero"`  // whose calls; "": the model's
	HoldMS  int64           `json:"hold_ms,omitzero"` // of an ask: how long it waits to be decided, at most 24 h; 0 means that
}

// Waiting is a task that waits for a person: a call to decide about, or a question to answer.
type Waiting struct {
	Kind           string                  `json:"kind"` // "approval" or "ask"
	Run            string                  `json:"run_public_id"`
	TaskKey        string                  `json:"task_key"`
	Generation     int                     `json:"generation"`
	Redelivery     bool                    `json:"redelivery"` // an earlier generation may have had an effect
	ToolName       string                  `json:"tool_name"`  // "" for a question
	ToolAlias      string                  `json:"tool_alias"`
	ToolInput      jsontext.Value          `json:"tool_input"`   // nil for a question
	InputDigest    string                  `json:"input_digest"` // name it in a decision to be sure what is decided
	TargetName     string                  `json:"target_name"`  // whom the call would go to
	EffectProfile  *toolpark.EffectProfile `json:"effect_profile"`
	RequestedBy    Requester               `json:"requested_by"`
	Session        jsontext.Value          `json:"session"` // the run's metadata
	StartedAt      time.Time               `json:"started_at"`
	DeadlineAt     time.Time               `json:"deadline_at"`
	IdempotencyKey string                  `json:"idempotency_key"`

	Question // zero for a call
}

// Requester is the member that made a run.
type Requester struct {
	Member string              `json:"member_public_id"`
	Handle string              `json:"handle"`
	Kind   toolpark.MemberKind `json:"kind"`
}

// WaitingFilter narrows a list of what waits for a person. Its zero value lists all.
type WaitingFilter struct {
	Run    string
	Tool   string        // the served or wire name
	MinAge time.Duration // at most 24 h
}

// Approvals lists the calls that wait for a decision in every run that the caller may read, the longest waiting
// first, all pages of them.
func (c *Client) Approvals(ctx context.Context, f WaitingFilter) ([]Waiting, error) {
	return c.waiting(ctx, "approvals", f)
}

func (c *Client) waiting(ctx context.Context, what string, f WaitingFilter) ([]Waiting, error) {
	query := url.Values{"limit": {"200"}}
	if f.Run != "" {
		query.Set("run", f.Run)
	}
	if f.Tool != "" {
		query.Set("tool", f.Tool)
	}
	if f.MinAge > 0 {
		query.Set("min_age_ms", strconv.FormatInt(f.MinAge.Milliseconds(), 10))
	}
	var all []Waiting
	for {
		var page struct {
			Approvals  []Waiting `json:"approvals"`
			Asks       []Waiting `json:"asks"`
			Pagination struct {
				NextAfter string `json:"next_after"`
			} `json:"pagination"`
		}
		if err := c.get(ctx, rest.Path(what), query, 0, &page); err != nil {
			return all, err
		}
		all = append(append(all, page.Approvals...), page.Asks...)
		if page.Pagination.NextAfter == "" {
			return all, nil
		}
		query.Set("after", page.Pagination.NextAfter)
	}
}

// Approve lets a call run that waits for a decision. The digest is that of the input that was seen; "" decides
// about whatever waits. A non-nil input runs in place of the call's own. The task is as the decision left it, and
// nil when no worker answered in time: the decision stands, and will be judged.
func (c *Client) Approve(ctx context.Context, run, key, digest string, input jsontext.Value) (*Task, error) {
	return c.decide(ctx, run, key, "approve", struct {
		InputDigest string         `json:"input_digest,omitzero"`
		Input       jsontext.Value `json:"input,omitzero"`
	}{digest, input})
}

// Deny refuses a call that waits for a decision; see Approve. The reason may be "".
func (c *Client) Deny(ctx context.Context, run, key, reason string) (*Task, error) {
	return c.decide(ctx, run, key, "deny", struct {
		Reason string `json:"reason,omitzero"`
	}{reason})
}

func (c *Client) decide(ctx context.Context, run, key, verb string, body any) (*Task, error) {
	var answer struct {
		Task *Task `json:"task"`
	}
	err := c.create(ctx, rest.Path("runs", run, "tasks", key, verb), "", body, &answer)
	return answer.Task, err
}
