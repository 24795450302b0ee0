package catalog

import "strings"

// wireNames maps each canonical name to its wire name. A name is kept from the first day, before there
// is a tool behind it, so that no other tool can take it meanwhile.
var wireNames = map[string]string{
	"nexus.graph.delegate_task": "delegate_task",
	GraphWait:                   "wait",
	HumanAsk:                    "ask",
	"nexus.conversation.spawn":  "spawn",
	"nexus.conversation.send":   "send",
	"nexus.conversation.status": "status",
	"nexus.conversation.cancel": "cancel",
	"nexus.memory.read":         "memory_read",
	"nexus.memory.ls":           "memory_ls",
	"nexus.memory.grep":         "memory_grep",
	"nexus.memory.write":        "memory_write",
	"nexus.memory.edit":         "memory_edit",
	"nexus.memory.delete":       "memory_delete",
	SkillLoad:                   "skill",
	ToolsSearch:                 "tool_search",
	ToolsCall:                   "tool_call",
	RunnersList:                 "runners_list",
}

// reservedNamespaces are the families that no executor may serve in the kernel's place. Memory and
// skill are kernel tools too, but a provider may serve memory, and an executor serves its own skills.
var reservedNamespaces = []string{
	"nexus.graph",
	"nexus.human",
	"nexus.conversation",
	"nexus.tools",
	"nexus.runners",
}

var canonicalNames = func() map[string]string {
	byWire := make(map[string]string, len(wireNames))
	for canonical, wire := range wireNames {
		byWire[wire] = canonical
	}
	return byWire
}()

// Reserved tells whether name is a kernel tool's, in its canonical or its wire spelling. Such a name
// may not be declared as an author's function nor authored as a step.
func Reserved(name string) bool {
	_, canonical := wireNames[name]
	_, wire := canonicalNames[name]
	return canonical || wire
}

// InReservedNamespace tells whether an executor may not announce name: it is a tool of a reserved
// namespace in either spelling, or any name under such a namespace, known or not.
func InReservedNamespace(name string) bool {
	if canonical, ok := canonicalNames[name]; ok {
		name = canonical
	}
	for _, namespace := range reservedNamespaces {
		if name == namespace || strings.HasPrefix(name, namespace+".") {
			return true
		}
	}
	return false
}
