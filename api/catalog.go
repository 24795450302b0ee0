package api

import (
	"net/http"

	"github.com/toolpark/toolpark/internal/catalog"
)

// listTools publishes the kernel's own tools.
func (s *Server) listTools(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, catalog.Document())
}
