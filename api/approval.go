package api

import (
	"encoding/json/jsontext"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
	"uuid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/notify"
	"github.com/toolpark/toolpark/internal/park"
	"github.com/toolpark/toolpark/internal/postgres"
	"github.com/toolpark/toolpark/workflows"
)

// listApprovals lists the calls that wait for a decision in every run that the caller may read, the longest
// waiting first.
func (s *Server) listApprovals(w http.ResponseWriter, r *http.Request) error {
	return s.listForPeople(w, r, toolpark.NeedsApproval, "approvals")
}

func (s *Server) listForPeople(w http.ResponseWriter, r *http.Request, status toolpark.Status, field string) error {
	limit, after, err := inboxPlaceOf(r)
	if err != nil {
		return err
	}
	filter, err := peopleFilter(r, status)
	if err != nil {
		return err
	}
	rows, err := s.DB.ForPeople(r.Context(), member(r), filter, after.position(), limit+1)
	if err != nil {
		return err
	}
	list, next, err := inboxPage(rows, limit)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, map[string]any{field: list, "pagination": next})
}

// peopleFilter reads which of the tasks that wait for a person are asked for: by run, by tool, by age.
func peopleFilter(r *http.Request, status toolpark.Status) (postgres.PeopleFilter, error) {
	query := r.URL.Query()
	filter := postgres.PeopleFilter{Status: status, Tool: query.Get("tool")}
	if query.Has("run") {
		run, err := uuid.Parse(query.Get("run"))
		if err != nil {
			return filter, parameterInvalid("run must be a run's UUID.")
		}
		filter.Run = &run
	}
	if !utf8.ValidString(filter.Tool) || strings.ContainsRune(filter.Tool, 0) || query.Has("tool") && filter.Tool == "" {
		return filter, parameterInvalid("tool must be the name that a tool is served under, or a kernel tool's.")
	}
	if query.Has("min_age_ms") {
		ms, err := strconv.ParseInt(query.Get("min_age_ms"), 10, 64)
		if err != nil || ms < 0 || ms > toolpark.MaxApprovalHold.Milliseconds() {
			return filter, parameterInvalid("min_age_ms must be an integer from 0 to %d.", toolpark.MaxApprovalHold.Milliseconds())
		}
		filter.MinAge = time.Duration(ms) * time.Millisecond
	}
	return filter, nil
}

// approveTask lets a call run that waits for it, perhaps with another input than its own.
func (s *Server) approveTask(w http.ResponseWriter, r *http.Request) error {
	body, err := readOptionalBody(w, r, "/input")
	if err != nil {
		return err
	}
	req, err := decode[struct {
		InputDigest *string        `json:"input_digest"`
		Input       jsontext.Value `json:"input"`
	}](body)
	if err != nil {
		return err
	}
	d := park.Decision{Approve: true}
	if !absent(req.Input) {
		d.Input = req.Input
	}
	if req.InputDigest != nil {
		if d.Digest = *req.InputDigest; d.Digest == "" {
			return toolpark.Errorf(toolpark.CodeParameterInvalid, "input_digest must be the digest that the call shows, or left out.").
				At("/input_digest")
		}
	}
	return s.decide(w, r, d)
}

// denyTask refuses a call that waits for a decision.
func (s *Server) denyTask(w http.ResponseWriter, r *http.Request) error {
	body, err := readOptionalBody(w, r)
	if err != nil {
		return err
	}
	req, err := decode[struct {
		Reason *string `json:"reason"`
	}](body)
	if err != nil {
		return err
	}
	d := park.Decision{}
	if req.Reason != nil {
		d.Reason = *req.Reason
	}
	if strings.ContainsRune(d.Reason, 0) {
		return toolpark.Errorf(toolpark.CodeValidationFailed, "reason holds U+0000, which cannot be stored.").At("/reason")
	}
	return s.decide(w, r, d)
}

func (s *Server) decide(w http.ResponseWriter, r *http.Request, d park.Decision) error {
	run, err := s.detailedRun(r)
	if err != nil {
		return err
	}
	key, err := pathKey(r)
	if err != nil {
		return err
	}
	id := toolpark.TaskID{Account: run.AccountID, Run: run.ID, Key: key}
	sub := s.Park.Hub.Subscribe(notify.TaskTopic(id))
	defer sub.Close()
	staged, err := s.Park.StageDecision(r.Context(), member(r), run, key, d)
	if err != nil {
		return s.withTask(r.Context(), id, err)
	}
	judged, err := s.verdict(r, sub, id, staged, workflows.SignalDecision)
	switch {
	case err != nil:
		return err
	case judged == nil:
		return writeJSON(w, http.StatusAccepted, map[string]any{"decision": map[string]string{"status": "pending"}})
	case judged.Code == toolpark.CodeNotAwaitingApproval:
		return s.withTask(r.Context(), id, park.NotAwaitingApproval(&judged.task.Task))
	case judged.Code != "":
		return s.withTask(r.Context(), id, toolpark.Errorf(judged.Code, "%s", judged.Message))
	}
	return writeTask(w, judged.task)
}
