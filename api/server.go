// Package api is the HTTP door: it decodes and authorises a request, calls what does the work, and
// encodes the answer. Handlers return errors; one adapter writes them.
package api

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/toolpark/toolpark/internal/park"
	"github.com/toolpark/toolpark/internal/postgres"
	"github.com/toolpark/toolpark/workflows"
)

// Server serves the HTTP API. It is stateless: run as many as you like over one database.
type Server struct {
	DB       *postgres.DB
	Park     *park.Park
	Delivery *workflows.Delivery
	Log      *slog.Logger
	Metrics  *prometheus.Registry
	Temporal func(context.Context) error // nil error: the Temporal server answers

	drainOnce sync.Once
	bodyTime  time.Duration // when not the constant, for tests
	draining  chan struct{} // closed at shutdown: long polls and streams end early
}

// Handler is the whole API. Call it once.
func (s *Server) Handler() http.Handler {
	s.draining = make(chan struct{})
	r := chi.NewRouter()
	r.Use(s.observe(), secure, s.recoverPanic, s.hurryBody)
	r.NotFound(s.handle(noRoute))
	r.MethodNotAllowed(s.handle(wrongMethod(r)))

	r.Get("/healthz", s.handle(s.healthz))
	r.Get("/readyz", s.handle(s.readyz))
	r.Get("/openapi.json", s.handle(s.openAPI))
	r.Method(http.MethodGet, "/metrics", promhttp.HandlerFor(s.Metrics, promhttp.HandlerOpts{}))

	r.Route("/agent_api/v1", func(r chi.Router) {
		r.Group(func(r chi.Router) {
			r.Use(s.memberPlane)
			r.Get("/tools", s.handle(s.listTools))
			r.Post("/tools/assembly", s.handle(s.assembleTools))
			r.Get("/profile", s.handle(s.getProfile))
			r.Put("/profile/configuration", s.handle(s.putConfiguration))
			r.Get("/executors", s.handle(s.listExecutors, "kind", "after", "limit"))
			r.Get("/executors/{executor}", s.handle(s.getExecutor))
			r.Post("/runs", s.handle(s.createRun))
			r.Get("/runs", s.handle(s.listRuns, "after", "limit"))
			r.Get("/runs/{run}", s.handle(s.getRun))
			r.Get("/runs/{run}/context", s.handle(s.getContext))
			r.Get("/runs/{run}/tools", s.handle(s.getTools, "format", "tool_names"))
			r.Get("/runs/{run}/skills", s.handle(s.getSkills, "format"))
			r.Post("/runs/{run}/complete", s.handle(s.completeRun))
			r.Post("/runs/{run}/stop", s.handle(s.stopRun))
			r.Post("/runs/{run}/rounds", s.handle(s.createRound))
			r.Get("/runs/{run}/rounds/{number}", s.handle(s.getRound, "wait_ms"))
			r.Get("/runs/{run}/rounds/{number}/messages", s.handle(s.getMessages, "format", "accept_media", "wait_ms"))
			r.Get("/runs/{run}/rounds/{number}/tools", s.handle(s.getOffered))
			r.Post("/runs/{run}/tasks", s.handle(s.appendSteps))
			r.Get("/runs/{run}/tasks", s.handle(s.listTasks, "after", "limit"))
			r.Get("/runs/{run}/tasks/{task}", s.handle(s.getTask, "wait_ms"))
			r.Post("/runs/{run}/tasks/{task}/cancel", s.handle(s.cancelTask))
			r.Get("/runs/{run}/events", s.handle(s.listEvents, "after", "limit"))
			r.Get("/runs/{run}/events/stream", s.handle(s.streamEvents))
		})
		r.Group(func(r chi.Router) {
			r.Use(s.executorPlane)
			r.Get("/executor", s.handle(s.getSelf))
			r.Put("/executor/announcement", s.handle(s.putAnnouncement))
			r.Post("/executor/shutdown", s.handle(s.shutDownSelf))
			r.Get("/executor/inbox", s.handle(s.getInbox, "after", "limit", "wait_ms", "unless"))
			r.Post("/executor/inbox/{run}/{task}/claim", s.handle(s.claimTask))
			r.Get("/executor/inbox/{run}/{task}/claim", s.handle(s.getClaim))
			r.Post("/executor/inbox/{run}/{task}/extend", s.handle(s.extendClaim))
			r.Post("/executor/inbox/{run}/{task}/commit", s.handle(s.commit))
			r.Post("/executor/progress", s.handle(s.postProgress))
			r.Get("/executor/events", s.handle(s.streamWork))
		})
	})
	return r
}

// Drain answers every long poll and ends every stream, now and from now on. It is for
// http.Server.RegisterOnShutdown.
func (s *Server) Drain() { s.drainOnce.Do(func() { close(s.draining) }) }
