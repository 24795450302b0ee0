package declaration

import (
	"encoding/json/jsontext"

	"github.com/toolpark/toolpark"
)

// effectProfile reads a whole effect profile: every field present, every word of the closed
// vocabulary, and nothing else. What a tool may do to the world is never guessed.
func effectProfile(value jsontext.Value, at jsontext.Pointer, problems *[]Problem) toolpark.EffectProfile {
	o, ok := openObject(value, at, problems)
	if !ok {
		return toolpark.EffectProfile{}
	}
	profile := toolpark.EffectProfile{
		Kind:           o.word("kind", toolpark.EffectPure, toolpark.EffectReadOnly, toolpark.EffectWrite),
		EffectScope:    o.word("effect_scope", toolpark.ScopeClosed, toolpark.ScopeOpen),
		Idempotency:    o.word("idempotency", toolpark.IdempotentBy, toolpark.IdempotentKeyed, toolpark.IdempotentNone),
		Reconciliation: o.word("reconciliation", toolpark.ReconcileNone, toolpark.ReconcileLookup),
	}
	if destructive := o.flag("destructive", true); destructive != nil {
		profile.Destructive = *destructive
	}
	o.rest()
	return profile
}
