package envelope

import (
	"encoding/json/jsontext"
	"maps"
	"slices"
	"strconv"
	"strings"
	"uuid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/strictjson"
)

// uploadScheme is the one URI scheme a resource link may have.
const uploadScheme = "nexus://uploads/"

// fieldReader takes the fields of one block out of it, and keeps the first thing wrong with them.
type fieldReader struct {
	fields  map[string]jsontext.Value
	place   string           // content[i], for messages
	pointer jsontext.Pointer // the same, for programs
	err     *toolpark.Error
}

func (r *fieldReader) fail(field, reason string) {
	if r.err == nil {
		r.err = invalidContent(r.place+"."+field, reason).At(string(r.pointer.AppendToken(field)))
	}
}

// take removes a field; nil when there is none.
func (r *fieldReader) take(field string) jsontext.Value {
	value := r.fields[field]
	delete(r.fields, field)
	return value
}

// text takes a field that holds a string; nil when it is absent.
func (r *fieldReader) text(field string, required bool) *string {
	value := r.take(field)
	switch {
	case value == nil && required:
		r.fail(field, "is missing")
	case value == nil:
	case value.Kind() != jsontext.KindString:
		r.fail(field, "must be a string")
	default:
		text := unquote(value)
		return &text
	}
	return nil
}

// uri takes a resource link's address and the upload it names.
func (r *fieldReader) uri() (string, uuid.UUID) {
	text := r.text("uri", true)
	if text == nil {
		return "", uuid.UUID{}
	}
	spelled, ok := strings.CutPrefix(*text, uploadScheme)
	upload, err := uuid.Parse(spelled)
	if !ok || err != nil || upload.String() != spelled { // Parse takes more spellings than the grammar
		r.fail("uri", "must be "+uploadScheme+" and the upload's id")
	}
	return *text, upload
}

// size takes a byte count, digits as they came; nil when it is absent.
func (r *fieldReader) size() jsontext.Value {
	value := r.take("size")
	if value == nil {
		return nil
	}
	if size, err := strconv.ParseInt(string(value), 10, 64); err != nil || size < 0 {
		r.fail("size", "must be a whole number of bytes")
	}
	return value
}

// rest refuses what is left but MCP's annotations and _meta, which are dropped.
func (r *fieldReader) rest() {
	for _, field := range slices.Sorted(maps.Keys(r.fields)) {
		if field != "annotations" && field != "_meta" {
			r.fail(strictjson.CutString(field, 64), "is not a field of this kind of block")
			return
		}
	}
}

// unquote is the text of a JSON string. The fields that it reads were made readable, so it cannot fail.
func unquote(value jsontext.Value) string {
	text, _ := jsontext.AppendUnquote(nil, value)
	return string(text)
}
