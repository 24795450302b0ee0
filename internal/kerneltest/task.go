package kerneltest

import (
	"encoding/json/jsontext"
	"fmt"
	"time"
	"uuid"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/catalog"
	"github.com/toolpark/toolpark/internal/park"
	"github.com/toolpark/toolpark/internal/postgres"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
	"github.com/toolpark/toolpark/workflows"
)

// Patience is how long a test waits for what must come. It passes only when something is wrong.
const Patience = 90 * time.Second

// Member is the account's administrator as the park sees her.
func (a *Account) Member() toolpark.Member {
	return toolpark.Member{Account: a.ID, ID: a.Admin.ID, Kind: toolpark.Human, Role: toolpark.RoleAdmin}
}

// As is the executor as the park sees it.
func (e Executor) As(a *Account) toolpark.Executor {
	return toolpark.Executor{Account: a.ID, ID: e.ID, Kind: toolpark.Runner}
}

// BareRun makes a running run of the agent with nothing declared and no workflow. Steps may be appended.
func (a *Account) BareRun() string {
	a.T.Helper()
	return a.bareRun(`{}`, nil)
}

// KernelRun is BareRun with the runner's tools and the kernel's declared.
func (a *Account) KernelRun(r Executor) string {
	a.T.Helper()
	return a.bareRun(fmt.Sprintf(`{"approval_mode":"bypass","kernel_tools":[%q,%q,%q,%q,%q],"runner_executor_public_ids":[%q]}`,
		catalog.ToolsSearch, catalog.ToolsCall, catalog.RunnersList, catalog.HumanAsk, catalog.GraphWait, r.ID), &r.ID)
}

func (a *Account) bareRun(requested string, defaultRunner *uuid.UUID) string {
	a.T.Helper()
	ctx, id := a.T.Context(), uuid.NewV7()
	require.NoError(a.T, a.DB.Tx(ctx, func(tx *postgres.Tx) error {
		postgres.InsertRun(tx, &postgres.Run{
			ID: id, AccountID: a.ID, CreatorID: a.Agent.ID, AgentID: &a.Agent.ID, DefaultRunnerID: defaultRunner,
			Requested: jsontext.Value(requested), Metadata: jsontext.Value(`{}`),
		})
		return nil
	}))
	require.NoError(a.T, a.Park.Assemble(ctx, a.ID, id))
	return id.String()
}

// Task is an authored task and who may claim it.
type Task struct {
	*Kernel
	toolpark.TaskID
	Ref    runner.Ref
	Runner Executor
}

func (a *Account) task(run string, r Executor, key string) *Task {
	id, err := uuid.Parse(run)
	require.NoError(a.T, err)
	return &Task{
		Kernel: a.Kernel, TaskID: toolpark.TaskID{Account: a.ID, Run: id, Key: key},
		Ref: runner.Ref{Run: run, TaskKey: key, Generation: 1}, Runner: r,
	}
}

// Step authors one step at a runner through the door, due after timeout; 0 takes the announced one.
func (a *Account) Step(run string, r Executor, name, input string, timeout time.Duration) *Task {
	a.T.Helper()
	return a.Append(run, r, agent.Step{
		Name: name, Input: jsontext.Value(input), TimeoutMS: timeout.Milliseconds(),
		Route: &agent.Route{Kind: "runner", Runner: r.ID.String()},
	})
}

// Append authors one step of any kind through the door. The executor is who may claim it, if anybody.
func (a *Account) Append(run string, r Executor, step agent.Step) *Task {
	a.T.Helper()
	made, err := a.Agent.AppendTasks(a.T.Context(), run, []agent.Step{step}, "")
	require.NoError(a.T, err)
	return a.task(run, r, made[0].Key)
}

// Unstarted authors steps at a runner whose workflows nobody starts.
func (a *Account) Unstarted(run string, r Executor, name string, timeout time.Duration, n int) []*Task {
	a.T.Helper()
	ms := timeout.Milliseconds()
	steps := make([]park.NewStep, n)
	for i := range steps {
		steps[i].Tool = &park.ToolStep{
			Name: name, Input: jsontext.Value(`{}`), TimeoutMS: &ms, Route: &park.StepRoute{Runner: &r.ID},
		}
	}
	return a.UnstartedSteps(run, r, steps...)
}

