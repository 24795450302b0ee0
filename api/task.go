package api

import (
	"cmp"
	"context"
	"encoding/json/jsontext"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"time"
	"uuid"

	"github.com/go-chi/chi/v5"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/envelope"
	"github.com/toolpark/toolpark/internal/notify"
	"github.com/toolpark/toolpark/internal/park"
	"github.com/toolpark/toolpark/internal/postgres"
	"github.com/toolpark/toolpark/workflows"
)

// taskRow is a task as a list shows it: without input and result.
type taskRow struct {
	TaskKey       string                  `json:"task_key"`
	Kind          toolpark.TaskKind       `json:"kind"`
	Status        toolpark.Status         `json:"status"`
	Origin        toolpark.Origin         `json:"origin"`
	Round         *int                    `json:"round"`
	ParentTaskKey *string                 `json:"parent_task_key"` // the tool_call or ask that made it
	CallableName  *string                 `json:"callable_name"`
	ToolName      *string                 `json:"tool_name"` // null for an ask and a wait
	ToolAlias     *string                 `json:"tool_alias"`
	ToolCallID    *string                 `json:"tool_call_id"`
	AddressedTo   *addressedTo            `json:"addressed_to"`
	Target        *target                 `json:"target"`
	ClaimedBy     *uuid.UUID              `json:"claimed_by"`
	EffectProfile *toolpark.EffectProfile `json:"effect_profile"`
	Approval      *toolpark.Approval      `json:"approval"` // null until somebody decides
	DeadlineAt    *time.Time              `json:"deadline_at"`
	TimeoutMS     *int64                  `json:"timeout_ms"`
	Generation    int                     `json:"generation"`
	RetrySafe     bool                    `json:"retry_safe"`
	IsError       bool                    `json:"is_error"`
	Error         *toolpark.TaskError     `json:"error,omitzero"`
	AnsweredBy    *answeredBy             `json:"answered_by,omitzero"` // of an ask that was answered
	Abandoned     *abandonment            `json:"abandoned"`            // null unless somebody gave the failure up
	CreatedAt     time.Time               `json:"created_at"`
	DispatchedAt  *time.Time              `json:"dispatched_at"`
	ClaimedAt     *time.Time              `json:"claimed_at"`
	SettledAt     *time.Time              `json:"settled_at"`
}

type addressedTo struct {
	Role     toolpark.ExecutorKind `json:"role"`
	Executor *uuid.UUID            `json:"executor_public_id,omitzero"` // absent for a pool
}

// answeredBy is who answered an ask: a member, or the agent's own application.
type answeredBy struct {
	Member   *uuid.UUID `json:"member_public_id,omitzero"`
	Executor *uuid.UUID `json:"executor_public_id,omitzero"`
}

// abandonment is who gave a failure up.
type abandonment struct {
	At time.Time `json:"at"`
	By uuid.UUID `json:"by_member_public_id"`
}

// target is the concrete runner that a route named.
type target struct {
	Kind     string    `json:"kind"`
	Runner   uuid.UUID `json:"runner_executor_public_id"`
	ToolName string    `json:"tool_name"`
}

// taskResponse is a task whole.
type taskResponse struct {
	taskRow
	ToolInput         jsontext.Value `json:"tool_input"`              // what it runs with
	OriginalInput     jsontext.Value `json:"original_input,omitzero"` // what was asked, when an approver edited it
	InputDigest       string         `json:"input_digest,omitzero"`   // what a decision is bound to; while it needs approval
	Output            *string        `json:"output"`                  // the text projection; null until the task settles
	Content           jsontext.Value `json:"content"`                 // a list of blocks; null until the task settles
	StructuredContent jsontext.Value `json:"structured_content,omitzero"`
	Title             *string        `json:"title,omitzero"`
	Metadata          jsontext.Value `json:"metadata,omitzero"`
	RejectedResult    jsontext.Value `json:"rejected_result,omitzero"`
}

func newTaskRow(t *toolpark.Task) taskRow {
	row := taskRow{
		TaskKey: t.Key, Kind: t.Kind, Status: t.Status, Origin: t.Origin, Round: t.Round, CallableName: t.CallableName,
		ParentTaskKey: t.ParentKey, ToolName: t.ToolName, ToolAlias: t.ToolAlias, ToolCallID: t.ToolCallID, ClaimedBy: t.ClaimedBy, EffectProfile: t.EffectProfile,
		DeadlineAt: t.DeadlineAt, TimeoutMS: t.TimeoutMS, Generation: t.Generation, IsError: t.IsError,
		CreatedAt: t.CreatedAt, DispatchedAt: t.DispatchedAt, ClaimedAt: t.ClaimedAt, SettledAt: t.SettledAt,
		RetrySafe: t.EffectProfile != nil && t.EffectProfile.Idempotency == toolpark.IdempotentKeyed,
	}
	if t.ErrorKey != nil {
		row.Error = &toolpark.TaskError{Key: *t.ErrorKey}
	}
	if t.AnsweredBy != nil {
		row.AnsweredBy = &answeredBy{Member: t.AnsweredBy}
		if t.Addresses(*t.AnsweredBy) {
			row.AnsweredBy = &answeredBy{Executor: t.AnsweredBy}
		}
	}
	if t.AbandonedAt != nil {
		row.Abandoned = &abandonment{At: *t.AbandonedAt, By: *t.AbandonedBy}
	}
	row.Approval = approvalOf(t)
	if t.AddressedRole != nil {
		row.AddressedTo = newAddressedTo(*t.AddressedRole, t.AddressedTo)
		if *t.AddressedRole == toolpark.Runner {
			row.Target = &target{Kind: "runner", Runner: t.AddressedTo[0], ToolName: *t.ToolName}
		}
	}
	return row
}

