package schema_test

import (
	"encoding/json/jsontext"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	oracle "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/strictjson"
	"github.com/toolpark/toolpark/schema"
)

// refused asserts a validation failure at a place of the schema and returns its message.
func refused(t *testing.T, err error, pointer string) string {
	t.Helper()
	var e *toolpark.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, toolpark.CodeValidationFailed, e.Code)
	require.Equal(t, pointer, e.Details["pointer"], e.Message)
	return e.Message
}

func compiled(t testing.TB, document string) *schema.Schema {
	t.Helper()
	s, err := schema.Compile(jsontext.Value(document))
	require.NoError(t, err)
	return s
}

func TestCompileRefusesNonsense(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ document, pointer, says string }{
		"no JSON":                     {`{"type":`, "/type", "cut off"},
		"a key twice":                 {`{"type":"object","type":"string"}`, "/type", "twice"},
		"a number":                    {`5`, "", "a schema must be an object"},
		"null inside":                 {`{"properties":{"a":null}}`, "/properties/a", "a schema must be an object"},
		"a type that is none":         {`{"type":"strng"}`, "/type", `"type" must be one of "null"`},
		"a type that is none, inside": {`{"type":"object","properties":{"n":{"type":"nubmer"}}}`, "/properties/n/type", `"type" must be one of`},
		"no types":                    {`{"type":[]}`, "/type", `"type" must be one of`},
		"a type twice":                {`{"type":["string","string"]}`, "/type", `"type" must be one of`},
		"an empty enum":               {`{"properties":{"a":{"enum":[]}}}`, "/properties/a/enum", "at least one value"},
		"an enum that is no array":    {`{"enum":"a"}`, "/enum", "at least one value"},
		"a required that is no array": {`{"required":"a"}`, "/required", "different strings"},
		"a required name twice":       {`{"required":["a","a"]}`, "/required", "different strings"},
		"a required number":           {`{"required":[5]}`, "/required", "different strings"},
		"a negative length":           {`{"minLength":-1}`, "/minLength", "whole number"},
		"a broken count":              {`{"maxItems":1.5}`, "/maxItems", "whole number"},
		"a zero multiple":             {`{"multipleOf":0}`, "/multipleOf", "above zero"},
		"a text as a bound":           {`{"maximum":"5"}`, "/maximum", "must be a number"},
		"no branches":                 {`{"anyOf":[]}`, "/anyOf", "at least one schema"},
		"items as a tuple":            {`{"items":[{"type":"string"}]}`, "/items", "a schema must be an object"},
		"properties as a list":        {`{"properties":["a"]}`, "/properties", "object of schemas"},
		"a title that is a number":    {`{"title":5}`, "/title", "must be a string"},
		"a look-ahead":                {`{"properties":{"p":{"pattern":"^(?=.*\\d).+$"}}}`, "/properties/p/pattern", "no look-around"},
		"a look-ahead as a name":      {`{"patternProperties":{"(?!x)":{}}}`, "/patternProperties/(?!x)", "no look-around"},
		"a back-reference":            {`{"pattern":"(a)\\1"}`, "/pattern", "no back-references"},
		"a pattern that explodes":     {`{"pattern":"` + strings.Repeat("(abcdefghij){1000}", 3) + `"}`, "/pattern", "repeats too much"},
		"a long pattern":              {`{"pattern":"` + strings.Repeat("a", 5000) + `"}`, "/pattern", "5000 bytes"},
		"another dialect inside":      {`{"properties":{"a":{"$schema":"http://json-schema.org/draft-07/schema#"}}}`, "/properties/a/$schema", "one dialect"},
		"a key with a slash":          {`{"properties":{"a/b~":{"type":"nil"}}}`, "/properties/a~1b~0/type", "must be one of"},
		"one anchor for two":          {`{"$defs":{"a":{"$anchor":"x"},"b":{"$anchor":"x"}}}`, "/$defs/b/$anchor", "an anchor names one schema"},
		"a dynamic anchor twice":      {`{"$defs":{"a":{"$dynamicAnchor":"x"},"b":{"$id":"b","$dynamicAnchor":"x"}}}`, "/$defs/b/$dynamicAnchor", "only one schema"},
		"one name defined twice":      {`{"$defs":{"a":{}},"definitions":{"a":{"type":"string"}}}`, "/definitions/a", "defined twice"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := schema.Compile(jsontext.Value(tc.document))
			require.Contains(t, refused(t, err, tc.pointer), tc.says)
		})
	}
}

