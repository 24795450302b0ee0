package api

import (
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
)

// Probe serves one handler at / through the same adapter and middlewares as every route.
func (s *Server) Probe(h func(http.ResponseWriter, *http.Request) error) http.Handler {
	s.Metrics = prometheus.NewRegistry() // the other tree has registered its metrics already
	r := chi.NewRouter()
	r.Use(s.observe(), secure, s.recoverPanic)
	r.Get("/", s.handle(h))
	return r
}

// HurryHandler is the whole API with another time for bodies.
func (s *Server) HurryHandler(bodyTime time.Duration) http.Handler {
	s.Metrics = prometheus.NewRegistry()
	s.bodyTime = bodyTime
	return s.Handler()
}

// What the tests reach of the door through Probe.
var (
	WaitMS         = waitMS
	IdempotencyKey = idempotencyKey
	WriteReplay    = writeReplay
	WriteJSON      = writeJSON
	LastEventID    = lastEventID
)

// Stream is a stream of events under test.
type Stream interface {
	Event(id, name string, data any) error
	Done() <-chan struct{}
	Close()
}

// NewStream begins a stream.
func (s *Server) NewStream(w http.ResponseWriter, r *http.Request) (Stream, error) {
	return s.newStream(w, r)
}
