package declaration

import (
	"cmp"
	"fmt"
	"slices"
	"uuid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/form"
)

// Options are what the callers of [Assemble] differ in.
type Options struct {
	// RequireCandidate demands that a selected runner is among the candidates even when nothing is
	// imported. Work without any import field needs no list of candidates; a projection of it does.
	RequireCandidate bool
}

// Assemble decides what may be called: the declared tools, the kernel's and the selected runner's, with
// the machines and skills behind them. Neither the order of declaration nor that of announcements shows
// in the result, and declaring the result's Definitions again gives the same. Refusals are a
// *toolpark.Error:
//   - runner_not_declared when the default runner is not among the candidates;
//   - runner_not_eligible, tool_not_served for the default runner and for what a route names;
//   - duplicate_tool_name when an import's name is taken even after it was qualified;
//   - content_too_large, skill_catalog_too_large when the result is over its bound.
func Assemble(s Sources, defaultRunner *uuid.UUID, o Options, snapshot Snapshot) (Context, error) {
	if err := s.checkSelected(defaultRunner, o, snapshot); err != nil {
		return Context{}, err
	}
	tools, err := s.declared(snapshot)
	if err != nil {
		return Context{}, err
	}
	if defaultRunner != nil && s.importsTools() {
		if tools, err = s.imported(tools, *defaultRunner, snapshot); err != nil {
			return Context{}, err
		}
	}
	slices.SortFunc(tools, func(a, b Tool) int { return cmp.Compare(a.Name, b.Name) })
	c := Context{Tools: tools, Environment: Environment{
		DefaultRunner:    defaultRunner,
		Executors:        snapshot.environments(s.executors(defaultRunner)),
		RunnerCandidates: snapshot.environments(s.Candidates),
	}}
	if err := c.checkSize(s.grammar); err != nil {
		return Context{}, err
	}
	if err := c.Environment.checkSize(); err != nil {
		return Context{}, err
	}
	c.Skills, err = s.skills(tools, snapshot)
	return c, err
}

// checkSize refuses machines that say too much of themselves, all together.
func (e Environment) checkSize() error {
	total := 0
	for _, described := range [][]RunnerEnvironment{e.Executors, e.RunnerCandidates} {
		for _, runner := range described {
			total += len(runner.Environment)
		}
	}
	if total > toolpark.MaxEnvironments {
		return toolpark.Errorf(toolpark.CodeContentTooLarge,
			"The environments of the selected runner, of the candidates and of the runners that routes name take %d bytes; they may have %d. Name fewer runners.",
			total, toolpark.MaxEnvironments)
	}
	return nil
}

// checkSelected judges the default runner.
func (s Sources) checkSelected(runner *uuid.UUID, o Options, snapshot Snapshot) error {
	if runner == nil {
		return nil
	}
	if (s.Imports || o.RequireCandidate) && !slices.Contains(s.Candidates, *runner) {
		return toolpark.Errorf(toolpark.CodeRunnerNotDeclared, "The selected runner %s is not among runner_executor_public_ids (%s).",
			runner, toolpark.CodeRunnerNotDeclared).At(s.grammar.selected())
	}
	if _, ok := snapshot.Runners[*runner]; !ok {
		return toolpark.Errorf(toolpark.CodeRunnerNotEligible, "The selected runner %s does not exist or may not be used (%s).",
			runner, toolpark.CodeRunnerNotEligible).At(s.grammar.selected())
	}
	return nil
}

// selected is where a request selects the default runner. A round does not: it has its run's.
func (g grammar) selected() string {
	if g.root == "" {
		return string(g.at("runner_executor_public_ids"))
	}
	return "/default_runner_executor_public_id"
}

// declared are the tools that are declared one by one, and the kernel tools that are imported by name.
func (s Sources) declared(snapshot Snapshot) ([]Tool, error) {
	tools := make([]Tool, 0, len(s.Entries)+len(s.KernelTools))
	taken := make(map[string]bool, len(s.Entries))
	for _, e := range s.Entries {
		served, err := snapshot.served(e.Function)
		if err != nil {
			return nil, err
		}
		taken[e.Name] = true
		tools = append(tools, Tool{Function: e.Function, Served: served, Kernel: e.Kernel})
	}
	names := s.spellings()
	for _, canonical := range s.KernelTools {
		t, ok := s.grammar.kernel.Find(canonical)
		if !ok {
			return nil, fmt.Errorf("assemble %s: the catalog has no such tool", canonical)
		}
		if !taken[t.Name] {
			e := plain(t, names)
			tools = append(tools, Tool{Function: e.Function, Kernel: e.Kernel})
		}
	}
	return tools, nil
}

// served finds what a function's route leads to; nil without a route.
func (s Snapshot) served(f Function) (*Served, error) {
	if f.Route == nil {
		return nil, nil
	}
	runner, ok := s.Runners[f.Route.Runner]
	if !ok {
		return nil, form.At(f.at+"/route/runner_executor_public_id", "names runner %s, which does not exist or may not be used",
			f.Route.Runner).Refuse(toolpark.CodeRunnerNotEligible)
	}
	served, ok := runner.Tools[f.Route.ToolName]
	if !ok || !served.ModelVisible {
		return nil, form.At(f.at+"/route/tool_name", "names %s, which runner %s does not serve to models",
			quote(f.Route.ToolName), f.Route.Runner).Refuse(toolpark.CodeToolNotServed)
	}
	return &served, nil
}

// environments describes those of the runners that are eligible, in the order given.
func (s Snapshot) environments(runners []uuid.UUID) []RunnerEnvironment {
	described := []RunnerEnvironment{}
	for _, id := range runners {
		if runner, ok := s.Runners[id]; ok {
			described = append(described, RunnerEnvironment{Runner: id, DisplayName: runner.DisplayName, Environment: runner.Environment})
		}
	}
	return described
}
