package api

import (
	"context"
	"encoding/json/jsontext"
	"net/http"
	"strings"
	"time"
	"uuid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/declaration"
	"github.com/toolpark/toolpark/internal/notify"
	"github.com/toolpark/toolpark/internal/park"
	"github.com/toolpark/toolpark/internal/postgres"
	"github.com/toolpark/toolpark/internal/strictjson"
	"github.com/toolpark/toolpark/workflows"
)

type runRequest struct {
	DefaultRunner jsontext.Value `json:"default_runner_executor_public_id"`
	Configuration jsontext.Value `json:"configuration"`
	ToolNames     jsontext.Value `json:"tool_names"`
	Label         *string        `json:"label"`
	Metadata      jsontext.Value `json:"metadata"`
}

type runResponse struct {
	PublicID      uuid.UUID               `json:"public_id"`
	Status        toolpark.RunStatus      `json:"status"`
	ApprovalMode  *string                 `json:"approval_mode"`
	DefaultRunner *uuid.UUID              `json:"default_runner_executor_public_id"`
	Label         *string                 `json:"label"`
	Metadata      jsontext.Value          `json:"metadata"`
	Tasks         map[toolpark.Status]int `json:"tasks"`
	RunnerEffects runnerEffects           `json:"runner_effects"`
	Refusal       jsontext.Value          `json:"refusal,omitzero"`
	CreatedAt     time.Time               `json:"created_at"`
	EndedAt       *time.Time              `json:"ended_at"`
}

// runnerEffects is evidence of which runners may have been touched: those that claimed a call that writes.
type runnerEffects struct {
	Status  string         `json:"status"` // untouched, touched, unavailable
	Reason  toolpark.Code  `json:"reason,omitzero"`
	Runners []runnerEffect `json:"runners"`
}

type runnerEffect struct {
	Runner     uuid.UUID      `json:"runner_executor_public_id"`
	Status     string         `json:"status"`
	Tasks      int            `json:"tasks"`
	Checkpoint jsontext.Value `json:"checkpoint,omitzero"` // of its first claimed write, verbatim; lists leave it out
}

func newRunnerEffects(run *postgres.Run, facts *postgres.RunFacts) runnerEffects {
	effects := runnerEffects{Status: "untouched", Runners: []runnerEffect{}}
	if run.DetailsPrunedAt != nil {
		effects.Status, effects.Reason = "unavailable", toolpark.CodeDetailsPruned
		return effects
	}
	for _, touched := range facts.Touched {
		effects.Status = "touched"
		effects.Runners = append(effects.Runners, runnerEffect{
			Runner: touched.ExecutorID, Status: "touched", Tasks: touched.Tasks, Checkpoint: touched.Checkpoint,
		})
	}
	return effects
}

func newRunResponse(run *postgres.Run, facts *postgres.RunFacts) runResponse {
	return runResponse{
		PublicID: run.ID, Status: run.Status, ApprovalMode: run.ApprovalMode, DefaultRunner: run.DefaultRunnerID,
		Label: run.Label, Metadata: run.Metadata, Tasks: facts.Counts,
		RunnerEffects: newRunnerEffects(run, facts), Refusal: run.Refusal, CreatedAt: run.CreatedAt, EndedAt: run.EndedAt,
	}
}

func (s *Server) createRun(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r, toolpark.MaxBody)
	if err != nil {
		return err
	}
	key, hash, err := idempotencyKey(r, body)
	if err != nil {
		return err
	}
	run, err := newRun(member(r), body)
	if err != nil {
		return err
	}
	replay, err := s.insertRun(r.Context(), member(r), run, key, hash)
	if err != nil {
		return err
	}
	if replay != nil {
		w.Header().Set("Idempotency-Replayed", "true")
		return s.answerRun(w, r, *replay.Run, http.StatusCreated)
	}
	sub := s.Park.Hub.Subscribe(notify.RunTopic(run.ID))
	defer sub.Close()
	begin := time.Now()
	if err := s.Delivery.NudgeRun(r.Context(), run.AccountID, run.ID, workflows.SignalWake); err != nil {
		s.Log.WarnContext(r.Context(), "run workflow not started; the recovery loop will", "run", run.ID, "error", err)
	}
	decided, err := notify.Await(r.Context(), sub, s.verdictWait()-time.Since(begin), s.draining, func(ctx context.Context) (*postgres.Run, bool, error) {
		now, err := s.DB.Run(ctx, member(r), run.ID)
		return now, err == nil && now.Status != toolpark.RunAccepting, err
	})
	if err != nil {
		return err
	}
	if decided.Status == toolpark.RunRefused {
		return park.Refusal(decided)
	}
	return s.answerRun(w, r, run.ID, http.StatusCreated)
}

