package park

import (
	"context"
	"encoding/json/jsontext"
	"fmt"
	"strings"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/declaration"
	"github.com/toolpark/toolpark/internal/postgres"
	"github.com/toolpark/toolpark/internal/strictjson"
)

// Call is one call that a model made.
type Call struct {
	ID        string         // the pairing key, the provider's own or a minted one
	Name      string         // as the model spelled it
	Arguments jsontext.Value // as they came: a string that holds JSON, or an object; nil when absent
}

// RoundRequest is one batch of calls that a model made in a run.
type RoundRequest struct {
	Calls     []Call
	Own       *declaration.Sources // what this round alone may call; nil: what its run may
	ToolNames *[]string            // narrows that for this round; nil: all of it
	Offered   string               // the digest of the projection that the model was offered; empty: not said
	Idempotency
}

// AuthorRound admits each call against what the round may call and writes the round with its tasks, as
// each is born. A call that cannot run becomes a task that has failed; it never fails the round.
//
// Refusals: those of declaration.Assemble for the round's own tools; tool_not_declared for a name in
// ToolNames that the declaration lacks; validation_failed for an offered digest that is of no projection of
// it; run_accepting, run_stopping, run_settled; idempotency_mismatch.
func (p *Park) AuthorRound(ctx context.Context, m toolpark.Member, run *postgres.Run, req RoundRequest, reply Reply) (*Authored, *postgres.Replay, error) {
	if err := open(run); err != nil {
		// A replay is answered even when the run is over: the transaction decides.
		if req.Key == "" || run.ContextHash == nil {
			return nil, nil, err
		}
	}
	round, frozen, refusal := p.offer(ctx, run, req)
	if refusal != nil && req.Key == "" {
		return nil, nil, refusal
	}
	if refusal != nil { // a replay is answered as before, whatever has changed since
		return p.author(ctx, m, run.ID, req.Idempotency, reply, func(*postgres.Tx, *Authored) error { return refusal })
	}
	calls := make([]declaration.Call, len(req.Calls))
	for i, call := range req.Calls {
		calls[i] = declaration.Call{Name: call.Name, Arguments: call.Arguments}
	}
	admitted := declaration.AdmitAll(frozen, p.Schemas, calls)
	policy, err := p.policy(ctx, p.DB.Pool, run)
	if err != nil {
		return nil, nil, err
	}
	decisions := decideAll(policy, admitted)
	var addresses postgres.Addresses
	find := postgres.FindAddresses(run, routesOf(admitted), namesOf(admitted), &addresses)
	return p.author(ctx, m, run.ID, req.Idempotency, reply, func(_ *postgres.Tx, a *Authored) error {
		round.Number = a.run.Rounds + 1
		a.Round = round
		for i := range admitted {
			t := born(req.Calls[i].Name, &admitted[i], &addresses)
			cross(&t, a.run, decisions[i])
			t.Key, t.Round, t.Position = fmt.Sprintf("r%dt%d", round.Number, i), &round.Number, i
			t.ToolCallID = &req.Calls[i].ID
			a.Tasks = append(a.Tasks, t)
		}
		return nil
	}, find)
}

// offer decides what a round may call: its own tools, or what its run may, or the named part of either.
func (p *Park) offer(ctx context.Context, run *postgres.Run, req RoundRequest) (*postgres.NewRound, *declaration.Context, error) {
	round := &postgres.NewRound{}
	frozen, err := p.Context(ctx, run)
	if err != nil {
		return nil, nil, err
	}
	if req.Own != nil {
		if run.ApprovalMode == nil {
			return nil, nil, toolpark.Errorf(toolpark.CodeValidationFailed,
				"The run has no approval_mode, so nothing can be called in it; create it with one to bring tools to its rounds.").At("/tools")
		}
		if frozen, err = freeze(ctx, p.DB.Pool, run.Principal(), *req.Own, run.DefaultRunnerID, declaration.Options{}); err != nil {
			return nil, nil, err
		}
		if round.Context, err = frozen.Document(); err != nil {
			return nil, nil, err
		}
		round.ContextHash = hash(round.Context)
	}
	if req.ToolNames != nil {
		round.ToolNames = *req.ToolNames
		if frozen, err = frozen.Narrow(round.ToolNames); err != nil {
			return nil, nil, err
		}
	}
	if req.Offered != "" {
		if round.Offered, err = projectionOf(frozen, req.Offered); err != nil {
			return nil, nil, err
		}
	}
	return round, frozen, nil
}