// approvalOf is what let a call run: what the row says, or else its run's mode or its own origin when it was authored.
func approvalOf(t *toolpark.Task) *toolpark.Approval {
	granted := &toolpark.Approval{Origin: toolpark.ApprovedByMode, DecidedAt: t.BeganAt}
	switch {
	case t.Approval != nil:
		return t.Approval
	case t.Kind != toolpark.KindTool, t.DispatchedAt == nil: // it crosses no such stage, was held all its life, or failed at birth
		return nil
	case park.Exempt(t.KernelTool, t.EffectProfile):
		granted.Origin = toolpark.ApprovedByKernel
	case t.Origin == toolpark.OriginAuthor:
		granted.Origin = toolpark.ApprovedByAuthor
	}
	return granted
}

func newAddressedTo(role toolpark.ExecutorKind, executors []uuid.UUID) *addressedTo {
	to := &addressedTo{Role: role}
	if role != toolpark.ToolsProvider {
		to.Executor = &executors[0]
	}
	return to
}

func newTaskResponse(t *postgres.TaskDetail) (taskResponse, error) {
	response := taskResponse{
		taskRow: newTaskRow(&t.Task), ToolInput: t.Input, StructuredContent: t.StructuredContent, Title: t.Title,
		Metadata: t.Metadata, RejectedResult: t.RejectedResult, OriginalInput: t.OriginalInput,
	}
	if t.Status == toolpark.NeedsApproval {
		response.InputDigest = park.InputDigest(&t.Task, t.Input)
	}
	if response.Error != nil && t.ErrorDetail != nil {
		response.Error.Detail = *t.ErrorDetail
	}
	if t.SettledAt == nil {
		return response, nil
	}
	output, err := envelope.Output(t.Content)
	if err != nil {
		return response, err
	}
	response.Output, response.Content = &output, t.Content
	if t.Content == nil {
		response.Content = jsontext.Value("[]")
	}
	return response, nil
}

// readableTask names the task of the path, if the caller may read its run.
func (s *Server) readableTask(r *http.Request) (toolpark.TaskID, error) {
	run, err := s.detailedRun(r)
	if err != nil {
		return toolpark.TaskID{}, err
	}
	key, err := pathKey(r)
	return toolpark.TaskID{Account: run.AccountID, Run: run.ID, Key: key}, err
}