// newRun judges everything about a requested run that needs no database: what is wrong with its form
// leaves no trace.
func newRun(m toolpark.Member, body jsontext.Value) (*postgres.Run, error) {
	req, err := decode[runRequest](body)
	if err != nil {
		return nil, err
	}
	run := &postgres.Run{
		ID: uuid.NewV7(), AccountID: m.Account, CreatorID: m.ID, Label: req.Label,
		Requested: req.Configuration, Metadata: jsontext.Value("{}"),
	}
	if m.Kind == toolpark.Agent {
		run.AgentID = &m.ID
	}
	if run.DefaultRunnerID, err = selectedRunner(req.DefaultRunner); err != nil {
		return nil, err
	}
	// What a profile says was judged when it was put.
	if _, err := declaration.ParseConfiguration(req.Configuration); err != nil {
		return nil, err
	}
	if !absent(req.ToolNames) {
		if _, err := storable(req.ToolNames, toolpark.MaxBody, "/tool_names"); err != nil {
			return nil, err
		}
		names, err := toolNames(req.ToolNames)
		if err != nil {
			return nil, err
		}
		run.RequestedNames = *names
	}
	if err := checkLabel(run.Label); err != nil {
		return nil, err
	}
	if !absent(req.Metadata) {
		if run.Metadata, err = object(req.Metadata, toolpark.MaxRunMetadata, "/metadata"); err != nil {
			return nil, err
		}
	}
	return run, nil
}

// selectedRunner reads the runner that work runs on by default: it must be said, and may be none.
func selectedRunner(v jsontext.Value) (*uuid.UUID, error) {
	const pointer = "/default_runner_executor_public_id"
	if v == nil {
		return nil, toolpark.Errorf(toolpark.CodeParameterMissing,
			"default_runner_executor_public_id is required; null chooses no runner.").At(pointer)
	}
	return nullableUUID(v, pointer)
}

func checkLabel(label *string) error {
	if label == nil {
		return nil
	}
	if len(*label) > toolpark.MaxTitle || strings.ContainsFunc(*label, isControl) {
		return toolpark.Errorf(toolpark.CodeParameterInvalid, "label must be one line of at most %d bytes.", toolpark.MaxTitle).At("/label")
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 }

func (s *Server) insertRun(ctx context.Context, m toolpark.Member, run *postgres.Run, key string, hash []byte) (*postgres.Replay, error) {
	var replay *postgres.Replay
	err := s.DB.Tx(ctx, func(tx *postgres.Tx) error {
		var err error
		if replay, err = postgres.ClaimKey(ctx, tx, m.Account, m.ID, key, hash); replay != nil || err != nil {
			return err
		}
		if run.DefaultRunnerID != nil {
			known, err := postgres.ExecutorExists(ctx, tx, m.Account, *run.DefaultRunnerID)
			if err != nil {
				return err
			}
			if !known {
				return toolpark.Errorf(toolpark.CodeRunnerNotEligible,
					"Runner %s is unknown or not eligible.", run.DefaultRunnerID).At("/default_runner_executor_public_id")
			}
		}
		postgres.InsertRun(tx, run)
		postgres.StoreReply(tx, m.Account, m.ID, key, http.StatusCreated, nil, &run.ID)
		return nil
	})
	return replay, err
}

// answerRun renders a run as it is now: 202 while it has not been accepted.
func (s *Server) answerRun(w http.ResponseWriter, r *http.Request, id uuid.UUID, status int) error {
	run, err := s.DB.Run(r.Context(), member(r), id)
	if err != nil {
		return err
	}
	if run.Status == toolpark.RunAccepting {
		status = http.StatusAccepted
	}
	facts, err := s.DB.RunFacts(r.Context(), run.AccountID, []uuid.UUID{id}, true)
	if err != nil {
		return err
	}
	return writeJSON(w, status, map[string]any{"run": newRunResponse(run, facts[id])})
}

func (s *Server) getRun(w http.ResponseWriter, r *http.Request) error {
	id, err := pathUUID(r, "run")
	if err != nil {
		return err
	}
	run, err := s.DB.Run(r.Context(), member(r), id)
	if err != nil {
		return err
	}
	facts, err := s.DB.RunFacts(r.Context(), run.AccountID, []uuid.UUID{id}, true)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, map[string]any{"run": newRunResponse(run, facts[id])})
}

