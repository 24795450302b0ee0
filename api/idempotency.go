package api

import (
	"crypto/sha256"
	"encoding/json/jsontext"
	"net/http"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/postgres"
)

// idempotencyKey reads the Idempotency-Key header and hashes the request it stands for: method, path
// and body. The key is empty when the caller sent none.
func idempotencyKey(r *http.Request, body jsontext.Value) (key string, hash []byte, err error) {
	values := r.Header.Values("Idempotency-Key")
	if len(values) == 0 {
		return "", nil, nil
	}
	key = values[0]
	if len(values) > 1 || key == "" || len(key) > toolpark.MaxIdempotencyKey || !printable(key) {
		return "", nil, parameterInvalid("The Idempotency-Key header must be one value of 1 to %d printable ASCII characters.",
			toolpark.MaxIdempotencyKey)
	}
	h := sha256.New()
	h.Write([]byte(r.Method + " " + r.URL.EscapedPath() + "\n"))
	h.Write(body)
	return key, h.Sum(nil), nil
}

// writeReplay answers with what the same request was answered the first time.
func writeReplay(w http.ResponseWriter, replay *postgres.Replay) error {
	w.Header().Set("Idempotency-Replayed", "true")
	return writeJSON(w, replay.Status, replay.Body)
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
