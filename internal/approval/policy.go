// Package approval decides what a run's frozen mode and rules say about one call: let it go on, hold it
// for a person, or refuse it. It only judges; what becomes of a held call is its task's own workflow.
package approval

import (
	"encoding/json/jsontext"
	"time"

	"github.com/toolpark/toolpark"
)

// Modes: what happens to a model's call that no rule speaks about.
const (
	ModeBypass = "bypass" // it is granted; only a deny rule counts
	ModeAsk    = "ask"    // it is held
	ModeRules  = "rules"  // it is denied
)

// Modes are all modes, the most permissive first.
var Modes = []string{ModeBypass, ModeAsk, ModeRules}

// Policy is how the calls of a run are approved. It is decided when the run is accepted.
type Policy struct {
	Mode  string // one of Modes; a model's call under any other is denied
	Rules []Rule // in the order given
}

// Verdict is what becomes of a call.
type Verdict string

const (
	Allow Verdict = "allow"
	Ask   Verdict = "ask"
	Deny  Verdict = "deny"
)

// What decided about a call, as the task's record of its approval names it.
const (
	ByMode   = toolpark.ApprovedByMode
	ByRule   = toolpark.ApprovedByRule
	ByAuthor = toolpark.ApprovedByAuthor // it was authored through the append door
	ByKernel = toolpark.ApprovedByKernel // it is the kernel's own, or a kernel tool that harms nothing
)

// Call is a call to decide about.
type Call struct {
	Tool   string          // the wire or served name, after aliases and routes
	Origin toolpark.Origin // of its task; anything but author and kernel counts as model
	Input  jsontext.Value  // one JSON object, as the tool receives it; nil is an empty one

	// Exempt marks the kernel's tools of kind pure and read_only, and tool_call: what that calls crosses the
	// stage on its own. Nothing but a deny rule holds them up.
	Exempt bool
}

// Decision is what a policy says about a call.
type Decision struct {
	Verdict Verdict
	Origin  string        // what decided: ByMode, ByRule, ByAuthor or ByKernel
	Reason  string        // of a denial, for the failure's detail; empty when the rule gives none
	Hold    time.Duration // of an Ask: how long the call is held
}

// Decide applies the policy. Of the rules that match, deny beats ask beats allow; the first deny's reason
// is shown, and the shortest hold of an ask counts. An input that cannot be read, or has a key twice, is
// denied as soon as a rule asks what is in it.
func (p Policy) Decide(c Call) Decision {
	if c.Origin != toolpark.OriginAuthor && c.Origin != toolpark.OriginKernel {
		c.Origin = toolpark.OriginModel
	}
	unruled, counts := p.unruled(c)
	if !counts[Deny] {
		return unruled
	}
	found, err := p.find(c, counts)
	switch {
	case err != nil:
		return Decision{Verdict: Deny, Origin: ByRule, Reason: "the input cannot be read, so no approval rule can judge it"}
	case found.deny != nil:
		return Decision{Verdict: Deny, Origin: ByRule, Reason: found.deny.Reason}
	case found.ask:
		return Decision{Verdict: Ask, Origin: ByRule, Hold: found.hold}
	case found.allow:
		return Decision{Verdict: Allow, Origin: ByRule}
	}
	return unruled
}

// unruled is what happens to a call when no rule matches it, and the verdicts of rules that could change
// that.
func (p Policy) unruled(c Call) (Decision, map[Verdict]bool) {
	known := p.Mode == ModeBypass || p.Mode == ModeAsk || p.Mode == ModeRules
	switch {
	case c.Origin == toolpark.OriginModel && !known:
		return p.unnamed(c), nil
	case c.Exempt:
		return Decision{Verdict: Allow, Origin: ByKernel}, map[Verdict]bool{Deny: true}
	case c.Origin == toolpark.OriginAuthor:
		return Decision{Verdict: Allow, Origin: ByAuthor}, map[Verdict]bool{Deny: true, Ask: true}
	case c.Origin == toolpark.OriginKernel:
		return Decision{Verdict: Allow, Origin: ByKernel}, map[Verdict]bool{Deny: true, Ask: true}
	case p.Mode == ModeBypass:
		return Decision{Verdict: Allow, Origin: ByMode}, map[Verdict]bool{Deny: true}
	case p.Mode == ModeAsk:
		return Decision{Verdict: Ask, Origin: ByMode, Hold: toolpark.MaxApprovalHold}, map[Verdict]bool{Deny: true, Ask: true, Allow: true}
	}
	return p.unnamed(c), map[Verdict]bool{Deny: true, Ask: true, Allow: true}
}

func (p Policy) unnamed(c Call) Decision {
	return Decision{Verdict: Deny, Origin: ByMode, Reason: "no approval rule allows " + c.Tool}
}