func (s *Server) listRuns(w http.ResponseWriter, r *http.Request) error {
	limit, after, err := page(r)
	if err != nil {
		return err
	}
	before, err := decodeCursor[*uuid.UUID](after)
	if err != nil {
		return err
	}
	runs, err := s.DB.RunsPage(r.Context(), member(r), before, limit+1)
	if err != nil {
		return err
	}
	runs, next, err := nextPage(runs, limit, func(run *postgres.Run) uuid.UUID { return run.ID })
	if err != nil {
		return err
	}
	ids := make([]uuid.UUID, len(runs))
	for i, run := range runs {
		ids[i] = run.ID
	}
	facts, err := s.DB.RunFacts(r.Context(), member(r).Account, ids, false)
	if err != nil {
		return err
	}
	list := make([]runResponse, len(runs))
	for i, run := range runs {
		list[i] = newRunResponse(run, facts[run.ID])
	}
	return writeJSON(w, http.StatusOK, map[string]any{"runs": list, "pagination": next})
}

// readableRun finds the run of the path, if the caller may read it.
func (s *Server) readableRun(r *http.Request) (*postgres.Run, error) {
	id, err := pathUUID(r, "run")
	if err != nil {
		return nil, err
	}
	return s.DB.Run(r.Context(), member(r), id)
}

// detailedRun is readableRun for what shows a run's details: of a run that was pruned they are refused.
func (s *Server) detailedRun(r *http.Request) (*postgres.Run, error) {
	run, err := s.readableRun(r)
	if err != nil {
		return nil, err
	}
	return run, detailed(run)
}

func detailed(run *postgres.Run) error {
	if run.DetailsPrunedAt == nil {
		return nil
	}
	return toolpark.Errorf(toolpark.CodeDetailsPruned,
		"The run ended longer ago than details are kept: only its overview is left, at GET /agent_api/v1/runs/%s.", run.ID)
}

func (s *Server) completeRun(w http.ResponseWriter, r *http.Request) error {
	if err := noFields(w, r); err != nil {
		return err
	}
	run, err := s.readableRun(r)
	if err != nil {
		return err
	}
	if err := s.Park.Complete(r.Context(), run.AccountID, run.ID); err != nil {
		return err
	}
	s.nudgeRun(r, run, workflows.SignalEnded)
	return s.answerRun(w, r, run.ID, http.StatusOK)
}

func (s *Server) stopRun(w http.ResponseWriter, r *http.Request) error {
	body, err := readOptionalBody(w, r)
	if err != nil {
		return err
	}
	req, err := decode[struct {
		Force bool `json:"force"`
	}](body)
	if err != nil {
		return err
	}
	run, err := s.readableRun(r)
	if err != nil {
		return err
	}
	if err := s.Park.Stop(r.Context(), member(r), run.ID, req.Force); err != nil {
		return err
	}
	s.nudgeRun(r, run, workflows.SignalStop)
	return s.answerRun(w, r, run.ID, http.StatusOK)
}

func (s *Server) nudgeRun(r *http.Request, run *postgres.Run, signal workflows.Signal) {
	if err := s.Delivery.NudgeRun(r.Context(), run.AccountID, run.ID, signal); err != nil {
		s.Log.WarnContext(r.Context(), "run not nudged; the recovery loop will", "run", run.ID, "error", err)
	}
}

// absent tells whether an optional field was left out or is null.
func absent(v jsontext.Value) bool { return v == nil || v.Kind() == 'n' }

func nullableUUID(v jsontext.Value, pointer string) (*uuid.UUID, error) {
	if absent(v) {
		return nil, nil
	}
	if v.Kind() == '"' {
		text, err := jsontext.AppendUnquote(nil, v)
		if id, parseErr := uuid.Parse(string(text)); err == nil && parseErr == nil && id.String() == string(text) {
			return &id, nil
		}
	}
	return nil, toolpark.Errorf(toolpark.CodeParameterInvalid, "%s must be null or a UUID.", pointer[1:]).At(pointer)
}

// object passes an object that storable passes.
func object(v jsontext.Value, limit int, pointer string) (jsontext.Value, error) {
	if v.Kind() != '{' {
		return nil, toolpark.Errorf(toolpark.CodeParameterInvalid, "%s must be an object.", pointer[1:]).At(pointer)
	}
	return storable(v, limit, pointer)
}

// storable passes a value that the database can hold and that has at most limit bytes as canonical JSON.
func storable(v jsontext.Value, limit int, pointer string) (jsontext.Value, error) {
	if at, reason, bad := strictjson.Unstorable(v); bad {
		return nil, toolpark.Errorf(toolpark.CodeParameterInvalid, "%s cannot be stored: %s.", pointer[1:]+at, reason).At(pointer + at)
	}
	if size, _ := strictjson.Size(v); size > limit {
		return nil, toolpark.Errorf(toolpark.CodeContentTooLarge, "%s is %d bytes; at most %d are taken.", pointer[1:], size, limit).At(pointer)
	}
	return v, nil
}
