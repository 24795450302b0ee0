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
	ToolNames *[]string // narrows the frozen declaration for this round; nil: all of it
	Idempotency
}

// AuthorRound admits each call against the run's frozen context and writes the round with its tasks, as
// each is born. A call that cannot run becomes a task that has failed; it never fails the round.
//
// Refusals: tool_not_declared for a name in ToolNames that the declaration lacks; run_accepting,
// run_stopping, run_settled; idempotency_mismatch.
func (p *Park) AuthorRound(ctx context.Context, m toolpark.Member, run *postgres.Run, req RoundRequest, reply Reply) (*Authored, *postgres.Replay, error) {
	if err := open(run); err != nil {
		// A replay is answered even when the run is over: the transaction decides.
		if req.Key == "" || run.ContextHash == nil {
			return nil, nil, err
		}
	}
	frozen, err := p.Context(ctx, run)
	if err != nil {
		return nil, nil, err
	}
	if req.ToolNames != nil {
		if frozen, err = frozen.Narrow(*req.ToolNames); err != nil {
			return nil, nil, err
		}
	}
	calls := make([]declaration.Call, len(req.Calls))
	for i, call := range req.Calls {
		calls[i] = declaration.Call{Name: call.Name, Arguments: call.Arguments}
	}
	admitted := declaration.AdmitAll(frozen, p.Schemas, calls)
	var addresses postgres.Addresses
	find := postgres.FindAddresses(run, routesOf(admitted), namesOf(admitted), &addresses)
	return p.author(ctx, m, run.ID, req.Idempotency, reply, func(_ *postgres.Tx, a *Authored) error {
		number := a.run.Rounds + 1
		a.Round = &number
		for i := range admitted {
			a.Tasks = append(a.Tasks, born(number, i, req.Calls[i], &admitted[i], &addresses))
		}
		return nil
	}, find)
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
		if a.Failure == nil && a.Tool.Route == nil {
			names = append(names, a.Tool.Name)
		}
	}
	return names
}

// born is a call's task as it begins: parked for its addressee, or failed.
func born(round, position int, call Call, a *declaration.Admitted, addresses *postgres.Addresses) postgres.NewTask {
	name := storableName(call.Name)
	t := postgres.NewTask{
		Key: fmt.Sprintf("r%dt%d", round, position), Round: &round, Position: position,
		Kind: toolpark.KindTool, Origin: toolpark.OriginModel,
		CallableName: &name, ToolName: &name, ToolCallID: &call.ID, Input: a.Input,
	}
	if a.Failure != nil {
		fail(&t, *a.Failure)
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
