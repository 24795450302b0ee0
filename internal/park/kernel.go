package park

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"strings"
	"uuid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/catalog"
	"github.com/toolpark/toolpark/internal/declaration"
	"github.com/toolpark/toolpark/internal/postgres"
)

// evaluation is what the kernel made of one of its own tools' calls: an outcome, or a child that the call
// waits for. A child that failed at birth is an outcome.
type evaluation struct {
	outcome *postgres.Outcome
	child   *toolpark.Task // to be started
	listed  []uuid.UUID    // the executors whose inbox lists it
}

// childMarks are what is in the keys of the tasks that calls of kernel tools make, by the tool, and perhaps in others.
var childMarks = map[string]string{catalog.ToolsCall: "-call-", catalog.HumanAsk: "-ask-"}

// waitsForChild tells whether a task is a call whose child has been made: it has no clock of its own while the
// child lives.
func waitsForChild(task *toolpark.Task) bool {
	return task.KernelTool != nil && childMarks[*task.KernelTool] != "" && task.DeadlineAt == nil
}

// childKey names the task that a call makes.
func childKey(task *toolpark.Task) string {
	return fmt.Sprintf("%s%s%d", task.Key, childMarks[*task.KernelTool], task.Generation)
}

// mayHaveParent tells whether a key is of the form of those of children.
func mayHaveParent(key string) bool {
	for _, mark := range childMarks {
		if strings.Contains(key, mark) {
			return true
		}
	}
	return false
}

// evaluate works out a call of a kernel tool over what its round may call. It reads and writes in the
// transaction that holds the task's lock, so that a call is worked out once.
func (p *Park) evaluate(ctx context.Context, tx *postgres.Tx, task *postgres.LockedTask) (evaluation, error) {
	asked, frozen, err := p.asked(ctx, tx, task.ID())
	if err != nil {
		return evaluation{}, err
	}
	switch *task.KernelTool {
	case catalog.ToolsSearch:
		return search(frozen, asked.Input)
	case catalog.RunnersList:
		list, err := frozen.RunnersList()
		return answered(list), err
	case catalog.ToolsCall:
		return p.callTool(ctx, tx, task, frozen, asked.Input)
	case catalog.HumanAsk:
		return askPerson(ctx, tx, task, asked.Input)
	}
	return evaluation{outcome: failed(toolpark.ErrToolNotServed, *task.KernelTool)}, nil // authored by a version that had it
}

// asked reads what a call was asked, and what its round may call.
func (p *Park) asked(ctx context.Context, q postgres.Querier, id toolpark.TaskID) (postgres.Asked, *declaration.Context, error) {
	asked, err := postgres.FindAsked(ctx, q, id)
	if err != nil {
		return asked, nil, err
	}
	frozen, err := p.context(ctx, q, id.Account, asked.ContextHash)
	if err != nil || asked.ToolNames == nil {
		return asked, frozen, err
	}
	frozen, err = frozen.Narrow(asked.ToolNames)
	return asked, frozen, err
}

// answered is a call that the kernel answers with a value: as text for the model, and as structure.
func answered(value jsontext.Value) evaluation {
	o := said(string(value))
	o.StructuredContent = value
	return evaluation{outcome: o}
}

// said is a completed call whose result is a text.
func said(text string) *postgres.Outcome {
	quoted, _ := jsontext.AppendQuote(nil, text) // of valid UTF-8
	return &postgres.Outcome{
		Status: toolpark.Completed, By: toolpark.ByKernel,
		Content: jsontext.Value(fmt.Sprintf(`[{"type":"text","text":%s}]`, quoted)),
	}
}

func failed(key, detail string) *postgres.Outcome {
	return &postgres.Outcome{
		Status: toolpark.Failed, By: toolpark.ByKernel, Error: &toolpark.TaskError{Key: key, Detail: detail},
	}
}

func search(frozen *declaration.Context, input jsontext.Value) (evaluation, error) {
	var in struct {
		Query string  `json:"query"`
		Limit float64 `json:"limit"` // a whole number, but perhaps spelled 5.0 or 5e0
	}
	if err := json.Unmarshal(input, &in); err != nil { // the input matched the schema
		return evaluation{outcome: failed(toolpark.ErrInvalidToolInput, err.Error())}, nil
	}
	found, err := frozen.Search(in.Query, int(in.Limit))
	if errors.Is(err, declaration.ErrBlankQuery) {
		o := said(err.Error())
		o.IsError = true
		return evaluation{outcome: o}, nil
	}
	return answered(found), err
}

