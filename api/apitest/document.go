// Package apitest holds the HTTP API to its OpenAPI document: a test that talks to the API through a
// Validator's transport fails when a request or an answer is not what the document says.
package apitest

import (
	"fmt"
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
	router routers.Router
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
	return document{T: doc, router: router}, nil
})

// eachOperation visits every operation of the document.
func (d document) eachOperation(visit func(method, path string, operation *openapi3.Operation)) {
	for path, item := range d.Paths.Map() {
		for method, operation := range item.Operations() {
			visit(method, path, operation)
		}
	}
}
