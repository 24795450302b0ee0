package declaration

import (
	"encoding/json/jsontext"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/form"
)

// effectProfile reads a whole effect profile: every field present, every word of the closed
// vocabulary, and nothing else. What a tool may do to the world is never guessed.
func effectProfile(value jsontext.Value, at jsontext.Pointer, problems *[]form.Problem) toolpark.EffectProfile {
	o, ok := form.Open(value, at, problems)
	if !ok {
		return toolpark.EffectProfile{}
	}
	profile := toolpark.EffectProfile{
		Kind:           o.Word("kind", true, toolpark.EffectPure, toolpark.EffectReadOnly, toolpark.EffectWrite),
		EffectScope:    o.Word("effect_scope", true, toolpark.ScopeClosed, toolpark.ScopeOpen),
		Idempotency:    o.Word("idempotency", true, toolpark.IdempotentBy, toolpark.IdempotentKeyed, toolpark.IdempotentNone),
		Reconciliation: o.Word("reconciliation", true, toolpark.ReconcileNone, toolpark.ReconcileLookup),
	}
	if destructive := o.Flag("destructive", true); destructive != nil {
		profile.Destructive = *destructive
	}
	o.Rest()
	return profile
}
