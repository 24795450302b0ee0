package schema

import (
	_ "embed"
	"encoding/json/v2"
	"fmt"
	"slices"
	"sync"

	"go.yaml.in/yaml/v3"
)

//go:embed openapi.yaml
var openAPI []byte

// OpenAPI is the OpenAPI 3.1 document of the HTTP API, as YAML: every route, body, bound and error code.
// The caller owns the bytes.
func OpenAPI() []byte { return slices.Clone(openAPI) }

// OpenAPIJSON is the same document as JSON, with sorted keys: what GET /openapi.json answers. It is
// converted once; callers share the bytes and must not change them. An error means that the embedded
// document is not YAML.
func OpenAPIJSON() ([]byte, error) { return openAPIJSON() }

var openAPIJSON = sync.OnceValues(func() ([]byte, error) {
	var document any
	if err := yaml.Unmarshal(openAPI, &document); err != nil {
		return nil, fmt.Errorf("read openapi.yaml: %w", err)
	}
	out, err := json.Marshal(document, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("write openapi.yaml as JSON: %w", err)
	}
	return out, nil
})
