package envelope

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"uuid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/strictjson"
)

// The kinds of content block a result may hold: MCP's, as far as this grammar takes them.
const (
	blockText         = "text"
	blockResourceLink = "resource_link"
)

// block is one content block in the form it is stored, served and shown in: keys in MCP's order.
type block struct {
	Type        string         `json:"type"`
	Text        *string        `json:"text,omitzero"`
	URI         string         `json:"uri,omitempty"`
	Name        *string        `json:"name,omitzero"`
	Title       *string        `json:"title,omitzero"`
	Description *string        `json:"description,omitzero"`
	MimeType    *string        `json:"mimeType,omitzero"`
	Size        jsontext.Value `json:"size,omitzero"`

	upload uuid.UUID // what a resource link names
}

// parseContent reads the content field: a string, or a list of blocks. A string is one text block. sent is the
// field before it was made readable.
func parseContent(content, sent jsontext.Value) ([]block, error) {
	if content == nil {
		return nil, nil
	}
	if err := checkJSON(toolpark.CodeInvalidContent, "content", sent); err != nil {
		return nil, err
	}
	switch content.Kind() {
	case jsontext.KindString:
		text := unquote(content)
		return []block{{Type: blockText, Text: &text}}, nil
	case jsontext.KindBeginArray:
	default:
		return nil, invalidContent("content", "must be a string or a list of blocks").At("/content")
	}
	raw, count, ok := strictjson.Elements(content, toolpark.MaxContentBlocks)
	if !ok {
		return nil, invalidContent("content", "cannot be read").At("/content")
	}
	if count > toolpark.MaxContentBlocks {
		return nil, toolpark.Errorf(toolpark.CodeTooManyContentBlocks,
			"content has %d blocks; a result may have %d.", count, toolpark.MaxContentBlocks).At("/content")
	}
	blocks := make([]block, len(raw))
	for i := range raw {
		var err error
		if blocks[i], err = parseBlock(i, raw[i]); err != nil {
			return nil, err
		}
	}
	return blocks, nil
}

// parseBlock reads content[i].
func parseBlock(i int, raw jsontext.Value) (block, error) {
	place := fmt.Sprintf("content[%d]", i)
	pointer := fmt.Sprintf("/content/%d", i)
	if raw.Kind() != jsontext.KindBeginObject {
		return block{}, invalidContent(place, "must be an object").At(pointer)
	}
	var fields map[string]jsontext.Value
	if err := json.Unmarshal(raw, &fields, jsontext.AllowDuplicateNames(true)); err != nil {
		return block{}, invalidContent(place, "cannot be read").At(pointer).Because(err)
	}
	r := fieldReader{fields: fields, place: place, pointer: jsontext.Pointer(pointer)}
	kind := r.text("type", true)
	if r.err != nil {
		return block{}, r.err
	}
	b := block{Type: *kind}
	switch b.Type {
	case blockText:
		b.Text = r.text("text", true)
	case blockResourceLink:
		b.URI, b.upload = r.uri()
		b.Name = r.text("name", true)
		b.Title = r.text("title", false)
		b.Description = r.text("description", false)
		b.MimeType = r.text("mimeType", false)
		b.Size = r.size()
	default:
		return block{}, toolpark.Errorf(toolpark.CodeUnsupportedContentKind,
			"%s.type is not a kind of block a result may hold; use text or resource_link.", place).At(pointer + "/type")
	}
	r.rest()
	if r.err != nil {
		return block{}, r.err
	}
	return b, nil
}

// invalidContent refuses content whose shape is outside the grammar.
func invalidContent(place, reason string) *toolpark.Error {
	return toolpark.Errorf(toolpark.CodeInvalidContent, "%s %s.", place, reason)
}
