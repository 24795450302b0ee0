package api

import (
	"encoding/json/jsontext"
	"encoding/json/v2"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/park"
)

// askStepRequest is a question as it came, with what is the step's own beside it.
type askStepRequest struct {
	question
	TimeoutMS jsontext.Value `json:"timeout_ms"`
	Key       *string        `json:"key"`
}

// question is what is stored of an ask: the members that were given.
type question struct {
	Prompt  jsontext.Value `json:"prompt,omitzero"`
	Options jsontext.Value `json:"options,omitzero"`
	Multi   jsontext.Value `json:"multi,omitzero"`
	Strict  jsontext.Value `json:"strict_options,omitzero"`
}

func newAskStep(raw jsontext.Value, step *park.NewStep) *toolpark.Error {
	var ask askStepRequest
	if err := json.Unmarshal(raw, &ask, json.RejectUnknownMembers(true)); err != nil {
		return invalidStep("/ask", "An ask step is an object of prompt, options, multi, strict_options, timeout_ms and key, and nothing else.").Because(err)
	}
	stored, err := json.Marshal(ask.question, jsontext.PreserveRawStrings(true))
	if err != nil {
		return invalidStep("/ask", "The question cannot be read.").Because(err)
	}
	if _, refusal := park.ReadQuestion(stored); refusal != nil {
		at, _ := refusal.Details["pointer"].(string)
		return refusal.At("/ask" + at)
	}
	timeout, refusal := stepTimeout(ask.TimeoutMS, "/ask", toolpark.MaxAskTimeout)
	if refusal != nil {
		return refusal
	}
	step.Ask = &park.AskStep{Question: stored, TimeoutMS: timeout}
	return stepKey(ask.Key, "/ask", step)
}
