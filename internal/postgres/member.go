package postgres

import (
	"context"
	"errors"
	"time"
	"uuid"

	"github.com/jackc/pgx/v5"

	"github.com/toolpark/toolpark"
)

// Member is a human or an agent as an administrator sees it.
type Member struct {
	ID          uuid.UUID           `json:"id"`
	Kind        toolpark.MemberKind `json:"kind"`
	Handle      string              `json:"handle"`
	DisplayName string              `json:"display_name"`
	Role        toolpark.Role       `json:"role"`
	MayDecide   bool                `json:"may_decide"`
	Status      string              `json:"status"` // active, removed
	StewardID   *uuid.UUID          `json:"steward_id"`
	ExecutorID  *uuid.UUID          `json:"executor_id"` // an agent's own address
	CreatedAt   time.Time           `json:"created_at"`
}

const members = `
	SELECT m.id, m.kind, m.handle, m.display_name, m.role, m.may_decide, m.status, m.steward_id, e.id AS executor_id, m.created_at
	FROM members m
	LEFT JOIN executors e ON e.agent_id = m.id `

// CreateHuman makes a person of the account. A handle is unique in its account, removed members included.
func (db *DB) CreateHuman(ctx context.Context, account uuid.UUID, handle, displayName string, role toolpark.Role) (Member, error) {
	id := uuid.NewV7()
	_, err := db.Pool.Exec(ctx, `
		INSERT INTO members (id, account_id, kind, handle, display_name, role)
		VALUES ($1, $2, 'human', $3, $4, $5)`, id, account, handle, displayName, role)
	if err != nil {
		return Member{}, mapError(err, "create human %s", handle)
	}
	return memberByID(ctx, db.Pool, account, id)
}

// CreateAgent makes an agent that answers to the steward, an active human of the account, together
// with its own address: an agent_application that only this agent's work reaches.
func (db *DB) CreateAgent(ctx context.Context, account, steward uuid.UUID, handle, displayName string, mayDecide bool) (Member, error) {
	id := uuid.NewV7()
	var agent Member
	err := db.Tx(ctx, func(tx *Tx) error {
		// The lock holds off the steward's removal until the agent is there to forbid it.
		err := tx.QueryRow(ctx, `
			SELECT FROM members
			WHERE account_id = $1 AND id = $2 AND kind = 'human' AND status = 'active'
			FOR SHARE`, account, steward).Scan()
		if errors.Is(err, pgx.ErrNoRows) {
			return toolpark.Errorf(toolpark.CodeValidationFailed, "A steward must be an active human of the same account.")
		}
		if err != nil {
			return mapError(err, "lock steward %s", steward)
		}
		if _, err := tx.Exec(ctx, `
			INSERT INTO members (id, account_id, kind, handle, display_name, role, may_decide, steward_id)
			VALUES ($1, $2, 'agent', $3, $4, 'member', $5, $6)`,
			id, account, handle, displayName, mayDecide, steward); err != nil {
			return mapError(err, "create agent %s", handle)
		}
		if _, err := tx.Exec(ctx, `
			INSERT INTO executors (id, account_id, kind, display_name, identifier, assignment_scope, manager_id, agent_id)
			VALUES ($1, $2, 'agent_application', $3, 'agent/' || $4::text, 'user_private', $5, $6)`,
			uuid.NewV7(), account, displayName, handle, steward, id); err != nil {
			return mapError(err, "create the address of agent %s", handle)
		}
		agent, err = memberByID(ctx, tx, account, id)
		return err
	})
	return agent, err
}

// RemoveMember ends a member's access at once; an agent's own address is revoked with it. A human who
// is still the steward of an active agent is not removed. pgx.ErrNoRows when there is no such member.
func (db *DB) RemoveMember(ctx context.Context, account, id uuid.UUID) error {
	return db.Tx(ctx, func(tx *Tx) error {
		err := tx.QueryRow(ctx, `
			SELECT FROM members WHERE account_id = $1 AND id = $2 FOR UPDATE`, account, id).Scan()
		if err != nil {
			return rowError(err, "lock member %s", id)
		}
		var stewards bool
		if err := tx.QueryRow(ctx, `
			SELECT EXISTS (SELECT FROM members WHERE account_id = $1 AND steward_id = $2 AND status = 'active')`,
			account, id).Scan(&stewards); err != nil {
			return mapError(err, "read the agents of member %s", id)
		}
		if stewards {
			return toolpark.Errorf(toolpark.CodeValidationFailed, "This member is the steward of an active agent; remove the agent first.")
		}
		if _, err := tx.Exec(ctx, `
			UPDATE members SET status = 'removed' WHERE account_id = $1 AND id = $2`, account, id); err != nil {
			return mapError(err, "remove member %s", id)
		}
		_, err = tx.Exec(ctx, `
			UPDATE executors SET status = 'revoked' WHERE account_id = $1 AND agent_id = $2`, account, id)
		return mapError(err, "revoke the address of agent %s", id)
	})
}

// Members lists the account's members, removed ones included, oldest first.
func (db *DB) Members(ctx context.Context, account uuid.UUID) ([]Member, error) {
	rows, _ := db.Pool.Query(ctx, members+`WHERE m.account_id = $1 ORDER BY m.id`, account)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[Member])
	return found, mapError(err, "list members")
}

func memberByID(ctx context.Context, q Querier, account, id uuid.UUID) (Member, error) {
	rows, _ := q.Query(ctx, members+`WHERE m.account_id = $1 AND m.id = $2`, account, id)
	member, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Member])
	return member, rowError(err, "read member %s", id)
}
