package envelope_test

import (
	"encoding/json/jsontext"
	"fmt"
	"strings"
	"testing"
	"time"
	"uuid"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/envelope"
)

const upload = "01900000-0000-7000-8000-000000000051"

// refusal parses fields that must be refused.
func refusal(t *testing.T, fields envelope.Fields) *toolpark.Error {
	t.Helper()
	_, err := envelope.Parse(fields)
	var e *toolpark.Error
	require.ErrorAs(t, err, &e, "got %v", err)
	return e
}

func content(raw string) envelope.Fields { return envelope.Fields{Content: jsontext.Value(raw)} }

func TestContentIsStoredAsBlocks(t *testing.T) {
	t.Parallel()
	link := `{"type":"resource_link","uri":"nexus://uploads/` + upload + `","name":"plot.png","mimeType":"image/png","size":12,"title":"Plot","description":"A plot"}`
	linkStored := `{"type":"resource_link","uri":"nexus://uploads/` + upload + `","name":"plot.png","title":"Plot","description":"A plot","mimeType":"image/png","size":12}`
	for _, tc := range []struct{ name, content, stored, output string }{
		{"a string", `"hello"`, `[{"type":"text","text":"hello"}]`, "hello"},
		{"one text block", `[{"type":"text","text":"hello"}]`, `[{"type":"text","text":"hello"}]`, "hello"},
		{"escapes do not matter", `"\u0068ello\/"`, `[{"type":"text","text":"hello/"}]`, "hello/"},
		{"key order does not matter", `[{"text":"hello","type":"text"}]`, `[{"type":"text","text":"hello"}]`, "hello"},
		{
			"blocks are joined by a newline", `[{"type":"text","text":"a"},{"type":"text","text":"b"}]`,
			`[{"type":"text","text":"a"},{"type":"text","text":"b"}]`, "a\nb",
		},
		{"white space around text stays", `" a\n"`, `[{"type":"text","text":" a\n"}]`, " a\n"},
		{
			"annotations and _meta are dropped", `[{"type":"text","text":"a","annotations":{"priority":1},"_meta":null}]`,
			`[{"type":"text","text":"a"}]`, "a",
		},
		{"the escaped escape is ordinary text", `"\\u0000"`, `[{"type":"text","text":"\\u0000"}]`, `\u0000`},
		{"markup is not escaped", `"<a href=\"x\">&"`, `[{"type":"text","text":"<a href=\"x\">&"}]`, `<a href="x">&`},
		{"white space around the value", " \n\"a\" ", `[{"type":"text","text":"a"}]`, "a"},
		{"an astral character", `"\ud83d\ude00"`, `[{"type":"text","text":"😀"}]`, "😀"},
		{"a link", "[" + link + "]", "[" + linkStored + "]", linkStored},
		{
			"a link between texts", `[{"type":"text","text":"a"},` + link + `,{"type":"text","text":"b"}]`,
			`[{"type":"text","text":"a"},` + linkStored + `,{"type":"text","text":"b"}]`, "a\n" + linkStored + "\nb",
		},
		{
			"a link with the least it needs", `[{"type":"resource_link","uri":"nexus://uploads/` + upload + `","name":""}]`,
			`[{"type":"resource_link","uri":"nexus://uploads/` + upload + `","name":""}]`,
			`{"type":"resource_link","uri":"nexus://uploads/` + upload + `","name":""}`,
		},

		{"absent is blank", ``, ``, ""},
		{"null is blank", `null`, ``, ""},
		{"no blocks are blank", `[]`, ``, ""},
		{"an empty string is blank", `""`, ``, ""},
		{"an empty block is blank", `[{"type":"text","text":""}]`, ``, ""},
		{"white space is blank", `[{"type":"text","text":" \t"},{"type":"text","text":"\u00a0\u3000\u2028"}]`, ``, ""},
		{"a zero width space is no white space", `"\u200b"`, "[{\"type\":\"text\",\"text\":\"\u200b\"}]", "\u200b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			fields := content(tc.content)
			if tc.content == "" {
				fields = envelope.Fields{}
			}
			report, err := envelope.Parse(fields)
			require.NoError(t, err)
			require.Equal(t, tc.stored, string(report.Content()))
			require.Equal(t, tc.output, report.Output)
			output, err := envelope.Output(report.Content())
			require.NoError(t, err)
			require.Equal(t, tc.output, output, "what is stored projects the same text")
		})
	}
}

