// Package envelope is the grammar of a tool's result: what an executor may report, what of it is
// stored, and what a model reads of it.
//
// The grammar follows MCP's CallToolResult. Two kinds of refusal differ in what they do to the call:
// a report outside the grammar may be sent again, while one that is well formed but holds text that
// no database can store (toolpark.CodeResultUnstorable) ends it.
package envelope

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"strings"
	"uuid"
)

// Fields are a report's fields as they came: JSON values, otherwise unjudged. Nil is absent. Null
// reads as absent too, except in StructuredContent, where it is a value.
type Fields struct {
	Content           jsontext.Value `json:"content,omitzero"`
	StructuredContent jsontext.Value `json:"structured_content,omitzero"`
	ResultType        jsontext.Value `json:"result_type,omitzero"`
	IsError           jsontext.Value `json:"is_error,omitzero"`
	Outcome           jsontext.Value `json:"outcome,omitzero"`
	Title             jsontext.Value `json:"title,omitzero"`
	Metadata          jsontext.Value `json:"metadata,omitzero"`
}

// Report is a result that keeps to the grammar.
type Report struct {
	Output            string         // the text projection: what a model reads; empty when blank
	StructuredContent jsontext.Value // any JSON value, as it came; nil when absent
	IsError           bool           // the tool ran and reported an error
	Failed            bool           // the tool could not do its work: outcome "failed"
	Title             string         // one line of at most toolpark.MaxTitle bytes; empty when absent
	Metadata          jsontext.Value // an object, as it came; nil when absent
	Links             []uuid.UUID    // the uploads that resource links name, in block order

	content jsontext.Value
}

// Parse judges a report's fields. What it refuses is a *toolpark.Error with one of the envelope's
// codes, at the JSON pointer of what is wrong. Grammar and bounds are judged first, in the order of
// Fields, then storability: a report that could be repaired and sent again never ends its call.
func Parse(fields Fields) (Report, error) {
	var report Report
	blocks, err := judge(fields.readable(), fields, &report)
	if err != nil {
		return Report{}, err
	}
	if err := fields.storable(); err != nil {
		return Report{}, err
	}
	if err := report.project(blocks); err != nil {
		return Report{}, err
	}
	return report, nil
}

// judge reads each field by its grammar and returns the content's blocks. Keys that became alike when they were
// made readable are told apart in what was sent.
func judge(fields, sent Fields, report *Report) ([]block, error) {
	if err := checkSize(fields.Content, fields.StructuredContent); err != nil {
		return nil, err
	}
	blocks, err := parseContent(fields.Content, sent.Content)
	if err != nil {
		return nil, err
	}
	if report.StructuredContent, err = parseStructured(fields.StructuredContent, sent.StructuredContent); err != nil {
		return nil, err
	}
	if err := checkResultType(fields.ResultType); err != nil {
		return nil, err
	}
	if report.IsError, err = parseIsError(fields.IsError); err != nil {
		return nil, err
	}
	if report.Failed, err = parseOutcome(fields.Outcome); err != nil {
		return nil, err
	}
	if report.Title, err = parseTitle(fields.Title); err != nil {
		return nil, err
	}
	if report.Metadata, err = parseMetadata(fields.Metadata, sent.Metadata); err != nil {
		return nil, err
	}
	return blocks, nil
}

// Content is the list of blocks as it is stored and served; nil when the result is blank. A bare
// string and a single text block of the same text give the same bytes.
func (r Report) Content() jsontext.Value { return r.content }

// project fills in what a model reads and what is stored of it: nothing when that is only white space.
func (r *Report) project(blocks []block) error {
	output, err := text(blocks)
	if err != nil || strings.TrimSpace(output) == "" {
		return err
	}
	content, err := json.Marshal(blocks)
	if err != nil {
		return fmt.Errorf("render content: %w", err)
	}
	r.Output, r.content = output, content
	for _, b := range blocks {
		if b.Type == blockResourceLink {
			r.Links = append(r.Links, b.upload)
		}
	}
	return nil
}
