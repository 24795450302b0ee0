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
	var c collector
	c.collect(result, "", value)
	if len(c.kept) == 0 {
		return []Complaint{{Reason: "the value does not match its schema"}}
	}
	return c.kept
}

// collector keeps the first complaints, in their order, of however many there are.
type collector struct {
	kept []Complaint
	seen int
}

// collect adds the errors of a result that has no failed part to blame, and goes into those parts.
func (c *collector) collect(result *jsonschema.EvaluationResult, at jsontext.Pointer, value any) {
	before := c.seen
	for _, part := range result.Details {
		if part.IsValid() || !blames(result, part) {
			continue
		}
		below, inside, there := step(part, at, value)
		if there {
			c.collect(bare(part), below, inside)
		}
	}
	var vague []*jsonschema.EvaluationError
	for _, e := range result.Errors {
		if summary[e.Keyword] && e.Code != "one_of_multiple_matches" {
			vague = append(vague, e)
			continue
		}
		c.add(at, e, result.EvaluationPath)
	}
	if c.seen > before {
		return
	}
	for _, e := range vague { // better than nothing
		c.add(at, e, result.EvaluationPath)
	}
}

func (c *collector) add(at jsontext.Pointer, e *jsonschema.EvaluationError, path string) {
	c.seen++
	pointer := strictjson.CutString(string(at), maxPointer)
	full := len(c.kept) == toolpark.MaxSchemaComplaints
	if full && pointer > c.kept[len(c.kept)-1].Pointer {
		return
	}
	complaint := Complaint{Pointer: pointer, Reason: strictjson.CutString(reason(e, path), maxReason)}
	i, known := slices.BinarySearchFunc(c.kept, complaint, func(a, b Complaint) int {
		return cmp.Or(cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Reason, b.Reason))
	})
	if !known {
		c.kept = slices.Insert(c.kept, i, complaint)
		c.kept = c.kept[:min(len(c.kept), toolpark.MaxSchemaComplaints)]
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

// bare is the result behind the two negations that the copy has around what unevaluatedItems asks for.
func bare(part *jsonschema.EvaluationResult) *jsonschema.EvaluationResult {
	if strings.HasPrefix(part.EvaluationPath, "/unevaluatedItems/") {
		return part.Details[0].Details[0]
	}
	return part
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

// printed writes values as JSON, as many as a reason may show, and … for one that is too long for it.
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
		if weight(value, maxReason) > maxReason {
			out.WriteString("…")
		} else if err := enc.Encode(value); err != nil {
			return "a value of the schema"
		}
	}
	return strings.ReplaceAll(out.String(), "\n", "")
}