func TestLinksAreListedInBlockOrder(t *testing.T) {
	t.Parallel()
	first, second := uuid.NewV7(), uuid.NewV7()
	report, err := envelope.Parse(content(fmt.Sprintf(
		`[{"type":"resource_link","uri":"nexus://uploads/%s","name":"a"},{"type":"text","text":"x"},{"type":"resource_link","uri":"nexus://uploads/%s","name":"b"}]`,
		second, first)))
	require.NoError(t, err)
	require.Equal(t, []uuid.UUID{second, first}, report.Links)
}

func TestContentRefusals(t *testing.T) {
	t.Parallel()
	link := func(members string) string {
		return `[{"type":"resource_link",` + members + `}]`
	}
	uri := `"uri":"nexus://uploads/` + upload + `"`
	for _, tc := range []struct {
		content string
		code    toolpark.Code
		pointer string
		says    string
	}{
		{`5`, toolpark.CodeInvalidContent, "/content", "content must be"},
		{`{}`, toolpark.CodeInvalidContent, "/content", "content must be"},
		{`false`, toolpark.CodeInvalidContent, "/content", "content must be"},
		{`[{"type":"text"}]`, toolpark.CodeInvalidContent, "/content/0/text", "content[0].text is missing"},
		{`[{"type":"text","text":5}]`, toolpark.CodeInvalidContent, "/content/0/text", "content[0].text must be a string"},
		{`[{"type":"text","text":null}]`, toolpark.CodeInvalidContent, "/content/0/text", "content[0].text must be a string"},
		{`[{"type":"text","text":"a"},{}]`, toolpark.CodeInvalidContent, "/content/1/type", "content[1].type is missing"},
		{`[{"type":5}]`, toolpark.CodeInvalidContent, "/content/0/type", "content[0].type must be a string"},
		{`[null]`, toolpark.CodeInvalidContent, "/content/0", "content[0] must be an object"},
		{`["text"]`, toolpark.CodeInvalidContent, "/content/0", "content[0] must be an object"},
		{`[{"type":"text","text":"a","Text":"b"}]`, toolpark.CodeInvalidContent, "/content/0/Text", "content[0].Text is not a field"},
		{`[{"type":"text","text":"a","a/b":1}]`, toolpark.CodeInvalidContent, "/content/0/a~1b", "content[0].a/b is not a field"},
		{`[{"type":"text","text":"a","name":"b"}]`, toolpark.CodeInvalidContent, "/content/0/name", "content[0].name is not a field"},
		{`[{"type":"hologram"}]`, toolpark.CodeUnsupportedContentKind, "/content/0/type", "content[0].type"},
		{`[{"type":"image","data":"","mimeType":"image/png"}]`, toolpark.CodeUnsupportedContentKind, "/content/0/type", "content[0].type"},
		{link(uri), toolpark.CodeInvalidContent, "/content/0/name", "content[0].name is missing"},
		{link(`"name":"a"`), toolpark.CodeInvalidContent, "/content/0/uri", "content[0].uri is missing"},
		{link(`"name":"a","uri":"https://example.com/x"`), toolpark.CodeInvalidContent, "/content/0/uri", "content[0].uri"},
		{link(`"name":"a","uri":"nexus://uploads/x"`), toolpark.CodeInvalidContent, "/content/0/uri", "content[0].uri"},
		{link(`"name":"a","uri":"nexus://uploads/{` + upload + `}"`), toolpark.CodeInvalidContent, "/content/0/uri", "content[0].uri"},
		{link(`"name":"a","uri":"nexus://uploads/0190000A-0000-7000-8000-000000000051"`), toolpark.CodeInvalidContent, "/content/0/uri", "content[0].uri"},
		{link(`"name":"a","size":"12",` + uri), toolpark.CodeInvalidContent, "/content/0/size", "content[0].size"},
		{link(`"name":"a","size":-1,` + uri), toolpark.CodeInvalidContent, "/content/0/size", "content[0].size"},
		{link(`"name":"a","size":1.5,` + uri), toolpark.CodeInvalidContent, "/content/0/size", "content[0].size"},
		{link(`"name":"a","mimeType":5,` + uri), toolpark.CodeInvalidContent, "/content/0/mimeType", "content[0].mimeType"},
		{link(`"name":"a","title":null,` + uri), toolpark.CodeInvalidContent, "/content/0/title", "content[0].title"},
		{link(`"name":"a","description":[],` + uri), toolpark.CodeInvalidContent, "/content/0/description", "content[0].description"},
		{link(`"name":"a","text":"b",` + uri), toolpark.CodeInvalidContent, "/content/0/text", "content[0].text is not a field"},
		{`[{"type":"text","text":"a","text":"b"}]`, toolpark.CodeInvalidContent, "/content/0/text", "twice"},
		{`[{"type":"text","text":"a","_meta":{"n":1e1001}}]`, toolpark.CodeInvalidContent, "/content/0/_meta/n", "exponent"},
	} {
		t.Run(tc.content, func(t *testing.T) {
			t.Parallel()
			e := refusal(t, content(tc.content))
			require.Equal(t, tc.code, e.Code)
			require.Equal(t, tc.pointer, e.Details["pointer"])
			require.Contains(t, e.Message, tc.says)
		})
	}
}

