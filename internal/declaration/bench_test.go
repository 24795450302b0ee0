package declaration_test

import (
	"bytes"
	"encoding/json/jsontext"
	"fmt"
	"io"
	"strings"
	"testing"
	"uuid"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark/internal/declaration"
)

// crowd is a snapshot in which runner A serves n tools of about 900 bytes each.
func crowd(n int) declaration.Snapshot {
	const topics = "file mail calendar image table chart issue branch page search"
	words := strings.Fields(topics)
	served := map[string]declaration.Served{}
	for i := range n {
		name := fmt.Sprintf("%s_%s_%d", words[i%10], words[i/10%10], i)
		served[name] = announced(
			fmt.Sprintf("Work on one %s of the %s. It is looked up by its path first, and made when it is not there; what was there before is kept for a day.", words[i%10], words[i/10%10]),
			fmt.Sprintf(`{"type":"object","properties":{"path":{"type":"string","minLength":1,"maxLength":4096,"description":"Where the %s is, from the root of the working directory"},`+
				`"mode":{"type":"string","enum":["create","replace","append"],"default":"create"},"lines":{"type":"array","items":{"type":"string"},"maxItems":1000},`+
				`"limit":{"type":"integer","minimum":1,"maximum":%d},"options":{"type":"object","properties":{"follow":{"type":"boolean"},"depth":{"type":"integer"}},"additionalProperties":false}},`+
				`"required":["path"],"additionalProperties":false}`, words[i%10], i+1))
	}
	return declaration.Snapshot{Runners: map[uuid.UUID]declaration.Runner{
		runnerA: {DisplayName: "box a", Environment: jsontext.Value(`{}`), Tools: served},
	}}
}

func crowded(t testing.TB, n int) *declaration.Context {
	t.Helper()
	return assemble(t, importing(`"kernel_tools":["nexus.tools.search","nexus.tools.call"],`), &runnerA, crowd(n))
}

// Assembling imported tools takes a small number of times what reading them once takes.
func BenchmarkAssemble(b *testing.B) {
	for _, n := range []int{10, 100, 1_000} {
		sources, snapshot := configuration(b, importing("")).Sources, crowd(n)
		document := []byte(definitions(b, assemble(b, importing(""), &runnerA, snapshot)))
		b.Run(fmt.Sprintf("%d tools", n), func(b *testing.B) {
			b.SetBytes(int64(len(document)))
			for b.Loop() {
				_, err := declaration.Assemble(sources, &runnerA, declaration.Options{}, snapshot)
				require.NoError(b, err)
			}
		})
		b.Run(fmt.Sprintf("reading %d tools", n), func(b *testing.B) {
			b.SetBytes(int64(len(document)))
			for b.Loop() {
				dec := jsontext.NewDecoder(bytes.NewBuffer(document))
				for {
					if _, err := dec.ReadToken(); err != nil {
						require.ErrorIs(b, err, io.EOF)
						break
					}
				}
			}
		})
	}
}

func BenchmarkSearch(b *testing.B) {
	c := crowded(b, 1_000)
	for name, query := range map[string]string{
		"an exact name":      "mail_image_31",
		"a few":              "mail image",
		"all":                "path working",
		"none":               "helicopter",
		"by the runner":      runnerA.String(),
		"a hundred words":    strings.Repeat("work path made kept before one of there day looked ", 10),
		"nothing but a name": "mail",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, err := c.Search(query, 20)
				require.NoError(b, err)
			}
		})
	}
}
