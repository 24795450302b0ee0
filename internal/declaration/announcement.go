package declaration

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"strconv"
	"strings"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/catalog"
	"github.com/toolpark/toolpark/internal/form"
	"github.com/toolpark/toolpark/internal/strictjson"
	"github.com/toolpark/toolpark/schema"
)

// Announcement is what an executor says it serves. It replaces the one before it whole.
type Announcement struct {
	Tools       []AnnouncedTool // in the order announced; names are unique
	Environment jsontext.Value  // an object, verbatim; {} when none was sent
	Documents   jsontext.Value  // a list, verbatim; [] when none was sent
}

// AnnouncedTool is one served tool.
type AnnouncedTool struct {
	Name          string // as the executor spells it, byte for byte
	EffectProfile toolpark.EffectProfile
	TimeoutMS     *int64         // the deadline of a call that names none
	ModelVisible  bool           // it has a description and an input schema; else an operator's capability
	OutputSchema  jsontext.Value // verbatim; nil when it promises nothing
	Entry         jsontext.Value // the whole entry, verbatim
}

// ParseAnnouncement reads the body of an announcement. The body has passed strictjson.Check. Refusals
// are a *toolpark.Error:
//   - parameter_missing without tools, parameter_invalid for an unknown field of the body;
//   - validation_failed when a list or the environment is over its bound;
//   - invalid_announcement when any entry is bad, with every bad one in the detail "entries"
//     ([]form.Problem), so that a bridge can leave those out and announce the rest;
//   - reserved_namespace when a tool bears a name that is the kernel's, likewise with "entries".
func ParseAnnouncement(body jsontext.Value) (Announcement, error) {
	var fields struct {
		Tools       jsontext.Value `json:"tools"`
		Environment jsontext.Value `json:"environment"`
		Documents   jsontext.Value `json:"documents"`
	}
	if err := strictjson.Decode(body, &fields); err != nil {
		return Announcement{}, err
	}
	if fields.Tools == nil {
		return Announcement{}, toolpark.Errorf(toolpark.CodeParameterMissing,
			"tools is missing; send the list of all tools served, [] for none.").At("/tools")
	}
	if fields.Environment == nil {
		fields.Environment = jsontext.Value(`{}`)
	}
	if fields.Documents == nil {
		fields.Documents = jsontext.Value(`[]`)
	}
	for _, bound := range []struct {
		field string
		value jsontext.Value
		bytes int
	}{
		{"tools", fields.Tools, toolpark.MaxAnnouncedTools},
		{"environment", fields.Environment, toolpark.MaxEnvironment},
		{"documents", fields.Documents, toolpark.MaxAnnouncedDocs},
	} {
		if err := bounded(bound.field, bound.value, bound.bytes); err != nil {
			return Announcement{}, err
		}
	}
	var problems []form.Problem
	tools := announcedTools(fields.Tools, &problems)
	if fields.Environment.Kind() != jsontext.KindBeginObject {
		problems = append(problems, form.At("/environment", "must be an object"))
	}
	form.Storable(fields.Environment, "/environment", &problems)
	announcedDocuments(fields.Documents, &problems)
	if len(problems) > 0 {
		return Announcement{}, refuseEntries(toolpark.CodeInvalidAnnouncement, problems)
	}
	if reserved := reservedTools(tools); len(reserved) > 0 {
		return Announcement{}, refuseEntries(toolpark.CodeReservedNamespace, reserved)
	}
	return Announcement{Tools: tools, Environment: fields.Environment, Documents: fields.Documents}, nil
}

// bounded refuses a field that takes too many bytes as canonical JSON.
func bounded(field string, value jsontext.Value, limit int) error {
	canonical, err := strictjson.Canonical(value)
	if err != nil {
		return toolpark.Errorf(toolpark.CodeValidationFailed, "%s cannot be read: %s.", field, err).At("/" + field)
	}
	if len(canonical) > limit {
		return toolpark.Errorf(toolpark.CodeValidationFailed,
			"%s takes %d bytes; it may have %d.", field, len(canonical), limit).At("/" + field)
	}
	return nil
}