// callTool makes the one child of a tool_call, through the path that every call takes: the name must be
// declared, the input match, and somebody serve it. The child's outcome becomes the call's own.
func (p *Park) callTool(
	ctx context.Context, tx *postgres.Tx, task *postgres.LockedTask, frozen *declaration.Context, input jsontext.Value,
) (evaluation, error) {
	var in struct {
		Name  string         `json:"name"`
		Input jsontext.Value `json:"input"`
	}
	if err := json.Unmarshal(input, &in); err != nil { // the input matched the schema
		return evaluation{outcome: failed(toolpark.ErrInvalidToolInput, err.Error())}, nil
	}
	if tool, ok := frozen.Tool(in.Name); ok && tool.Kernel != nil && tool.Kernel.Canonical == catalog.ToolsCall {
		return evaluation{outcome: failed(toolpark.ErrInvalidToolInput, "/name: "+in.Name+" cannot call itself; call the tool you want by its own name")}, nil
	}
	admitted := declaration.AdmitAll(frozen, p.Schemas, []declaration.Call{{Name: in.Name, Arguments: in.Input}})
	facts, err := postgres.FindRun(ctx, tx, task.AccountID, task.RunID)
	if err != nil {
		return evaluation{}, err
	}
	policy, err := p.policy(ctx, tx, facts)
	if err != nil {
		return evaluation{}, err
	}
	decisions := decideAll(policy, admitted)
	var addresses postgres.Addresses
	run, err := postgres.LockRun(ctx, tx, task.AccountID, task.RunID,
		postgres.FindAddresses(facts, routesOf(admitted), namesOf(admitted), &addresses))
	if err != nil {
		return evaluation{}, err
	}
	if run.StopForced { // and whoever stops it cancels what is live; a child that is born now would be missed
		return evaluation{outcome: new(canceled())}, nil
	}
	child := born(in.Name, &admitted[0], &addresses)
	cross(&child, run, decisions[0])
	return makeChild(ctx, tx, task, run, child)
}

// personTarget is what an operator reads of whom a question is for.
const personTarget = "a person"

// askPerson makes the one child of an ask: the question itself, which lists, and whose outcome becomes the call's own.
func askPerson(ctx context.Context, tx *postgres.Tx, task *postgres.LockedTask, input jsontext.Value) (evaluation, error) {
	if _, refusal := ReadQuestion(input); refusal != nil { // what the schema cannot say
		at, _ := refusal.Details["pointer"].(string)
		return evaluation{outcome: failed(toolpark.ErrInvalidToolInput, at+": "+refusal.Message)}, nil
	}
	run, err := postgres.LockRun(ctx, tx, task.AccountID, task.RunID)
	if err != nil {
		return evaluation{}, err
	}
	if run.StopForced { // as for the child of a tool_call
		return evaluation{outcome: new(canceled())}, nil
	}
	return makeChild(ctx, tx, task, run, question(toolpark.OriginKernel, input, nil))
}

// question is an ask as it begins: parked for a person.
func question(origin toolpark.Origin, input jsontext.Value, timeoutMS *int64) postgres.NewTask {
	target := personTarget
	if timeoutMS == nil {
		ms := toolpark.DefaultAskTimeout.Milliseconds()
		timeoutMS = &ms
	}
	return postgres.NewTask{
		Kind: toolpark.KindAsk, Origin: origin, Status: toolpark.AwaitingInput, TargetName: &target, Input: input, TimeoutMS: timeoutMS,
	}
}

// makeChild writes the one task that a kernel tool's call makes and waits for from now on. One that failed at birth
// is the call's outcome.
func makeChild(
	ctx context.Context, tx *postgres.Tx, task *postgres.LockedTask, run *postgres.LockedRun, child postgres.NewTask,
) (evaluation, error) {
	child.Key, child.ParentKey = childKey(&task.Task), &task.Key
	made := []postgres.NewTask{child}
	if err := listForPeople(ctx, tx, &run.Run, made); err != nil {
		return evaluation{}, err
	}
	child = made[0]
	if err := postgres.InsertChild(tx, run, child); err != nil {
		return evaluation{}, err
	}
	if child.Status.Settled() {
		return evaluation{outcome: failed(*child.ErrorKey, deref(child.ErrorDetail))}, nil
	}
	postgres.AwaitChild(tx, task)
	return evaluation{child: startable(run, &child), listed: child.Listed()}, nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