// possibleKey is the form of every task's key. What has another form names no task, and may be text that
// the database cannot even be asked about.
var possibleKey = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,255}$`)

func pathKey(r *http.Request) (string, error) {
	key := chi.URLParam(r, "task")
	if !possibleKey.MatchString(key) {
		return "", postgres.NotFound("task")
	}
	return key, nil
}

func (s *Server) listTasks(w http.ResponseWriter, r *http.Request) error {
	run, err := s.detailedRun(r)
	if err != nil {
		return err
	}
	limit, cursor, err := page(r)
	if err != nil {
		return err
	}
	after, err := decodeCursor[string](cursor)
	if err != nil {
		return err
	}
	if cursor != "" && !possibleKey.MatchString(after) {
		return badCursor()
	}
	tasks, err := s.DB.TasksPage(r.Context(), run.AccountID, run.ID, after, limit+1)
	if err != nil {
		return err
	}
	tasks, next, err := nextPage(tasks, limit, func(t toolpark.Task) string { return t.Key })
	if err != nil {
		return err
	}
	list := make([]taskRow, len(tasks))
	for i := range tasks {
		list[i] = newTaskRow(&tasks[i])
	}
	return writeJSON(w, http.StatusOK, map[string]any{"tasks": list, "pagination": next})
}

func (s *Server) getTask(w http.ResponseWriter, r *http.Request) error {
	wait, err := waitMS(r)
	if err != nil {
		return err
	}
	id, err := s.readableTask(r)
	if err != nil {
		return err
	}
	read, err := s.taskReader(r, id)
	if err != nil {
		return err
	}
	sub := s.Park.Hub.Subscribe(notify.TaskTopic(id))
	defer sub.Close()
	task, err := notify.Await(r.Context(), sub, wait, s.draining, func(ctx context.Context) (*postgres.TaskDetail, bool, error) {
		task, err := read(ctx)
		return task, err == nil && task.SettledAt != nil, err
	})
	if err != nil {
		return err
	}
	return writeTask(w, task)
}

// taskReader reads the generation that is asked for, or the newest.
func (s *Server) taskReader(r *http.Request, id toolpark.TaskID) (func(context.Context) (*postgres.TaskDetail, error), error) {
	query := r.URL.Query()
	if !query.Has("generation") {
		return func(ctx context.Context) (*postgres.TaskDetail, error) { return s.DB.TaskDetail(ctx, id) }, nil
	}
	generation, err := strconv.ParseInt(query.Get("generation"), 10, 32)
	if err != nil || generation < 1 {
		return nil, parameterInvalid("generation must be a positive integer.")
	}
	return func(ctx context.Context) (*postgres.TaskDetail, error) {
		return s.DB.GenerationDetail(ctx, id, int(generation))
	}, nil
}

func writeTask(w http.ResponseWriter, task *postgres.TaskDetail) error {
	response, err := newTaskResponse(task)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, map[string]any{"task": response})
}

func (s *Server) cancelTask(w http.ResponseWriter, r *http.Request) error {
	if err := noFields(w, r); err != nil {
		return err
	}
	id, err := s.readableTask(r)
	if err != nil {
		return err
	}
	sub := s.Park.Hub.Subscribe(notify.TaskTopic(id))
	defer sub.Close()
	staged, err := s.Park.StageCancel(r.Context(), member(r), id)
	if err != nil {
		return s.withTask(r.Context(), id, err)
	}
	judged, err := s.verdict(r, sub, id, staged, workflows.SignalCancel)
	if err != nil {
		return err
	}
	if judged == nil {
		return writeJSON(w, http.StatusAccepted, map[string]any{"cancel": map[string]string{"status": "pending"}})
	}
	if judged.Code != "" {
		return s.withTask(r.Context(), id, toolpark.Errorf(judged.Code, "The task settled before the cancel was judged."))
	}
	return writeTask(w, judged.task)
}

// judged is what became of a staged input, and the task as it was then.
type judged struct {
	postgres.Verdict
	task *postgres.TaskDetail
}

func (s *Server) verdictWait() time.Duration { return cmp.Or(s.VerdictWait, toolpark.VerdictWait) }

// verdict nudges the task's workflow and waits for what it makes of a staged input; nil when no worker
// answered in time. The input is durable: it will be judged.
func (s *Server) verdict(r *http.Request, sub *notify.Subscription, id toolpark.TaskID, staged *park.Staged, signal workflows.Signal) (*judged, error) {
	if staged.Verdict != nil {
		task, err := s.DB.GenerationDetail(r.Context(), id, staged.Task.Generation)
		return &judged{Verdict: *staged.Verdict, task: task}, err
	}
	begin := time.Now()
	if err := s.Delivery.NudgeTo(r.Context(), staged.Task, signal, staged.Asks); err != nil {
		s.Log.WarnContext(r.Context(), "task not nudged; the recovery loop will", "run", id.Run, "task", id.Key, "error", err)
	}
	left := func() time.Duration { return s.verdictWait() - time.Since(begin) }
	notify.Wait(r.Context(), sub, left(), s.draining) // nothing was judged when it was staged
	found, err := notify.Await(r.Context(), sub, left(), s.draining, func(ctx context.Context) (*judged, bool, error) {
		verdict, task, err := s.DB.Verdict(ctx, id, staged.Seq)
		if err != nil || verdict == nil {
			return nil, false, err
		}
		return &judged{Verdict: *verdict, task: task}, true, nil
	})
	if refusal, ok := errors.AsType[*toolpark.Error](err); ok && refusal.Code == toolpark.CodeUnavailable {
		return nil, nil // what is staged is durable, and will be judged once the database is back
	}
	return found, err
}

// withTask adds the task as it is now to a refusal that is about its state.
func (s *Server) withTask(ctx context.Context, id toolpark.TaskID, err error) error {
	refusal, ok := err.(*toolpark.Error) //nolint:errorlint // a wrapped refusal has been answered already
	if !ok {
		return err
	}
	switch refusal.Code {
	case toolpark.CodeAlreadySettled, toolpark.CodeClaimExpired, toolpark.CodeClaimCanceled, toolpark.CodeNotAwaitingApproval,
		toolpark.CodeNotAwaitingInput, toolpark.CodeInputChanged:
	default:
		return err
	}
	task, readErr := s.DB.TaskDetail(ctx, id)
	if readErr != nil {
		return readErr
	}
	response, readErr := newTaskResponse(task)
	if readErr != nil {
		return readErr
	}
	return refusal.With("task", response)
}
