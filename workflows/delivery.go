package workflows

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"uuid"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/catalog"
	"github.com/toolpark/toolpark/internal/visibility"
)

// rpcTimeout bounds one call to the Temporal server. What is lost to it the recovery loop repeats.
const rpcTimeout = 5 * time.Second

// Delivery starts workflows and nudges them. It is the one place that talks to the Temporal server on
// behalf of a park. Everything it does may be lost or repeated: the database knows what is due.
type Delivery struct {
	client client.Client
	queue  string
	log    *slog.Logger
	starts starts
}

// NewDelivery delivers to the workers of a task queue.
func NewDelivery(c client.Client, queue string, parks Parks, log *slog.Logger) *Delivery {
	d := &Delivery{client: c, queue: queue, log: log}
	d.starts = starts{parks: parks, start: d.start, log: log, closing: make(chan struct{})}
	return d
}

// Start starts the workflows of tasks that were just authored, without waiting for it.
func (d *Delivery) Start(tasks []*toolpark.Task) { d.starts.add(tasks) }

// Close starts what is still to be started, and waits for it.
func (d *Delivery) Close() { d.starts.close() }

// start is the first start of a task: delayed until its deadline, so that the park costs nothing until
// a signal comes or the alarm rings. A workflow that exists already is success, even a closed one: a commit
// may have settled the task before its start landed.
func (d *Delivery) start(ctx context.Context, task *toolpark.Task, delay time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, rpcTimeout)
	defer cancel()
	options := d.taskOptions(task, task.Status)
	options.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE
	options.StartDelay = delay
	_, err := d.client.ExecuteWorkflow(ctx, options, ToolTask, taskInput(task))
	if _, ok := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); ok {
		return nil
	}
	return err
}

// Unreachable tells whether a call failed because the server is away or overloaded: any other call would
// fare alike now, and the same one may work later.
func Unreachable(err error) bool {
	var (
		unavailable *serviceerror.Unavailable
		exhausted   *serviceerror.ResourceExhausted
		timedOut    *serviceerror.DeadlineExceeded
	)
	return errors.As(err, &unavailable) || errors.As(err, &exhausted) || errors.As(err, &timedOut) ||
		errors.Is(err, context.DeadlineExceeded)
}

// Nudge makes a task's workflow look again, and starts it if it is not running: signal with start covers
// a running, missing, failed, terminated or expired workflow and a restored database. A spare run finds
// a settled row and ends.
func (d *Delivery) Nudge(ctx context.Context, task *toolpark.Task, signal Signal) error {
	return d.NudgeTo(ctx, task, signal, task.Status)
}

// Wake is Nudge for those who have no more to say than the task's row does: that it is being canceled, or that
// something changed.
func (d *Delivery) Wake(ctx context.Context, task *toolpark.Task) error {
	if task.CancelRequestedAt != nil {
		return d.Nudge(ctx, task, SignalCancel)
	}
	return d.Nudge(ctx, task, SignalWake)
}

// NudgeTo is Nudge after something was staged that asks for a status. A workflow that this starts shows that
// status from its start on, which saves a quick call the upsert at its end.
func (d *Delivery) NudgeTo(ctx context.Context, task *toolpark.Task, signal Signal, asks toolpark.Status) error {
	ctx, cancel := context.WithTimeout(ctx, rpcTimeout)
	defer cancel()
	options := d.taskOptions(task, asks)
	options.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
	options.WorkflowIDConflictPolicy = enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING
	_, err := d.client.SignalWithStartWorkflow(ctx, options.ID, string(signal), nil, options, ToolTask, taskInput(task))
	return err
}

// NudgeRun is Nudge for a run's workflow. It is also the run's first start.
func (d *Delivery) NudgeRun(ctx context.Context, account, run uuid.UUID, signal Signal) error {
	ctx, cancel := context.WithTimeout(ctx, rpcTimeout)
	defer cancel()
	options := client.StartWorkflowOptions{
		ID:                       RunWorkflowID(run),
		TaskQueue:                d.queue,
		WorkflowTaskTimeout:      taskTimeout,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		TypedSearchAttributes:    temporal.NewSearchAttributes(visibility.Account.ValueSet(account.String())),
		StaticSummary:            "run " + run.String(),
		StaticDetails:            "Hosts the tasks of a run. Request cancellation of this workflow to stop the run and cancel its live tasks.",
	}
	input := RunInput{Account: account, Run: run}
	_, err := d.client.SignalWithStartWorkflow(ctx, options.ID, string(signal), nil, options, Run, input)
	return err
}

