package declaration

import (
	"encoding/json/jsontext"

	"github.com/toolpark/toolpark"
)

// ReadInput is what Admit makes of arguments, for an author who writes an input itself.
func ReadInput(raw jsontext.Value) (jsontext.Value, *toolpark.TaskError) { return readArguments(raw) }
