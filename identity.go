package toolpark

import "uuid"

// MemberKind tells a person from an agent.
type MemberKind string

const (
	Human MemberKind = "human"
	Agent MemberKind = "agent"
)

// Role is what a human member may see of the account.
type Role string

const (
	RoleAdmin  Role = "admin"
	RoleMember Role = "member"
)

// Member is a human or an agent that acts on the API, as its credential showed it.
type Member struct {
	Account     uuid.UUID
	ID          uuid.UUID
	Kind        MemberKind
	Handle      string
	DisplayName string
	Role        Role
	MayDecide   bool
	Steward     uuid.UUID // the human an agent answers to; the zero UUID for a human
}

// Human is the person whose private executors this member may use: itself, or an agent's steward.
func (m Member) Human() uuid.UUID {
	if m.Kind == Agent {
		return m.Steward
	}
	return m.ID
}

// ExecutorKind is what an executor is for. It is fixed when the executor is made.
type ExecutorKind string

const (
	AgentApplication ExecutorKind = "agent_application"
	Runner           ExecutorKind = "runner"
	ToolsProvider    ExecutorKind = "tools_provider"
)

// Scope is whose calls an executor takes.
type Scope string

const (
	UserPrivate Scope = "user_private"
	AccountWide Scope = "account_wide"
)

// Executor is a delivery address for work, as its credential showed it.
type Executor struct {
	Account      uuid.UUID
	ID           uuid.UUID
	Kind         ExecutorKind
	DisplayName  string
	ShuttingDown bool
}
