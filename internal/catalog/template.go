package catalog

import "strings"

// Render replaces each macro of a kernel text, {{wire_name}}, with the spelling that names gives that
// tool, else with its wire name. Braces around anything that is no kernel tool's name stay as they are.
func Render(text string, names map[string]string) string {
	replacements := make([]string, 0, 2*len(canonicalNames))
	for wire := range canonicalNames {
		spelling, ok := names[wire]
		if !ok {
			spelling = wire
		}
		replacements = append(replacements, "{{"+wire+"}}", spelling)
	}
	return strings.NewReplacer(replacements...).Replace(text)
}
