package api

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/toolpark/toolpark"
	policy "github.com/toolpark/toolpark/internal/approval" // approval is a task's own record here
	"github.com/toolpark/toolpark/internal/declaration"
	"github.com/toolpark/toolpark/internal/postgres"
)

// frozenContext is what the run of the path may call.
func (s *Server) frozenContext(r *http.Request) (*declaration.Context, error) {
	run, err := s.detailedRun(r)
	if err != nil {
		return nil, err
	}
	switch {
	case run.Status == toolpark.RunAccepting:
		return nil, toolpark.Errorf(toolpark.CodeRunAccepting, "The run has no frozen context yet; read it again until it has been accepted.")
	case run.ContextHash == nil:
		return nil, toolpark.Errorf(toolpark.CodeRunSettled, "The run has no frozen context: it was refused.")
	}
	return s.Park.Context(r.Context(), run)
}

type contextResponse struct {
	Context       assemblyResponse `json:"context"`        // as an assembly shows it
	ApprovalRules []policy.Rule    `json:"approval_rules"` // as declared, in their order
}

func (s *Server) getContext(w http.ResponseWriter, r *http.Request) error {
	frozen, err := s.frozenContext(r)
	if err != nil {
		return err
	}
	answer, err := newAssemblyResponse(frozen)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, contextResponse{Context: answer, ApprovalRules: frozen.ApprovalRules})
}

// getTools shows what a model is to be offered now, in its provider's form.
func (s *Server) getTools(w http.ResponseWriter, r *http.Request) error {
	format, err := formatOf(r)
	if err != nil {
		return err
	}
	frozen, err := s.frozenContext(r)
	if err != nil {
		return err
	}
	if query := r.URL.Query(); query.Has("tool_names") {
		var names []string
		if list := query.Get("tool_names"); list != "" {
			names = strings.Split(list, ",") // callable names hold no comma
		}
		if frozen, err = frozen.Narrow(names); err != nil {
			return err
		}
	}
	tools, digest, err := frozen.Projection(format)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, map[string]any{"tools": tools, "projection_digest": digest})
}

// formatOf is the provider's form that a request asks for.
func formatOf(r *http.Request) (toolpark.Format, error) {
	if !r.URL.Query().Has("format") {
		return "", toolpark.Errorf(toolpark.CodeParameterMissing, "The query parameter format is required.").With("parameter", "format")
	}
	return toolpark.ParseFormat(r.URL.Query().Get("format"))
}

// getSkills lists the documents that the run's tools can load, as data or as the text for a model's prompt.
func (s *Server) getSkills(w http.ResponseWriter, r *http.Request) error {
	format := r.URL.Query().Get("format")
	if format != "" && format != "json" && format != "text" {
		return parameterInvalid("format must be json or text.")
	}
	frozen, err := s.frozenContext(r)
	if err != nil {
		return err
	}
	if format != "text" {
		return writeJSON(w, http.StatusOK, map[string]any{"skills": frozen.Skills})
	}
	var text strings.Builder
	for _, skill := range frozen.Skills {
		fmt.Fprintf(&text, "- %s / %s [%s]: %s\n", skill.Callable, skill.Name, skill.ExecutorPublicID, skill.Description)
	}
	return writeJSON(w, http.StatusOK, map[string]any{"text": text.String()})
}

// getOffered shows what the model of a round was offered, as it was then.
func (s *Server) getOffered(w http.ResponseWriter, r *http.Request) error {
	run, err := s.detailedRun(r)
	if err != nil {
		return err
	}
	number := roundNumber(r)
	offered, err := s.DB.Offered(r.Context(), run.AccountID, run.ID, number)
	if err != nil {
		return err
	}
	if offered == nil {
		return postgres.NotFound("projection: the round did not say what its model was offered")
	}
	return writeJSON(w, http.StatusOK, map[string]any{
		"format": offered.Format, "tools": offered.Tools, "projection_digest": offered.Digest,
	})
}
