package declaration

import (
	"encoding/json/jsontext"
	"errors"
	"strings"

	"github.com/toolpark/toolpark"
)

// schemaProblem says why the JSON Schema at a pointer cannot be used, and where in it.
func schemaProblem(err error, at jsontext.Pointer) Problem {
	var e *toolpark.Error
	if !errors.As(err, &e) {
		return problem(at, "is not accepted: %s", err)
	}
	p := problem(at, "is not accepted. %s", strings.TrimSuffix(e.Message, "."))
	if inside, ok := e.Details["pointer"].(string); ok {
		p.pointer += jsontext.Pointer(inside)
	}
	return p
}
