package toolpark

import "fmt"

// Code is what a program reads of a failure. A code never changes its meaning.
type Code string

// Codes that any route may answer (spec: identity and HTTP rules).
const (
	CodeBadRequest           Code = "bad_request"
	CodeParameterMissing     Code = "parameter_missing"
	CodeParameterInvalid     Code = "parameter_invalid"
	CodeUnauthorized         Code = "unauthorized"
	CodeNotAgent             Code = "not_agent"
	CodeNotAuthorized        Code = "not_authorized"
	CodeNotFound             Code = "not_found"
	CodeMethodNotAllowed     Code = "method_not_allowed"
	CodeIdempotencyMismatch  Code = "idempotency_mismatch"
	CodeContentTooLarge      Code = "content_too_large"
	CodeUnsupportedMediaType Code = "unsupported_media_type"
	CodeValidationFailed     Code = "validation_failed"
	CodeRateLimited          Code = "rate_limited"
	CodeInternal             Code = "internal"
	CodeUnavailable          Code = "unavailable"
)

// Codes of the declaration, announcement and assembly doors.
const (
	CodeInvalidAnnouncement  Code = "invalid_announcement"
	CodeReservedNamespace    Code = "reserved_namespace"
	CodeKernelToolRedefined  Code = "kernel_tool_redefined"
	CodeDuplicateToolName    Code = "duplicate_tool_name"
	CodeInvalidToolRoute     Code = "invalid_tool_route"
	CodeRunnerTargetRequired Code = "runner_target_required"
	CodeRunnerNotDeclared    Code = "runner_not_declared"
	CodeRunnerNotEligible    Code = "runner_not_eligible"
	CodeToolNotServed        Code = "tool_not_served"
	CodeToolNotDeclared      Code = "tool_not_declared"
	CodeSkillCatalogTooLarge Code = "skill_catalog_too_large"
	CodeInvalidApprovalRules Code = "invalid_approval_rules"
)

// Codes of an alias, an author's own spelling of a kernel tool.
const (
	CodeAliasCanonicalUnknown         Code = "alias_canonical_unknown"
	CodeAliasNameReserved             Code = "alias_name_reserved"
	CodeAliasParamUnknown             Code = "alias_param_unknown"
	CodeAliasInvertNeedsBoolean       Code = "alias_invert_needs_boolean"
	CodeAliasParamDescriptionRequired Code = "alias_param_description_required"
	CodeAliasRecutAnchorMissing       Code = "alias_recut_anchor_missing"
)

// Codes of runs, rounds and authored tasks.
const (
	CodeRunAccepting     Code = "run_accepting"
	CodeRunBusy          Code = "run_busy"
	CodeRunStopping      Code = "run_stopping"
	CodeRunSettled       Code = "run_settled"
	CodeReservedToolName Code = "reserved_tool_name"
	CodeDuplicateTaskKey Code = "duplicate_task_key"
	CodeAlreadySettled   Code = "already_settled"
	CodeNotRetryable     Code = "not_retryable"
	CodeNotAbandonable   Code = "not_abandonable"
	CodeDetailsPruned    Code = "execution_details_pruned"
)

// Codes of decisions: approvals and asks.
const (
	CodeApprovalDenied      Code = "approval_denied"
	CodeNotAwaitingApproval Code = "not_awaiting_approval"
	CodeNotAwaitingInput    Code = "not_awaiting_input"
	CodeInputChanged        Code = "input_changed"
)

// Codes of the executor plane.
const (
	CodeNotAddressedHere Code = "not_addressed_here"
	CodeNotClaimableKind Code = "not_claimable_kind"
	CodeTaskNotClaimable Code = "task_not_claimable"
	CodeAlreadyClaimed   Code = "already_claimed"
	CodeNotEligible      Code = "not_eligible"
	CodeNotClaimant      Code = "not_claimant"
	CodeNotExtendable    Code = "not_extendable"
	CodeExtensionTooLong Code = "extension_too_long"
	CodeInvalidTimeoutMS Code = "invalid_timeout_ms"
	CodeStaleClaim       Code = "stale_claim"
	CodeClaimExpired     Code = "claim_expired"
	CodeClaimCanceled    Code = "claim_canceled"
)

// Codes of the result envelope. All but CodeResultUnstorable leave the park standing.
const (
	CodeInvalidOutcome           Code = "invalid_outcome"
	CodeInvalidContent           Code = "invalid_content"
	CodeInvalidStructuredContent Code = "invalid_structured_content"
	CodeUnsupportedContentKind   Code = "unsupported_content_kind"
	CodeTooManyContentBlocks     Code = "too_many_content_blocks"
	CodeInvalidResultType        Code = "invalid_result_type"
	CodeInvalidTitle             Code = "invalid_title"
	CodeInvalidMetadata          Code = "invalid_metadata"
	CodeMetadataTooLarge         Code = "metadata_too_large"
	CodeResultTooLarge           Code = "result_too_large"
	CodeUnknownResultUpload      Code = "unknown_result_upload"
	CodeResultUnstorable         Code = "result_unstorable"
)

// Error is a failure a caller can act on. Anything else is internal.
type Error struct {
	Code    Code           // the wire code, e.g. "stale_claim"; one table gives each its HTTP status
	Message string         // safe to show, names the place and the repair
	Details map[string]any // pointer, entries, steps, task: merged into the error object
	Err     error          // cause, for the log
}

// Errorf makes an Error from a code and a message that is safe to show.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// With adds a detail that is merged into the error object on the wire, and returns e.
func (e *Error) With(name string, value any) *Error {
	if e.Details == nil {
		e.Details = map[string]any{}
	}
	e.Details[name] = value
	return e
}

// At says which JSON pointer of the request the failure is about, and returns e.
func (e *Error) At(pointer string) *Error { return e.With("pointer", pointer) }

// Because keeps the cause for the log, and returns e.
func (e *Error) Because(err error) *Error {
	e.Err = err
	return e
}

func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Message, e.Err)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Message)
}

func (e *Error) Unwrap() error { return e.Err }
