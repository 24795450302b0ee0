package worker_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark/internal/devstack/devtest"
	"github.com/toolpark/toolpark/internal/kernel"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/worker"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T, change func(*kernel.Config)) (*kerneltest.Kernel, *worker.Worker) {
		k := kerneltest.StartAPI(t).Another(t, change)
		return k, k.Worker()
	}
	ask := func(t *testing.T, w *worker.Worker, path string) (int, string) {
		t.Helper()
		answer := httptest.NewRecorder()
		w.Health().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return answer.Code, answer.Body.String()
	}
	become := func(t *testing.T, k *kerneltest.Kernel, w *worker.Worker, code int, status string) {
		t.Helper()
		k.Eventually("/readyz says "+status, func() bool {
			got, body := ask(t, w, "/readyz")
			return got == code && body == `{"status":"`+status+"\"}\n"
		})
		got, body := ask(t, w, "/healthz")
		require.Equal(t, http.StatusOK, got)
		require.JSONEq(t, `{"status":"ok"}`, body)
	}
	run := func(t *testing.T, w *worker.Worker) (stop func()) {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		stop = func() {
			cancel()
			require.NoError(t, <-ended)
			ended <- nil
		}
		t.Cleanup(stop)
		return stop
	}

	t.Run("a worker is ready while it polls", func(t *testing.T) {
		t.Parallel()
		address := freeAddress(t)
		k, w := setup(t, func(c *kernel.Config) { c.Temporal.HostPort = address })
		stop := run(t, w)
		become(t, k, w, http.StatusServiceUnavailable, "the worker does not poll its queue")
		cut := forward(t, address, devtest.Temporal(t))
		become(t, k, w, http.StatusOK, "ok")
		cut()
		become(t, k, w, http.StatusServiceUnavailable, "the Temporal server does not answer")
		stop()
		become(t, k, w, http.StatusServiceUnavailable, "the worker does not poll its queue")
	})

	t.Run("not without the database", func(t *testing.T) {
		t.Parallel()
		k, w := setup(t, func(c *kernel.Config) { c.DatabaseURL = "postgres://nobody@127.0.0.1:1/none" })
		run(t, w)
		become(t, k, w, http.StatusServiceUnavailable, "the database does not answer")
	})
}
