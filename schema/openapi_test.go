package schema_test

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/schema"
)

func TestOpenAPI(t *testing.T) {
	t.Parallel()

	t.Run("the document is valid, in both spellings", func(t *testing.T) {
		t.Parallel()
		asJSON, err := schema.OpenAPIJSON()
		require.NoError(t, err)
		for _, spelling := range [][]byte{schema.OpenAPI(), asJSON} {
			require.NoError(t, load(t, spelling).Validate(t.Context()))
		}
	})

	t.Run("both spellings are one document", func(t *testing.T) {
		t.Parallel()
		asJSON, err := schema.OpenAPIJSON()
		require.NoError(t, err)
		fromYAML, err := json.Marshal(load(t, schema.OpenAPI()), json.Deterministic(true))
		require.NoError(t, err)
		fromJSON, err := json.Marshal(load(t, asJSON), json.Deterministic(true))
		require.NoError(t, err)
		require.JSONEq(t, string(fromYAML), string(fromJSON))
	})

	t.Run("every failure has the one error shape and names codes that exist", func(t *testing.T) {
		t.Parallel()
		known := constants(t, "../error.go", "Code")
		eachResponse(t, func(where string, status int, response *openapi3.Response) {
			if status < 400 {
				require.Empty(t, response.Extensions, where)
				return
			}
			require.Equal(t, "#/components/schemas/Error", response.Content["application/json"].Schema.Ref, where)
			codes, ok := response.Extensions["x-toolpark-codes"].([]any)
			require.True(t, ok, "%s has no x-toolpark-codes", where)
			require.NotEmpty(t, codes, where)
			for _, code := range codes {
				require.Contains(t, known, code, where)
			}
		})
	})

	t.Run("the keys of a task's error are those that exist", func(t *testing.T) {
		t.Parallel()
		var keys []string
		for _, key := range load(t, schema.OpenAPI()).Components.Schemas["TaskError"].Value.Properties["key"].Value.Enum {
			keys = append(keys, key.(string))
		}
		require.ElementsMatch(t, constants(t, "../task.go", "Err"), keys)
	})

	t.Run("the bounds are those that are enforced", func(t *testing.T) {
		t.Parallel()
		asJSON, err := schema.OpenAPIJSON()
		require.NoError(t, err)
		for _, bound := range []struct {
			pointer jsontext.Pointer
			value   int64
		}{
			{"/components/parameters/limit/schema/maximum", toolpark.MaxPage},
			{"/components/parameters/limit/schema/default", toolpark.DefaultPage},
			{"/components/parameters/waitMS/schema/maximum", toolpark.MaxWait.Milliseconds()},
			{"/components/parameters/idempotencyKey/schema/maxLength", toolpark.MaxIdempotencyKey},
			{"/components/schemas/NewRound/properties/calls/maxItems", toolpark.MaxCallsPerRound},
			{"/components/schemas/NewRound/properties/tool_names/maxItems", toolpark.MaxToolNames},
			{"/components/schemas/OpenedRound/properties/tasks/items/properties/tool_call_id/maxLength", toolpark.MaxToolCallID},
			{"/components/schemas/NewRun/properties/label/maxLength", toolpark.MaxTitle},
			{"/components/schemas/Task/properties/title/maxLength", toolpark.MaxTitle},
			{"/components/schemas/Task/properties/content/maxItems", toolpark.MaxContentBlocks},
			{"/components/schemas/Step/properties/tool/properties/timeout_ms/maximum", toolpark.MaxToolTimeout.Milliseconds()},
			{"/components/schemas/AnnouncedTool/properties/timeout_ms/maximum", toolpark.MaxToolTimeout.Milliseconds()},
			{"/components/schemas/AnnouncedTool/properties/timeout_ms/minimum", toolpark.MinToolTimeout.Milliseconds()},
			{"/components/schemas/AnnouncedTool/properties/name/maxLength", toolpark.MaxServedName},
			{"/components/schemas/AnnouncedDocument/properties/name/maxLength", toolpark.MaxDocumentName},
			{"/components/schemas/AnnouncedDocument/properties/description/maxLength", toolpark.MaxDocumentSummary},
			{"/paths/~1agent_api~1v1~1runs~1{run_public_id}~1tasks/post/requestBody/content/application~1json/schema/properties/steps/maxItems", toolpark.MaxStepsPerAppend},
			{"/paths/~1agent_api~1v1~1executor~1inbox~1{run_public_id}~1{task_key}~1claim/post/requestBody/content/application~1json/schema/properties/claim_key/maxLength", toolpark.MaxClaimKey},
		} {
			require.Equal(t, strconv.FormatInt(bound.value, 10), at(t, asJSON, bound.pointer), bound.pointer)
		}
	})

	t.Run("every operation, parameter and property says what it is", func(t *testing.T) {
		t.Parallel()
		document := load(t, schema.OpenAPI())
		for path, item := range document.Paths.Map() {
			for method, operation := range item.Operations() {
				where := method + " " + path
				require.NotEmpty(t, operation.OperationID, where)
				require.NotEmpty(t, operation.Summary, where)
				for _, parameter := range append(item.Parameters, operation.Parameters...) {
					require.NotEmpty(t, parameter.Value.Description, "%s: %s", where, parameter.Value.Name)
				}
			}
		}
		for name, component := range document.Components.Schemas {
			described(t, name, component.Value)
		}
	})
}

func load(t *testing.T, spelling []byte) *openapi3.T {
	t.Helper()
	document, err := openapi3.NewLoader().LoadFromData(spelling)
	require.NoError(t, err)
	return document
}

// at is the JSON text at a pointer.
func at(t *testing.T, document jsontext.Value, pointer jsontext.Pointer) string {
	t.Helper()
	for token := range pointer.Tokens() {
		var members map[string]jsontext.Value
		require.NoError(t, json.Unmarshal(document, &members), pointer)
		require.Contains(t, members, token, pointer)
		document = members[token]
	}
	return string(document)
}

func eachResponse(t *testing.T, visit func(where string, status int, response *openapi3.Response)) {
	t.Helper()
	for path, item := range load(t, schema.OpenAPI()).Paths.Map() {
		for method, operation := range item.Operations() {
			for status, response := range operation.Responses.Map() {
				code, err := strconv.Atoi(status)
				require.NoError(t, err)
				visit(strings.Join([]string{method, path, status}, " "), code, response.Value)
			}
		}
	}
}

// described fails the test for a property without a description, its own or that of what it refers to.
func described(t *testing.T, where string, s *openapi3.Schema) {
	t.Helper()
	for name, property := range s.Properties {
		require.NotEmpty(t, property.Value.Description, "%s.%s", where, name)
		if property.Ref == "" {
			described(t, where+"."+name, property.Value)
		}
	}
	if s.Items != nil && s.Items.Ref == "" {
		described(t, where+"[]", s.Items.Value)
	}
	for _, alternative := range s.AnyOf {
		if alternative.Ref == "" {
			described(t, where, alternative.Value)
		}
	}
}

// constants reads the values of the string constants of a Go file whose names start with prefix.
func constants(t *testing.T, file, prefix string) []string {
	t.Helper()
	source, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	require.NoError(t, err)
	var values []string
	ast.Inspect(source, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, prefix) {
			return true
		}
		value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		require.NoError(t, err)
		values = append(values, value)
		return true
	})
	require.NotEmpty(t, values)
	return values
}
