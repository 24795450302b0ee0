package api

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/park"
	"github.com/toolpark/toolpark/internal/strictjson"
)

type stepRequest struct {
	Tool jsontext.Value `json:"tool"`
	Ask  jsontext.Value `json:"ask"`
	Wait jsontext.Value `json:"wait"`
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

func newSteps(body jsontext.Value) ([]park.NewStep, error) {
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
	steps := make([]park.NewStep, len(req.Steps))
	for i, step := range req.Steps {
		steps[i].Refusal = newStep(step, &steps[i])
	}
	return steps, nil
}

func invalidStep(pointer, format string, args ...any) *toolpark.Error {
	return toolpark.Errorf(toolpark.CodeValidationFailed, format, args...).At(pointer)
}

// newStep reads a step of one verb.
func newStep(req stepRequest, step *park.NewStep) *toolpark.Error {
	verbs := 0
	for _, verb := range []jsontext.Value{req.Tool, req.Ask, req.Wait} {
		if !absent(verb) {
			verbs++
		}
	}
	switch {
	case verbs != 1:
		return invalidStep("", "A step has one verb: tool, ask or wait.")
	case !absent(req.Ask):
		return newAskStep(req.Ask, step)
	case !absent(req.Wait):
		return newWaitStep(req.Wait, step)
	}
	return newToolStep(req.Tool, step)
}

// stepKey reads the key of a step that brings one. The pointer is that of its verb.
func stepKey(key *string, verb string, step *park.NewStep) *toolpark.Error {
	switch {
	case key == nil:
		return nil
	case !taskKey.MatchString(*key):
		return invalidStep(verb+"/key", "key must match %s.", taskKey)
	case mintedKey.MatchString(*key):
		return toolpark.Errorf(toolpark.CodeDuplicateTaskKey,
			"%s is of the form of the keys that are given to tasks without one; choose another.", *key).At(verb + "/key")
	}
	step.Key = *key
	return nil
}

// stepTimeout reads how long a step may take; nil for what its verb takes by itself.
func stepTimeout(raw jsontext.Value, verb string, limit time.Duration) (*int64, *toolpark.Error) {
	if raw == nil {
		return nil, nil
	}
	ms, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || ms < 1 || ms > limit.Milliseconds() {
		return nil, invalidStep(verb+"/timeout_ms", "timeout_ms must be an integer from 1 to %d.", limit.Milliseconds())
	}
	return &ms, nil
}

// openedStep is an authored task as it begins.
type openedStep struct {
	TaskKey  string            `json:"task_key"`
	Kind     toolpark.TaskKind `json:"kind"`
	ToolName *string           `json:"tool_name"` // null for an ask and a wait
	Status   toolpark.Status   `json:"status"`
}

func renderSteps(a *park.Authored) (jsontext.Value, error) {
	tasks := make([]openedStep, len(a.Tasks))
	for i := range a.Tasks {
		t := &a.Tasks[i]
		tasks[i] = openedStep{TaskKey: t.Key, Kind: t.Kind, ToolName: t.ToolName, Status: t.Status}
	}
	return json.Marshal(map[string]any{"tasks": tasks}, wire)
}
