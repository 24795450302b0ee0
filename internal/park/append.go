package park

import (
	"context"
	"encoding/json/jsontext"
	"fmt"
	"uuid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/approval"
	"github.com/toolpark/toolpark/internal/catalog"
	"github.com/toolpark/toolpark/internal/postgres"
)

// NewStep is one task that a client authors itself. It has one verb.
type NewStep struct {
	Key  string // unique in the run; empty: minted
	Tool *ToolStep
	Ask  *AskStep
	Wait *WaitStep

	// Refusal is why the step cannot be read, if it cannot: then no other field counts. It waits here, so
	// that refusals of every kind are told together, in the order of the steps.
	Refusal *toolpark.Error
}

// ToolStep calls a served tool.
type ToolStep struct {
	Name      string // the served execution name
	Input     jsontext.Value
	Route     *StepRoute // nil: the agent's own application, else the provider pool
	TimeoutMS *int64
}

// AskStep asks a person.
type AskStep struct {
	Question  jsontext.Value // as ReadQuestion takes it
	TimeoutMS *int64
}

// WaitStep waits until another task of the run has settled.
type WaitStep struct {
	Task      string // the key of a task of the run, or of an earlier step
	TimeoutMS *int64
}

// StepRoute sends a step to a runner.
type StepRoute struct {
	Runner *uuid.UUID // nil: the run's default runner, taken once
}

// StepRefusal is why a step was refused.
type StepRefusal struct {
	Code    toolpark.Code `json:"code"`
	Path    string        `json:"path"`
	Message string        `json:"message"`
}

// verb is what a step is called in requests and in minted keys.
func (s *NewStep) verb() string {
	switch {
	case s.Ask != nil:
		return "ask"
	case s.Wait != nil:
		return "wait"
	}
	return "tool"
}

// refused makes the one error of refused steps: its code is the first bad step's own.
func refused(refusals []StepRefusal) error {
	first := refusals[0]
	return toolpark.Errorf(first.Code, "%s", first.Message).At(first.Path).With("steps", refusals)
}

// AppendSteps writes authored steps: all of them or none. A tool step is parked for its addressee, an ask for a
// person, and the kernel looks after a wait.
//
// Refusals by step: its own Refusal, reserved_tool_name, runner_target_required, runner_not_eligible, tool_not_served,
// approval_denied, validation_failed (a wait for a task that there is not), duplicate_task_key; and those of
// AuthorRound for the run.
func (p *Park) AppendSteps(ctx context.Context, m toolpark.Member, run *postgres.Run, steps []NewStep, idem Idempotency, reply Reply) (*Authored, *postgres.Replay, error) {
	var addresses postgres.Addresses
	routes, names := targets(run, steps)
	find := postgres.FindAddresses(run, routes, names, &addresses)
	decisions, err := p.decideSteps(ctx, run, steps)
	if err != nil {
		return nil, nil, err
	}
	return p.author(ctx, m, run.ID, idem, reply, func(tx *postgres.Tx, a *Authored) error {
		taken, err := postgres.TakenKeys(ctx, tx, run.AccountID, run.ID, keysOf(steps))
		if err != nil {
			return err
		}
		var refusals []StepRefusal
		for i := range steps {
			step := &steps[i]
			key := step.Key
			if key == "" {
				key = fmt.Sprintf("s%d-%s-%d", a.run.Appends+1, step.verb(), i)
			}
			t, refusal := authored(run, step, taken, &addresses)
			if refusal == nil && step.Tool != nil { // questions and waits cross no such stage
				refusal = crossAuthored(&t, a.run, decisions[i])
			}
			if refusal == nil && taken[key] {
				refusal = toolpark.Errorf(toolpark.CodeDuplicateTaskKey, "The run has a task %s.", key).At("/" + step.verb() + "/key")
			}
			taken[key] = true
			if refusal != nil {
				at, _ := refusal.Details["pointer"].(string)
				path := fmt.Sprintf("/steps/%d%s", i, at)
				refusals = append(refusals, StepRefusal{Code: refusal.Code, Path: path, Message: refusal.Message})
			}
			t.Key, t.Position = key, i
			a.Tasks = append(a.Tasks, t)
		}
		if refusals != nil {
			return refused(refusals)
		}
		return nil
	}, find)
}

