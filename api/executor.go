package api

import (
	"encoding/json/jsontext"
	"net/http"
	"time"
	"uuid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/postgres"
)

// executorResponse is an executor as itself and as the members it works for see it.
type executorResponse struct {
	PublicID        uuid.UUID             `json:"public_id"`
	Kind            toolpark.ExecutorKind `json:"kind"`
	DisplayName     string                `json:"display_name"`
	Status          string                `json:"status"` // active, revoked
	AssignmentScope toolpark.Scope        `json:"assignment_scope"`
	ShuttingDown    bool                  `json:"shutting_down"`
	ServedTools     jsontext.Value        `json:"served_tools"`
	Environment     jsontext.Value        `json:"environment"`
	ServedDocuments jsontext.Value        `json:"served_documents"`
	Presence        string                `json:"presence"` // online, offline
	AnnouncedAt     *time.Time            `json:"announced_at"`
	ConnectedAt     *time.Time            `json:"connected_at"`
	LastSeenAt      *time.Time            `json:"last_seen_at"`
	CreatedAt       time.Time             `json:"created_at"`
}

func newExecutorResponse(e postgres.ExecutorDescription) executorResponse {
	presence := "offline"
	if e.Present {
		presence = "online"
	}
	return executorResponse{
		PublicID: e.ID, Kind: e.Kind, DisplayName: e.DisplayName, Status: e.Status,
		AssignmentScope: e.AssignmentScope, ShuttingDown: e.ShuttingDown,
		ServedTools: e.Tools, Environment: e.Environment, ServedDocuments: e.Documents,
		Presence: presence, AnnouncedAt: e.AnnouncedAt, ConnectedAt: e.ConnectedAt,
		LastSeenAt: e.LastSeenAt, CreatedAt: e.CreatedAt,
	}
}

func writeExecutor(w http.ResponseWriter, e postgres.ExecutorDescription) error {
	return writeJSON(w, http.StatusOK, struct {
		Executor executorResponse `json:"executor"`
	}{newExecutorResponse(e)})
}

// getSelf tells an executor who its credential is.
func (s *Server) getSelf(w http.ResponseWriter, r *http.Request) error {
	self := executor(r)
	row, err := postgres.DescribeExecutor(r.Context(), s.DB.Pool, self.Account, self.ID)
	if err != nil {
		return err
	}
	return writeExecutor(w, row)
}

// shutDownSelf is an executor's word that it goes down for good: it gets no new work, and may finish
// what it claimed.
func (s *Server) shutDownSelf(w http.ResponseWriter, r *http.Request) error {
	body, err := readOptionalBody(w, r, toolpark.MaxBody)
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
