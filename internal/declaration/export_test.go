package declaration

import (
	"encoding/json/jsontext"

	"github.com/toolpark/toolpark/internal/catalog"
)

// ParseConfigurationOver is ParseConfiguration by another catalog than the live one.
func ParseConfigurationOver(kernel *catalog.Catalog, raw jsontext.Value) (Configuration, error) {
	g := configurationGrammar()
	g.kernel = kernel
	return g.configuration(raw)
}
