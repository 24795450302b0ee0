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

	// VerdictWait is how long a request waits for the workflow's verdict before it answers that it is pending.
	// Zero means toolpark.VerdictWait.
	VerdictWait time.Duration

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

	get(r, "/healthz", s.handle(s.healthz))
	get(r, "/readyz", s.handle(s.readyz))
	get(r, "/openapi.json", s.handle(s.openAPI))
	get(r, "/metrics", promhttp.HandlerFor(s.Metrics, promhttp.HandlerOpts{}).ServeHTTP)

	r.Route("/agent_api/v1", func(r chi.Router) {
		r.Group(func(r chi.Router) {
			r.Use(s.memberPlane)
			get(r, "/tools", s.handle(s.listTools))
			r.Post("/tools/assembly", s.handle(s.assembleTools))
			get(r, "/profile", s.handle(s.getProfile))
			r.Put("/profile/configuration", s.handle(s.putConfiguration))
			get(r, "/executors", s.handle(s.listExecutors, "kind", "after", "limit"))
			get(r, "/executors/{executor}", s.handle(s.getExecutor))
			r.Post("/runs", s.handle(s.createRun))
			get(r, "/runs", s.handle(s.listRuns, "after", "limit"))
			get(r, "/runs/{run}", s.handle(s.getRun))
			get(r, "/runs/{run}/context", s.handle(s.getContext))
			get(r, "/runs/{run}/tools", s.handle(s.getTools, "format", "tool_names"))
			get(r, "/runs/{run}/skills", s.handle(s.getSkills, "format"))
			r.Post("/runs/{run}/complete", s.handle(s.completeRun))
			r.Post("/runs/{run}/stop", s.handle(s.stopRun))
			r.Post("/runs/{run}/rounds", s.handle(s.createRound))
			get(r, "/runs/{run}/rounds/{number}", s.handle(s.getRound, "wait_ms"))
			get(r, "/runs/{run}/rounds/{number}/messages", s.handle(s.getMessages, "format", "accept_media", "wait_ms"))
			get(r, "/runs/{run}/rounds/{number}/tools", s.handle(s.getOffered))
			r.Post("/runs/{run}/tasks", s.handle(s.appendSteps))
			get(r, "/runs/{run}/tasks", s.handle(s.listTasks, "after", "limit"))
			get(r, "/runs/{run}/tasks/{task}", s.handle(s.getTask, "generation", "wait_ms"))
			r.Post("/runs/{run}/tasks/{task}/cancel", s.handle(s.cancelTask))
			r.Post("/runs/{run}/tasks/{task}/retry", s.handle(s.retryTask))
			r.Post("/runs/{run}/tasks/{task}/abandon", s.handle(s.abandonTask))
			r.Post("/runs/{run}/tasks/{task}/approve", s.handle(s.approveTask))
			r.Post("/runs/{run}/tasks/{task}/deny", s.handle(s.denyTask))
			r.Post("/runs/{run}/tasks/{task}/resolution", s.handle(s.resolveTask))
			get(r, "/asks", s.handle(s.listAsks, "run", "min_age_ms", "after", "limit"))
			get(r, "/approvals", s.handle(s.listApprovals, "run", "tool", "min_age_ms", "after", "limit"))
			get(r, "/runs/{run}/events", s.handle(s.listEvents, "after", "limit"))
			r.Get("/runs/{run}/events/stream", s.handle(s.streamEvents))
		})
		r.Group(func(r chi.Router) {
			r.Use(s.executorPlane)
			get(r, "/executor", s.handle(s.getSelf))
			r.Put("/executor/announcement", s.handle(s.putAnnouncement))
			r.Post("/executor/shutdown", s.handle(s.shutDownSelf))
			get(r, "/executor/inbox", s.handle(s.getInbox, "after", "limit", "wait_ms", "unless"))
			r.Post("/executor/inbox/{run}/{task}/claim", s.handle(s.claimTask))
			get(r, "/executor/inbox/{run}/{task}/claim", s.handle(s.getClaim))
			r.Post("/executor/inbox/{run}/{task}/extend", s.handle(s.extendClaim))
			r.Post("/executor/inbox/{run}/{task}/commit", s.handle(s.commit))
			r.Post("/executor/progress", s.handle(s.postProgress))
			r.Get("/executor/events", s.handle(s.streamWork))
		})
	})
	return r
}

// get routes HEAD as well as GET: net/http leaves the body out. A stream has no head to show and takes GET only.
func get(r chi.Router, pattern string, h http.HandlerFunc) {
	r.Get(pattern, h)
	r.Head(pattern, h)
}

// Drain answers every long poll and ends every stream, now and from now on. It is for
// http.Server.RegisterOnShutdown.
func (s *Server) Drain() { s.drainOnce.Do(func() { close(s.draining) }) }
