// Package apitest holds the HTTP API to its OpenAPI document: a test that talks to the API through a
// Validator's transport fails when a request or an answer is not what the document says.
package apitest

import (
	"fmt"
	"mime"
	"net/http"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/toolpark/toolpark/schema"
)

// document is the OpenAPI document, ready to look requests up in.
type document struct {
	*openapi3.T
	router  routers.Router
	schemas *compiledSchemas
}

var loadDocument = sync.OnceValues(func() (document, error) {
	openapi3filter.RegisterBodyDecoder("text/event-stream", decodeEvents)
	doc, err := openapi3.NewLoader().LoadFromData(schema.OpenAPI())
	if err != nil {
		return document{}, fmt.Errorf("load the OpenAPI document: %w", err)
	}
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		return document{}, fmt.Errorf("route by the OpenAPI document: %w", err)
	}
	schemas, err := newCompiledSchemas(doc)
	if err != nil {
		return document{}, fmt.Errorf("read the schemas of the OpenAPI document: %w", err)
	}
	return document{T: doc, router: router, schemas: schemas}, nil
})

// find looks a request up. HEAD goes wherever GET does, except to a stream.
func (d document) find(r *http.Request) (*routers.Route, map[string]string, error) {
	if r.Method != http.MethodHead {
		return d.router.FindRoute(r)
	}
	get := *r
	get.Method = http.MethodGet
	route, params, err := d.router.FindRoute(&get)
	if err == nil && streams(route.Operation) {
		return nil, nil, routers.ErrMethodNotAllowed
	}
	return route, params, err
}

// streams tells whether an operation answers with a stream of events.
func streams(operation *openapi3.Operation) bool {
	ok := operation.Responses.Status(http.StatusOK)
	return ok != nil && ok.Value.Content["text/event-stream"] != nil
}

// answerSchema is what a JSON answer of an operation must be; nil when the document says nothing of it, or when
// its body is no JSON.
func answerSchema(operation *openapi3.Operation, response *http.Response) *openapi3.SchemaRef {
	answer := operation.Responses.Status(response.StatusCode)
	if answer == nil {
		return nil
	}
	contentType := response.Header.Get("Content-Type")
	if media, _, _ := mime.ParseMediaType(contentType); media != "application/json" {
		return nil
	}
	if media := answer.Value.Content.Get(contentType); media != nil {
		return media.Schema
	}
	return nil
}

// eachOperation visits every operation of the document.
func (d document) eachOperation(visit func(method, path string, operation *openapi3.Operation)) {
	for path, item := range d.Paths.Map() {
		for method, operation := range item.Operations() {
			visit(method, path, operation)
		}
	}
}
