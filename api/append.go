package api

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/declaration"
	"github.com/toolpark/toolpark/internal/park"
	"github.com/toolpark/toolpark/internal/strictjson"
)

type stepRequest struct {
	Tool jsontext.Value `json:"tool"`
	Ask  jsontext.Value `json:"ask"`
	Wait jsontext.Value `json:"wait"`
}

type toolStepRequest struct {
	Name      string         `json:"name"`
	Input     jsontext.Value `json:"input"`
	Route     jsontext.Value `json:"route"`
	TimeoutMS jsontext.Value `json:"timeout_ms"`
	Key       *string        `json:"key"`
}

var (
	taskKey = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

	// mintedKey are the keys of rounds, of steps that bring none, and of what those call: an author that
	// took one would be in the way of the task that is to have it.
	mintedKey = regexp.MustCompile(`^(r[0-9]+t[0-9]+|s[0-9]+-[a-z]+-[0-9]+)(-|$)`)
)

// appendSteps writes steps that a client authors itself: all of them, or none with every bad one named.
func (s *Server) appendSteps(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r, toolpark.MaxBody)
	if err != nil {
		return err
	}
	key, hash, err := idempotencyKey(r, body)
	if err != nil {
		return err
	}
	run, err := s.readableRun(r)
	if err != nil {
		return err
	}
	steps, err := newSteps(body)
	if err != nil {
		return err
	}
	authored, replay, err := s.Park.AppendSteps(r.Context(), member(r), run, steps, park.Idempotency{Key: key, Hash: hash}, renderSteps)
	if err != nil {
		return err
	}
	if replay != nil {
		return writeReplay(w, replay)
	}
	s.Delivery.Start(authored.Live())
	answer, err := renderSteps(authored)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusCreated, answer)
}

func newSteps(body jsontext.Value) ([]park.ToolStep, error) {
	raw, err := decode[struct {
		Steps jsontext.Value `json:"steps"`
	}](body)
	if err != nil {
		return nil, err
	}
	// Counted before anything is made of them.
	if _, count, ok := strictjson.Elements(raw.Steps, 0); (ok || absent(raw.Steps)) && (count == 0 || count > toolpark.MaxStepsPerAppend) {
		return nil, toolpark.Errorf(toolpark.CodeParameterInvalid, "steps must hold 1 to %d steps.", toolpark.MaxStepsPerAppend).At("/steps")
	}
	req, err := decode[struct {
		Steps []stepRequest `json:"steps"`
	}](body)
	if err != nil {
		return nil, err
	}
	steps := make([]park.ToolStep, len(req.Steps))
	for i, step := range req.Steps {
		steps[i].Refusal = newStep(step, &steps[i])
	}
	return steps, nil
}

func invalidStep(pointer, format string, args ...any) *toolpark.Error {
	return toolpark.Errorf(toolpark.CodeValidationFailed, format, args...).At(pointer)
}

func newStep(req stepRequest, step *park.ToolStep) *toolpark.Error {
	switch {
	case !absent(req.Ask):
		return invalidStep("/ask", "ask steps are not available in this version.")
	case !absent(req.Wait):
		return invalidStep("/wait", "wait steps are not available in this version.")
	case absent(req.Tool):
		return invalidStep("", "A step has one verb: tool.")
	}
	var tool toolStepRequest
	if err := json.Unmarshal(req.Tool, &tool, json.RejectUnknownMembers(true)); err != nil {
		return invalidStep("/tool", "A tool step is an object of name, input, route, timeout_ms and key, and nothing else.").Because(err)
	}
	if tool.Name == "" || strings.ContainsRune(tool.Name, 0) || utf8.RuneCountInString(tool.Name) > toolpark.MaxServedName {
		return invalidStep("/tool/name", "name must be a served tool name of 1 to %d characters.", toolpark.MaxServedName)
	}
	step.Name = tool.Name
	if tool.Key != nil {
		if !taskKey.MatchString(*tool.Key) {
			return invalidStep("/tool/key", "key must match %s.", taskKey)
		}
		if mintedKey.MatchString(*tool.Key) {
			return toolpark.Errorf(toolpark.CodeDuplicateTaskKey,
				"%s is of the form of the keys that are given to tasks without one; choose another.", *tool.Key).At("/tool/key")
		}
		step.Key = *tool.Key
	}
	if refusal := stepInput(tool.Input, step); refusal != nil {
		return refusal
	}
	if refusal := stepTimeout(tool.TimeoutMS, step); refusal != nil {
		return refusal
	}
	return stepRoute(tool.Route, step)
}

func stepInput(input jsontext.Value, step *park.ToolStep) *toolpark.Error {
	if input == nil {
		input = jsontext.Value("{}")
	}
	compact, failure := declaration.ReadInput(input)
	if failure != nil {
		return invalidStep("/tool/input", "%s: %s", failure.Key, failure.Detail)
	}
	step.Input = compact
	return nil
}

func stepTimeout(raw jsontext.Value, step *park.ToolStep) *toolpark.Error {
	if raw == nil {
		return nil
	}
	ms, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || ms < 1 || ms > toolpark.MaxToolTimeout.Milliseconds() {
		return invalidStep("/tool/timeout_ms", "timeout_ms must be an integer from 1 to %d.", toolpark.MaxToolTimeout.Milliseconds())
	}
	step.TimeoutMS = &ms
	return nil
}

// stepRoute reads an explicit route: a runner, or by leaving its id out the run's default runner.
func stepRoute(raw jsontext.Value, step *park.ToolStep) *toolpark.Error {
	if raw == nil {
		return nil
	}
	invalid := func(why string) *toolpark.Error {
		return toolpark.Errorf(toolpark.CodeInvalidToolRoute,
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
	step.Route = &park.StepRoute{}
	if route.Runner == nil {
		return nil
	}
	runner, err := nullableUUID(route.Runner, "/tool/route/runner_executor_public_id")
	if err != nil || runner == nil {
		return invalid("names no runner by its UUID")
	}
	step.Route.Runner = runner
	return nil
}

// openedStep is an authored task as it begins.
type openedStep struct {
	TaskKey  string            `json:"task_key"`
	Kind     toolpark.TaskKind `json:"kind"`
	ToolName string            `json:"tool_name"`
	Status   toolpark.Status   `json:"status"`
}

func renderSteps(a *park.Authored) (jsontext.Value, error) {
	tasks := make([]openedStep, len(a.Tasks))
	for i := range a.Tasks {
		t := &a.Tasks[i]
		tasks[i] = openedStep{TaskKey: t.Key, Kind: t.Kind, ToolName: *t.ToolName, Status: t.Status}
	}
	return json.Marshal(map[string]any{"tasks": tasks}, wire)
}
