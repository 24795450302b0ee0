package schema_test

import (
	"encoding/json/jsontext"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/schema"
)

func check(t *testing.T, document, instance string) []schema.Complaint {
	t.Helper()
	return compiled(t, document).Check(jsontext.Value(instance))
}

func TestNumbersAreExact(t *testing.T) {
	t.Parallel()
	const document = `{"type":"object","properties":{"id":{"type":"integer","maximum":9007199254740992},"d":{"multipleOf":0.01}}}`
	require.Empty(t, check(t, document, `{"id":9007199254740992,"d":0.10}`))
	require.Equal(t, []schema.Complaint{{Pointer: "/id", Reason: "9007199254740993 should be at most 9007199254740992"}},
		check(t, document, `{"id":9007199254740993,"big":12345678901234567890,"d":0.10}`))
	require.Len(t, check(t, `{"enum":[9007199254740992]}`, `9007199254740993`), 1)
	require.Empty(t, check(t, `{"const":12345678901234567890}`, `12345678901234567890`))
	require.Empty(t, check(t, `{"type":"integer"}`, `1.0`))
	require.Len(t, check(t, `{"type":"integer"}`, `1e-1000`), 1)
}

func TestAnnotationsNeverRefuse(t *testing.T) {
	t.Parallel()
	const document = `{"type":"object","properties":{
		"a":{"contentEncoding":"base64"},
		"b":{"contentMediaType":"application/json","contentSchema":{"type":"object"}},
		"c":{"contentEncoding":"rot13","contentMediaType":"x/y"},
		"d":{"format":"email"},"e":{"format":"no such format"},
		"f":{"default":5,"type":"string","x-internal":{"type":"nubmer"}}}}`
	require.Empty(t, check(t, document, `{"a":"!!","b":"{","c":"z","d":"nobody","e":"x","f":"s"}`))
	require.Len(t, check(t, document, `{"f":5}`), 1)
}

func TestDialects(t *testing.T) {
	t.Parallel()
	require.Empty(t, check(t, `{`+seven+`,"items":[{"type":"string"}],"additionalItems":{"type":"number"}}`, `["a",1]`))
	require.Len(t, check(t, `{`+seven+`,"items":[{"type":"string"}],"additionalItems":{"type":"number"}}`, `[1,"a"]`), 2)
	require.Len(t, check(t, `{`+seven+`,"dependencies":{"a":["b"]}}`, `{"a":1}`), 1)
	require.Empty(t, check(t, `{`+seven+`,"prefixItems":[{"type":"string"}]}`, `[1]`), "draft 7 does not know prefixItems")
	require.Len(t, check(t, `{"prefixItems":[{"type":"string"}]}`, `[1]`), 1)
	require.Len(t, check(t, `{"$schema":"http://json-schema.org/draft-04/schema#","maximum":5,"exclusiveMaximum":true}`, `5`), 1)
	require.Empty(t, check(t, `{"$schema":"http://json-schema.org/draft-06/schema#","if":true,"then":false}`, `5`), "draft 6 does not know if")
	require.Len(t, check(t, `{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"type":"object","additionalProperties":{"$recursiveRef":"#"}}`, `{"a":{"b":1}}`), 1)
	require.Len(t, check(t, `{"$dynamicAnchor":"n","type":"object","additionalProperties":{"$dynamicRef":"#n"}}`, `{"a":{"b":1}}`), 1)
	require.Len(t, check(t, `{"$ref":"#/definitions/a","definitions":{"a":{"type":"null"}},"$defs":{"b":{}}}`, `5`), 1)
}

func TestRecursiveSchemas(t *testing.T) {
	t.Parallel()
	const tree = `{"type":"object","properties":{"rows":{"type":"array","items":{
		"type":"object","properties":{"id":{"type":"integer"},"rows":{"type":"array","items":{"$ref":"#/properties/rows/items"}}}}}}}`
	require.Empty(t, check(t, tree, `{"rows":[{"id":1,"rows":[{"id":2,"rows":[]}]}]}`))
	require.Equal(t, []schema.Complaint{{Pointer: "/rows/0/rows/1/rows/0/id", Reason: "must be of type integer, not string"}},
		check(t, tree, `{"rows":[{"id":1,"rows":[{"id":2},{"id":3,"rows":[{"id":"x"}]}]}]}`))

	const mutual = `{"$ref":"#/$defs/a","$defs":{
		"a":{"type":"object","properties":{"b":{"$ref":"#/$defs/b"}},"additionalProperties":false},
		"b":{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"additionalProperties":false}}}`
	require.Empty(t, check(t, mutual, `{"b":{"a":{"b":{}}}}`))
	require.Equal(t, []schema.Complaint{{Pointer: "/b/a/a", Reason: "this property is not known; remove it or correct its spelling"}},
		check(t, mutual, `{"b":{"a":{"a":{}}}}`))
}