// UnstartedSteps authors any steps whose workflows nobody starts. The executor is who may claim them, if anybody.
func (a *Account) UnstartedSteps(run string, r Executor, steps ...park.NewStep) []*Task {
	a.T.Helper()
	ctx := a.T.Context()
	row, err := a.DB.Run(ctx, a.Member(), uuid.MustParse(run))
	require.NoError(a.T, err)
	authored, _, err := a.Park.AppendSteps(ctx, a.Member(), row, steps, park.Idempotency{}, nil)
	require.NoError(a.T, err)
	tasks := make([]*Task, len(steps))
	for i := range tasks {
		tasks[i] = a.task(run, r, authored.Tasks[i].Key)
	}
	return tasks
}

// UnstartedCalls authors a round of calls, each a name with its arguments, whose workflows nobody starts.
func (a *Account) UnstartedCalls(run string, r Executor, calls ...[2]string) []*Task {
	a.T.Helper()
	ctx := a.T.Context()
	row, err := a.DB.Run(ctx, a.Member(), uuid.MustParse(run))
	require.NoError(a.T, err)
	req := park.RoundRequest{}
	for i, call := range calls {
		req.Calls = append(req.Calls, park.Call{ID: fmt.Sprintf("call_%d", i), Name: call[0], Arguments: jsontext.Value(call[1])})
	}
	authored, _, err := a.Park.AuthorRound(ctx, a.Member(), row, req, nil)
	require.NoError(a.T, err)
	tasks := make([]*Task, len(calls))
	for i := range tasks {
		tasks[i] = a.task(run, r, authored.Tasks[i].Key)
	}
	return tasks
}

// Child is the task that a tool_call makes.
func (t *Task) Child() *Task { return t.child("-call-1") }

// Question is the task that a call of ask makes.
func (t *Task) Question() *Task { return t.child("-ask-1") }

func (t *Task) child(suffix string) *Task {
	child := *t
	child.Key += suffix
	child.Ref.TaskKey = child.Key
	return &child
}

// Call authors a round of one call and returns its task.
func (a *Account) Call(run string, r Executor, name, arguments string) *Task {
	a.T.Helper()
	round, err := a.Agent.PostRound(a.T.Context(), run, agent.NewRound{
		Calls: []agent.Call{{ID: "call", Name: name, Arguments: arguments}},
	})
	require.NoError(a.T, err)
	return a.task(run, r, round.Tasks[0].Key)
}

// WorkflowID is the id of the task's workflow.
func (t *Task) WorkflowID() string { return workflows.TaskWorkflowID(t.Run, t.Key, 1) }

// Row reads the task's row.
func (t *Task) Row() *postgres.TaskDetail {
	t.T.Helper()
	row, err := t.DB.TaskDetail(t.T.Context(), t.TaskID)
	require.NoError(t.T, err)
	return row
}

// Claim takes the task through the door and returns the claim's token.
func (t *Task) Claim() string {
	t.T.Helper()
	grant, err := t.Runner.Claim(t.T.Context(), t.Ref, "claim")
	require.NoError(t.T, err)
	return grant.Token
}

// Commit reports a text through the door and waits for the verdict.
func (t *Task) Commit(token, text string) {
	t.T.Helper()
	judged, err := t.Runner.Commit(t.T.Context(), t.Ref, token, runner.Text(text))
	require.NoError(t.T, err)
	require.True(t.T, judged, "nobody judged the report in time")
}

// Settled waits until the task has settled.
func (t *Task) Settled() *postgres.TaskDetail {
	t.T.Helper()
	t.Eventually("the task settles", func() bool { return t.Row().SettledAt != nil })
	return t.Row()
}

// Eventually waits until a condition holds.
func (k *Kernel) Eventually(what string, holds func() bool) {
	k.T.Helper()
	for end := time.Now().Add(Patience); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			require.FailNow(k.T, "this did not come true: "+what)
		}
	}
}