func TestTooManyBlocks(t *testing.T) {
	t.Parallel()
	blocks := func(n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(`{"type":"text","text":"a"},`, n), ",") + "]"
	}
	_, err := envelope.Parse(content(blocks(1000)))
	require.NoError(t, err)
	e := refusal(t, content(blocks(10_000)))
	require.Equal(t, toolpark.CodeTooManyContentBlocks, e.Code)
	require.Contains(t, e.Message, "1000")
}

func TestStructuredContentComesBackAsItCame(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		`null`, `false`, `0`, `""`, `[]`, `{}`,
		`{"id":9007199254740993,"big":12345678901234567890,"d":0.10,"a":{"z":1,"b":[1E+2]}}`,
	} {
		report, err := envelope.Parse(envelope.Fields{StructuredContent: jsontext.Value(value)})
		require.NoError(t, err)
		require.Equal(t, value, string(report.StructuredContent))
		require.Empty(t, report.Output, "structure never enters the text")
	}
	report, err := envelope.Parse(envelope.Fields{})
	require.NoError(t, err)
	require.Nil(t, report.StructuredContent)
}

func TestTheOtherFields(t *testing.T) {
	t.Parallel()
	report, err := envelope.Parse(envelope.Fields{
		ResultType: jsontext.Value(`"complete"`),
		IsError:    jsontext.Value(`true`),
		Outcome:    jsontext.Value(`"failed"`),
		Title:      jsontext.Value(`"Read\tnotes.txt"`),
		Metadata:   jsontext.Value(`{"checkpoint":null,"n":1.50}`),
	})
	require.NoError(t, err)
	require.True(t, report.IsError)
	require.True(t, report.Failed)
	require.Equal(t, "Read\tnotes.txt", report.Title)
	require.Equal(t, `{"checkpoint":null,"n":1.50}`, string(report.Metadata))

	null := jsontext.Value(`null`)
	report, err = envelope.Parse(envelope.Fields{
		Content: null, ResultType: null, IsError: null, Outcome: null, Title: null, Metadata: null,
	})
	require.NoError(t, err, "null reads as absent")
	require.Equal(t, envelope.Report{}, report)
}

