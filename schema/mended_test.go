package schema_test

import (
	"encoding/json/jsontext"
	"testing"

	oracle "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark/schema"
)

const (
	seven    = `"$schema":"http://json-schema.org/draft-07/schema#"`
	nineteen = `"$schema":"https://json-schema.org/draft/2019-09/schema"`
)

// mended is what the library by itself gets wrong, most of it by accepting what the schema refuses.
var mended = map[string]struct {
	document, value string
	matches         bool
}{
	"true evaluates no properties":                  {`{"oneOf":[true],"unevaluatedProperties":false}`, `{"a":1}`, false},
	"true evaluates no items":                       {`{"$ref":"#/$defs/any","$defs":{"any":true},"unevaluatedItems":false}`, `[1]`, false},
	"a condition that is true evaluates nothing":    {`{"if":true,"unevaluatedProperties":{"type":"string"}}`, `{"a":1}`, false},
	"items of an item are not the array's":          {`{"unevaluatedItems":{"items":{"type":"integer"}}}`, `[[1,2,3],["x"]]`, false},
	"an unevaluated item, by reference":             {`{"unevaluatedItems":{"type":["integer","array"],"items":{"$ref":"#/unevaluatedItems"}}}`, `[1,[2,[3]]]`, true},
	"an unevaluated item, by reference and wrong":   {`{"unevaluatedItems":{"type":["integer","array"],"items":{"$ref":"#/unevaluatedItems"}}}`, `[1,[2,["x"]]]`, false},
	"an anchor is no base for references":           {`{` + seven + `,"$ref":"#a","definitions":{"a":{"$id":"#a","not":{"$ref":"#/definitions/b"}},"b":{"type":"string"}}}`, `"x"`, false},
	"a pointer below an anchor begins at the root":  {`{` + seven + `,"$ref":"#a","definitions":{"a":{"$id":"#a","allOf":[{"$ref":"#/definitions/b"}],"definitions":{"b":{}}},"b":{"type":"string"}}}`, `5`, false},
	"an address beside $ref is none":                {`{` + seven + `,"$ref":"#/definitions/a","definitions":{"a":{"$id":"http://x.test/a","$ref":"#/definitions/b"},"b":{"type":"string"}}}`, `5`, false},
	"what $ref hides may go round":                  {`{` + seven + `,"allOf":[{"allOf":[{"$ref":"#/allOf/0"}],"$ref":"#/definitions/a"}],"definitions":{"a":{"type":"string"}}}`, `"x"`, true},
	"dependencies are meant since 2019, too":        {`{` + nineteen + `,"dependencies":{"a":["b"],"c":{"required":["d"]}}}`, `{"c":1}`, false},
	"dependencies are meant without a dialect, too": {`{"dependencies":{"a":["b"],"c":{"required":["d"]}}}`, `{"a":1}`, false},
	"a reference into dependencies":                 {`{"$ref":"#/dependencies/c","dependencies":{"c":{"required":["d"]}}}`, `{}`, false},
}

func TestWhatTheLibraryGetsWrong(t *testing.T) {
	t.Parallel()
	for name, tc := range mended {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := compiled(t, tc.document)
			require.Equal(t, tc.matches, s.Check(jsontext.Value(tc.value)) == nil)
			there, err := secondOpinion(tc.document, oracle.Draft2020, nothing{})
			require.NoError(t, err)
			sameVerdict(t, tc.document, s, there, tc.value)
		})
	}
	t.Run("what cannot be mended is refused", func(t *testing.T) {
		t.Parallel()
		_, err := schema.Compile(jsontext.Value(`{` + nineteen + `,"contains":{"type":"string"},"unevaluatedItems":false}`))
		require.Contains(t, refused(t, err, "/unevaluatedItems"), "before draft 2020-12")
		_, err = schema.Compile(jsontext.Value(`{"dependencies":{"a":["b"]},"dependentRequired":{"a":["c"]}}`))
		require.Contains(t, refused(t, err, "/dependentRequired/a"), "defined twice")
	})
	t.Run("complaints name the items inside items", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, []schema.Complaint{{Pointer: "/1/2", Reason: "must be of type integer, not string"}},
			check(t, `{"unevaluatedItems":{"items":{"type":"integer"}}}`, `[[1,2,3],[4,5,"x"]]`))
		require.Equal(t, []schema.Complaint{{Pointer: "/1", Reason: "no value is allowed here"}},
			check(t, `{"prefixItems":[true],"unevaluatedItems":false}`, `[1,2]`))
	})
}
