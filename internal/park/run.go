package park

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"maps"
	"slices"
	"time"
	"uuid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/declaration"
	"github.com/toolpark/toolpark/internal/notify"
	"github.com/toolpark/toolpark/internal/postgres"
)

// Assemble decides an accepting run: it freezes the context that its requested configuration gives
// now, or keeps the refusal. A run that has been decided, or is gone, stays as it is.
func (p *Park) Assemble(ctx context.Context, account, id uuid.UUID) error {
	run, err := postgres.FindRun(ctx, p.DB.Pool, account, id)
	if isCode(err, toolpark.CodeNotFound) {
		return nil
	}
	if err != nil || run.Status != toolpark.RunAccepting {
		return err
	}
	// Reading a megabyte of definitions takes its time, and no connection needs to wait for it: what was
	// requested does not change.
	configuration, refused, err := p.requested(ctx, run)
	if err != nil {
		return err
	}
	decided := false
	err = p.DB.Tx(ctx, func(tx *postgres.Tx) error {
		run, err := postgres.LockRun(ctx, tx, account, id)
		if isCode(err, toolpark.CodeNotFound) {
			return nil
		}
		if err != nil || run.Status != toolpark.RunAccepting {
			return err
		}
		decided = true
		if refused != nil {
			return refuse(tx, run, refused)
		}
		document, err := assemble(ctx, tx, &run.Run, configuration)
		if refusal, ok := errors.AsType[*toolpark.Error](err); ok && refusal.Code != toolpark.CodeUnavailable {
			return refuse(tx, run, refusal)
		}
		if err != nil {
			return err
		}
		postgres.AcceptRun(tx, run, configuration.Approval.Mode, hash(document), document)
		return nil
	})
	if err == nil && decided {
		p.Hub.Publish(notify.Message{Topic: notify.RunTopic(id)})
	}
	return err
}

// requested reads what an accepting run asks for, its own configuration or its agent's profile, or why that
// cannot be.
func (p *Park) requested(ctx context.Context, run *postgres.Run) (declaration.Configuration, *toolpark.Error, error) {
	raw := run.Requested
	if raw == nil && run.AgentID != nil {
		profile, err := postgres.FindProfile(ctx, p.DB.Pool, run.AccountID, *run.AgentID)
		if err != nil {
			return declaration.Configuration{}, nil, err
		}
		raw = profile.Configuration
	}
	configuration, err := declaration.ParseConfiguration(raw)
	if refusal, ok := errors.AsType[*toolpark.Error](err); ok {
		return configuration, refusal, nil
	}
	return configuration, nil, err
}

// assemble builds a run's frozen context from one snapshot of what executors announce.
func assemble(ctx context.Context, tx *postgres.Tx, run *postgres.Run, c declaration.Configuration) (jsontext.Value, error) {
	frozen, err := freeze(ctx, tx, run.Principal(), c.Sources, run.DefaultRunnerID, declaration.Options{})
	if err != nil {
		return nil, err
	}
	frozen.ApprovalRules = c.Approval.Rules
	if run.RequestedNames != nil {
		if frozen, err = frozen.Narrow(run.RequestedNames); err != nil {
			return nil, err
		}
	}
	return frozen.Document()
}

// freeze decides what may be called from one snapshot of what executors announce.
func freeze(
	ctx context.Context, q postgres.Querier, p postgres.Principal, s declaration.Sources, defaultRunner *uuid.UUID, o declaration.Options,
) (*declaration.Context, error) {
	snapshot, err := postgres.Snapshot(ctx, q, p, s.Lookup(defaultRunner))
	if err != nil {
		return nil, err
	}
	frozen, err := declaration.Assemble(s, defaultRunner, o, snapshot)
	return &frozen, err
}

