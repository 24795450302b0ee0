package api

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
	"uuid"

	"github.com/go-chi/chi/v5"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/declaration"
	"github.com/toolpark/toolpark/internal/envelope"
	"github.com/toolpark/toolpark/internal/notify"
	"github.com/toolpark/toolpark/internal/park"
	"github.com/toolpark/toolpark/internal/postgres"
	"github.com/toolpark/toolpark/internal/strictjson"
)

type roundRequest struct {
	Calls           jsontext.Value `json:"calls"`
	ToolNames       jsontext.Value `json:"tool_names"`
	Offered         *string        `json:"offered"`
	Tools           jsontext.Value `json:"tools"`
	KernelTools     jsontext.Value `json:"kernel_tools"`
	Runners         jsontext.Value `json:"runner_executor_public_ids"`
	RunnerToolNames jsontext.Value `json:"runner_tool_names"`
}

type callRequest struct {
	ID        jsontext.Value `json:"id"`
	Name      jsontext.Value `json:"name"`
	Arguments jsontext.Value `json:"arguments"`
}

// openedTask is a task of a round as it was born.
type openedTask struct {
	TaskKey    string              `json:"task_key"`
	ToolCallID string              `json:"tool_call_id"`
	Minted     bool                `json:"tool_call_id_minted,omitzero"`
	Name       string              `json:"name"`
	Status     toolpark.Status     `json:"status"`
	Error      *toolpark.TaskError `json:"error,omitzero"`
}

func (s *Server) createRound(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r, toolpark.MaxRoundsBody, "/calls/*/arguments")
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
	req, minted, err := newRound(body)
	if err != nil {
		return err
	}
	req.Idempotency = park.Idempotency{Key: key, Hash: hash}
	render := func(a *park.Authored) (jsontext.Value, error) { return renderRound(a, minted) }
	authored, replay, err := s.Park.AuthorRound(r.Context(), member(r), run, req, render)
	if err != nil {
		return err
	}
	if replay != nil {
		return writeReplay(w, replay)
	}
	s.Delivery.Start(authored.Live()) // the answer does not wait: what is lost the recovery loop finds
	answer, err := render(authored)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusCreated, answer)
}

func newRound(body jsontext.Value) (park.RoundRequest, []bool, error) {
	req, err := decode[roundRequest](body)
	if err != nil {
		return park.RoundRequest{}, nil, err
	}
	round := park.RoundRequest{}
	if req.Offered != nil {
		round.Offered = *req.Offered
	}
	own, brought, err := declaration.ParseRoundSources(req.Tools, req.KernelTools, req.Runners, req.RunnerToolNames)
	if err != nil {
		return park.RoundRequest{}, nil, err
	}
	if brought {
		round.Own = &own
	}
	if round.ToolNames, err = toolNames(req.ToolNames); err != nil {
		return park.RoundRequest{}, nil, err
	}
	calls, count, ok := strictjson.Elements(req.Calls, toolpark.MaxCallsPerRound)
	if !ok && !absent(req.Calls) {
		return park.RoundRequest{}, nil, toolpark.Errorf(toolpark.CodeParameterInvalid, "/calls must be an array.").At("/calls")
	}
	if count == 0 || count > toolpark.MaxCallsPerRound {
		return park.RoundRequest{}, nil, toolpark.Errorf(toolpark.CodeParameterInvalid,
			"calls must hold 1 to %d calls.", toolpark.MaxCallsPerRound).At("/calls")
	}
	round.Calls = make([]park.Call, count)
	minted := make([]bool, count)
	seen := make(map[string]int, count)
	for i, raw := range calls {
		call, ok, err := newCall(raw, i)
		if err != nil {
			return park.RoundRequest{}, nil, err
		}
		if first, twice := seen[call.ID]; twice {
			return park.RoundRequest{}, nil, toolpark.Errorf(toolpark.CodeParameterInvalid,
				"calls[%d].id is that of calls[%d]; results could not be paired.", i, first).At(fmt.Sprintf("/calls/%d/id", i))
		}
		seen[call.ID] = i
		round.Calls[i], minted[i] = call, !ok
	}
	return round, minted, nil
}

// toolNames reads a list of names; nil when it is absent.
func toolNames(v jsontext.Value) (*[]string, error) {
	if absent(v) {
		return nil, nil
	}
	elements, count, ok := strictjson.Elements(v, toolpark.MaxToolNames)
	if !ok {
		return nil, parameterInvalid("tool_names must be an array.").At("/tool_names")
	}
	if count > toolpark.MaxToolNames {
		return nil, parameterInvalid("tool_names holds %d names; it may hold %d.", count, toolpark.MaxToolNames).At("/tool_names")
	}
	names := make([]string, count)
	for i, element := range elements {
		if element.Kind() != '"' {
			return nil, parameterInvalid("tool_names[%d] must be a string.", i).At(fmt.Sprintf("/tool_names/%d", i))
		}
		names[i] = text(element)
	}
	return &names, nil
}

