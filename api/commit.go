package api

import (
	"encoding/json/jsontext"
	"net/http"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/envelope"
	"github.com/toolpark/toolpark/internal/notify"
	"github.com/toolpark/toolpark/internal/park"
	"github.com/toolpark/toolpark/workflows"
)

// commitRequest is a report. Its result fields are passed over by the door and judged one by one by
// the envelope: one bad field has its own refusal.
type commitRequest struct {
	ClaimToken jsontext.Value `json:"claim_token"`
	envelope.Fields
}

// resultFields are the fields that the envelope judges.
var resultFields = []string{
	"/content", "/structured_content", "/result_type", "/is_error", "/outcome", "/title", "/metadata",
}

func (s *Server) commit(w http.ResponseWriter, r *http.Request) error {
	id, err := inboxTask(r)
	if err != nil {
		return err
	}
	body, err := readBody(w, r, toolpark.MaxCommitBody, resultFields...)
	if err != nil {
		return err
	}
	req, err := decode[commitRequest](body)
	if err != nil {
		return err
	}
	token := ""
	if !absent(req.ClaimToken) {
		if req.ClaimToken.Kind() != '"' {
			return toolpark.Errorf(toolpark.CodeParameterInvalid, "claim_token must be a string.").At("/claim_token")
		}
		token = text(req.ClaimToken)
	}
	sub := s.Park.Hub.Subscribe(notify.TaskTopic(id))
	defer sub.Close()
	staged, err := s.Park.StageCommit(r.Context(), executor(r), id, token, req.Fields)
	if err != nil {
		return s.withTask(r.Context(), id, err)
	}
	signal := workflows.SignalCommit
	if staged.Task.Kind == toolpark.KindAsk {
		signal = workflows.SignalResolution
	}
	judged, err := s.verdict(r, sub, id, staged, signal)
	if err != nil {
		return err
	}
	if staged.Task.Kind == toolpark.KindAsk {
		return s.writeAnswered(w, r, id, judged, "commit")
	}
	if judged == nil {
		return writeJSON(w, http.StatusAccepted, map[string]any{"commit": map[string]string{"status": "pending"}})
	}
	switch judged.Code {
	case "":
		return writeTask(w, judged.task)
	case toolpark.CodeClaimExpired, toolpark.CodeClaimCanceled, toolpark.CodeStaleClaim:
		return s.withTask(r.Context(), id, park.LateCommitError(judged.Code))
	default:
		return toolpark.Errorf(judged.Code, "%s", judged.Message)
	}
}
