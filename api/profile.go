package api

import (
	"encoding/json/jsontext"
	"net/http"
	"time"
	"uuid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/declaration"
	"github.com/toolpark/toolpark/internal/postgres"
)

type profileResponse struct {
	Member        uuid.UUID      `json:"member_public_id"`
	Handle        string         `json:"handle"`
	Configuration jsontext.Value `json:"configuration"` // as it was put; {} when none was
	UpdatedAt     *time.Time     `json:"updated_at"`
}

func writeProfile(w http.ResponseWriter, m toolpark.Member, p postgres.Profile) error {
	if p.Configuration == nil {
		p.Configuration = jsontext.Value("{}")
	}
	return writeJSON(w, http.StatusOK, map[string]any{"profile": profileResponse{
		Member: m.ID, Handle: m.Handle, Configuration: p.Configuration, UpdatedAt: p.UpdatedAt,
	}})
}

// agent is the caller, if it is one; a human has no profile and no assembly.
func agent(r *http.Request) (toolpark.Member, error) {
	m := member(r)
	if m.Kind != toolpark.Agent {
		return m, toolpark.Errorf(toolpark.CodeNotAgent, "This route is for an agent's own credential; yours is a human's.")
	}
	return m, nil
}

func (s *Server) getProfile(w http.ResponseWriter, r *http.Request) error {
	m, err := agent(r)
	if err != nil {
		return err
	}
	profile, err := postgres.FindProfile(r.Context(), s.DB.Pool, m.Account, m.ID)
	if err != nil {
		return err
	}
	return writeProfile(w, m, profile)
}

// putConfiguration replaces an agent's standing configuration whole. Its grammar is judged now; who is
// eligible, and what is served, when work is accepted.
func (s *Server) putConfiguration(w http.ResponseWriter, r *http.Request) error {
	m, err := agent(r)
	if err != nil {
		return err
	}
	body, err := readBody(w, r, toolpark.MaxBody)
	if err != nil {
		return err
	}
	req, err := decode[struct {
		Configuration jsontext.Value `json:"configuration"`
	}](body)
	if err != nil {
		return err
	}
	if req.Configuration == nil {
		return toolpark.Errorf(toolpark.CodeParameterMissing, "configuration is required; {} declares nothing.").At("/configuration")
	}
	if _, err := declaration.ParseConfiguration(req.Configuration); err != nil {
		return err
	}
	profile, err := s.DB.PutProfile(r.Context(), m.Account, m.ID, req.Configuration)
	if err != nil {
		return err
	}
	return writeProfile(w, m, profile)
}
