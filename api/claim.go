package api

import (
	"encoding/json/jsontext"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"
	"uuid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/park"
	"github.com/toolpark/toolpark/internal/postgres"
)

type claimResponse struct {
	ClaimToken string    `json:"claim_token"`
	DeadlineAt time.Time `json:"deadline_at"`
}

func writeGrant(w http.ResponseWriter, row *postgres.InboxRow, claim park.Claim) error {
	return writeJSON(w, http.StatusOK, map[string]any{
		"task": newInboxRow(row), "claim": claimResponse{ClaimToken: claim.Token, DeadlineAt: claim.DeadlineAt},
	})
}

func (s *Server) claimTask(w http.ResponseWriter, r *http.Request) error {
	id, err := inboxTask(r)
	if err != nil {
		return err
	}
	body, err := readBody(w, r, toolpark.MaxBody)
	if err != nil {
		return err
	}
	req, err := decode[struct {
		ClaimKey string `json:"claim_key"`
	}](body)
	if err != nil {
		return err
	}
	switch n := utf8.RuneCountInString(req.ClaimKey); {
	case n == 0:
		return toolpark.Errorf(toolpark.CodeParameterMissing,
			"claim_key is required: 1 to %d characters, fresh for each attempt, the same when a lost answer is asked for again.",
			toolpark.MaxClaimKey).At("/claim_key")
	case n > toolpark.MaxClaimKey:
		return toolpark.Errorf(toolpark.CodeParameterInvalid, "claim_key has %d characters; at most %d are taken.",
			n, toolpark.MaxClaimKey).At("/claim_key")
	}
	row, claim, err := s.Park.Claim(r.Context(), executor(r), id, req.ClaimKey)
	if err != nil {
		return err
	}
	return writeGrant(w, row, claim)
}

func (s *Server) getClaim(w http.ResponseWriter, r *http.Request) error {
	id, err := inboxTask(r)
	if err != nil {
		return err
	}
	token := r.Header.Get("Claim-Token")
	if token == "" {
		return toolpark.Errorf(toolpark.CodeParameterMissing, "The header Claim-Token is required.")
	}
	active, deadline, err := s.Park.ClaimState(r.Context(), executor(r), id, token)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, map[string]any{"claim": map[string]any{"active": active, "deadline_at": deadline}})
}

func (s *Server) extendClaim(w http.ResponseWriter, r *http.Request) error {
	id, err := inboxTask(r)
	if err != nil {
		return err
	}
	body, err := readBody(w, r, toolpark.MaxBody)
	if err != nil {
		return err
	}
	req, err := decode[struct {
		ClaimToken string         `json:"claim_token"`
		TimeoutMS  jsontext.Value `json:"timeout_ms"`
	}](body)
	if err != nil {
		return err
	}
	if req.ClaimToken == "" {
		return toolpark.Errorf(toolpark.CodeParameterMissing, "claim_token is required.").At("/claim_token")
	}
	ms, err := strconv.ParseInt(string(req.TimeoutMS), 10, 64)
	if err != nil || ms <= 0 {
		return toolpark.Errorf(toolpark.CodeInvalidTimeoutMS, "timeout_ms must be a positive integer.").At("/timeout_ms")
	}
	timeout := time.Duration(min(ms, toolpark.MaxToolTimeout.Milliseconds()+1)) * time.Millisecond // beyond any bound
	row, claim, err := s.Park.Extend(r.Context(), executor(r), id, req.ClaimToken, timeout)
	if err != nil {
		return err
	}
	return writeGrant(w, row, claim)
}

type progressRequest struct {
	Run        uuid.UUID      `json:"run_public_id"`
	TaskKey    string         `json:"task_key"`
	ClaimToken string         `json:"claim_token"`
	Frame      jsontext.Value `json:"frame"`
}

func (s *Server) postProgress(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r, toolpark.MaxBody)
	if err != nil {
		return err
	}
	req, err := decode[progressRequest](body)
	if err != nil {
		return err
	}
	if req.ClaimToken == "" {
		return toolpark.Errorf(toolpark.CodeParameterMissing, "claim_token is required.").At("/claim_token")
	}
	frame, err := progressFrame(req.Frame)
	if err != nil {
		return err
	}
	if !possibleKey.MatchString(req.TaskKey) {
		return postgres.NotFound("task")
	}
	id := toolpark.TaskID{Account: executor(r).Account, Run: req.Run, Key: req.TaskKey}
	kept, err := s.Park.Progress(r.Context(), executor(r), id, req.ClaimToken, frame)
	if err != nil {
		return err
	}
	status := "accepted"
	if !kept {
		status = "dropped"
	}
	return writeJSON(w, http.StatusAccepted, map[string]any{"progress": map[string]string{"status": status}})
}

func progressFrame(frame jsontext.Value) (jsontext.Value, error) {
	if frame == nil {
		return nil, toolpark.Errorf(toolpark.CodeParameterMissing, "frame is required: any JSON value.").At("/frame")
	}
	return storable(frame, toolpark.MaxProgressFrame, "/frame")
}
