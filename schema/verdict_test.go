package schema_test

import (
	"encoding/json/jsontext"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/toolpark/toolpark/schema"
)

// Whatever schema of whatever draft, this package and the oracle say the same of a value, or one of them
// refuses the schema for a reason that has a name.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		for range 10 {
			cases.Draw(t, "case").judge(t)
		}
	})
}

// FuzzVerdicts is TestVerdicts for as long as it is let run.
func FuzzVerdicts(f *testing.F) {
	for seed := range 64 {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed int) { cases.Example(seed).judge(t) })
}

// verdictCase is a schema and values to hold against it.
type verdictCase struct {
	grammar  grammar
	document string
	values   []string
}

var cases = rapid.Custom(func(t *rapid.T) verdictCase {
	g := newGenerator(t)
	c := verdictCase{grammar: g.grammar, document: g.document()}
	for range 8 {
		c.values = append(c.values, g.value(3))
	}
	return c
})

func (c verdictCase) judge(t require.TestingT) {
	here, refusal := schema.Compile(jsontext.Value(c.document))
	there, err := secondOpinion(c.document, c.grammar.draft, nothing{})
	switch {
	case refusal != nil && err != nil:
		return
	case refusal != nil:
		require.NotEmpty(t, purpose(refusal), "%s: %v", c.document, refusal)
		return
	case err != nil:
		// Old drafts want the values of an enum to differ.
		require.True(t, !c.grammar.modern && strings.Contains(err.Error(), "are equal"), "%s: %v", c.document, err)
		return
	}
	for _, value := range c.values {
		sameVerdict(t, c.document, here, there, value)
	}
}