// decideSteps lets a client's calls cross the stage of approval, before any lock is taken. A run that has not been
// accepted has nothing to decide by, and takes no steps.
func (p *Park) decideSteps(ctx context.Context, run *postgres.Run, steps []NewStep) ([]approval.Decision, error) {
	decisions := make([]approval.Decision, len(steps))
	if run.ContextHash == nil {
		return decisions, nil
	}
	policy, err := p.policy(ctx, p.DB.Pool, run)
	if err != nil {
		return nil, err
	}
	for i := range steps {
		if tool := steps[i].Tool; tool != nil && steps[i].Refusal == nil {
			decisions[i] = policy.Decide(approvalCall(tool.Name, toolpark.OriginAuthor, nil, nil, tool.Input))
		}
	}
	return decisions, nil
}

// crossAuthored is cross for a client's step: a rule that denies refuses it.
func crossAuthored(t *postgres.NewTask, run *postgres.LockedRun, d approval.Decision) *toolpark.Error {
	if d.Verdict == approval.Deny {
		return deniedBy("A rule of the run denies this step", d).At("/tool")
	}
	cross(t, run, d)
	return nil
}

func targets(run *postgres.Run, steps []NewStep) (routes []postgres.Route, names []string) {
	names = []string{}
	for i := range steps {
		tool := steps[i].Tool
		if tool == nil || steps[i].Refusal != nil {
			continue
		}
		if tool.Route == nil {
			names = append(names, tool.Name)
		} else if runner := tool.Route.target(run); runner != nil {
			routes = append(routes, postgres.Route{ExecutorID: *runner, Name: tool.Name})
		}
	}
	return routes, names
}

func (r *StepRoute) target(run *postgres.Run) *uuid.UUID {
	if r.Runner != nil {
		return r.Runner
	}
	return run.DefaultRunnerID
}

// keysOf are the keys that steps bring, and those of the tasks that they wait for.
func keysOf(steps []NewStep) []string {
	var keys []string
	for i := range steps {
		if steps[i].Key != "" {
			keys = append(keys, steps[i].Key)
		}
		if steps[i].Wait != nil {
			keys = append(keys, steps[i].Wait.Task)
		}
	}
	return keys
}

// authored is a step as its task begins. taken are the keys of tasks of the run that the steps name, and of the
// steps before it.
func authored(run *postgres.Run, step *NewStep, taken map[string]bool, addresses *postgres.Addresses) (postgres.NewTask, *toolpark.Error) {
	switch {
	case step.Refusal != nil:
		return postgres.NewTask{}, step.Refusal
	case step.Ask != nil:
		return question(toolpark.OriginAuthor, step.Ask.Question, step.Ask.TimeoutMS), nil
	case step.Wait != nil:
		if !taken[step.Wait.Task] {
			return postgres.NewTask{}, toolpark.Errorf(toolpark.CodeValidationFailed,
				"The run has no task %s, and no earlier step makes it.", step.Wait.Task).At("/wait/task")
		}
		return waiting(step.Wait.Task, step.Wait.TimeoutMS), nil
	}
	return authoredTool(run, step.Tool, addresses)
}

func authoredTool(run *postgres.Run, step *ToolStep, addresses *postgres.Addresses) (postgres.NewTask, *toolpark.Error) {
	t := postgres.NewTask{Kind: toolpark.KindTool, Origin: toolpark.OriginAuthor, ToolName: &step.Name, Input: step.Input}
	if catalog.Reserved(step.Name) {
		return t, toolpark.Errorf(toolpark.CodeReservedToolName,
			"%s is a kernel tool: only a model's own call reaches it.", step.Name).At("/tool/name")
	}
	if step.Route == nil {
		to := unrouted(addresses.Names[step.Name])
		if len(to) == 0 {
			return t, toolpark.Errorf(toolpark.CodeToolNotServed,
				"Neither the agent's own application nor a tools provider serves %s; name a runner in route.", step.Name).At("/tool/name")
		}
		dispatch(&t, to, step.TimeoutMS)
		return t, nil
	}
	runner := step.Route.target(run)
	if runner == nil {
		return t, toolpark.Errorf(toolpark.CodeRunnerTargetRequired,
			"The run has no default runner; name one in route.runner_executor_public_id.").At("/tool/route")
	}
	served, serves := addresses.Routes[postgres.Route{ExecutorID: *runner, Name: step.Name}]
	switch {
	case !addresses.Eligible[*runner]:
		return t, toolpark.Errorf(toolpark.CodeRunnerNotEligible, "Runner %s is unknown or not eligible.", runner).At("/tool/route")
	case !serves:
		return t, toolpark.Errorf(toolpark.CodeToolNotServed, "Runner %s does not serve %s.", runner, step.Name).At("/tool/name")
	}
	dispatch(&t, []postgres.Served{served}, step.TimeoutMS)
	return t, nil
}
