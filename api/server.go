// Package api is the HTTP door: it decodes and authorises a request, calls what does the work, and
// encodes the answer. Handlers return errors; one adapter writes them.
package api

import (
	"context"
	"log/slog"
	"net/http"
	"sync"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/toolpark/toolpark/internal/postgres"
)

// Server serves the HTTP API. It is stateless: run as many as you like over one database.
type Server struct {
	DB       *postgres.DB
	Log      *slog.Logger
	Metrics  *prometheus.Registry
	Temporal func(context.Context) error // nil error: the Temporal server answers

	drainOnce sync.Once
	draining  chan struct{} // closed at shutdown: long polls and streams end early
}

// Handler is the whole API. Call it once.
func (s *Server) Handler() http.Handler {
	s.draining = make(chan struct{})
	r := chi.NewRouter()
	r.Use(s.observe(), secure, s.recoverPanic)
	r.NotFound(s.handle(noRoute))
	r.MethodNotAllowed(s.handle(wrongMethod(r)))

	r.Get("/healthz", s.handle(s.healthz))
	r.Get("/readyz", s.handle(s.readyz))
	r.Get("/openapi.json", s.handle(s.openAPI))
	r.Method(http.MethodGet, "/metrics", promhttp.HandlerFor(s.Metrics, promhttp.HandlerOpts{}))

	r.Route("/agent_api/v1", func(r chi.Router) {
		r.Group(func(r chi.Router) {
			r.Use(s.memberPlane)
			r.Get("/executors", s.handle(s.listExecutors, "kind", "after", "limit"))
			r.Get("/executors/{executor}", s.handle(s.getExecutor))
		})
		r.Group(func(r chi.Router) {
			r.Use(s.executorPlane)
			r.Get("/executor", s.handle(s.getSelf))
			r.Post("/executor/shutdown", s.handle(s.shutDownSelf))
		})
	})
	return r
}

// Drain answers every long poll and ends every stream, now and from now on. It is for
// http.Server.RegisterOnShutdown.
func (s *Server) Drain() { s.drainOnce.Do(func() { close(s.draining) }) }
