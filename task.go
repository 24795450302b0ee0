package toolpark

import (
	"fmt"
	"uuid"
)

// TaskID names a task. Every query about it is scoped by its account.
type TaskID struct {
	Account uuid.UUID
	Run     uuid.UUID
	Key     string
}

func (id TaskID) String() string { return fmt.Sprintf("%s/%s", id.Run, id.Key) }

// GenerationID names one generation of a task.
type GenerationID struct {
	TaskID
	Generation int
}

// TaskKind is what a task waits for.
type TaskKind string

const (
	KindTool TaskKind = "tool"
	KindAsk  TaskKind = "ask"
	KindWait TaskKind = "wait"
)

// Status is where a task stands (spec: runs and tasks, Task status).
type Status string

const (
	NeedsApproval Status = "needs_approval"
	Dispatched    Status = "dispatched"     // parked for an executor
	Running       Status = "running"        // the kernel works
	AwaitingInput Status = "awaiting_input" // parked for a person
	Completed     Status = "completed"
	Failed        Status = "failed"
	Canceled      Status = "canceled"
	TimedOut      Status = "timed_out"
	Uncertain     Status = "uncertain" // claimed, not reported, and its effect may have happened
)

// Settled tells whether the status is terminal. Settling is write-once.
func (s Status) Settled() bool {
	switch s {
	case Completed, Failed, Canceled, TimedOut, Uncertain:
		return true
	}
	return false
}

// Failure tells whether a task of this status may be retried, or given up.
func (s Status) Failure() bool { return s == Failed || s == TimedOut || s == Uncertain }

// AwaitsPerson tells whether the task waits for somebody to decide or to answer.
func (s Status) AwaitsPerson() bool { return s == NeedsApproval || s == AwaitingInput }

// Origin says who authored a task.
type Origin string

const (
	OriginModel  Origin = "model"  // a call of a round, or what a tool_call made of it
	OriginAuthor Origin = "author" // the append door
	OriginKernel Origin = "kernel"
)

// TaskError is why a task did not complete: a fixed key and an optional detail for a reader.
type TaskError struct {
	Key    string `json:"key"`
	Detail string `json:"detail,omitempty"`
}

// Keys of TaskError. The first group are births: the task is authored already failed.
const (
	ErrUnknownTool          = "unknown_tool"
	ErrInvalidToolArguments = "invalid_tool_arguments"
	ErrToolInputTooLarge    = "tool_input_too_large"
	ErrInvalidToolInput     = "invalid_tool_input"
	ErrToolNotServed        = "tool_not_served"
	ErrRunnerNotEligible    = "runner_not_eligible"
	ErrApprovalDenied       = "approval_denied"

	ErrApprovalExpired      = "approval_expired"
	ErrAskTimeout           = "ask_timeout"
	ErrToolFailed           = "tool_failed"
	ErrToolTimeout          = "tool_timeout"
	ErrToolUncertain        = "tool_uncertain"
	ErrTaskCanceled         = "task_canceled"
	ErrResultUnstorable     = "result_unstorable"
	ErrOutputSchemaMismatch = "output_schema_mismatch"
	ErrWorkflowTerminated   = "workflow_terminated"
)

// RunStatus is where a run stands.
type RunStatus string

const (
	RunAccepting RunStatus = "accepting"
	RunRefused   RunStatus = "refused"
	RunRunning   RunStatus = "running"
	RunStopping  RunStatus = "stopping"
	RunCompleted RunStatus = "completed"
	RunCanceled  RunStatus = "canceled"
)

// Terminal tells whether the run has ended.
func (s RunStatus) Terminal() bool {
	return s == RunRefused || s == RunCompleted || s == RunCanceled
}
