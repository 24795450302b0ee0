package worker

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"go.temporal.io/sdk/client"
)

// readyTime bounds what a readiness check waits for.
const readyTime = 2 * time.Second

// Health answers whoever looks after the process: /healthz while it lives, and /readyz while the worker can do
// its work. Otherwise /readyz is 503 and says what is missing.
func (w *Worker) Health() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(rw http.ResponseWriter, _ *http.Request) { answer(rw, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(rw http.ResponseWriter, r *http.Request) {
		if missing := w.missing(r.Context()); missing != "" {
			answer(rw, http.StatusServiceUnavailable, missing)
			return
		}
		answer(rw, http.StatusOK, "ok")
	})
	return mux
}

// missing says what the worker needs and does not have, or "".
func (w *Worker) missing(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	if !w.polling.Load() {
		return "the worker does not poll its queue"
	}
	if err := w.Park.DB.Ping(ctx); err != nil {
		return "the database does not answer"
	}
	if _, err := w.Client.CheckHealth(ctx, &client.CheckHealthRequest{}); err != nil {
		return "the Temporal server does not answer"
	}
	return ""
}

func answer(w http.ResponseWriter, code int, status string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, "{\"status\":%q}\n", status)
}
