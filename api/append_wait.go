package api

import (
	"encoding/json/jsontext"
	"encoding/json/v2"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/park"
)

type waitStepRequest struct {
	Task      *string        `json:"task"`
	TimeoutMS jsontext.Value `json:"timeout_ms"`
	Key       *string        `json:"key"`
}

func newWaitStep(raw jsontext.Value, step *park.NewStep) *toolpark.Error {
	var wait waitStepRequest
	if err := json.Unmarshal(raw, &wait, json.RejectUnknownMembers(true)); err != nil {
		return invalidStep("/wait", "A wait step is an object of task, timeout_ms and key, and nothing else.").Because(err)
	}
	if wait.Task == nil || !possibleKey.MatchString(*wait.Task) {
		return invalidStep("/wait/task", "task must be the key of a task of the run, or of an earlier step.")
	}
	timeout, refusal := stepTimeout(wait.TimeoutMS, "/wait", toolpark.MaxWaitTimeout)
	if refusal != nil {
		return refusal
	}
	step.Wait = &park.WaitStep{Task: *wait.Task, TimeoutMS: timeout}
	return stepKey(wait.Key, "/wait", step)
}