// refuseEntries names the first problem in the message and all of them in the details.
func refuseEntries(code toolpark.Code, problems []form.Problem) error {
	first := problems[0]
	return toolpark.Errorf(code, "%s %s.", first.Path, first.Message).At(string(first.Pointer)).With("entries", problems)
}

// list reads a field that holds a list; its problem is noted when it does not.
func list(value jsontext.Value, at jsontext.Pointer, problems *[]form.Problem) []jsontext.Value {
	var entries []jsontext.Value
	if value.Kind() != jsontext.KindBeginArray || json.Unmarshal(value, &entries) != nil {
		*problems = append(*problems, form.At(at, "must be a list"))
		return nil
	}
	return entries
}

func announcedTools(value jsontext.Value, problems *[]form.Problem) []AnnouncedTool {
	entries := list(value, "/tools", problems)
	tools := make([]AnnouncedTool, len(entries))
	first := make(map[string]int, len(entries))
	for i, entry := range entries {
		at := jsontext.Pointer("/tools").AppendToken(strconv.Itoa(i))
		tools[i] = announcedTool(entry, at, problems)
		name := tools[i].Name
		if earlier, ok := first[name]; ok && name != "" {
			*problems = append(*problems, form.At(at+"/name", "%s is announced by tools[%d] already", quote(name), earlier))
			continue
		}
		first[name] = i
	}
	return tools
}

// announcedTool reads one entry. A name that is not acceptable reads as "".
func announcedTool(entry jsontext.Value, at jsontext.Pointer, problems *[]form.Problem) AnnouncedTool {
	tool := AnnouncedTool{Entry: entry}
	o, ok := form.Open(entry, at, problems)
	if !ok {
		return tool
	}
	if name := o.Text("name", true); name != nil {
		if reason := servedNameFlaw(*name); reason != "" {
			o.Note("name", "%s %s", quote(*name), reason)
		} else {
			tool.Name = *name
		}
	}
	if profile := o.Take("effect_profile", true); profile != nil {
		tool.EffectProfile = effectProfile(profile, at+"/effect_profile", problems)
	}
	tool.TimeoutMS = timeout(o)
	description := label(o, "description")
	label(o, "title")
	label(o, "capability") // groups tools by owner
	input := o.Take("input_schema", false)
	if input != nil {
		if _, err := schema.CompileObject(input); err != nil {
			*problems = append(*problems, schemaProblem(err, at+"/input_schema"))
		}
	}
	tool.ModelVisible = description != nil && input != nil
	if tool.OutputSchema = o.Take("output_schema", false); tool.OutputSchema != nil {
		if _, err := schema.Compile(tool.OutputSchema); err != nil { // unlike an input, a result may be any value
			*problems = append(*problems, schemaProblem(err, at+"/output_schema"))
		}
	}
	o.Rest()
	form.Storable(entry, at, problems)
	return tool
}

// timeout takes a tool's own deadline in milliseconds.
func timeout(o form.Object) *int64 {
	value := o.Take("timeout_ms", false)
	if value == nil {
		return nil
	}
	ms, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil || ms < toolpark.MinToolTimeout.Milliseconds() || ms > toolpark.MaxToolTimeout.Milliseconds() {
		o.Note("timeout_ms", "must be a whole number from %d to %d",
			toolpark.MinToolTimeout.Milliseconds(), toolpark.MaxToolTimeout.Milliseconds())
		return nil
	}
	return &ms
}

// label takes a text for people; nil when there is none. An empty one says nothing and is a mistake.
func label(o form.Object, member string) *string {
	text := o.Text(member, false)
	if text != nil && strings.TrimSpace(*text) == "" {
		o.Note(member, "must not be empty; leave it out instead")
	}
	return text
}

// reservedTools are the tools whose names only the kernel may serve.
func reservedTools(tools []AnnouncedTool) []form.Problem {
	var problems []form.Problem
	for i, tool := range tools {
		if catalog.InReservedNamespace(tool.Name) {
			at := jsontext.Pointer("/tools").AppendToken(strconv.Itoa(i)).AppendToken("name")
			problems = append(problems, form.At(at, "%s is a name that only the kernel serves; serve the tool under another name", quote(tool.Name)))
		}
	}
	return problems
}
