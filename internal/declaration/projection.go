package declaration

import (
	"encoding/json/jsontext"
	"errors"

	"github.com/toolpark/toolpark"
)

// Projection is what a model should be offered now, in its provider's shape.
func (c *Context) Projection(format toolpark.Format) (tools jsontext.Value, digest string, err error) {
	return nil, "", errors.New("soon")
}
