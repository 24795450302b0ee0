package declaration

import (
	"cmp"
	"encoding/json/v2"
	"fmt"
	"slices"
	"uuid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/form"
	"github.com/toolpark/toolpark/internal/strictjson"
)

// Skill is a document that one of a context's callables loads for a model.
type Skill struct {
	Name             string    `json:"name"`
	Description      string    `json:"description"`
	Callable         string    `json:"callable"` // what a model calls to load it
	Source           string    `json:"source"`   // SourceRunner
	ExecutorPublicID uuid.UUID `json:"executor_public_id"`
}

// SourceRunner is a skill's source: a document that a runner announced.
const SourceRunner = "runner"

// servedSkill is the name under which an executor serves its documents.
const servedSkill = "skill"

// loadsSkills tells whether calling the tool loads a document.
func (t *Tool) loadsSkills() bool { return t.Route != nil && t.Route.ToolName == servedSkill }

// skills lists what the tools can load: for each, the documents of the runner behind it.
func (s Sources) skills(tools []Tool, snapshot Snapshot) ([]Skill, error) {
	skills := []Skill{}
	for _, t := range tools {
		if !t.loadsSkills() {
			continue
		}
		documents := snapshot.Runners[t.Route.Runner].Documents
		if len(documents) == 0 {
			continue
		}
		var announced []struct {
			Name        string `json:"name"`
			Description string `json:"description"`
		}
		if err := json.Unmarshal(documents, &announced); err != nil {
			return nil, fmt.Errorf("read the documents of runner %s: %w", t.Route.Runner, err)
		}
		for _, d := range announced {
			skills = append(skills, Skill{
				Name: d.Name, Description: d.Description, Callable: t.Name, Source: SourceRunner, ExecutorPublicID: t.Route.Runner,
			})
		}
	}
	slices.SortFunc(skills, func(a, b Skill) int {
		return cmp.Or(cmp.Compare(a.Callable, b.Callable), cmp.Compare(a.Name, b.Name))
	})
	rendered, err := json.Marshal(skills)
	if err != nil {
		return nil, fmt.Errorf("measure the skill catalog: %w", err)
	}
	if size, _ := strictjson.Size(rendered); size > toolpark.MaxSkillCatalog {
		return nil, form.At(s.grammar.at(s.grammar.definitions), "and what is imported load skills that take %d bytes to list; they may have %d; declare fewer tools that load skills",
			size, toolpark.MaxSkillCatalog).Refuse(toolpark.CodeSkillCatalogTooLarge)
	}
	return skills, nil
}
