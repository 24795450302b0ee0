package schema

import (
	"cmp"
	stdjson "encoding/json"
	"encoding/json/jsontext"
	"fmt"
	"slices"
	"strconv"
	"strings"

	jsonschema "github.com/kaptinlin/jsonschema"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/strictjson"
)

const (
	maxReason  = 256 // bytes of one reason, and of what a refusal quotes
	maxPointer = 512 // bytes of one pointer
)

// complaints are the innermost errors of a result.
func complaints(result *jsonschema.EvaluationResult, value any) []Complaint {
	var found []Complaint
	collect(result, "", value, &found)
	if len(found) == 0 {
		found = []Complaint{{Reason: "the value does not match its schema"}}
	}
	slices.SortFunc(found, func(a, b Complaint) int {
		return cmp.Or(cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Reason, b.Reason))
	})
	found = slices.Compact(found)
	return found[:min(len(found), toolpark.MaxSchemaComplaints)]
}

// collect adds the errors of a result that has no failed part to blame, and goes into those parts.
func collect(result *jsonschema.EvaluationResult, at jsontext.Pointer, value any, found *[]Complaint) {
	before := len(*found)
	for _, part := range result.Details {
		if part.IsValid() || !blames(result, part) {
			continue
		}
		below, inside, there := step(part, at, value)
		if there {
			collect(part, below, inside, found)
		}
	}
	var vague []*jsonschema.EvaluationError
	for _, e := range result.Errors {
		if summary[e.Keyword] && e.Code != "one_of_multiple_matches" {
			vague = append(vague, e)
			continue
		}
		*found = append(*found, complaint(e, at, result.EvaluationPath))
	}
	if len(*found) > before {
		return
	}
	for _, e := range vague { // better than nothing
		*found = append(*found, complaint(e, at, result.EvaluationPath))
	}
}

func complaint(e *jsonschema.EvaluationError, at jsontext.Pointer, path string) Complaint {
	return Complaint{
		Pointer: strictjson.CutString(string(at), maxPointer),
		Reason:  strictjson.CutString(reason(e, path), maxReason),
	}
}

// summary are the keywords whose error only says that a part failed.
var summary = map[string]bool{
	"properties": true, "patternProperties": true, "additionalProperties": true, "propertyNames": true,
	"items": true, "prefixItems": true, "unevaluatedItems": true, "unevaluatedProperties": true,
	"allOf": true, "anyOf": true, "oneOf": true, "then": true, "else": true, "dependentSchemas": true,
	"$ref": true, "$dynamicRef": true,
}

// blames tells whether a failed part is why the result failed: a condition or a negation that did
// not match is not, nor are the other branches when too many matched.
func blames(result, part *jsonschema.EvaluationResult) bool {
	path := part.EvaluationPath
	if path == "/if" || path == "/not" {
		return false
	}
	for keyword, branch := range map[string]string{"anyOf": "/anyOf/", "oneOf": "/oneOf/"} {
		if strings.HasPrefix(path, branch) {
			e, failed := result.Errors[keyword]
			return failed && e.Code != "one_of_multiple_matches"
		}
	}
	return true
}

// step finds the pointer and the value of a part. The library writes one raw name for a step, without
// escapes. A part below a property that is not there is no complaint of its own.
func step(part *jsonschema.EvaluationResult, at jsontext.Pointer, value any) (jsontext.Pointer, any, bool) {
	if part.InstanceLocation == "" || strings.HasPrefix(part.EvaluationPath, "/dependentSchemas/") {
		return at, value, true
	}
	name := strings.TrimPrefix(part.InstanceLocation, "/")
	switch v := value.(type) {
	case map[string]any:
		inside, there := v[name]
		return at.AppendToken(name), inside, there
	case []any:
		i, err := strconv.Atoi(name)
		if err != nil || i < 0 || i >= len(v) {
			return at, nil, false
		}
		return at.AppendToken(name), v[i], true
	}
	return at, nil, false
}

// reason says what is wrong in words that do not repeat the value.
func reason(e *jsonschema.EvaluationError, path string) string {
	p := e.Params
	switch e.Code {
	case "type_mismatch":
		return fmt.Sprintf("must be of type %v, not %v", p["expected"], p["received"])
	case "value_not_in_enum":
		allowed, _ := p["allowed"].([]any)
		return "must be one of: " + printed(allowed...)
	case "const_mismatch", "const_mismatch_null":
		return "must be " + printed(p["expected"])
	case "missing_required_property":
		return fmt.Sprintf("the required property %v is missing", p["property"])
	case "missing_required_properties":
		return fmt.Sprintf("the required properties %v are missing", p["properties"])
	case "pattern_mismatch":
		return fmt.Sprintf("must match the pattern %v", p["pattern"])
	case "dependent_property_required":
		return "properties that others here depend on are missing"
	case "false_schema_mismatch":
		if strings.HasPrefix(path, "/additionalProperties/") || path == "/unevaluatedProperties" {
			return "this property is not known; remove it or correct its spelling"
		}
		return "no value is allowed here"
	}
	return e.Error()
}

// printed writes values as JSON, as many as a reason may show.
func printed(values ...any) string {
	var out strings.Builder
	enc := stdjson.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	for i, value := range values {
		if out.Len() > maxReason {
			break
		}
		if i > 0 {
			out.WriteString(", ")
		}
		if err := enc.Encode(value); err != nil {
			return "a value of the schema"
		}
	}
	return strings.ReplaceAll(out.String(), "\n", "")
}
