package declaration

import (
	"encoding/json/jsontext"
	"errors"
	"strings"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/form"
)

// schemaProblem says why the JSON Schema at a pointer cannot be used, and where in it.
func schemaProblem(err error, at jsontext.Pointer) form.Problem {
	var e *toolpark.Error
	if !errors.As(err, &e) {
		return form.At(at, "is not accepted: %s", err)
	}
	p := form.At(at, "is not accepted. %s", strings.TrimSuffix(e.Message, "."))
	if inside, ok := e.Details["pointer"].(string); ok {
		p.Pointer += jsontext.Pointer(inside)
	}
	return p
}