func TestValuesAreJudgedAsTheyAre(t *testing.T) {
	t.Parallel()
	values := map[string]string{"null": "null", "false": "boolean", "0": "integer", `""`: "string", "[]": "array", "{}": "object"}
	for value, is := range values {
		for _, wanted := range []string{"null", "boolean", "integer", "string", "array", "object"} {
			got := check(t, fmt.Sprintf(`{"type":%q}`, wanted), value)
			if is == wanted {
				require.Empty(t, got)
				continue
			}
			require.Equal(t, []schema.Complaint{{Reason: fmt.Sprintf("must be of type %s, not %s", wanted, is)}}, got)
		}
		require.Empty(t, check(t, `true`, value))
		require.Len(t, check(t, `false`, value), 1)
	}
	require.Len(t, compiled(t, `true`).Check(nil), 1, "no value at all")
}

func TestComplaints(t *testing.T) {
	t.Parallel()
	type complaints = []schema.Complaint
	for name, tc := range map[string]struct {
		document, instance string
		want               complaints
	}{
		"only the leaf of many levels": {
			`{"properties":{"a":{"allOf":[{"items":{"$ref":"#/$defs/n"}}]}},"$defs":{"n":{"minimum":3}}}`, `{"a":[4,1]}`,
			complaints{{"/a/1", "1 should be at least 3"}},
		},
		"escapes in pointers": {
			`{"properties":{"a/b":{"properties":{"~":{"type":"null"},"":{"type":"null"}}}}}`, `{"a/b":{"~":1,"":2}}`,
			complaints{{"/a~1b/", "must be of type null, not integer"}, {"/a~1b/~0", "must be of type null, not integer"}},
		},
		"nothing below a missing property": {
			`{"type":"object","required":["path"],"properties":{"path":{"type":"string","minLength":1}}}`, `{}`,
			complaints{{"", "the required property 'path' is missing"}},
		},
		"several missing, and one wrong": {
			`{"required":["b","a"],"properties":{"a":{"type":"string"},"b":{"type":"object","required":["c"]},"d":{"type":"null"}}}`, `{"d":1}`,
			complaints{{"", "the required properties 'b', 'a' are missing"}, {"/d", "must be of type null, not integer"}},
		},
		"unknown properties": {
			`{"properties":{"a":true},"additionalProperties":false}`, `{"a":1,"b":2,"c":3}`,
			complaints{
				{"/b", "this property is not known; remove it or correct its spelling"},
				{"/c", "this property is not known; remove it or correct its spelling"},
			},
		},
		"a condition is not to blame": {
			`{"if":{"required":["x"]},"then":{"required":["y"]},"else":{"required":["z"]}}`, `{}`,
			complaints{{"", "the required property 'z' is missing"}},
		},
		"a negation": {`{"not":{"type":"string"}}`, `"x"`, complaints{{"", "Value should not match the not schema"}}},
		"too many branches": {
			`{"oneOf":[{"type":"integer"},{"minimum":0},{"type":"string"}]}`, `5`,
			complaints{{"", "Value should match exactly one schema but matches multiple at indexes 0, 1"}},
		},
		"no branch": {
			`{"anyOf":[{"type":"string"},{"type":"null"}]}`, `5`,
			complaints{{"", "must be of type null, not integer"}, {"", "must be of type string, not integer"}},
		},
		"a branch that matched is not to blame for another keyword": {
			`{"anyOf":[{"type":"string"},{"type":"integer"}],"minimum":9}`, `5`,
			complaints{{"", "5 should be at least 9"}},
		},
		"a dependent schema": {
			`{"dependentSchemas":{"a":{"required":["b"]}}}`, `{"a":1}`,
			complaints{{"", "the required property 'b' is missing"}},
		},
		"a property's name": {
			`{"propertyNames":{"pattern":"^[a-z]+$"}}`, `{"A1":1}`,
			complaints{{"/A1", "must match the pattern ^[a-z]+$"}},
		},
		"a choice": {`{"enum":["a",1,null]}`, `"secret"`, complaints{{"", "must be one of: \"a\", 1, null"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := compiled(t, tc.document)
			for range 5 {
				require.Equal(t, tc.want, s.Check(jsontext.Value(tc.instance)))
			}
		})
	}
	t.Run("at most ten, always the same", func(t *testing.T) {
		t.Parallel()
		var members []string
		for i := range 50 {
			members = append(members, fmt.Sprintf(`"k%02d":%d`, i, i))
		}
		s := compiled(t, `{"additionalProperties":{"type":"string"}}`)
		first := s.Check(jsontext.Value("{" + strings.Join(members, ",") + "}"))
		require.Len(t, first, toolpark.MaxSchemaComplaints)
		require.Equal(t, "/k00", first[0].Pointer)
		require.Equal(t, "/k09", first[9].Pointer)
		for range 10 {
			require.Equal(t, first, s.Check(jsontext.Value("{"+strings.Join(members, ",")+"}")))
		}
	})
	t.Run("long values are cut between characters", func(t *testing.T) {
		t.Parallel()
		got := check(t, `{"enum":["`+strings.Repeat("天", 500)+`"],"propertyNames":{"maxLength":3}}`, `{"`+strings.Repeat("気", 500)+`":1}`)
		require.Len(t, got, 2)
		for _, c := range got {
			require.LessOrEqual(t, len(c.Pointer), 512)
			require.LessOrEqual(t, len(c.Reason), 256)
			require.True(t, utf8.ValidString(c.Pointer) && utf8.ValidString(c.Reason))
		}
	})
}

func TestChecksThatTakeTooManySteps(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ document, instance string }{
		"a grammar that branches": {`{"oneOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]}`, nested(100, `{"a":`, "1", "}")},
		"a large enum":            {`{"items":{"enum":[` + many(20_000, "12345678") + `]}}`, "[" + many(10_000, "87654321") + "]"},
		"a greedy pattern":        {`{"pattern":"^(a?){1000}$"}`, `"` + strings.Repeat("a", 1<<20) + `"`},
		"hard numbers":            {`{"items":{"multipleOf":1e-1000}}`, "[" + many(100_000, "1e-999") + "]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, []schema.Complaint{{Reason: "checking this value takes too many steps; send a smaller or flatter one"}},
				check(t, tc.document, tc.instance))
		})
	}
	t.Run("large but ordinary values are checked", func(t *testing.T) {
		t.Parallel()
		s := compiled(t, ordinary)
		rows := many(15_000, `{"name":"some ordinary text","kind":"c","n":12.5}`)
		require.Empty(t, s.Check(jsontext.Value(`{"rows":[`+rows+`],"text":"`+strings.Repeat("x", 200<<10)+`"}`)))
	})
}