func TestFieldRefusals(t *testing.T) {
	t.Parallel()
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, tc := range []struct {
		field, value string
		code         toolpark.Code
		pointer      string
	}{
		{"structured_content", `{"a":1,"a":1000}`, toolpark.CodeInvalidStructuredContent, "/structured_content/a"},
		{"structured_content", `{"x":[1,1e131072]}`, toolpark.CodeInvalidStructuredContent, "/structured_content/x/1"},
		{"structured_content", `1e-1001`, toolpark.CodeInvalidStructuredContent, "/structured_content"},
		{"structured_content", strings.Repeat("9", 1001), toolpark.CodeInvalidStructuredContent, "/structured_content"},
		{"structured_content", deep(129), toolpark.CodeInvalidStructuredContent, "/structured_content" + strings.Repeat("/0", 128)},
		{"result_type", `"incomplete"`, toolpark.CodeInvalidResultType, "/result_type"},
		{"result_type", `true`, toolpark.CodeInvalidResultType, "/result_type"},
		{"is_error", `"true"`, toolpark.CodeInvalidOutcome, "/is_error"},
		{"is_error", `1`, toolpark.CodeInvalidOutcome, "/is_error"},
		{"outcome", `"Completed"`, toolpark.CodeInvalidOutcome, "/outcome"},
		{"outcome", `"canceled"`, toolpark.CodeInvalidOutcome, "/outcome"},
		{"outcome", `{}`, toolpark.CodeInvalidOutcome, "/outcome"},
		{"title", `5`, toolpark.CodeInvalidTitle, "/title"},
		{"title", `"a\nb"`, toolpark.CodeInvalidTitle, "/title"},
		{"title", `"a\u2028b"`, toolpark.CodeInvalidTitle, "/title"},
		{"title", `"` + strings.Repeat("é", 129) + `"`, toolpark.CodeInvalidTitle, "/title"},
		{"metadata", `[]`, toolpark.CodeInvalidMetadata, "/metadata"},
		{"metadata", `"x"`, toolpark.CodeInvalidMetadata, "/metadata"},
		{"metadata", `{"a":{"b":1,"b":2}}`, toolpark.CodeInvalidMetadata, "/metadata/a/b"},
		{"metadata", `{"n":1e999}`, "", ""}, // within the bound
		{"metadata", `{"n":1e9999}`, toolpark.CodeInvalidMetadata, "/metadata/n"},
		{"metadata", `{"a":` + deep(128) + `}`, toolpark.CodeInvalidMetadata, "/metadata/a" + strings.Repeat("/0", 127)},
		{"metadata", `{"a":"` + strings.Repeat("x", 64<<10) + `"}`, toolpark.CodeMetadataTooLarge, "/metadata"},
	} {
		t.Run(tc.field+" "+tc.value[:min(len(tc.value), 24)], func(t *testing.T) {
			t.Parallel()
			fields := with(tc.field, tc.value)
			if tc.code == "" {
				_, err := envelope.Parse(fields)
				require.NoError(t, err)
				return
			}
			e := refusal(t, fields)
			require.Equal(t, tc.code, e.Code)
			require.Equal(t, tc.pointer, e.Details["pointer"])
		})
	}
}

// with is a report of one field.
func with(field, value string) envelope.Fields {
	raw := jsontext.Value(value)
	switch field {
	case "content":
		return envelope.Fields{Content: raw}
	case "structured_content":
		return envelope.Fields{StructuredContent: raw}
	case "result_type":
		return envelope.Fields{ResultType: raw}
	case "is_error":
		return envelope.Fields{IsError: raw}
	case "outcome":
		return envelope.Fields{Outcome: raw}
	case "title":
		return envelope.Fields{Title: raw}
	case "metadata":
		return envelope.Fields{Metadata: raw}
	}
	panic("no such field: " + field)
}

func TestSizeIsBoundedOverTheWhole(t *testing.T) {
	t.Parallel()
	quoted := func(n int, with string) jsontext.Value {
		return jsontext.Value(`"` + strings.Repeat(with, n) + `"`)
	}
	t.Run("text and structure together", func(t *testing.T) {
		t.Parallel()
		e := refusal(t, envelope.Fields{Content: quoted(900<<10, "a"), StructuredContent: quoted(900<<10, "b")})
		require.Equal(t, toolpark.CodeResultTooLarge, e.Code)
		require.Contains(t, e.Message, "1048576")
	})
	t.Run("to the byte, markup unescaped", func(t *testing.T) {
		t.Parallel()
		report, err := envelope.Parse(envelope.Fields{Content: quoted(toolpark.MaxResult-2, "<")})
		require.NoError(t, err)
		require.Len(t, report.Output, toolpark.MaxResult-2)
		require.Equal(t, toolpark.CodeResultTooLarge,
			refusal(t, envelope.Fields{Content: quoted(toolpark.MaxResult-1, "<")}).Code)
	})
	t.Run("spelling does not count", func(t *testing.T) {
		t.Parallel()
		_, err := envelope.Parse(envelope.Fields{Content: quoted(toolpark.MaxResult-2, `\u0061`)})
		require.NoError(t, err)
	})
	t.Run("a bound that is broken by nothing but unreadable text", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, toolpark.CodeResultUnstorable,
			refusal(t, envelope.Fields{Content: quoted(900<<10, "\xff")}).Code)
	})
}

