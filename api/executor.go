package api

import (
	"encoding/json/jsontext"
	"net/http"
	"time"
	"uuid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/postgres"
)

// executorResponse is an executor as the members it works for see it.
type executorResponse struct {
	PublicID        uuid.UUID             `json:"public_id"`
	Kind            toolpark.ExecutorKind `json:"kind"`
	DisplayName     string                `json:"display_name"`
	AssignmentScope toolpark.Scope        `json:"assignment_scope"`
	Presence        bool                  `json:"presence"` // it holds an event stream open
	LastSeenAt      *time.Time            `json:"last_seen_at"`
	ServedTools     jsontext.Value        `json:"served_tools"`
	Environment     jsontext.Value        `json:"environment"`
	ServedDocuments jsontext.Value        `json:"served_documents"`
}

func newExecutorResponse(e postgres.ExecutorDescription) executorResponse {
	return executorResponse{
		PublicID: e.ID, Kind: e.Kind, DisplayName: e.DisplayName, AssignmentScope: e.AssignmentScope,
		Presence: e.Present, LastSeenAt: e.LastSeenAt,
		ServedTools: e.Tools, Environment: e.Environment, ServedDocuments: e.Documents,
	}
}

// selfResponse is an executor as it sees itself.
type selfResponse struct {
	executorResponse
	Identifier      string     `json:"identifier"`
	Status          string     `json:"status"`
	CredentialEpoch int        `json:"credential_epoch"`
	ShuttingDown    bool       `json:"shutting_down"`
	AnnouncedAt     *time.Time `json:"announced_at"`
	ConnectedAt     *time.Time `json:"connected_at"`
}

func writeSelf(w http.ResponseWriter, e postgres.ExecutorDescription) error {
	return writeJSON(w, http.StatusOK, map[string]selfResponse{"executor": {
		executorResponse: newExecutorResponse(e),
		Identifier:       e.Identifier, Status: e.Status, CredentialEpoch: e.CredentialEpoch,
		ShuttingDown: e.ShuttingDown, AnnouncedAt: e.AnnouncedAt, ConnectedAt: e.ConnectedAt,
	}})
}

// getSelf tells an executor who its credential is.
func (s *Server) getSelf(w http.ResponseWriter, r *http.Request) error {
	self := executor(r)
	row, err := postgres.DescribeExecutor(r.Context(), s.DB.Pool, self.Account, self.ID)
	if err != nil {
		return err
	}
	return writeSelf(w, row)
}

// shutDownSelf is an executor's word that it goes down for good: it gets no new work, and may finish
// what it claimed.
func (s *Server) shutDownSelf(w http.ResponseWriter, r *http.Request) error {
	body, err := readOptionalBody(w, r)
	if err != nil {
		return err
	}
	if _, err := decode[struct{}](body); err != nil {
		return err
	}
	self := executor(r)
	if err := s.DB.ShutDownExecutor(r.Context(), self.Account, self.ID); err != nil {
		return err
	}
	return s.getSelf(w, r)
}
