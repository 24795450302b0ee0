package api

import (
	"encoding/base64"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"net/http"
	"strconv"

	"github.com/toolpark/toolpark"
)

// pagination rides every list. A null cursor ends it.
type pagination struct {
	NextAfter *string `json:"next_after"`
}

// page reads the limit and the cursor of a list; after is empty on the first page.
func page(r *http.Request) (limit int, after string, err error) {
	query := r.URL.Query()
	limit = toolpark.DefaultPage
	if query.Has("limit") {
		limit, err = strconv.Atoi(query.Get("limit"))
		if err != nil || limit < 1 || limit > toolpark.MaxPage {
			return 0, "", parameterInvalid("limit must be an integer from 1 to %d.", toolpark.MaxPage)
		}
	}
	if query.Has("after") && query.Get("after") == "" {
		return 0, "", badCursor()
	}
	return limit, query.Get("after"), nil
}

// encodeCursor makes the opaque cursor of a place in a list.
func encodeCursor[T any](place T) (string, error) {
	text, err := json.Marshal(place)
	return base64.RawURLEncoding.EncodeToString(text), err
}

// decodeCursor reads the place that encodeCursor put into a cursor; without a cursor it is the zero T.
func decodeCursor[T any](cursor string) (T, error) {
	var place, none T
	if cursor == "" {
		return none, nil
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || jsontext.Value(text).Kind() == jsontext.KindNull {
		return none, badCursor()
	}
	if err := json.Unmarshal(text, &place, json.RejectUnknownMembers(true)); err != nil {
		return none, badCursor()
	}
	return place, nil
}

// nextPage cuts rows, of which one more than limit was read, to the page, and makes the cursor of its
// last row if there are more.
func nextPage[R, T any](rows []R, limit int, place func(R) T) ([]R, pagination, error) {
	if len(rows) <= limit {
		return rows, pagination{}, nil
	}
	rows = rows[:limit]
	cursor, err := encodeCursor(place(rows[limit-1]))
	return rows, pagination{NextAfter: &cursor}, err
}

func badCursor() error {
	return parameterInvalid("after is not a cursor; use pagination.next_after of the page before, unchanged.")
}
