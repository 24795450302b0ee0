package envelope

import (
	"bytes"
	"encoding/json/jsontext"
	"strings"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/strictjson"
)

// readable is the report with replacement characters for what is not Unicode text, so that its
// grammar can be judged before its storability, and with nulls that mean absence taken out.
func (f Fields) readable() Fields {
	for _, field := range []*jsontext.Value{&f.Content, &f.ResultType, &f.IsError, &f.Outcome, &f.Title, &f.Metadata} {
		if field.Kind() == jsontext.KindNull {
			*field = nil
		}
		*field = readable(*field)
	}
	f.StructuredContent = readable(f.StructuredContent)
	return f
}

func readable(value jsontext.Value) jsontext.Value {
	value = bytes.Trim(value, " \t\r\n")
	if _, _, bad := strictjson.Unstorable(value); !bad {
		return value
	}
	text := value.Clone()
	if err := text.Format(jsontext.PreserveRawStrings(false),
		jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)); err != nil {
		return value // not even JSON: the field's grammar says so
	}
	// One byte each, so that what is unreadable is never larger than it was sent.
	return bytes.ReplaceAll(text, []byte("\uFFFD"), []byte("?"))
}

// storable refuses text that no database can hold: U+0000, a lone surrogate, invalid UTF-8, in any
// value or key of content, structured content, title and metadata.
func (f Fields) storable() error {
	for _, field := range []struct {
		name  string
		value jsontext.Value
	}{
		{"content", f.Content},
		{"structured_content", f.StructuredContent},
		{"title", f.Title},
		{"metadata", f.Metadata},
	} {
		if pointer, reason, bad := strictjson.Unstorable(field.value); bad {
			// The message becomes the task's error detail, which must be storable itself.
			pointer = "/" + field.name + strings.ReplaceAll(pointer, "\x00", "\uFFFD")
			return toolpark.Errorf(toolpark.CodeResultUnstorable,
				"unsupported_text: the result's bytes cannot be stored: %s at %s.", reason, pointer).At(pointer)
		}
	}
	return nil
}
