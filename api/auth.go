package api

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/credential"
)

// memberPlane lets in member credentials only. The credential is read at each request, so that
// revoking it acts at once.
func (s *Server) memberPlane(next http.Handler) http.Handler {
	return s.authenticated(next, func(r *http.Request) error {
		hash, ok := bearer(r, credential.Member)
		if !ok {
			return pgx.ErrNoRows
		}
		m, err := s.DB.MemberByCredential(r.Context(), hash)
		if err != nil {
			return err
		}
		requestOf(r).member = &m
		return nil
	})
}

// executorPlane lets in executor credentials only, and keeps the executor's contact mark.
func (s *Server) executorPlane(next http.Handler) http.Handler {
	return s.authenticated(next, func(r *http.Request) error {
		hash, ok := bearer(r, credential.Executor)
		if !ok {
			return pgx.ErrNoRows
		}
		e, unseen, err := s.DB.ExecutorByCredential(r.Context(), hash)
		if err != nil {
			return err
		}
		requestOf(r).executor = &e
		if unseen {
			if err := s.DB.MarkSeen(r.Context(), e.Account, e.ID); err != nil {
				s.Log.WarnContext(r.Context(), "contact mark not kept", append(requestOf(r).attrs(r), slog.Any("error", err))...)
			}
		}
		return nil
	})
}

// authenticated answers every refused credential in the same words, whatever is wrong with it.
func (s *Server) authenticated(next http.Handler, identify func(*http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := identify(r)
		if errors.Is(err, pgx.ErrNoRows) {
			err = toolpark.Errorf(toolpark.CodeUnauthorized,
				"This route needs a working credential of its plane in the header Authorization: Bearer …")
		}
		if err != nil {
			s.writeError(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// bearer reads the one Authorization header. A credential in the query string is never read.
func bearer(r *http.Request, plane credential.Plane) ([]byte, bool) {
	headers := r.Header.Values("Authorization")
	if len(headers) != 1 {
		return nil, false
	}
	scheme, secret, ok := strings.Cut(headers[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return nil, false
	}
	return credential.Hash(plane, secret)
}
