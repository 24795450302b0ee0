package api

import (
	"context"
	"net/http"
	"time"

	"github.com/toolpark/toolpark"
)

// readyTime bounds what a readiness check waits for one dependency.
const readyTime = 2 * time.Second

// healthz tells that the process lives.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// readyz tells whether to send requests here: not without the database, nor while shutting down.
// Without Temporal the server is degraded but ready, since what it accepts is started later.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) error {
	select {
	case <-s.draining:
		return toolpark.Errorf(toolpark.CodeUnavailable, "This server is shutting down; ask another one.")
	default:
	}
	ctx, cancel := context.WithTimeout(r.Context(), readyTime)
	defer cancel()
	if err := s.DB.Ping(ctx); err != nil {
		return err
	}
	if err := s.Temporal(ctx); err != nil {
		return writeJSON(w, http.StatusOK, map[string]string{"status": "degraded"})
	}
	return writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}
