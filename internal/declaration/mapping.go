package declaration

import (
	"encoding/json/jsontext"
	"encoding/json/v2"

	"github.com/toolpark/toolpark"
)

// input maps what a model gave an alias to the kernel's own parameters: keys are renamed where they
// stand, inverted booleans turned, and everything else stays as it was written. The input matches what
// the alias declares, so nothing is left to fail.
func (k *Kernel) input(spelled jsontext.Value) (jsontext.Value, *toolpark.TaskError) {
	if len(k.Params) == 0 {
		return spelled, nil
	}
	var given members
	if err := json.Unmarshal(spelled, &given); err != nil {
		return spelled, fail(toolpark.ErrInvalidToolInput, "the arguments cannot be mapped: %s", err)
	}
	for i, m := range given {
		p, mapped := k.Params[m.name]
		if !mapped {
			continue
		}
		given[i].name = p.MapsTo
		if p.Invert {
			given[i].value = negate(m.value)
		}
	}
	mapped, err := json.Marshal(given, verbatim)
	if err != nil {
		return spelled, fail(toolpark.ErrInvalidToolInput, "the arguments cannot be mapped: %s", err)
	}
	return mapped, nil
}
