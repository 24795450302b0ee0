package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"
	"uuid"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/toolpark/toolpark"
)

// request is what the middlewares know of one request.
type request struct {
	id       string
	member   *toolpark.Member   // set by memberPlane
	executor *toolpark.Executor // set by executorPlane
}

type requestKey struct{}

func requestOf(r *http.Request) *request { return r.Context().Value(requestKey{}).(*request) }

// member is who calls. Only for routes of the member plane.
func member(r *http.Request) toolpark.Member { return *requestOf(r).member }

// executor is who calls. Only for routes of the executor plane.
func executor(r *http.Request) toolpark.Executor { return *requestOf(r).executor }

// attrs are what every log line about a request says: ids, never a query, header or body. The path
// is shown as its route, since a caller may have put anything into it.
func (req *request) attrs(r *http.Request) []any {
	attrs := []any{
		slog.String("request_id", req.id), slog.String("method", methodLabel(r)), slog.String("route", routePattern(r)),
	}
	if run := chi.URLParam(r, "run"); run != "" {
		if id, err := uuid.Parse(run); err == nil {
			attrs = append(attrs, slog.String("run", id.String()))
		}
	}
	switch {
	case req.member != nil:
		attrs = append(attrs, slog.String("account", req.member.Account.String()), slog.String("member", req.member.ID.String()))
	case req.executor != nil:
		attrs = append(attrs, slog.String("account", req.executor.Account.String()), slog.String("executor", req.executor.ID.String()))
	}
	return attrs
}

func routePattern(r *http.Request) string {
	if pattern := chi.RouteContext(r.Context()).RoutePattern(); pattern != "" && pattern != "/*" {
		return pattern
	}
	return "none"
}

// methodLabel keeps made-up methods out of metrics and logs.
func methodLabel(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return r.Method
	}
	return "other"
}

// observe gives a request its id, and counts, times and logs it.
func (s *Server) observe() func(http.Handler) http.Handler {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "toolpark_http_requests_total", Help: "HTTP requests answered.",
	}, []string{"method", "route", "code"})
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "toolpark_http_request_duration_seconds", Help: "Time to answer, long polls and streams included.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
	}, []string{"method", "route"})
	s.Metrics.MustRegister(requests, seconds)

	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			start := time.Now()
			req := &request{id: uuid.NewV7().String()}
			r = r.WithContext(context.WithValue(r.Context(), requestKey{}, req))
			ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
			ww.Header().Set("X-Request-Id", req.id)
			next.ServeHTTP(ww, r)

			route, method, took := routePattern(r), methodLabel(r), time.Since(start)
			requests.WithLabelValues(method, route, strconv.Itoa(ww.Status())).Inc()
			seconds.WithLabelValues(method, route).Observe(took.Seconds())
			s.Log.InfoContext(r.Context(), "request", append(req.attrs(r),
				slog.Int("status", ww.Status()), slog.Int("bytes", ww.BytesWritten()),
				slog.Float64("duration_ms", float64(took.Microseconds())/1000))...)
		})
	}
}

// secure sets the headers that keep answers out of caches, frames and content sniffing.
func secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// recoverPanic turns a panic into a 500, or cuts the connection when the answer has begun.
func (s *Server) recoverPanic(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			value := recover()
			if value == nil {
				return
			}
			if err, ok := value.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(value)
			}
			s.writePanic(w, r, value)
		}()
		next.ServeHTTP(w, r)
	})
}

func (s *Server) writePanic(w http.ResponseWriter, r *http.Request, value any) {
	// The value may hold what a caller sent: only the runtime's own words and the stack are logged.
	err := fmt.Errorf("panic: %T", value)
	if runtimeErr, ok := value.(runtime.Error); ok {
		err = fmt.Errorf("panic: %w", runtimeErr)
	}
	err = fmt.Errorf("%w\n%s", err, debug.Stack())
	if begun(w) {
		s.Log.ErrorContext(r.Context(), "request failed", append(requestOf(r).attrs(r), slog.Any("error", err))...)
		panic(http.ErrAbortHandler)
	}
	s.writeError(w, r, err)
}

// begun tells whether the answer has begun: it can no longer become another one.
func begun(w http.ResponseWriter) bool {
	ww, ok := w.(middleware.WrapResponseWriter)
	return ok && ww.Status() != 0
}
