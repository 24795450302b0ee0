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

// listAsks lists the questions that wait for an answer in every run that the caller may read, the longest waiting
// first.
func (s *Server) listAsks(w http.ResponseWriter, r *http.Request) error {
	return s.listForPeople(w, r, toolpark.AwaitingInput, "asks")
}

// resolveTask answers a question. The fields of the answer are judged one by one by the envelope, as a commit's.
func (s *Server) resolveTask(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r, toolpark.MaxCommitBody, "/content", "/structured_content", "/outcome")
	if err != nil {
		return err
	}
	req, err := decode[struct {
		Content           jsontext.Value `json:"content"`
		StructuredContent jsontext.Value `json:"structured_content"`
		Outcome           jsontext.Value `json:"outcome"`
	}](body)
	if err != nil {
		return err
	}
	id, err := s.readableTask(r)
	if err != nil {
		return err
	}
	sub := s.Park.Hub.Subscribe(notify.TaskTopic(id))
	defer sub.Close()
	staged, err := s.Park.StageResolution(r.Context(), member(r), id, envelope.Fields{
		Content: req.Content, StructuredContent: req.StructuredContent, Outcome: req.Outcome,
	})
	if err != nil {
		return s.withTask(r.Context(), id, err)
	}
	judged, err := s.verdict(r, sub, id, staged, workflows.SignalResolution)
	if err != nil {
		return err
	}
	return s.writeAnswered(w, r, id, judged, "resolution")
}

// writeAnswered tells what became of an answer to a question; pending names the answer that waits.
func (s *Server) writeAnswered(w http.ResponseWriter, r *http.Request, id toolpark.TaskID, judged *judged, pending string) error {
	switch {
	case judged == nil:
		return writeJSON(w, http.StatusAccepted, map[string]any{pending: map[string]string{"status": "pending"}})
	case judged.Code == toolpark.CodeAlreadySettled:
		return s.withTask(r.Context(), id, park.AlreadyAnswered(&judged.task.Task))
	case judged.Code != "":
		return toolpark.Errorf(judged.Code, "%s", judged.Message)
	}
	return writeTask(w, judged.task)
}
