package declaration

import (
	"cmp"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/strictjson"
)

// DefaultSearchLimit is how many tools a search returns when it names no limit.
const DefaultSearchLimit = 5

// ErrBlankQuery is a search for nothing.
var ErrBlankQuery = errors.New("the query is blank; give words to look for, or the exact name of a tool")

// found is one tool that a search shows.
type found struct {
	Name       string      `json:"name"`
	Definition chatTool    `json:"definition"`
	Route      *routeBlock `json:"route,omitzero"`
	Skills     []Skill     `json:"skills"`
}

// Search is what the kernel's tool_search answers: {"tools":[{"name","definition","route"?,"skills"}],
// "truncated"} as canonical JSON of at most toolpark.MaxSearchResult bytes. It looks at every tool of the
// context, those that a model is shown and itself too. The exact name of a tool finds that tool alone;
// else every word of the query must occur, in any case, in a tool's name, description, runner id, served
// name, or its skills' names and descriptions. Tools with more words in the name come first, then those
// with more in the description, then by name. At most limit tools are shown, and only whole ones;
// truncated says that some that match are not. A limit of zero is DefaultSearchLimit.
//
// A query without a word is ErrBlankQuery.
func (c *Context) Search(query string, limit int) (jsontext.Value, error) {
	words := strings.Fields(strings.ToLower(query))
	if len(words) == 0 {
		return nil, ErrBlankQuery
	}
	if limit == 0 {
		limit = DefaultSearchLimit
	}
	matches := c.named(strings.TrimSpace(query))
	if matches == nil {
		matches = c.matching(words)
	}
	result := struct {
		Tools     []jsontext.Value `json:"tools"`
		Truncated bool             `json:"truncated"`
	}{}
	room := toolpark.MaxSearchResult - len(`{"tools":[],"truncated":false}`) + len(",") // no comma before the first
	for _, t := range matches {
		if len(result.Tools) == limit {
			break
		}
		entry, err := c.found(t)
		if err != nil {
			return nil, err
		}
		if size := len(entry) + len(","); size <= room {
			result.Tools, room = append(result.Tools, entry), room-size
		}
	}
	result.Truncated = len(result.Tools) < len(matches)
	return json.Marshal(result, verbatim) // the entries are canonical, and the keys in order
}

// named is the tool of exactly this name; spelled in another case, too, if that leaves one.
func (c *Context) named(name string) []*Tool {
	if t, ok := c.Tool(name); ok {
		return []*Tool{t}
	}
	var alike []*Tool
	for i := range c.Tools {
		if strings.EqualFold(c.Tools[i].Name, name) {
			alike = append(alike, &c.Tools[i])
		}
	}
	if len(alike) != 1 {
		return nil
	}
	return alike
}

// matching are the tools in which every word occurs, the best first.
func (c *Context) matching(words []string) []*Tool {
	type match struct {
		tool                *Tool
		inName, inDescribed int // words
	}
	slices.Sort(words)
	words = slices.Compact(words)
	skills := c.skillsByCallable()
	var matches []match
	for i := range c.Tools {
		t := &c.Tools[i]
		s := searched{tool: t, skills: skills[t.Name], name: strings.ToLower(t.Name)}
		if t.Description != nil {
			s.description = strings.ToLower(*t.Description)
		}
		if inName, inDescribed, ok := s.count(words); ok {
			matches = append(matches, match{t, inName, inDescribed})
		}
	}
	slices.SortStableFunc(matches, func(a, b match) int { // the tools come in the order of their names
		return cmp.Or(cmp.Compare(b.inName, a.inName), cmp.Compare(b.inDescribed, a.inDescribed))
	})
	tools := make([]*Tool, len(matches))
	for i, m := range matches {
		tools[i] = m.tool
	}
	return tools
}

// searched is what a search reads of one tool, in lower case.
type searched struct {
	tool                    *Tool
	skills                  []Skill
	name, description, rest string
}

// count says how many of the words are in the name, and of the others in the description; false when a
// word is nowhere.
func (s *searched) count(words []string) (inName, inDescribed int, ok bool) {
	for _, word := range words {
		switch {
		case strings.Contains(s.name, word):
			inName++
		case strings.Contains(s.description, word):
			inDescribed++
		case !strings.Contains(s.background(), word):
			return 0, 0, false
		}
	}
	return inName, inDescribed, true
}

// background is what else there is to find a tool by. Few searches need it of many tools.
func (s *searched) background() string {
	if s.rest != "" {
		return s.rest
	}
	var text strings.Builder
	if route := s.tool.Route; route != nil {
		text.WriteString(route.Runner.String() + "\n" + route.ToolName)
	}
	for _, skill := range s.skills {
		text.WriteString("\n" + skill.Name + "\n" + skill.Description)
	}
	s.rest = strings.ToLower(text.String())
	return s.rest
}

func (c *Context) skillsByCallable() map[string][]Skill {
	skills := map[string][]Skill{}
	for _, s := range c.Skills {
		skills[s.Callable] = append(skills[s.Callable], s)
	}
	return skills
}

// found renders one tool as canonical JSON.
func (c *Context) found(t *Tool) (jsontext.Value, error) {
	entry := found{Name: t.Name, Definition: t.chat(), Route: t.Route.block()}
	for _, s := range c.Skills {
		if s.Callable == t.Name {
			entry.Skills = append(entry.Skills, s)
		}
	}
	return canonical(entry)
}

// canonical renders a value so that equal values have equal bytes.
func canonical(v any) (jsontext.Value, error) {
	rendered, err := json.Marshal(v, verbatim)
	if err != nil {
		return nil, fmt.Errorf("write a kernel tool's answer: %w", err)
	}
	return strictjson.Canonical(rendered)
}
