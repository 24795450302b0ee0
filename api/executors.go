package api

import (
	"errors"
	"net/http"
	"uuid"

	"github.com/jackc/pgx/v5"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/postgres"
)

// listExecutors lists the runners and tools providers that may take the caller's work.
func (s *Server) listExecutors(w http.ResponseWriter, r *http.Request) error {
	limit, cursor, err := page(r)
	if err != nil {
		return err
	}
	after, err := decodeCursor[uuid.UUID](cursor)
	if err != nil {
		return err
	}
	kind := toolpark.ExecutorKind(r.URL.Query().Get("kind"))
	if r.URL.Query().Has("kind") && kind != toolpark.Runner && kind != toolpark.ToolsProvider {
		return parameterInvalid("kind must be %s or %s.", toolpark.Runner, toolpark.ToolsProvider)
	}
	m := member(r)
	rows, err := s.DB.DiscoverExecutors(r.Context(), m.Account, m.Human(), kind, after, limit+1)
	if err != nil {
		return err
	}
	rows, next, err := nextPage(rows, limit, func(e postgres.ExecutorDescription) uuid.UUID { return e.ID })
	if err != nil {
		return err
	}
	executors := make([]executorResponse, len(rows))
	for i, row := range rows {
		executors[i] = newExecutorResponse(row)
	}
	return writeJSON(w, http.StatusOK, struct {
		Executors  []executorResponse `json:"executors"`
		Pagination pagination         `json:"pagination"`
	}{executors, next})
}

func (s *Server) getExecutor(w http.ResponseWriter, r *http.Request) error {
	id, err := pathUUID(r, "executor")
	if err != nil {
		return err
	}
	m := member(r)
	row, err := s.DB.DiscoverExecutor(r.Context(), m.Account, m.Human(), id)
	if errors.Is(err, pgx.ErrNoRows) {
		return postgres.NotFound("executor")
	}
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, map[string]executorResponse{"executor": newExecutorResponse(row)})
}
