package toolpark

import "slices"

// EffectProfile says what a tool may do to the world. It is trusted metadata of the host and never
// rides a model's wire (seed: tools and announcements).
type EffectProfile struct {
	Kind           string `json:"kind"`           // pure, read_only, write
	Destructive    bool   `json:"destructive"`    //
	EffectScope    string `json:"effect_scope"`   // closed: the runner's own files; open: the outside world
	Idempotency    string `json:"idempotency"`    // intrinsic, keyed, none
	Reconciliation string `json:"reconciliation"` // none, lookup
}

// The closed vocabulary of an effect profile.
const (
	EffectPure      = "pure"
	EffectReadOnly  = "read_only"
	EffectWrite     = "write"
	ScopeClosed     = "closed"
	ScopeOpen       = "open"
	IdempotentBy    = "intrinsic"
	IdempotentKeyed = "keyed"
	IdempotentNone  = "none"
	ReconcileNone   = "none"
	ReconcileLookup = "lookup"
)

// Replayable tells whether a claimed call that never reported may be treated as not having happened.
func (p EffectProfile) Replayable() bool {
	return p.Kind != EffectWrite || p.Idempotency == IdempotentBy
}

// Stricter is the more dangerous of the two profiles, field by field: what a pool is judged by.
func (p EffectProfile) Stricter(q EffectProfile) EffectProfile {
	return EffectProfile{
		Kind:           later(p.Kind, q.Kind, EffectPure, EffectReadOnly, EffectWrite),
		Destructive:    p.Destructive || q.Destructive,
		EffectScope:    later(p.EffectScope, q.EffectScope, ScopeClosed, ScopeOpen),
		Idempotency:    later(p.Idempotency, q.Idempotency, IdempotentBy, IdempotentKeyed, IdempotentNone),
		Reconciliation: later(p.Reconciliation, q.Reconciliation, ReconcileLookup, ReconcileNone),
	}
}

// later returns whichever of a and b comes later in order.
func later(a, b string, order ...string) string {
	for _, o := range slices.Backward(order) {
		if a == o || b == o {
			return o
		}
	}
	return a
}
