package api

import (
	"encoding/json/jsontext"
	"net/http"

	"github.com/toolpark/toolpark/schema"
)

// openAPI serves the document that describes every route, body and error code.
func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request) error {
	document, err := schema.OpenAPIJSON()
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, jsontext.Value(document))
}