// newCall reads one call. ok tells that it brought a pairing key of its own.
func newCall(raw jsontext.Value, i int) (call park.Call, ok bool, err error) {
	var req callRequest
	err = json.Unmarshal(raw, &req, json.RejectUnknownMembers(true), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	if err != nil {
		return park.Call{}, false, toolpark.Errorf(toolpark.CodeParameterInvalid,
			"calls[%d] must be an object of id, name and arguments, and nothing else.", i).At(fmt.Sprintf("/calls/%d", i)).Because(err)
	}
	if req.Name == nil || req.Name.Kind() != '"' {
		return park.Call{}, false, toolpark.Errorf(toolpark.CodeParameterInvalid,
			"calls[%d].name must be a string.", i).At(fmt.Sprintf("/calls/%d/name", i))
	}
	call = park.Call{Name: text(req.Name), Arguments: req.Arguments}
	switch {
	case absent(req.ID):
	case req.ID.Kind() != '"':
		return park.Call{}, false, toolpark.Errorf(toolpark.CodeParameterInvalid,
			"calls[%d].id must be a string.", i).At(fmt.Sprintf("/calls/%d/id", i))
	default:
		call.ID = text(req.ID)
	}
	ok = strings.TrimSpace(call.ID) != "" && utf8.RuneCountInString(call.ID) <= toolpark.MaxToolCallID && !strings.Contains(call.ID, "\x00")
	if !ok {
		call.ID = "call_" + uuid.NewV7().String()
	}
	return call, ok, nil
}

// text is the string that a JSON string holds.
func text(v jsontext.Value) string {
	s, _ := jsontext.AppendUnquote(nil, v) // the door has refused what does not unquote
	return string(s)
}

func renderRound(a *park.Authored, minted []bool) (jsontext.Value, error) {
	tasks := make([]openedTask, len(a.Tasks))
	for i := range a.Tasks {
		t := &a.Tasks[i]
		tasks[i] = openedTask{
			TaskKey: t.Key, ToolCallID: *t.ToolCallID, Minted: minted[i], Name: *t.CallableName, Status: t.Status,
			Error: birthError(t),
		}
	}
	return json.Marshal(map[string]any{"round": map[string]any{"number": a.Round.Number, "tasks": tasks}}, wire)
}

func birthError(t *postgres.NewTask) *toolpark.TaskError {
	if t.ErrorKey == nil {
		return nil
	}
	e := &toolpark.TaskError{Key: *t.ErrorKey}
	if t.ErrorDetail != nil {
		e.Detail = *t.ErrorDetail
	}
	return e
}

// roundNumber is the round of the path; zero, which no round has, for what is no number.
func roundNumber(r *http.Request) int {
	text := chi.URLParam(r, "number")
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 || number > 1<<31-1 || strconv.Itoa(number) != text {
		return 0
	}
	return number
}

// settledRound waits until every task of the round of the path has settled, or the time is up, and
// reads them in call order.
func (s *Server) settledRound(r *http.Request) (number int, tasks []*postgres.TaskDetail, settled bool, err error) {
	wait, err := waitMS(r)
	if err != nil {
		return 0, nil, false, err
	}
	id, err := pathUUID(r, "run")
	if err != nil {
		return 0, nil, false, err
	}
	number = roundNumber(r)
	sub := s.Park.Hub.Subscribe(notify.RoundTopic(id, number))
	defer sub.Close()
	begin := time.Now()
	run, err := s.DB.Run(r.Context(), member(r), id, postgres.ReadRoundSettled(id, number, &settled))
	if err == nil {
		err = detailed(run)
	}
	if err != nil {
		return 0, nil, false, err
	}
	if !settled && wait > 0 {
		notify.Wait(r.Context(), sub, wait, s.draining)
	}
	tasks, err = notify.Await(r.Context(), sub, wait-time.Since(begin), s.draining, func(ctx context.Context) ([]*postgres.TaskDetail, bool, error) {
		tasks, err := s.DB.RoundDetail(ctx, run.AccountID, run.ID, number)
		settled = !slices.ContainsFunc(tasks, func(t *postgres.TaskDetail) bool { return t.SettledAt == nil })
		return tasks, settled, err
	})
	return number, tasks, settled, err
}

func (s *Server) getRound(w http.ResponseWriter, r *http.Request) error {
	number, tasks, settled, err := s.settledRound(r)
	if err != nil {
		return err
	}
	results := make([]taskResponse, len(tasks))
	for i, task := range tasks {
		if results[i], err = newTaskResponse(task); err != nil {
			return err
		}
	}
	return writeJSON(w, http.StatusOK, map[string]any{
		"round": map[string]any{"number": number, "settled": settled, "results": results},
	})
}

// getMessages renders a settled round's results as provider messages, one result a call, in call order.
func (s *Server) getMessages(w http.ResponseWriter, r *http.Request) error {
	format, err := formatOf(r)
	if err != nil {
		return err
	}
	if err := checkAcceptMedia(r); err != nil {
		return err
	}
	_, tasks, settled, err := s.settledRound(r)
	if err != nil {
		return err
	}
	if !settled {
		return toolpark.Errorf(toolpark.CodeRunBusy,
			"The round has calls without a result; wait for it with wait_ms, or read the round.")
	}
	results := make([]envelope.Result, len(tasks))
	for i, task := range tasks {
		if results[i], err = modelResult(task); err != nil {
			return err
		}
	}
	messages, err := envelope.Messages(format, results)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, map[string]any{"messages": messages})
}

// modelResult is what a model reads of a settled task.
func modelResult(t *postgres.TaskDetail) (envelope.Result, error) {
	result := envelope.Result{CallID: *t.ToolCallID, IsError: t.IsError}
	switch {
	case t.OriginalInput != nil:
		result.Edited = t.Input
	case t.ChildInput != nil:
		result.Edited = t.ChildInput
	}
	if t.Status != toolpark.Completed {
		result.Failure = &toolpark.TaskError{Key: *t.ErrorKey}
		if t.ErrorDetail != nil {
			result.Failure.Detail = *t.ErrorDetail
		}
		return result, nil
	}
	var err error
	result.Text, err = envelope.Output(t.Content)
	return result, err
}

func checkAcceptMedia(r *http.Request) error {
	media := r.URL.Query().Get("accept_media")
	if media == "" {
		return nil
	}
	for kind := range strings.SplitSeq(media, ",") {
		if kind != "image" && kind != "pdf" {
			return parameterInvalid("accept_media is a list of image and pdf, separated by commas.")
		}
	}
	return nil
}
