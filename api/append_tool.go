package api

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"strings"
	"unicode/utf8"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/declaration"
	"github.com/toolpark/toolpark/internal/park"
)

type toolStepRequest struct {
	Name      string         `json:"name"`
	Input     jsontext.Value `json:"input"`
	Route     jsontext.Value `json:"route"`
	TimeoutMS jsontext.Value `json:"timeout_ms"`
	Key       *string        `json:"key"`
}

func newToolStep(raw jsontext.Value, step *park.NewStep) *toolpark.Error {
	var tool toolStepRequest
	if err := json.Unmarshal(raw, &tool, json.RejectUnknownMembers(true)); err != nil {
		return invalidStep("/tool", "A tool step is an object of name, input, route, timeout_ms and key, and nothing else.").Because(err)
	}
	if tool.Name == "" || strings.ContainsRune(tool.Name, 0) || utf8.RuneCountInString(tool.Name) > toolpark.MaxServedName {
		return invalidStep("/tool/name", "name must be a served tool name of 1 to %d characters.", toolpark.MaxServedName)
	}
	if refusal := stepKey(tool.Key, "/tool", step); refusal != nil {
		return refusal
	}
	input, refusal := stepInput(tool.Input)
	if refusal != nil {
		return refusal
	}
	timeout, refusal := stepTimeout(tool.TimeoutMS, "/tool", toolpark.MaxToolTimeout)
	if refusal != nil {
		return refusal
	}
	route, refusal := stepRoute(tool.Route)
	if refusal != nil {
		return refusal
	}
	step.Tool = &park.ToolStep{Name: tool.Name, Input: input, Route: route, TimeoutMS: timeout}
	return nil
}

func stepInput(input jsontext.Value) (jsontext.Value, *toolpark.Error) {
	if input == nil {
		input = jsontext.Value("{}")
	}
	compact, failure := declaration.ReadInput(input)
	if failure != nil {
		return nil, invalidStep("/tool/input", "%s: %s", failure.Key, failure.Detail)
	}
	return compact, nil
}

// stepRoute reads an explicit route: a runner, or by leaving its id out the run's default runner.
func stepRoute(raw jsontext.Value) (*park.StepRoute, *toolpark.Error) {
	if raw == nil {
		return nil, nil
	}
	invalid := func(why string) (*park.StepRoute, *toolpark.Error) {
		return nil, toolpark.Errorf(toolpark.CodeInvalidToolRoute,
			`route %s; it is {"kind":"runner","runner_executor_public_id":UUID}, or without the id for the run's default runner.`, why).At("/tool/route")
	}
	var route struct {
		Kind   string         `json:"kind"`
		Runner jsontext.Value `json:"runner_executor_public_id"`
	}
	if err := json.Unmarshal(raw, &route, json.RejectUnknownMembers(true)); err != nil || raw.Kind() != '{' {
		return invalid("is malformed")
	}
	if route.Kind != "runner" {
		return invalid("has another kind than runner")
	}
	if route.Runner == nil {
		return &park.StepRoute{}, nil
	}
	runner, err := nullableUUID(route.Runner, "/tool/route/runner_executor_public_id")
	if err != nil || runner == nil {
		return invalid("names no runner by its UUID")
	}
	return &park.StepRoute{Runner: runner}, nil
}
