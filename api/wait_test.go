package api_test

import (
	"encoding/json/jsontext"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/api"
	"github.com/toolpark/toolpark/internal/postgres"
)

func TestWaitMS(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]time.Duration{
		"": 0, "?wait_ms=0": 0, "?wait_ms=1": time.Millisecond, "?wait_ms=60000": time.Minute,
	} {
		got, err := api.WaitMS(httptest.NewRequest(http.MethodGet, "/"+query, nil))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "-1", "60001", "1.5", "1e3", "x", "99999999999999999999"} {
		_, err := api.WaitMS(httptest.NewRequest(http.MethodGet, "/?wait_ms="+text, nil))
		require.ErrorContains(t, err, string(toolpark.CodeParameterInvalid), text)
	}
}

func TestIdempotencyKeyHeader(t *testing.T) {
	t.Parallel()
	request := func(method, path string, keys ...string) *http.Request {
		r := httptest.NewRequest(method, path, nil)
		r.Header["Idempotency-Key"] = keys
		return r
	}

	t.Run("none", func(t *testing.T) {
		key, _, err := api.IdempotencyKey(request("POST", "/runs"), nil)
		require.NoError(t, err)
		require.Empty(t, key)
	})

	t.Run("the hash tells requests apart", func(t *testing.T) {
		seen := map[string]bool{}
		for _, r := range []*http.Request{request("POST", "/runs", "k"), request("PUT", "/runs", "k"), request("POST", "/other", "k")} {
			for _, body := range []string{`{"a":1}`, `{"a":2}`} {
				key, hash, err := api.IdempotencyKey(r, jsontext.Value(body))
				require.NoError(t, err)
				require.Equal(t, "k", key)
				require.False(t, seen[string(hash)])
				seen[string(hash)] = true
			}
		}
		_, first, _ := api.IdempotencyKey(request("POST", "/runs", "a"), nil)
		_, second, _ := api.IdempotencyKey(request("POST", "/runs", "b"), nil)
		require.Equal(t, first, second, "the key is no part of the request")
	})

	t.Run("what is no key", func(t *testing.T) {
		for _, keys := range [][]string{{""}, {strings.Repeat("k", 65)}, {"a\x7f"}, {"é"}, {"a\tb"}, {"a", "a"}} {
			_, _, err := api.IdempotencyKey(request("POST", "/runs", keys...), nil)
			require.ErrorContains(t, err, string(toolpark.CodeParameterInvalid), "%q", keys)
		}
		_, _, err := api.IdempotencyKey(request("POST", "/runs", strings.Repeat("~", 64)), nil)
		require.NoError(t, err)
	})

	t.Run("a replay says so and is the same answer", func(t *testing.T) {
		w := httptest.NewRecorder()
		require.NoError(t, api.WriteReplay(w, &postgres.Replay{Status: 201, Body: jsontext.Value(`{"b":1.0,"a":[]}`)}))
		require.Equal(t, http.StatusCreated, w.Code)
		require.Equal(t, "true", w.Header().Get("Idempotency-Replayed"))
		require.Equal(t, "{\"b\":1.0,\"a\":[]}\n", w.Body.String())
	})
}

func TestWriteJSONKeepsValues(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	require.NoError(t, api.WriteJSON(w, 200, map[string]any{
		"z":   jsontext.Value(`{"n":12345678901234567890,"d":0.10,"e":1E+2,"s":"<\u00e9\/>"}`),
		"a":   "<&>",
		"nil": []string(nil),
	}))
	require.Equal(t, `{"a":"<&>","nil":[],"z":{"n":12345678901234567890,"d":0.10,"e":1E+2,"s":"<\u00e9\/>"}}`+"\n", w.Body.String())
}