// projectionOf finds the projection of a digest: which provider's it is does not go without saying.
func projectionOf(frozen *declaration.Context, digest string) (*postgres.Projection, error) {
	for _, format := range toolpark.Formats {
		tools, of, err := frozen.Projection(format)
		if err != nil {
			return nil, err
		}
		if of == digest {
			return &postgres.Projection{Digest: digest, Format: format, Tools: tools}, nil
		}
	}
	return nil, toolpark.Errorf(toolpark.CodeValidationFailed,
		"offered is the digest of no projection of what this round may call; read it from the run's tools with the same tool_names.").
		At("/offered")
}

func routesOf(admitted []declaration.Admitted) []postgres.Route {
	var routes []postgres.Route
	for _, a := range admitted {
		if a.Failure == nil && a.Tool.Route != nil {
			routes = append(routes, postgres.Route{ExecutorID: a.Tool.Route.Runner, Name: a.Tool.Route.ToolName})
		}
	}
	return routes
}

func namesOf(admitted []declaration.Admitted) []string {
	names := []string{}
	for _, a := range admitted {
		if a.Failure == nil && a.Tool.Route == nil && a.Tool.Kernel == nil {
			names = append(names, a.Tool.Name)
		}
	}
	return names
}

// born is a model's call as its task begins: parked for its addressee, in the kernel, or failed. Where it
// belongs is for the caller to say.
func born(called string, a *declaration.Admitted, addresses *postgres.Addresses) postgres.NewTask {
	name := storableName(called)
	t := postgres.NewTask{
		Kind: toolpark.KindTool, Origin: toolpark.OriginModel, CallableName: &name, ToolName: &name, Input: a.Input,
	}
	if a.Tool != nil && a.Tool.Kernel != nil {
		t.ToolName = &a.Tool.Kernel.Name
		if name != a.Tool.Kernel.Name {
			t.ToolAlias = &name
		}
	}
	if a.Failure != nil {
		fail(&t, *a.Failure)
		return t
	}
	if a.Tool.Kernel != nil {
		runInKernel(&t, a.Tool)
		return t
	}
	route := a.Tool.Route
	if route == nil {
		address(&t, unrouted(addresses.Names[a.Tool.Name]))
		return t
	}
	t.ToolName = &route.ToolName
	served, serves := addresses.Routes[postgres.Route{ExecutorID: route.Runner, Name: route.ToolName}]
	switch {
	case !addresses.Eligible[route.Runner]:
		fail(&t, toolpark.TaskError{Key: toolpark.ErrRunnerNotEligible, Detail: "runner " + route.Runner.String()})
	case !serves:
		fail(&t, toolpark.TaskError{Key: toolpark.ErrToolNotServed, Detail: route.ToolName})
	default:
		// What the run was accepted with stays, whatever the runner announces now.
		served.EffectProfile, served.TimeoutMS = a.Tool.Served.EffectProfile, a.Tool.Served.TimeoutMS
		served.OutputSchemaHash = a.Tool.Served.OutputSchemaHash
		dispatch(&t, []postgres.Served{served}, nil)
	}
	return t
}

func address(t *postgres.NewTask, to []postgres.Served) {
	if len(to) == 0 {
		fail(t, toolpark.TaskError{Key: toolpark.ErrToolNotServed, Detail: *t.ToolName})
		return
	}
	dispatch(t, to, nil)
}

// storableName is what is kept of the name a model called, which may be anything at all.
func storableName(name string) string {
	name = strings.ReplaceAll(strings.ToValidUTF8(name, "\uFFFD"), "\x00", "\uFFFD")
	return strictjson.CutString(name, toolpark.MaxServedName)
}
