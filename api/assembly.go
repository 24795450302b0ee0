package api

import (
	"encoding/json/jsontext"
	"net/http"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/declaration"
	"github.com/toolpark/toolpark/internal/postgres"
)

type assemblyRequest struct {
	DefaultRunner jsontext.Value `json:"default_runner_executor_public_id"`
	Configuration jsontext.Value `json:"configuration"`
	Conversation  jsontext.Value `json:"conversation_public_id"`
}

// assemblyResponse is what work may call, and what its models may know of the machines behind it.
type assemblyResponse struct {
	ToolDefinitions jsontext.Value          `json:"tool_definitions"`
	Environment     declaration.Environment `json:"environment"`
}

func newAssemblyResponse(frozen *declaration.Context) (assemblyResponse, error) {
	definitions, err := frozen.Definitions()
	return assemblyResponse{ToolDefinitions: definitions, Environment: frozen.Environment}, err
}

// assembleTools projects what an agent's new work would receive. It writes nothing.
func (s *Server) assembleTools(w http.ResponseWriter, r *http.Request) error {
	m, err := agent(r)
	if err != nil {
		return err
	}
	body, err := readBody(w, r, toolpark.MaxBody)
	if err != nil {
		return err
	}
	req, err := decode[assemblyRequest](body)
	if err != nil {
		return err
	}
	runner, err := selectedRunner(req.DefaultRunner)
	if err != nil {
		return err
	}
	if !absent(req.Conversation) {
		if req.Configuration != nil {
			return toolpark.Errorf(toolpark.CodeValidationFailed,
				"conversation_public_id and configuration exclude each other; send one of them.").At("/conversation_public_id")
		}
		if _, err := nullableUUID(req.Conversation, "/conversation_public_id"); err != nil {
			return err
		}
		return postgres.NotFound("conversation")
	}
	frozen, err := s.Park.Project(r.Context(), m, req.Configuration, runner)
	if err != nil {
		return err
	}
	answer, err := newAssemblyResponse(frozen)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, answer)
}