// Project is what an agent's new work would receive from a configuration, or from its profile when the
// configuration is nil. It is an observation: nothing is kept of it.
//
// Refusals: parameter_missing for a configuration that is no object, a declaration's own, and those of
// declaration.Assemble.
func (p *Park) Project(ctx context.Context, m toolpark.Member, configuration jsontext.Value, defaultRunner *uuid.UUID) (*declaration.Context, error) {
	if configuration == nil {
		profile, err := postgres.FindProfile(ctx, p.DB.Pool, m.Account, m.ID)
		if err != nil {
			return nil, err
		}
		configuration = profile.Configuration
	}
	sources, err := declaration.ParseSources(configuration)
	if err != nil {
		return nil, err
	}
	return freeze(ctx, p.DB.Pool, postgres.Principal{Account: m.Account, Human: m.Human()}, sources, defaultRunner, declaration.Options{RequireCandidate: true})
}

func refuse(tx *postgres.Tx, run *postgres.LockedRun, refusal *toolpark.Error) error {
	wire := map[string]any{}
	maps.Copy(wire, refusal.Details)
	wire["code"], wire["message"] = refusal.Code, refusal.Message
	raw, err := json.Marshal(wire, json.Deterministic(true))
	if err != nil {
		return err
	}
	postgres.RefuseRun(tx, run, raw)
	return nil
}

// Refusal reads a refused run's refusal back as the error that acceptance gave.
func Refusal(run *postgres.Run) *toolpark.Error {
	details := map[string]any{}
	if err := json.Unmarshal(run.Refusal, &details); err != nil {
		return toolpark.Errorf(toolpark.CodeInternal, "The run was refused.").Because(err)
	}
	code, _ := details["code"].(string)
	message, _ := details["message"].(string)
	delete(details, "code")
	delete(details, "message")
	return &toolpark.Error{Code: toolpark.Code(code), Message: message, Details: details}
}

// AdvancedRun says whether a run's workflow has anything left to wait for.
type AdvancedRun struct {
	Over bool
	Wake time.Duration
}

// AdvanceRun looks after a decided run. A canceled workflow is a forced stop. A run that has had no live
// task and nothing authored for a day completes.
func (p *Park) AdvanceRun(ctx context.Context, account, id uuid.UUID, canceled bool) (AdvancedRun, error) {
	if canceled {
		if err := p.StopByOperator(ctx, account, id); err != nil {
			return AdvancedRun{}, err
		}
	}
	a := AdvancedRun{Wake: toolpark.RunIdleLimit}
	ended, forced := false, false
	err := p.DB.Tx(ctx, func(tx *postgres.Tx) error {
		run, err := postgres.LockRun(ctx, tx, account, id)
		if isCode(err, toolpark.CodeNotFound) {
			a.Over = true
			return nil
		}
		if err != nil {
			return err
		}
		if run.Status == toolpark.RunRunning {
			if ended, a.Wake, err = completeIdle(ctx, tx, run); err != nil {
				return err
			}
		}
		a.Over = ended || run.Status.Terminal()
		if forced = run.Status == toolpark.RunStopping && run.StopForced; forced {
			return nil // the alarm stays until the run has ended
		}
		postgres.RunSleeps(tx, run)
		return nil
	})
	if err != nil {
		return a, err
	}
	if ended {
		p.Hub.Publish(notify.Message{Topic: notify.RunTopic(id)})
	}
	if forced {
		// Whoever forced the stop may have died before it staged the cancels; staging them again is nothing.
		return a, p.DB.StageCancels(ctx, account, id, nil)
	}
	return a, nil
}

func completeIdle(ctx context.Context, tx *postgres.Tx, run *postgres.LockedRun) (ended bool, wake time.Duration, err error) {
	if left := toolpark.RunIdleLimit - run.Now.Sub(run.AuthoredAt); left > 0 {
		return false, left, nil
	}
	live, err := postgres.HasLiveTask(ctx, tx, run)
	if err != nil || live {
		return false, toolpark.RunIdleLimit, err
	}
	postgres.SetRunStatus(tx, run, toolpark.RunCompleted)
	return true, 0, nil
}

