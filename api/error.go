package api

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/toolpark/toolpark"
)

// statuses is the one table from error code to HTTP status.
var statuses = map[toolpark.Code]int{
	toolpark.CodeBadRequest:           http.StatusBadRequest,
	toolpark.CodeParameterMissing:     http.StatusBadRequest,
	toolpark.CodeParameterInvalid:     http.StatusBadRequest,
	toolpark.CodeUnauthorized:         http.StatusUnauthorized,
	toolpark.CodeNotAgent:             http.StatusForbidden,
	toolpark.CodeNotAuthorized:        http.StatusForbidden,
	toolpark.CodeNotFound:             http.StatusNotFound,
	toolpark.CodeMethodNotAllowed:     http.StatusMethodNotAllowed,
	toolpark.CodeIdempotencyMismatch:  http.StatusConflict,
	toolpark.CodeContentTooLarge:      http.StatusRequestEntityTooLarge,
	toolpark.CodeUnsupportedMediaType: http.StatusUnsupportedMediaType,
	toolpark.CodeValidationFailed:     http.StatusUnprocessableEntity,
	toolpark.CodeRateLimited:          http.StatusTooManyRequests,
	toolpark.CodeInternal:             http.StatusInternalServerError,
	toolpark.CodeUnavailable:          http.StatusServiceUnavailable,

	toolpark.CodeInvalidAnnouncement:  http.StatusUnprocessableEntity,
	toolpark.CodeReservedNamespace:    http.StatusUnprocessableEntity,
	toolpark.CodeKernelToolRedefined:  http.StatusUnprocessableEntity,
	toolpark.CodeDuplicateToolName:    http.StatusUnprocessableEntity,
	toolpark.CodeInvalidToolRoute:     http.StatusUnprocessableEntity,
	toolpark.CodeRunnerTargetRequired: http.StatusUnprocessableEntity,
	toolpark.CodeRunnerNotDeclared:    http.StatusUnprocessableEntity,
	toolpark.CodeRunnerNotEligible:    http.StatusUnprocessableEntity,
	toolpark.CodeToolNotServed:        http.StatusUnprocessableEntity,
	toolpark.CodeToolNotDeclared:      http.StatusUnprocessableEntity,
	toolpark.CodeSkillCatalogTooLarge: http.StatusUnprocessableEntity,
	toolpark.CodeInvalidApprovalRules: http.StatusUnprocessableEntity,

	toolpark.CodeAliasCanonicalUnknown:         http.StatusUnprocessableEntity,
	toolpark.CodeAliasNameReserved:             http.StatusUnprocessableEntity,
	toolpark.CodeAliasParamUnknown:             http.StatusUnprocessableEntity,
	toolpark.CodeAliasInvertNeedsBoolean:       http.StatusUnprocessableEntity,
	toolpark.CodeAliasParamDescriptionRequired: http.StatusUnprocessableEntity,
	toolpark.CodeAliasRecutAnchorMissing:       http.StatusUnprocessableEntity,

	toolpark.CodeRunAccepting:     http.StatusConflict,
	toolpark.CodeRunBusy:          http.StatusConflict,
	toolpark.CodeRunStopping:      http.StatusConflict,
	toolpark.CodeRunSettled:       http.StatusConflict,
	toolpark.CodeReservedToolName: http.StatusUnprocessableEntity,
	toolpark.CodeDuplicateTaskKey: http.StatusUnprocessableEntity,
	toolpark.CodeAlreadySettled:   http.StatusConflict,
	toolpark.CodeNotRetryable:     http.StatusConflict,
	toolpark.CodeNotAbandonable:   http.StatusConflict,
	toolpark.CodeDetailsPruned:    http.StatusGone,

	toolpark.CodeApprovalDenied:      http.StatusUnprocessableEntity,
	toolpark.CodeNotAwaitingApproval: http.StatusConflict,
	toolpark.CodeNotAwaitingInput:    http.StatusConflict,
	toolpark.CodeInputChanged:        http.StatusConflict,

	toolpark.CodeNotAddressedHere: http.StatusConflict,
	toolpark.CodeNotClaimableKind: http.StatusConflict,
	toolpark.CodeTaskNotClaimable: http.StatusConflict,
	toolpark.CodeAlreadyClaimed:   http.StatusConflict,
	toolpark.CodeNotEligible:      http.StatusConflict,
	toolpark.CodeNotClaimant:      http.StatusConflict,
	toolpark.CodeNotExtendable:    http.StatusConflict,
	toolpark.CodeExtensionTooLong: http.StatusConflict,
	toolpark.CodeInvalidTimeoutMS: http.StatusUnprocessableEntity,
	toolpark.CodeStaleClaim:       http.StatusConflict,
	toolpark.CodeClaimExpired:     http.StatusConflict,
	toolpark.CodeClaimCanceled:    http.StatusConflict,

	toolpark.CodeInvalidOutcome:           http.StatusUnprocessableEntity,
	toolpark.CodeInvalidContent:           http.StatusUnprocessableEntity,
	toolpark.CodeInvalidStructuredContent: http.StatusUnprocessableEntity,
	toolpark.CodeUnsupportedContentKind:   http.StatusUnprocessableEntity,
	toolpark.CodeTooManyContentBlocks:     http.StatusUnprocessableEntity,
	toolpark.CodeInvalidResultType:        http.StatusUnprocessableEntity,
	toolpark.CodeInvalidTitle:             http.StatusUnprocessableEntity,
	toolpark.CodeInvalidMetadata:          http.StatusUnprocessableEntity,
	toolpark.CodeMetadataTooLarge:         http.StatusUnprocessableEntity,
	toolpark.CodeResultTooLarge:           http.StatusUnprocessableEntity,
	toolpark.CodeUnknownResultUpload:      http.StatusUnprocessableEntity,
	toolpark.CodeResultUnstorable:         http.StatusUnprocessableEntity,
}

