package main

import (
	"strings"

	"github.com/toolpark/toolpark/sdk/agent"
)

// Approval modes of toolpark call.
const (
	approvalBypass = "bypass" // every call runs
	approvalAsk    = "ask"    // every call waits for a decision
	approvalRules  = "rules"  // as sandboxRules say; what they do not know waits
)

// sandboxRules are the rules for the tools of toolpark runner: looking and writing files is free, since those tools
// cannot leave the runner's directory; files that other programs obey, and the shell, are a person's decision. What
// is denied is what nobody should approve in haste. It is no wall: a shell has many spellings for one command, and
// the others still wait for a person.
func sandboxRules() []agent.ApprovalRule {
	const beyond = "This would destroy more than the workspace."
	return []agent.ApprovalRule{
		{Tool: "read|grep|glob", Verdict: "allow"},
		{Tool: "write|edit", Verdict: "allow"},
		{Tool: "write|edit", Path: "path", Match: new(".*"), Verdict: "ask"}, // .git, .env, and ./ and ../ too, which no glob tells apart
		{Tool: "write|edit", Path: "path", Match: new("*/.*"), Verdict: "ask"},
		{Tool: "bash", Verdict: "ask"},
		{Tool: "bash", Path: "command", Match: new("*rm -rf /*"), Verdict: "deny", Reason: beyond},
		{Tool: "bash", Path: "command", Match: new("*rm -rf ~*"), Verdict: "deny", Reason: beyond},
		{Tool: "bash", Path: "command", Match: new("*mkfs*"), Verdict: "deny", Reason: beyond},
		{Tool: "bash", Path: "command", Match: new("*of=/dev/*"), Verdict: "deny", Reason: beyond},
	}
}

// sandboxTools are the tools that sandboxRules know.
var sandboxTools = []string{"bash", "edit", "glob", "grep", "read", "write"}

// askFor has every call of a tool wait for a decision.
func askFor(served string) agent.ApprovalRule {
	return agent.ApprovalRule{Tool: strings.ReplaceAll(served, "|", "?"), Verdict: "ask"} // a | is no part of a glob
}
