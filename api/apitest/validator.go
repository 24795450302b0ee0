package apitest

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
)

// Validator fails its test for every exchange that the OpenAPI document does not describe. It is safe
// for concurrent use; what happens after the test has ended is not judged.
type Validator struct {
	// Coverage records what was exercised. To gather over several tests, give their validators one
	// Coverage before the first request.
	Coverage *Coverage

	document document

	mu    sync.Mutex // guards t against reports from goroutines that outlive the test
	t     testing.TB
	ended bool
}

// NewValidator makes a Validator for one test. It fails the test at once when the document is broken.
func NewValidator(t testing.TB) *Validator {
	t.Helper()
	doc, err := loadDocument()
	require.NoError(t, err)
	v := &Validator{Coverage: &Coverage{}, document: doc, t: t}
	t.Cleanup(func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.ended = true
	})
	return v
}

type badRequestKey struct{}

// BadRequest marks the requests made with the context as deliberately wrong: they are sent as they
// are, and only their answers are validated.
func BadRequest(ctx context.Context) context.Context {
	return context.WithValue(ctx, badRequestKey{}, true)
}

// Transport passes requests on to base and validates both directions. Answers reach the caller as they
// came; a stream is validated event by event while the caller reads it.
func (v *Validator) Transport(base http.RoundTripper) http.RoundTripper {
	return transport{v: v, base: base}
}

type transport struct {
	v    *Validator
	base http.RoundTripper
}

func (tr transport) RoundTrip(original *http.Request) (*http.Response, error) {
	request := original.Clone(original.Context()) // a transport must not change what it was given
	route, params, err := tr.v.document.find(request)
	if err != nil {
		response, failed := tr.base.RoundTrip(request)
		if failed == nil {
			tr.v.checkUnrouted(request, response, err)
		}
		return response, failed
	}
	input := &openapi3filter.RequestValidationInput{
		Request: request, PathParams: params, Route: route, Options: &openapi3filter.Options{
			AuthenticationFunc:    openapi3filter.NoopAuthenticationFunc,
			IncludeResponseStatus: true,
			SkipSettingDefaults:   true, // the server must see what the test sent
			ExcludeResponseBody:   request.Method == http.MethodHead,
			MultiError:            true,
		},
	}
	if deliberate, _ := request.Context().Value(badRequestKey{}).(bool); !deliberate {
		if err := openapi3filter.ValidateRequest(request.Context(), input); err != nil {
			tr.v.errorf("%s %s: the request is not what %s takes: %v", request.Method, request.URL.Path, route.Operation.OperationID, err)
		}
	}
	response, err := tr.base.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if request.Method != http.MethodHead {
		tr.v.Coverage.add(route.Operation.OperationID, response.StatusCode)
	}
	tr.v.check(input, response)
	return response, nil
}

// checkUnrouted holds answers to requests that the document does not describe to the one error shape.
func (v *Validator) checkUnrouted(request *http.Request, response *http.Response, reason error) {
	want := http.StatusNotFound
	if errors.Is(reason, routers.ErrMethodNotAllowed) {
		want = http.StatusMethodNotAllowed
	}
	if response.StatusCode != want {
		v.errorf("%s %s: the document has no such route, so the answer must be %d, not %d",
			request.Method, request.URL.Path, want, response.StatusCode)
		return
	}
	if request.Method == http.MethodHead {
		return
	}
	body, ok := readBody(response)
	if !ok {
		return
	}
	if err := v.document.schemas.check(v.document.Components.Schemas["Error"], body); err != nil {
		v.errorf("%s %s: the answer %d is not an error object: %v", request.Method, request.URL.Path, want, err)
	}
}

func (v *Validator) check(input *openapi3filter.RequestValidationInput, response *http.Response) {
	if media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); media == "text/event-stream" {
		v.checkBody(input, response, nil) // status and headers; the events follow
		response.Body = &eventStream{
			body:  response.Body,
			check: func(events []byte) { v.checkBody(input, response, events) },
		}
		return
	}
	if body, ok := readBody(response); ok {
		v.checkBody(input, response, body)
	}
}

func (v *Validator) checkBody(input *openapi3filter.RequestValidationInput, response *http.Response, body []byte) {
	options := *input.Options
	var schema *openapi3.SchemaRef // what the body is held to here; nil leaves it to the library
	if !options.ExcludeResponseBody {
		schema = answerSchema(input.Route.Operation, response)
		options.ExcludeResponseBody = schema != nil
	}
	err := openapi3filter.ValidateResponse(context.Background(), (&openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: response.StatusCode, Header: response.Header, Options: &options,
	}).SetBodyBytes(body))
	if err == nil && schema != nil {
		err = v.document.schemas.check(schema, body)
	}
	if err == nil && response.StatusCode >= http.StatusBadRequest && !input.Options.ExcludeResponseBody {
		err = documentedCode(input.Route.Operation.Responses.Status(response.StatusCode).Value, body)
	}
	if err != nil {
		v.errorf("%s %s: the answer %d is not what %s gives: %v\n%s", input.Request.Method, input.Request.URL.Path,
			response.StatusCode, input.Route.Operation.OperationID, err, body)
	}
}

// documentedCode refuses an error code that the response does not list. A schema cannot say this
// without repeating itself at every status of every operation.
func documentedCode(response *openapi3.Response, body []byte) error {
	var failure struct {
		Error struct {
			Code toolpark.Code `json:"code"`
		} `json:"error"`
	}
	if err := json.Unmarshal(body, &failure); err != nil {
		return err
	}
	codes, _ := response.Extensions["x-toolpark-codes"].([]any)
	if !slices.Contains(codes, any(string(failure.Error.Code))) {
		return toolpark.Errorf(failure.Error.Code, "this status does not document this code, only %v", codes)
	}
	return nil
}

// readBody reads an answer to its end and leaves it to be read again. It is false when the body ended
// early, which the caller then sees as it came.
func readBody(response *http.Response) ([]byte, bool) {
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close() // everything was read, or the read error says more
	again := io.Reader(bytes.NewReader(body))
	if err != nil {
		again = io.MultiReader(again, failingReader{err})
	}
	response.Body = io.NopCloser(again)
	return body, err == nil
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

func (v *Validator) errorf(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.ended {
		v.t.Errorf(format, args...)
	}
}
