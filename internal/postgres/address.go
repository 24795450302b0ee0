package postgres

import (
	"context"
	"encoding/json/jsontext"
	"uuid"

	"github.com/jackc/pgx/v5"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/declaration"
)

// Route is a served name at a runner that a declaration, or an author, names.
type Route struct {
	ExecutorID uuid.UUID
	Name       string
}

// Served is one executor that serves a name, and how.
type Served struct {
	ExecutorID       uuid.UUID
	Name             string
	Kind             toolpark.ExecutorKind
	DisplayName      string
	EffectProfile    toolpark.EffectProfile
	TimeoutMS        *int64
	OutputSchemaHash []byte
}

// Addresses is where calls may go now.
type Addresses struct {
	Eligible map[uuid.UUID]bool  // the targets of routes that may take work for the principal
	Routes   map[Route]Served    // the routes whose target serves the name
	Names    map[string][]Served // who serves an unrouted name: the agent's own application, tools providers
}

// FindAddresses resolves routes and bare names for a run's principal into found, in one statement, however
// many there are. A runner never serves a bare name (seed: where a call goes).
func FindAddresses(run *Run, routes []Route, names []string, found *Addresses) Read {
	*found = Addresses{Eligible: map[uuid.UUID]bool{}, Routes: map[Route]Served{}, Names: map[string][]Served{}}
	executors, served := make([]uuid.UUID, len(routes)), make([]string, len(routes))
	for i, r := range routes {
		executors[i], served[i] = r.ExecutorID, r.Name
	}
	return func(batch *pgx.Batch) {
		batch.Queue(`
			SELECT e.id, e.kind, e.display_name, coalesce(t.name, ''), t.effect_profile, t.timeout_ms, t.output_schema_hash
			FROM executors e
			LEFT JOIN executor_tools t ON t.executor_id = e.id AND (
				e.kind = 'runner' AND t.name IN (SELECT n FROM unnest($3::uuid[], $4::text[]) AS w(id, n) WHERE w.id = e.id)
				OR e.kind <> 'runner' AND t.name = ANY($5))
			WHERE (e.id = ANY($3) AND e.kind = 'runner'
					OR e.kind = 'agent_application' AND e.agent_id = $6
					OR e.kind = 'tools_provider' AND t.name IS NOT NULL)
				AND `+eligible+`
			ORDER BY e.id`, run.AccountID, run.HumanID, executors, served, names, run.AgentID).Query(found.collect)
	}
}

// collect sorts what the statement found.
func (a *Addresses) collect(rows pgx.Rows) error {
	var (
		s      Served
		effect *toolpark.EffectProfile
	)
	columns := []any{&s.ExecutorID, &s.Kind, &s.DisplayName, &s.Name, &effect, &s.TimeoutMS, &s.OutputSchemaHash}
	_, err := pgx.ForEachRow(rows, columns, func() error {
		if s.Kind == toolpark.Runner {
			a.Eligible[s.ExecutorID] = true
		}
		if effect == nil {
			return nil // eligible, but it serves none of the names
		}
		s.EffectProfile = *effect
		if s.Kind == toolpark.Runner {
			a.Routes[Route{ExecutorID: s.ExecutorID, Name: s.Name}] = s
			return nil
		}
		a.Names[s.Name] = append(a.Names[s.Name], s)
		return nil
	})
	return err
}

// Snapshot reads, at one moment, what the eligible ones of the named runners announce, for the
// acceptance of a run.
func Snapshot(ctx context.Context, q Querier, run *Run, runners []uuid.UUID) (declaration.Snapshot, error) {
	snapshot := declaration.Snapshot{Runners: map[uuid.UUID]declaration.Runner{}}
	rows, _ := q.Query(ctx, `
		SELECT e.id, e.display_name, e.environment, t.name, t.effect_profile, t.timeout_ms, t.output_schema_hash,
			coalesce(t.model_visible, false)
		FROM executors e
		LEFT JOIN executor_tools t ON t.executor_id = e.id
		WHERE e.kind = 'runner' AND e.id = ANY($3) AND `+eligible, run.AccountID, run.HumanID, runners)
	var (
		id          uuid.UUID
		display     string
		environment jsontext.Value
		name        *string
		effect      *toolpark.EffectProfile
		served      declaration.Served
	)
	columns := []any{&id, &display, &environment, &name, &effect, &served.TimeoutMS, &served.OutputSchemaHash, &served.ModelVisible}
	_, err := pgx.ForEachRow(rows, columns, func() error {
		runner, known := snapshot.Runners[id]
		if !known {
			runner = declaration.Runner{DisplayName: display, Environment: environment, Tools: map[string]declaration.Served{}}
			snapshot.Runners[id] = runner
		}
		if name != nil {
			served.EffectProfile = *effect
			runner.Tools[*name] = served
		}
		return nil
	})
	return snapshot, mapError(err, "read what runners announce")
}

// ExecutorExists tells whether the account has an executor of this id, whatever its state.
func ExecutorExists(ctx context.Context, q Querier, account, id uuid.UUID) (bool, error) {
	var exists bool
	err := q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM executors WHERE account_id = $1 AND id = $2)`, account, id).Scan(&exists)
	return exists, mapError(err, "look for executor %s", id)
}
