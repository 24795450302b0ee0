package api

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"net/http"
	"net/url"
	"slices"
	"uuid"

	"github.com/go-chi/chi/v5"

	"github.com/toolpark/toolpark/internal/postgres"
	"github.com/toolpark/toolpark/internal/strictjson"
)

// handler answers a request, or returns the error that is to be answered.
type handler func(w http.ResponseWriter, r *http.Request) error

// handle adapts a handler. query names every query parameter that the route reads; any other is
// refused, so that a misspelt one is not silently ignored.
func (s *Server) handle(h handler, query ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := checkQuery(r, query)
		if err == nil {
			err = h(w, r)
		}
		if err != nil {
			s.writeError(w, r, err)
		}
	}
}

func checkQuery(r *http.Request, known []string) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return parameterInvalid("The query string is not well formed; percent-encode its values.")
	}
	for name, given := range values {
		if !slices.Contains(known, name) {
			return parameterInvalid("This route has no query parameter %q.", strictjson.CutString(name, 64))
		}
		if len(given) > 1 {
			return parameterInvalid("The query parameter %s is given more than once.", name)
		}
	}
	return nil
}

// wire is how every answer is encoded: the same value always gives the same bytes, raw values keep
// their numbers and key order, and what was stored is never refused on the way out.
var wire = json.JoinOptions(
	json.Deterministic(true),
	jsontext.PreserveRawStrings(true),
	jsontext.AllowDuplicateNames(true),
	jsontext.AllowInvalidUTF8(true),
)

// writeJSON answers with v as JSON. Nothing is written when v cannot be encoded.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v, wire)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
	return nil
}

// pathUUID reads an id from the path. Another spelling of a UUID is not an id: it is not found.
func pathUUID(r *http.Request, name string) (uuid.UUID, error) {
	text := chi.URLParam(r, name)
	id, err := uuid.Parse(text)
	if err != nil || id.String() != text {
		return uuid.UUID{}, postgres.NotFound(name)
	}
	return id, nil
}