func TestUnstorableText(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ field, value, pointer string }{
		{"content", `"a\u0000b"`, "/content"},
		{"content", "\"a\xffb\"", "/content"},
		{"content", `[{"type":"text","text":"a\ud83db"}]`, "/content/0/text"},
		{"content", `[{"type":"text","text":"a","_meta":{"k":"\udc00"}}]`, "/content/0/_meta/k"},
		{"structured_content", `{"a":["\u0000"]}`, "/structured_content/a/0"},
		{"structured_content", `{"k\u0000":1}`, "/structured_content/k\uFFFD"},
		{"structured_content", `"\ud800"`, "/structured_content"},
		{"structured_content", `{"\ud800":1,"\ud801":2}`, "/structured_content/\uFFFD"},
		{"structured_content", `{"a":[{"?":0,"\udc00b":1,"\udc01b":2}]}`, "/structured_content/a/0/\uFFFDb"},
		{"structured_content", "{\"\xff\":1,\"\xfe\":2}", "/structured_content/\uFFFD"},
		{"content", `[{"type":"text","text":"a","_meta":{"\ud800":1,"\ud801":2}}]`, "/content/0/_meta/\uFFFD"},
		{"metadata", `{"\ud800":1,"\ud801":2,"?":3}`, "/metadata/\uFFFD"},
		{"title", `"a\u0000"`, "/title"},
		{"title", `"` + strings.Repeat("\xff", 200) + `"`, "/title"},
		{"metadata", `{"checkpoint":"\u0000"}`, "/metadata/checkpoint"},
	} {
		t.Run(tc.field+" "+tc.value[:min(len(tc.value), 24)], func(t *testing.T) {
			t.Parallel()
			e := refusal(t, with(tc.field, tc.value))
			require.Equal(t, toolpark.CodeResultUnstorable, e.Code)
			require.Equal(t, tc.pointer, e.Details["pointer"])
			require.True(t, strings.HasPrefix(e.Message, "unsupported_text: "), e.Message)
			require.NotContains(t, e.Message, "\x00")
		})
	}
}

func TestGrammarIsJudgedBeforeStorability(t *testing.T) {
	t.Parallel()
	for name, fields := range map[string]envelope.Fields{
		string(toolpark.CodeInvalidOutcome): {
			Content: jsontext.Value(`"\u0000"`), Outcome: jsontext.Value(`"no"`),
		},
		string(toolpark.CodeInvalidStructuredContent): {
			StructuredContent: jsontext.Value(`["\ud800",1e9999]`),
		},
		string(toolpark.CodeInvalidMetadata): {
			Metadata: jsontext.Value(`{"\ud800":1,"\ud800":2}`),
		},
		string(toolpark.CodeInvalidContent): {
			Content: jsontext.Value("[{\"type\":\"text\",\"text\":\"\xff\"},null]"),
		},
		string(toolpark.CodeInvalidTitle): {
			Content: jsontext.Value(`"\u0000"`), Title: jsontext.Value(`"a\nb"`),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, name, string(refusal(t, fields).Code))
		})
	}
}

func TestDeepAndLongValuesAreRefusedFast(t *testing.T) {
	t.Parallel()
	start := time.Now()
	for _, depth := range []int{1_000, 20_000} {
		e := refusal(t, with("structured_content", strings.Repeat(`{"a":`, depth)+"1"+strings.Repeat("}", depth)))
		require.Equal(t, toolpark.CodeInvalidStructuredContent, e.Code)
	}
	e := refusal(t, with("structured_content", "["+strings.Repeat("1e131071,", 99)+"1e131071]"))
	require.Equal(t, toolpark.CodeInvalidStructuredContent, e.Code)
	require.Less(t, time.Since(start), time.Second)
}
