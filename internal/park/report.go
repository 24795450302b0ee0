package park

import (
	"context"
	"crypto/sha256"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"strings"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/envelope"
	"github.com/toolpark/toolpark/internal/postgres"
	"github.com/toolpark/toolpark/internal/strictjson"
	"github.com/toolpark/toolpark/schema"
)

// lax passes over text that cannot be stored: judging it is the envelope's work.
var lax = json.JoinOptions(
	jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true), jsontext.PreserveRawStrings(true))

// encodeReport gives the bytes of a report that are staged and the hash by which an equal report is known. Reports
// are equal when their fields are equal JSON values, whatever their white space and key order.
func encodeReport(fields envelope.Fields) (body, bodyHash []byte, err error) {
	body, err = json.Marshal(fields, lax)
	if err != nil {
		return nil, nil, fmt.Errorf("encode a report: %w", err)
	}
	sum := sha256.New()
	for _, field := range []jsontext.Value{
		fields.Content, fields.StructuredContent, fields.ResultType, fields.IsError, fields.Outcome, fields.Title,
		fields.Metadata,
	} {
		if canonical, err := strictjson.Canonical(field); err == nil {
			field = canonical
		}
		fmt.Fprintf(sum, "%d:", len(field))
		sum.Write(field)
	}
	return body, sum.Sum(nil), nil
}

func decodeReport(body []byte) (envelope.Fields, error) {
	var fields envelope.Fields
	err := json.Unmarshal(body, &fields, lax)
	return fields, err
}

// parseReport judges a report by the envelope's grammar, and its links. Both the API and the workflow's
// activity call it, so what the API lets through is what the activity stores.
func parseReport(fields envelope.Fields) (envelope.Report, error) {
	r, err := envelope.Parse(fields)
	if err != nil {
		return r, err
	}
	if len(r.Links) > 0 {
		return r, toolpark.Errorf(toolpark.CodeUnknownResultUpload,
			"content links upload %s, which this executor has not staged.", r.Links[0]).At("/content")
	}
	return r, nil
}

func (p *Park) outputSchema(ctx context.Context, tx *postgres.Tx, task *toolpark.Task) (*schema.Schema, error) {
	if task.OutputSchemaHash == nil {
		return nil, nil
	}
	document, err := postgres.OutputSchema(ctx, tx, task.AccountID, task.OutputSchemaHash)
	if err != nil {
		return nil, err
	}
	return p.Schemas.Any(document)
}

func unstorable(refusal *toolpark.Error) postgres.Outcome {
	detail := refusal.Message
	if !strings.HasPrefix(detail, "unsupported_text: ") {
		detail = "unsupported_text: " + detail
	}
	return postgres.Outcome{
		Status: toolpark.Failed, By: toolpark.ByCommit,
		Error: &toolpark.TaskError{Key: toolpark.ErrResultUnstorable, Detail: detail},
	}
}

// outcome is how a report that keeps to the grammar ends its task. A completed call whose structure
// breaks the announced output schema fails, and what was reported stays readable.
func outcome(r envelope.Report, output *schema.Schema) postgres.Outcome {
	o := postgres.Outcome{
		Status: toolpark.Completed, By: toolpark.ByCommit, IsError: r.IsError,
		Content: r.Content(), StructuredContent: r.StructuredContent, Metadata: r.Metadata,
	}
	if r.Title != "" {
		o.Title = &r.Title
	}
	switch {
	case r.Failed:
		o.Status = toolpark.Failed
		o.Error = &toolpark.TaskError{Key: toolpark.ErrToolFailed, Detail: r.Output}
	case output != nil && !r.IsError:
		if complaint := mismatch(r.StructuredContent, output); complaint != "" {
			return rejected(o, complaint)
		}
	}
	return o
}

func mismatch(value jsontext.Value, output *schema.Schema) string {
	if value == nil {
		return "structured_content is absent"
	}
	var complaints []string
	for _, c := range output.Check(value) {
		complaints = append(complaints, c.Pointer+": "+c.Reason)
	}
	return strings.Join(complaints, "; ")
}

func rejected(o postgres.Outcome, complaint string) postgres.Outcome {
	content := o.Content
	if content == nil {
		content = jsontext.Value("[]")
	}
	report := struct {
		Content           jsontext.Value `json:"content"`
		StructuredContent jsontext.Value `json:"structured_content,omitzero"`
	}{content, o.StructuredContent}
	raw, _ := json.Marshal(report, jsontext.PreserveRawStrings(true)) // of values that were parsed before
	return postgres.Outcome{
		Status: toolpark.Failed, By: toolpark.ByCommit, Title: o.Title, Metadata: o.Metadata, Rejected: raw,
		Error: &toolpark.TaskError{Key: toolpark.ErrOutputSchemaMismatch, Detail: complaint},
	}
}
