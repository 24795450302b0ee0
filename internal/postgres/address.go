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

// Resolve is FindAddresses within a transaction.
func Resolve(ctx context.Context, tx *Tx, run *Run, routes []Route, names []string) (Addresses, error) {
	var found Addresses
	batch := &pgx.Batch{}
	FindAddresses(run, routes, names, &found)(batch)
	err := tx.Send(ctx, batch)
	return found, mapError(err, "find who serves what run %s calls", run.ID)
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

// Principal is for whom executors are eligible.
type Principal struct {
	Account uuid.UUID
	Human   uuid.UUID // whose private executors may be used: the agent's steward, or the human who acts
}

// Snapshot reads in one statement, and so at one moment, what is looked for of the eligible runners.
func Snapshot(ctx context.Context, q Querier, p Principal, l declaration.Lookup) (declaration.Snapshot, error) {
	snapshot := declaration.Snapshot{Runners: map[uuid.UUID]declaration.Runner{}}
	routed, names := make([]uuid.UUID, len(l.Routes)), make([]string, len(l.Routes))
	for i, route := range l.Routes {
		routed[i], names[i] = route.Runner, route.ToolName
	}
	// What a runner says of itself rides on the first of its rows only: it may be as large as all the others.
	rows, _ := q.Query(ctx, `
		SELECT e.id, e.display_name,
			CASE WHEN row_number() OVER of_runner = 1 THEN e.environment END,
			CASE WHEN row_number() OVER of_runner = 1 THEN e.documents END,
			t.name, t.effect_profile, t.timeout_ms, t.output_schema_hash, coalesce(t.model_visible, false),
			CASE WHEN e.id = $6 THEN t.entry->>'description' END,
			CASE WHEN e.id = $6 THEN t.entry->'input_schema' END
		FROM executors e
		LEFT JOIN executor_tools t ON t.executor_id = e.id
			AND (e.id = $6 OR t.name IN (SELECT n FROM unnest($4::uuid[], $5::text[]) AS w(id, n) WHERE w.id = e.id))
		WHERE e.kind = 'runner' AND e.id = ANY($3) AND `+eligible+`
		WINDOW of_runner AS (PARTITION BY e.id ORDER BY t.position)
		ORDER BY e.id, t.position`,
		p.Account, p.Human, l.Runners, routed, names, l.Import)
	var (
		id                     uuid.UUID
		display                string
		environment, documents jsontext.Value
		name, description      *string
		effect                 *toolpark.EffectProfile
		input                  jsontext.Value
		served                 declaration.Served
	)
	columns := []any{
		&id, &display, &environment, &documents, &name, &effect, &served.TimeoutMS, &served.OutputSchemaHash,
		&served.ModelVisible, &description, &input,
	}
	_, err := pgx.ForEachRow(rows, columns, func() error {
		if environment != nil {
			snapshot.Runners[id] = declaration.Runner{
				DisplayName: display, Environment: environment, Documents: documents, Tools: map[string]declaration.Served{},
			}
		}
		if name != nil {
			served.EffectProfile, served.Description, served.InputSchema = *effect, description, input
			snapshot.Runners[id].Tools[*name] = served
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
