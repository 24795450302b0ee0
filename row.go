package toolpark

import (
	"slices"
	"time"
	"uuid"
)

// Task is a task's row: where it stands, who may take it, and its clocks. What it was asked and what
// came of it are read apart.
type Task struct {
	AccountID          uuid.UUID
	RunID              uuid.UUID
	Key                string
	Round              *int    // nil for what the append door authored, and for a child
	ParentKey          *string // the kernel tool's call that made this task; nil for any other
	Position           int
	Generation         int
	Kind               TaskKind
	Origin             Origin
	Status             Status
	CallableName       *string // as the model spelled it
	ToolName           *string // as the executor serves it, or a kernel tool's wire name
	ToolAlias          *string // the alias it was called under; nil for its own name
	KernelTool         *string // the canonical name of a kernel tool; nil for what executors serve
	ToolCallID         *string // the provider's pairing key
	AddressedRole      *ExecutorKind
	AddressedTo        []uuid.UUID // who may claim: one executor, or every member of a pool
	WaitsFor           *string     // the task whose settlement ends this one; nil for any other
	Watched            bool        // a task waits for this one
	TargetName         *string
	EffectProfile      *EffectProfile
	Approval           *Approval // nil when its mode or its origin let it run, or nothing has yet
	OutputSchemaHash   []byte
	TimeoutMS          *int64
	AnnouncedTimeoutMS *int64
	BeganAt            time.Time  // when this generation was authored
	DispatchedAt       *time.Time // nil while it needs approval
	DeadlineAt         *time.Time
	ClaimedBy          *uuid.UUID
	ClaimedAt          *time.Time
	ClaimTokenHash     []byte
	ClaimShown         bool
	CancelRequestedAt  *time.Time
	NextInput          int
	SettledAt          *time.Time
	SettledBy          *SettledBy
	IsError            bool
	AnsweredBy         *uuid.UUID // of an ask: the member that answered it, or the application that it was addressed to
	ErrorKey           *string
	AbandonedAt        *time.Time
	AbandonedBy        *uuid.UUID
	Revision           int64
	CreatedAt          time.Time
}

// Approval is what let a call run, or refused it (spec: runs and tasks, Approval).
type Approval struct {
	Origin    string     `json:"origin"` // mode, rule, author, kernel, human, agent
	DecidedBy *uuid.UUID `json:"decided_by,omitzero"`
	DecidedAt time.Time  `json:"decided_at"`
	Reason    string     `json:"reason,omitzero"` // a denial's
	Edited    bool       `json:"edited,omitzero"` // it runs with another input than the call asked for

	// InputDigest is that of the call as it waited for the decision; empty when nobody decided.
	InputDigest string `json:"input_digest,omitzero"`
}

// What an Approval's Origin may be.
const (
	ApprovedByMode   = "mode"
	ApprovedByRule   = "rule"
	ApprovedByAuthor = "author"
	ApprovedByKernel = "kernel"
	DecidedByHuman   = "human"
	DecidedByAgent   = "agent"
)

// SettledBy says what ended a task.
type SettledBy string

const (
	ByBirth       SettledBy = "birth" // it could not be accepted; it never had a workflow
	ByCommit      SettledBy = "commit"
	ByCancel      SettledBy = "cancel"
	ByExpiry      SettledBy = "expiry"
	ByTermination SettledBy = "termination" // its workflow was terminated by hand
	ByKernel      SettledBy = "kernel"      // the kernel worked it out, or a child's outcome became its own
	ByDecision    SettledBy = "decision"    // somebody denied it, or approved what could not be dispatched any more
	ByResolution  SettledBy = "resolution"  // somebody answered an ask
)

// ID names the task.
func (t *Task) ID() TaskID { return TaskID{Account: t.AccountID, Run: t.RunID, Key: t.Key} }

// GenerationID names the task as it is now.
func (t *Task) GenerationID() GenerationID {
	return GenerationID{TaskID: t.ID(), Generation: t.Generation}
}

// Addresses tells whether the executor may claim the task, or could have before another did.
func (t *Task) Addresses(executor uuid.UUID) bool { return slices.Contains(t.AddressedTo, executor) }

// Parent names the task that made this one; false when it was authored by itself.
func (t *Task) Parent() (TaskID, bool) {
	if t.ParentKey == nil {
		return TaskID{}, false
	}
	return TaskID{Account: t.AccountID, Run: t.RunID, Key: *t.ParentKey}, true
}

// Timeout is how long a claim of the task may last before it is extended.
func (t *Task) Timeout() time.Duration {
	if t.TimeoutMS == nil {
		return DefaultToolTimeout
	}
	return time.Duration(*t.TimeoutMS) * time.Millisecond
}

// LongestExtension is how far one extension may move the deadline: the announced timeout, if any, and
// at most an hour.
func (t *Task) LongestExtension() time.Duration {
	if t.AnnouncedTimeoutMS == nil {
		return MaxExtension
	}
	return min(time.Duration(*t.AnnouncedTimeoutMS)*time.Millisecond, MaxExtension)
}

// InputKind is what a staged input asks of a task.
type InputKind string

const (
	InputCommit     InputKind = "commit"     // an executor's report
	InputCancel     InputKind = "cancel"     // a member, a forced stop or an operator wants it to end
	InputTerminated InputKind = "terminated" // its workflow was terminated by hand
	InputChild      InputKind = "child"      // the task that it made has settled
	InputApprove    InputKind = "approve"    // somebody lets it run
	InputDeny       InputKind = "deny"       // somebody refuses it
	InputResolution InputKind = "resolution" // somebody answers an ask
	InputTarget     InputKind = "target"     // the task that it waits for has settled: read of that task's row, never staged
)

// Input is something staged for a task and not yet judged.
type Input struct {
	Seq        int
	Generation int
	Kind       InputKind
	StagedAt   time.Time // by the database, after the row's lock
	ActorID    *uuid.UUID
	Body       []byte // a report as it came, a denial's reason, or the input that an approver put in place of the call's own
}