func TestCompileBounds(t *testing.T) {
	t.Parallel()
	deep := func(levels int) string {
		return strings.Repeat(`{"not":`, levels-1) + "{}" + strings.Repeat("}", levels-1)
	}
	t.Run("bytes", func(t *testing.T) {
		t.Parallel()
		document := `{"type":"object","description":"` + strings.Repeat("x", toolpark.MaxSchema) + `"}`
		_, err := schema.Compile(jsontext.Value(document))
		require.Contains(t, refused(t, err, ""), "at most 262144")
	})
	t.Run("nesting", func(t *testing.T) {
		t.Parallel()
		compiled(t, deep(toolpark.MaxSchemaDepth))
		for _, levels := range []int{toolpark.MaxSchemaDepth + 1, 100, 1000, 20_000} {
			_, err := schema.Compile(jsontext.Value(deep(levels)))
			require.Contains(t, refused(t, err, strings.Repeat("/not", toolpark.MaxSchemaDepth)), "64 levels")
		}
	})
	t.Run("the number of schemas", func(t *testing.T) {
		t.Parallel()
		_, err := schema.Compile(jsontext.Value(`{"anyOf":[` + strings.Repeat("{},", 20_000) + `{}]}`))
		require.Contains(t, refused(t, err, "/anyOf/9999"), "more than 10000 schemas")
	})
	t.Run("references that double", func(t *testing.T) {
		t.Parallel()
		_, err := schema.Compile(jsontext.Value(doubled(20)))
		require.Contains(t, refused(t, err, "/$defs/d11"), "visit more than 5000 schemas")
		require.Empty(t, compiled(t, doubled(8)).Check(jsontext.Value(`"x"`)))
	})
	t.Run("references in a row", func(t *testing.T) {
		t.Parallel()
		var defs []string
		for i := range 400 {
			defs = append(defs, fmt.Sprintf(`"c%03d":{"$ref":"#/$defs/c%03d"}`, i, i+1))
		}
		_, err := schema.Compile(jsontext.Value(`{"$defs":{` + strings.Join(defs, ",") + `,"c400":{}}}`))
		require.Contains(t, refused(t, err, "/$defs/c150"), "flatten")
	})
	t.Run("schemas in schemas", func(t *testing.T) {
		t.Parallel()
		_, err := schema.Compile(jsontext.Value(`{"$defs":{` + many(100, `"%d":`+deep(60)) + `}}`))
		require.Error(t, err)
		require.Contains(t, err.Error(), "move some into $defs")
	})
	t.Run("digits", func(t *testing.T) {
		t.Parallel()
		_, err := schema.Compile(jsontext.Value(`{"anyOf":[` + many(2000, `{"maximum":1e999}`) + `]}`))
		require.Contains(t, refused(t, err, "/anyOf/1044/maximum"), "more than 1048576 digits")
	})
	t.Run("one pattern in many places", func(t *testing.T) {
		t.Parallel()
		_, err := schema.Compile(jsontext.Value(`{"anyOf":[` + many(10, `{"pattern":"(abcdefg){1000}"}`) + `]}`))
		require.Contains(t, refused(t, err, "/anyOf/5/pattern"), "repeats too much")
	})
	t.Run("classes of Unicode", func(t *testing.T) {
		t.Parallel()
		compiled(t, `{"pattern":"^[\\p{L}\\p{M}\\p{N} .'-]+$"}`)
		compiled(t, `{"pattern":"(?i)^[a-zà-ÿ]+$"}`)
		for _, pattern := range []string{strings.Repeat(`\\pL`, 60), "(?i)" + strings.Repeat("[b-𞤀]", 3)} {
			_, err := schema.Compile(jsontext.Value(`{"pattern":"` + pattern + `"}`))
			require.Contains(t, refused(t, err, "/pattern"), "fewer classes")
		}
	})
	t.Run("addresses", func(t *testing.T) {
		t.Parallel()
		_, err := schema.Compile(jsontext.Value(`{"$id":"http://a.test/` + strings.Repeat("x", 1024) + `"}`))
		require.Contains(t, refused(t, err, "/$id"), "more than 1024 bytes")
	})
}

// many writes a list of n texts; %d stands for the index.
func many(n int, text string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strings.ReplaceAll(text, "%d", strconv.Itoa(i)))
	}
	return b.String()
}

func nested(n int, open, inside, end string) string {
	return strings.Repeat(open, n) + inside + strings.Repeat(end, n)
}

