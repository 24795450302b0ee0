package strictjson_test

import (
	"encoding/json/jsontext"
	"fmt"
	"strings"
	"testing"
	"uuid"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/strictjson"
)

type body struct {
	Title   string         `json:"title"`
	Run     uuid.UUID      `json:"run"`
	Wait    *int           `json:"wait_ms"`
	Content jsontext.Value `json:"content"`
	Calls   []call         `json:"calls"`
	Hidden  string         `json:"-"`
}

type call struct {
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	Arguments jsontext.Value `json:"arguments"`
}

func TestDecode(t *testing.T) {
	t.Parallel()
	t.Run("raw values come through byte for byte", func(t *testing.T) {
		t.Parallel()
		raw := "{ \"b\":9007199254740993, \"a\":0.10, \"a\":\"\\ud83d\xff\" }"
		var got body
		require.NoError(t, strictjson.Decode([]byte(`{"title":"x","content":`+raw+`,"calls":[{"id":"c1","arguments":`+raw+`}]}`), &got))
		require.Equal(t, raw, string(got.Content))
		require.Equal(t, raw, string(got.Calls[0].Arguments))
		require.Equal(t, "x", got.Title)
	})
	t.Run("absent and null differ", func(t *testing.T) {
		t.Parallel()
		var absent, null body
		require.NoError(t, strictjson.Decode([]byte(`{}`), &absent))
		require.NoError(t, strictjson.Decode([]byte(`{"content":null,"wait_ms":null}`), &null))
		require.Nil(t, absent.Content)
		require.Equal(t, "null", string(null.Content))
		require.Nil(t, null.Wait)
	})
	for name, tc := range map[string]struct{ in, pointer, message string }{
		"an array":            {`[]`, "", "The body must be a JSON object, not an array."},
		"null":                {`null`, "", "The body must be a JSON object, not null."},
		"unknown fields":      {`{"zeta":1,"title":"x","Title":"y","hidden":1}`, "/Title", "The body has unknown fields: Title, hidden, zeta."},
		"another case inside": {`{"calls":[{"id":"c1","name":"read_note","Name":"delete_note"}]}`, "/calls/0/Name", "/calls/0/Name is not a known field; remove it or correct its spelling."},
		"a number for a text": {`{"calls":[{"id":5}]}`, "/calls/0/id", "/calls/0/id must be a string, not a number."},
		"a text for a number": {`{"wait_ms":"5"}`, "/wait_ms", "/wait_ms must be an integer in range, not a string."},
		"a broken number":     {`{"wait_ms":5.5}`, "/wait_ms", "/wait_ms must be an integer in range, not 5.5."},
		"too large a number":  {`{"wait_ms":1e30}`, "/wait_ms", "/wait_ms must be an integer in range, not 1e30."},
		"an object for array": {`{"calls":{}}`, "/calls", "/calls must be an array, not an object."},
		"a scalar for object": {`{"calls":[true]}`, "/calls/0", "/calls/0 must be an object, not a boolean."},
		"no UUID":             {`{"run":"x"}`, "/run", "/run must be a UUID, not another text."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := refused(t, strictjson.Decode([]byte(tc.in), &body{}), toolpark.CodeParameterInvalid, tc.pointer)
			require.Equal(t, tc.message, e.Message)
		})
	}
	t.Run("an endless body of unknown fields is not echoed", func(t *testing.T) {
		t.Parallel()
		var body strings.Builder
		for i := range 1000 {
			fmt.Fprintf(&body, `,"%d%s":1`, i, strings.Repeat("x", 1000))
		}
		e := refused(t, strictjson.Decode([]byte("{"+body.String()[1:]+"}"), &struct{}{}), toolpark.CodeParameterInvalid, "/0"+strings.Repeat("x", 124)+"…")
		require.Len(t, e.Details["fields"], 16)
		require.LessOrEqual(t, len(e.Message), 2000)
	})
	t.Run("all unknown fields are listed", func(t *testing.T) {
		t.Parallel()
		e := refused(t, strictjson.Decode([]byte(`{"b":1,"a":2}`), &body{}), toolpark.CodeParameterInvalid, "/a")
		require.Equal(t, []string{"a", "b"}, e.Details["fields"])
	})
}
