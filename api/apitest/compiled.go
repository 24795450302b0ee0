package apitest

import (
	"bytes"
	"encoding/json/v2"
	"fmt"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// compiledSchemas keeps what the schemas of a document compile to. The OpenAPI library compiles one again for
// each value, which costs more than all else that a test of the API does.
type compiledSchemas struct {
	components any      // the document's, for the references of all schemas
	compiled   sync.Map // *openapi3.SchemaRef to a function that compiles it once
}

func newCompiledSchemas(doc *openapi3.T) (*compiledSchemas, error) {
	components, err := reread(doc.Components)
	return &compiledSchemas{components: components}, err
}

// check tells how a JSON text breaks a schema.
func (c *compiledSchemas) check(schema *openapi3.SchemaRef, text []byte) error {
	once, _ := c.compiled.LoadOrStore(schema, sync.OnceValues(func() (*jsonschema.Schema, error) { return c.compile(schema) }))
	compiled, err := once.(func() (*jsonschema.Schema, error))()
	if err != nil {
		return fmt.Errorf("compile a schema of the document: %w", err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return compiled.Validate(value)
}

func (c *compiledSchemas) compile(schema *openapi3.SchemaRef) (*jsonschema.Schema, error) {
	value, err := reread(schema)
	if err != nil {
		return nil, err
	}
	root, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("it is %T, not an object", value)
	}
	root["components"] = c.components
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	const url = "https://toolpark.invalid/schema.json"
	if err := compiler.AddResource(url, root); err != nil {
		return nil, err
	}
	return compiler.Compile(url)
}

// reread is a part of the document as the schema compiler takes it.
func reread(part any) (any, error) {
	text, err := json.Marshal(part)
	if err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(text))
}