// Status is the HTTP status of an error code. It is false for a word that is no code.
func Status(code toolpark.Code) (int, bool) {
	status, ok := statuses[code]
	return status, ok
}

// clientGone is what the log and the metrics show for a caller that left before its answer.
const clientGone = 499

// writeError is the one place that turns an error into an answer. Only the code, the message and the
// details of a toolpark.Error are shown; anything else is internal and goes to the log.
func (s *Server) writeError(w http.ResponseWriter, r *http.Request, err error) {
	req := requestOf(r)
	switch {
	case begun(w):
		s.Log.WarnContext(r.Context(), "answer broken off", append(req.attrs(r), slog.Any("error", err))...)
		return
	case r.Context().Err() != nil && errors.Is(err, context.Canceled):
		w.WriteHeader(clientGone)
		return
	}
	e, known := errors.AsType[*toolpark.Error](err)
	code, hasStatus := 0, false
	if known {
		code, hasStatus = Status(e.Code)
	}
	if !hasStatus || e.Code == toolpark.CodeInternal {
		s.Log.ErrorContext(r.Context(), "request failed", append(req.attrs(r), slog.Any("error", err))...)
		e = toolpark.Errorf(toolpark.CodeInternal, "Something went wrong here. Report it with request id %s.", req.id).
			With("request_id", req.id)
		code = http.StatusInternalServerError
	}
	switch e.Code {
	case toolpark.CodeUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="toolpark"`)
	case toolpark.CodeUnavailable:
		s.Log.WarnContext(r.Context(), "dependency unavailable", append(req.attrs(r), slog.Any("error", err))...)
		w.Header().Set("Retry-After", "1")
	case toolpark.CodeRateLimited:
		w.Header().Set("Retry-After", "1")
	}
	body := make(map[string]any, len(e.Details)+2)
	maps.Copy(body, e.Details)
	body["code"] = e.Code
	body["message"] = e.Message
	if err := writeJSON(w, code, map[string]any{"error": body}); err != nil {
		s.Log.ErrorContext(r.Context(), "write error", append(req.attrs(r), slog.Any("error", err))...)
	}
}

// parameterInvalid is the refusal of one query parameter, header or field.
func parameterInvalid(format string, args ...any) *toolpark.Error {
	return toolpark.Errorf(toolpark.CodeParameterInvalid, format, args...)
}

func noRoute(http.ResponseWriter, *http.Request) error {
	return toolpark.Errorf(toolpark.CodeNotFound, "There is no such route; GET /openapi.json lists them all.")
}

// wrongMethod refuses a method that the path does not have and says which it has.
func wrongMethod(routes chi.Routes) handler {
	methods := []string{http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodPatch, http.MethodPost, http.MethodPut}
	return func(w http.ResponseWriter, r *http.Request) error {
		var allowed []string
		for _, method := range methods {
			if routes.Match(chi.NewRouteContext(), method, r.URL.Path) {
				allowed = append(allowed, method)
			}
		}
		if len(allowed) == 0 { // a method that no route has, on a path that no route has either
			return noRoute(w, r)
		}
		allow := strings.Join(allowed, ", ")
		w.Header().Set("Allow", allow)
		return toolpark.Errorf(toolpark.CodeMethodNotAllowed, "This path takes %s.", allow)
	}
}