// doubled is a schema whose definitions each refer twice to the one before.
func doubled(levels int) string {
	var b strings.Builder
	b.WriteString(`{"$defs":{"d0":{"type":"string"}`)
	for i := 1; i <= levels; i++ {
		fmt.Fprintf(&b, `,"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, i-1, i-1)
	}
	fmt.Fprintf(&b, `},"$ref":"#/$defs/d%d"}`, levels)
	return b.String()
}

// Nothing that a schema says makes this process open a connection or a file.
func TestReferencesNeverLeaveTheDocument(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte(`{"type":"object"}`))
	}))
	t.Cleanup(server.Close)
	remote := server.URL + "/s.json"
	for name, tc := range map[string]struct{ document, pointer, quotes string }{
		"http":                     {`{"type":"object","properties":{"a":{"$ref":"` + remote + `"}}}`, "/properties/a/$ref", remote},
		"http with a fragment":     {`{"$ref":"` + remote + `#/$defs/a"}`, "/$ref", remote},
		"https":                    {`{"$ref":"https://127.0.0.1:1/s.json"}`, "/$ref", "https://127.0.0.1:1/s.json"},
		"a file":                   {`{"items":{"$ref":"file:///etc/hostname"}}`, "/items/$ref", "file:///etc/hostname"},
		"relative to a file":       {`{"$id":"file:///etc/s.json","$ref":"hostname"}`, "/$ref", "hostname"},
		"relative to the server":   {`{"$id":"` + server.URL + `/base.json","$ref":"s.json"}`, "/$ref", "s.json"},
		"relative to nothing":      {`{"$ref":"s.json"}`, "/$ref", "s.json"},
		"a dynamic reference":      {`{"$dynamicRef":"` + remote + `#x"}`, "/$dynamicRef", remote},
		"an old draft":             {`{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"` + remote + `"}`, "/$ref", remote},
		"the metaschema":           {`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`, "/$ref", "https://json-schema.org/draft/2020-12/schema"},
		"the dialect as a file":    {`{"$schema":"file:///etc/hostname","type":"object"}`, "/$schema", "file:///etc/hostname"},
		"the dialect on a server":  {`{"$schema":"` + remote + `","type":"object"}`, "/$schema", remote},
		"an unknown dialect":       {`{"$schema":"https://json-schema.org/draft/2030-01/schema"}`, "/$schema", "2030-01"},
		"a pointer to nothing":     {`{"$ref":"#/$defs/missing"}`, "/$ref", "#/$defs/missing"},
		"a pointer to no schema":   {`{"$ref":"#/default","default":{}}`, "/$ref", "#/default"},
		"an anchor that is absent": {`{"$ref":"#missing"}`, "/$ref", "#missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := schema.Compile(jsontext.Value(tc.document))
			require.Contains(t, refused(t, err, tc.pointer), tc.quotes)
			require.Zero(t, asked.Load())
		})
	}
	t.Run("an address of one's own is only a name", func(t *testing.T) {
		t.Parallel()
		s := compiled(t, `{"$id":"`+remote+`","properties":{"a":{"$ref":"`+remote+`#/$defs/n"},"b":{"$ref":"other"},"c":{"$ref":"#n"}},
			"$defs":{"n":{"$anchor":"n","type":"number"},"o":{"$id":"other","type":"string"}}}`)
		require.Empty(t, s.Check(jsontext.Value(`{"a":1,"b":"x","c":2}`)))
		require.Len(t, s.Check(jsontext.Value(`{"a":"x","b":1,"c":"x"}`)), 3)
		require.Zero(t, asked.Load())
	})
}

func TestCyclesAreRefused(t *testing.T) {
	t.Parallel()
	for document, pointer := range map[string]string{
		`{"$ref":"#"}`: "/$ref",
		`{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}`:           "/$defs/b/$ref",
		`{"type":"object","allOf":[{"not":{"$ref":"#"}}]}`:                                           "/allOf/0/not/$ref",
		`{"$dynamicAnchor":"n","$dynamicRef":"#n"}`:                                                  "/$dynamicRef",
		`{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveRef":"#"}`:             "/$recursiveRef",
		`{"$schema":"http://json-schema.org/draft-07/schema#","if":{"$ref":"#"},"then":{}}`:          "/if/$ref",
		`{"properties":{"x":{"anyOf":[{"type":"null"},{"$ref":"#/properties/x"}]}},"type":"object"}`: "/properties/x/anyOf/1/$ref",
	} {
		_, err := schema.Compile(jsontext.Value(document))
		require.Contains(t, refused(t, err, pointer), "leads back to", document)
	}
}

func TestCompileObject(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		`{"type":"object"}`,
		`{"type":["object"]}`,
		`{"type":"object","properties":{"x":true}}`,
		`{"properties":{"a":{"type":"string"}}}`,
		`{"$ref":"#/$defs/args","$defs":{"args":{"type":"object"}}}`,
		`{"allOf":[{"minProperties":1},{"type":"object"}]}`,
		`{"oneOf":[{"type":"object"},{"properties":{"a":{}}}]}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`,
	} {
		_, err := schema.CompileObject(jsontext.Value(good))
		require.NoError(t, err, good)
	}
	for _, bad := range []string{
		`{}`, `true`, `false`,
		`{"type":"string"}`,
		`{"type":["object","null"]}`,
		`{"type":"array","properties":{"a":{}}}`,
		`{"anyOf":[{"type":"object"},{"type":"string"}]}`,
		`{"required":["a"]}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","$ref":"#/definitions/s","definitions":{"s":{"type":"string"}}}`,
	} {
		_, err := schema.CompileObject(jsontext.Value(bad))
		require.Contains(t, refused(t, err, ""), `"type": "object"`, bad)
	}
	_, err := schema.CompileObject(jsontext.Value(`{"type":"object","properties":{"n":{"type":"nubmer"}}}`))
	refused(t, err, "/properties/n/type")
}

