package approval

import (
	"strings"
	"time"

	"github.com/toolpark/toolpark"
)

// found is what the matching rules say together.
type found struct {
	deny  *Rule // the first one
	ask   bool
	hold  time.Duration // of the ask rules: the shortest
	allow bool
}

// find collects the rules that match, of those whose verdict counts. It looks no further than the outcome
// needs. The error is that of an input that cannot be read.
func (p Policy) find(c Call, counts map[Verdict]bool) (found, error) {
	var f found
	named := make([]*Rule, 0, len(p.Rules))
	for i := range p.Rules {
		if r := &p.Rules[i]; counts[r.Verdict] && r.names(c) {
			named = append(named, r)
		}
	}
	texts, err := textsAt(c.Input, named)
	if err != nil {
		return f, err
	}
	for _, r := range named {
		if r.Verdict == Deny && r.reads(texts) {
			f.deny = r
			return f, nil
		}
	}
	f.hold = toolpark.MaxApprovalHold
	for _, r := range named {
		if r.Verdict == Ask && (!f.ask || r.hold() < f.hold) && r.reads(texts) {
			f.ask, f.hold = true, min(f.hold, r.hold())
		}
	}
	for _, r := range named {
		if f.ask || f.allow {
			break
		}
		f.allow = r.Verdict == Allow && r.reads(texts)
	}
	return f, nil
}

// names tells whether the rule is about calls of this tool and origin, whatever they hold.
func (r *Rule) names(c Call) bool {
	origin := r.Origin
	if origin == "" {
		origin = toolpark.OriginModel
	}
	if origin != c.Origin {
		return false
	}
	if r.Tool == c.Tool { // whose name may hold a | itself
		return true
	}
	for pattern := range strings.SplitSeq(r.Tool, "|") {
		if glob(pattern, c.Tool) {
			return true
		}
	}
	return false
}

// reads tells whether the rule agrees with what the call holds.
func (r *Rule) reads(texts map[string]*text) bool {
	if r.Path == "" {
		return true
	}
	at, there := texts[r.Path]
	return there && (r.Match == nil || at.matches(*r.Match))
}

func (r *Rule) hold() time.Duration {
	if r.HoldMS == 0 {
		return toolpark.MaxApprovalHold
	}
	return time.Duration(r.HoldMS) * time.Millisecond
}
