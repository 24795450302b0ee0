package envelope_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/envelope"
)

// What Parse accepts, it accepts again in the form it stored, with the same outcome.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`"text"`, `" "`, `[]`, `[{"type":"text","text":"a"},{"type":"text","text":"b"}]`, `"\ud83d"`, `"a\u0000"`,
		`[{"type":"resource_link","uri":"nexus://uploads/01900000-0000-7000-8000-000000000051","name":"a","size":1}]`,
		`{"a":1,"a":2}`, `{"\ud800":1,"\ud801":2}`, `1e9999`, "\"\xff\"", `[[[[`, `null`,
	} {
		f.Add([]byte(seed), []byte(seed), []byte(seed))
	}
	f.Fuzz(func(t *testing.T, content, structured, title []byte) {
		report, err := envelope.Parse(envelope.Fields{Content: content, StructuredContent: structured, Title: title})
		if err != nil {
			var e *toolpark.Error
			require.ErrorAs(t, err, &e, "got %v", err)
			return
		}
		again, err := envelope.Parse(envelope.Fields{
			Content: report.Content(), StructuredContent: report.StructuredContent, Title: title,
		})
		require.NoError(t, err)
		require.Equal(t, report, again)
		require.True(t, report.Content() == nil || report.Content().IsValid())
	})
}
