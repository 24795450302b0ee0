package api

import "net/http"

// Probe serves one handler through the same adapter and middlewares as every route.
func (s *Server) Probe(h func(http.ResponseWriter, *http.Request) error, query ...string) http.Handler {
	return s.observe()(secure(s.recoverPanic(s.handle(h, query...))))
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
