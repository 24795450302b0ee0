package agent

import (
	"context"
	"encoding/json/jsontext"
)

// Answer is what somebody answers to a question.
type Answer struct {
	Text              string         // what a model reads: of several options one on each line; without it a model reads nothing
	StructuredContent jsontext.Value // for programs alone, beside Text: the chosen option, or with Multi a list of them; nil for none
	Failed            bool           // the question cannot be answered; the task fails, and Text says why
}

// Asks lists the questions that wait for an answer in every run that the caller may read, the longest waiting
// first, all pages of them. The filter's Tool must be "".
func (c *Client) Asks(ctx context.Context, f WaitingFilter) ([]Waiting, error) {
	return c.waiting(ctx, "asks", f)
}

// Resolve answers a question. The task is as the answer left it, and nil when no worker judged the answer in time:
// it is durable, and will be. The code of one that comes too late is already_settled.
func (c *Client) Resolve(ctx context.Context, run, key string, a Answer) (*Task, error) {
	outcome := ""
	if a.Failed {
		outcome = "failed"
	}
	return c.decide(ctx, run, key, "resolution", struct {
		Content           string         `json:"content,omitzero"`
		StructuredContent jsontext.Value `json:"structured_content,omitzero"`
		Outcome           string         `json:"outcome,omitzero"`
	}{a.Text, a.StructuredContent, outcome})
}