const ordinary = `{"type":"object","properties":{"rows":{"type":"array","items":{"type":"object",
	"properties":{"name":{"type":"string","pattern":"^[a-z ]+$"},"kind":{"enum":["a","b","c","d","e"]},"n":{"type":"number","minimum":0}},
	"required":["name"],"additionalProperties":false}},"text":{"type":"string"}}}`

// The values of one request cost little more together than one of them may, and none pays for its
// neighbours.
func TestABudgetBoundsAllChecksOfARequest(t *testing.T) {
	t.Parallel()
	budget := schema.NewBudget()
	s := compiled(t, `{"properties":{"a":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}}`)
	value := func(depth int) jsontext.Value { return jsontext.Value(nested(depth, `{"a":`, "1", "}")) }
	require.Empty(t, s.CheckWithin(value(10), budget))
	for range 126 {
		s.CheckWithin(value(10), budget)
	}
	require.NotEmpty(t, s.CheckWithin(value(10), budget), "the request has had its share")
	require.Empty(t, s.CheckWithin(value(5), budget), "an ordinary value is checked all the same")
	rows := many(1_300, `{"name":"some ordinary text","kind":"c","n":12.5}`)
	require.Empty(t, compiled(t, ordinary).CheckWithin(jsontext.Value(`{"rows":[`+rows+`]}`), budget), "and a large one too")
}

const typicalTool = `{"type":"object","properties":{
	"path":{"type":"string","description":"A path.","minLength":1,"maxLength":4096},
	"mode":{"type":"string","enum":["read","write","append"]},
	"lines":{"type":"array","items":{"type":"object","properties":{"n":{"type":"integer","minimum":1},"text":{"type":"string"}},"required":["n","text"]}},
	"options":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/options"}]}},
	"required":["path"],"additionalProperties":false,
	"$defs":{"options":{"type":"object","properties":{"dry_run":{"type":"boolean"},"limit":{"type":"number","exclusiveMinimum":0}}}}}`

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := schema.CompileObject(jsontext.Value(typicalTool)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	s := compiled(b, typicalTool)
	instance := jsontext.Value(`{"path":"/r.txt","mode":"write","lines":[{"n":1,"text":"one"},{"n":2,"text":"two"}],"options":{"dry_run":true,"limit":10}}`)
	b.ReportAllocs()
	for b.Loop() {
		if got := s.Check(instance); got != nil {
			b.Fatal(got)
		}
	}
}