func taskInput(task *toolpark.Task) ToolTaskInput {
	return ToolTaskInput{Account: task.AccountID, Run: task.RunID, Key: task.Key, Generation: task.Generation}
}

// taskOptions is what an operator sees of a task from its start on: which tool, whose, in which state,
// until when, and how to release it. Never inputs or results.
func (d *Delivery) taskOptions(task *toolpark.Task, status toolpark.Status) client.StartWorkflowOptions {
	tool, target := label(task), plain(deref(task.TargetName))
	attributes := []temporal.SearchAttributeUpdate{
		visibility.Account.ValueSet(task.AccountID.String()),
		visibility.Tool.ValueSet(tool),
		visibility.State.ValueSet(string(status)),
	}
	if len(task.AddressedTo) == 1 {
		attributes = append(attributes, visibility.Executor.ValueSet(task.AddressedTo[0].String()))
	}
	if task.DeadlineAt != nil && !makesChild(task) { // which ends with its child, and would only look overdue
		attributes = append(attributes, visibility.Deadline.ValueSet(*task.DeadlineAt))
	}
	return client.StartWorkflowOptions{
		ID:                    TaskWorkflowID(task.RunID, task.Key, task.Generation),
		TaskQueue:             d.queue,
		WorkflowTaskTimeout:   taskTimeout,
		TypedSearchAttributes: temporal.NewSearchAttributes(attributes...),
		StaticSummary:         plain(tool) + " → " + target,
		StaticDetails:         details(task, status) + " Request cancellation of this workflow to settle the task as canceled.",
	}
}

// details is what a task waits for when its workflow starts with a status, and until when.
func details(task *toolpark.Task, status toolpark.Status) string {
	target, until := plain(deref(task.TargetName)), "its timeout"
	if task.DeadlineAt != nil {
		until = task.DeadlineAt.UTC().Format(time.RFC3339)
	}
	switch {
	case status.Settled() && (task.KernelTool != nil || task.WaitsFor != nil):
		return fmt.Sprintf("Was worked out by the kernel; a worker is about to settle it as %s.", status)
	case status.Settled():
		return fmt.Sprintf("Was parked for %s; a worker is about to settle it as %s.", target, status)
	case status == toolpark.NeedsApproval:
		return fmt.Sprintf("Waits for a person, until %s, to allow this call for %s: POST /agent_api/v1/runs/%s/tasks/%s/approve or "+
			"…/deny, or `toolpark approvals`. Whoever may read the run may decide, agents only with may_decide.", until, target, task.RunID, task.Key)
	case status == toolpark.AwaitingInput:
		return fmt.Sprintf("Waits for a person's answer, until %s: POST /agent_api/v1/runs/%s/tasks/%s/resolution. "+
			"Whoever may read the run may answer.", until, task.RunID, task.Key)
	case task.WaitsFor != nil:
		return fmt.Sprintf("Waits until task %s of the same run has settled, until %s at the latest, and then tells how; "+
			"no executor takes it. That task ends it, or its deadline.", *task.WaitsFor, until)
	case makesChild(task):
		return "The kernel makes the call or the question that this call asks for as a task of its own, then waits for that task, " +
			"whose deadline is the only one. The current details name it."
	case task.KernelTool != nil:
		return fmt.Sprintf("The kernel works this call out, until %s at the latest; no executor takes it.", until)
	}
	return fmt.Sprintf("Parked for %s, which may claim and report this call; the first deadline is %s. ToolparkState, "+
		"ToolparkDeadline and the current details say what holds now.", target, until)
}

// makesChild tells whether a task is a call that makes another task, and so has a clock of its own for a moment
// only: until that is made.
func makesChild(task *toolpark.Task) bool {
	return task.KernelTool != nil && (*task.KernelTool == catalog.ToolsCall || *task.KernelTool == catalog.HumanAsk)
}

// plain makes somebody's name a part of a text that the Web UI shows as Markdown: no link, picture or markup comes of
// it, and it is short enough for a summary.
func plain(name string) string {
	name = markup.Replace(name)
	if runes := []rune(name); len(runes) > maxPlain {
		return string(runes[:maxPlain-1]) + "…"
	}
	return name
}

// maxPlain is how many characters of a name are shown. A summary has room for 400 bytes.
const maxPlain = 48

var markup = strings.NewReplacer("[", "(", "]", ")", "<", "(", ">", ")", "`", "'", "\n", " ", "\r", " ", "://", ": //")

// label is what operators know a task by: the name of its tool, or else what kind of task it is.
func label(task *toolpark.Task) string {
	if task.ToolName != nil {
		return *task.ToolName
	}
	return string(task.Kind)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