// The survey and the official metaschemas agree on what a keyword may hold.
func TestShapesAgreeWithTheMetaschemas(t *testing.T) {
	t.Parallel()
	for _, dialect := range []struct {
		uri      string
		keywords []string
	}{
		{"https://json-schema.org/draft/2020-12/schema", []string{"minContains", "prefixItems", "dependentRequired", "dependentSchemas", "unevaluatedItems", "deprecated", "$anchor", "$vocabulary"}},
		{"http://json-schema.org/draft-07/schema", []string{"additionalItems", "dependencies", "definitions"}},
	} {
		metaschema := oracle.NewCompiler().MustCompile(dialect.uri)
		keywords := append(slices.Clone(dialect.keywords), "type", "enum", "const", "multipleOf", "maximum", "exclusiveMinimum", "maxLength",
			"minItems", "uniqueItems", "maxProperties", "required", "properties", "additionalProperties", "propertyNames", "items",
			"contains", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "title", "default", "examples", "readOnly", "contentEncoding")
		values := []string{
			`null`, `true`, `"a"`, `"string"`, `""`, `0`, `1`, `-1`, `1.5`, `2.0`, `[]`, `["a"]`, `["a","a"]`, `["string","null"]`,
			`[1]`, `[{}]`, `[true,{"type":"null"}]`, `{}`, `{"a":{}}`, `{"a":true}`, `{"a":["b"]}`, `{"a":["b","b"]}`, `{"a":1}`, `{"type":"nope"}`, `{"a":{"minLength":"x"}}`,
		}
		t.Run(dialect.uri, func(t *testing.T) {
			t.Parallel()
			for _, keyword := range keywords {
				for _, value := range values {
					agree(t, metaschema, fmt.Sprintf(`{"$schema":%q,%q:%s}`, dialect.uri, keyword, value))
				}
			}
			rapid.Check(t, func(t *rapid.T) {
				var members []string
				for _, keyword := range rapid.SliceOfNDistinct(rapid.SampledFrom(keywords), 1, 4, rapid.ID).Draw(t, "keywords") {
					members = append(members, fmt.Sprintf("%q:%s", keyword, rapid.SampledFrom(values).Draw(t, "value")))
				}
				agree(t, metaschema, fmt.Sprintf(`{"$schema":%q,"properties":{"p":{%s}}}`, dialect.uri, strings.Join(members, ",")))
			})
		})
	}
}

func agree(t require.TestingT, metaschema *oracle.Schema, document string) {
	value, err := oracle.UnmarshalJSON(strings.NewReader(document))
	require.NoError(t, err)
	if strings.Contains(document, `"enum":[`) {
		return // allowed there when empty, and in old drafts refused when a value comes twice
	}
	wrong := metaschema.Validate(value)
	_, err = schema.Compile(jsontext.Value(document))
	require.Equal(t, wrong == nil, err == nil, "%s: metaschema: %v, here: %v", document, wrong, err)
}

// Whatever bytes come as a schema and a value, they are refused with a reason or judged as the oracle
// judges them.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"array","items":{"$ref":"#"}}}}`,
		`{"$id":"http://x/y","$ref":"y#a","$defs":{"z":{"$anchor":"a"}}}`, `{"patternProperties":{"^a":false},"enum":[1]}`, doubled(5),
		`{"$schema":"http://json-schema.org/draft-04/schema#","exclusiveMaximum":true,"maximum":5,"dependencies":{"a":["b"]}}`,
	} {
		f.Add([]byte(seed), []byte(`{"a":[[{"a":[]}]]}`))
	}
	for _, tc := range mended {
		f.Add([]byte(tc.document), []byte(tc.value))
	}
	f.Fuzz(func(t *testing.T, document, instance []byte) {
		s, err := schema.Compile(document)
		if err != nil {
			var e *toolpark.Error
			require.ErrorAs(t, err, &e)
			require.NotContains(t, e.Message, "does not compile")
			return
		}
		for _, c := range s.Check(instance) {
			require.NotContains(t, c.Reason, "cannot be applied")
			require.LessOrEqual(t, len(c.Reason), 256)
		}
		if strictjson.Value(instance) != nil {
			return
		}
		if there, err := secondOpinion(string(document), oracle.Draft2020, nothing{}); err == nil {
			sameVerdict(t, string(document), s, there, string(instance))
		}
	})
}