// Complete ends a run that has no live task; one that has is run_busy. A run that has completed stays
// completed: repeating it is no error.
func (p *Park) Complete(ctx context.Context, account, id uuid.UUID) error {
	err := p.DB.Tx(ctx, func(tx *postgres.Tx) error {
		run, err := postgres.LockRun(ctx, tx, account, id)
		if err != nil {
			return err
		}
		if run.Status == toolpark.RunCompleted {
			return nil
		}
		if err := open(&run.Run); err != nil {
			return err
		}
		live, err := postgres.HasLiveTask(ctx, tx, run)
		if err != nil {
			return err
		}
		if live {
			return toolpark.Errorf(toolpark.CodeRunBusy,
				"The run has tasks that have not settled; wait for them, cancel them, or stop the run.")
		}
		postgres.SetRunStatus(tx, run, toolpark.RunCompleted)
		return nil
	})
	if err == nil {
		p.Hub.Publish(notify.Message{Topic: notify.RunTopic(id)})
	}
	return err
}

// Stop lets no new work into a run and ends it as canceled once its live tasks have settled. Forced, it
// cancels them all. Stopping again is no error, and may add the force.
func (p *Park) Stop(ctx context.Context, m toolpark.Member, id uuid.UUID, force bool) error {
	return p.stop(ctx, m.Account, id, &m.ID, force)
}

// StopByOperator is a forced stop of a run whose workflow was canceled or terminated by hand. A run that
// has ended meanwhile stays as it is.
func (p *Park) StopByOperator(ctx context.Context, account, id uuid.UUID) error {
	err := p.stop(ctx, account, id, nil, true)
	if !isCode(err, toolpark.CodeRunSettled, toolpark.CodeRunAccepting, toolpark.CodeNotFound) {
		return err
	}
	return nil
}

func (p *Park) stop(ctx context.Context, account, id uuid.UUID, actor *uuid.UUID, force bool) error {
	live := false
	err := p.DB.Tx(ctx, func(tx *postgres.Tx) error {
		run, err := postgres.LockRun(ctx, tx, account, id)
		if err != nil {
			return err
		}
		switch run.Status {
		case toolpark.RunCanceled:
			return nil
		case toolpark.RunStopping:
			live = true
		default:
			if live, err = stopOpen(ctx, tx, run); err != nil {
				return err
			}
		}
		if force && live {
			postgres.ForceStop(tx, run)
		}
		return nil
	})
	if err != nil {
		return err
	}
	p.Hub.Publish(notify.Message{Topic: notify.RunTopic(id)})
	if !force || !live {
		return nil
	}
	// Without the run's lock: the last of these settles takes it to end the run.
	return p.DB.StageCancels(ctx, account, id, actor)
}

// stopOpen lets no new work into an open run, and ends it if nothing is live in it.
func stopOpen(ctx context.Context, tx *postgres.Tx, run *postgres.LockedRun) (live bool, err error) {
	if err := open(&run.Run); err != nil {
		return false, err
	}
	if live, err = postgres.HasLiveTask(ctx, tx, run); err != nil {
		return live, err
	}
	status := toolpark.RunCanceled
	if live {
		status = toolpark.RunStopping
	}
	postgres.SetRunStatus(tx, run, status)
	return live, nil
}

// open tells whether a run takes new work.
func open(run *postgres.Run) error {
	switch {
	case run.Status == toolpark.RunAccepting:
		return toolpark.Errorf(toolpark.CodeRunAccepting, "The run has not been accepted yet; read it until it is.")
	case run.Status == toolpark.RunStopping:
		return toolpark.Errorf(toolpark.CodeRunStopping, "The run is stopping and takes no new work.")
	case run.Status.Terminal():
		return toolpark.Errorf(toolpark.CodeRunSettled, "The run is over: it is %s.", run.Status)
	}
	return nil
}

func isCode(err error, codes ...toolpark.Code) bool {
	e, ok := errors.AsType[*toolpark.Error](err)
	if !ok {
		return false
	}
	return slices.Contains(codes, e.Code)
}
