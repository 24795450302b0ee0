package envelope

import (
	"encoding/json/jsontext"
	"fmt"
	"strings"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/strictjson"
)

// checkJSON refuses a value whose numbers, nesting or repeated keys are beyond what any JSON may have.
func checkJSON(code toolpark.Code, field string, sent jsontext.Value) error {
	problem := strictjson.Shape(sent)
	if problem == nil {
		return nil
	}
	problem.Pointer = "/" + field + problem.Pointer
	return toolpark.Errorf(code, "%s cannot be taken: %s.", field, problem).At(problem.Pointer)
}

func parseStructured(value, sent jsontext.Value) (jsontext.Value, error) {
	if value == nil {
		return nil, nil
	}
	return value, checkJSON(toolpark.CodeInvalidStructuredContent, "structured_content", sent)
}

// checkSize bounds content and structured_content together, as they were sent. It comes before
// anything is made of them.
func checkSize(content, structured jsontext.Value) error {
	total := 0
	for _, value := range []jsontext.Value{content, structured} {
		size, _ := strictjson.Size(value) // what cannot be read, its field's grammar refuses
		total += size
	}
	if total > toolpark.MaxResult {
		return toolpark.Errorf(toolpark.CodeResultTooLarge,
			"content and structured_content take %d bytes together; a result may have %d.", total, toolpark.MaxResult).
			At("/content")
	}
	return nil
}

// checkResultType takes "complete" only: MCP's other type asks for an exchange that does not exist here.
func checkResultType(value jsontext.Value) error {
	if value == nil || value.Kind() == jsontext.KindString && unquote(value) == "complete" {
		return nil
	}
	return toolpark.Errorf(toolpark.CodeInvalidResultType, `result_type must be "complete" or left out.`).At("/result_type")
}

// parseIsError has no code of its own: what a report says of its success is refused as its outcome.
func parseIsError(value jsontext.Value) (bool, error) {
	switch {
	case value == nil, value.Kind() == jsontext.KindFalse:
		return false, nil
	case value.Kind() == jsontext.KindTrue:
		return true, nil
	}
	return false, toolpark.Errorf(toolpark.CodeInvalidOutcome, "is_error must be true or false.").At("/is_error")
}

// parseOutcome tells whether the tool failed.
func parseOutcome(value jsontext.Value) (bool, error) {
	if value == nil {
		return false, nil
	}
	if value.Kind() == jsontext.KindString {
		switch unquote(value) {
		case "completed":
			return false, nil
		case "failed":
			return true, nil
		}
	}
	return false, toolpark.Errorf(toolpark.CodeInvalidOutcome, `outcome must be "completed" or "failed".`).At("/outcome")
}

func parseTitle(value jsontext.Value) (string, error) {
	if value == nil {
		return "", nil
	}
	if value.Kind() != jsontext.KindString {
		return "", invalidTitle("must be a string")
	}
	title := unquote(value)
	switch {
	case strings.ContainsAny(title, "\n\v\f\r\u0085\u2028\u2029"):
		return "", invalidTitle("must be one line")
	case len(title) > toolpark.MaxTitle:
		return "", invalidTitle(fmt.Sprintf("takes %d bytes; it may have %d", len(title), toolpark.MaxTitle))
	}
	return title, nil
}

func invalidTitle(reason string) error {
	return toolpark.Errorf(toolpark.CodeInvalidTitle, "title %s.", reason).At("/title")
}

func parseMetadata(value, sent jsontext.Value) (jsontext.Value, error) {
	if value == nil {
		return nil, nil
	}
	if value.Kind() != jsontext.KindBeginObject {
		return nil, toolpark.Errorf(toolpark.CodeInvalidMetadata, "metadata must be an object.").At("/metadata")
	}
	if size, _ := strictjson.Size(value); size > toolpark.MaxMetadata {
		return nil, toolpark.Errorf(toolpark.CodeMetadataTooLarge,
			"metadata takes %d bytes; a result's may have %d.", size, toolpark.MaxMetadata).At("/metadata")
	}
	return value, checkJSON(toolpark.CodeInvalidMetadata, "metadata", sent)
}
