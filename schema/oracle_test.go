package schema_test

import (
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"strings"

	oracle "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark/schema"
)

// second is a schema compiled by an implementation that shares nothing with the library behind this
// package.
type second struct{ compiled *oracle.Schema }

// secondOpinion compiles a schema of a draft, with load for what it refers to outside itself.
func secondOpinion(document string, draft *oracle.Draft, load oracle.URLLoader) (s second, err error) {
	defer recovered(&err)
	value, err := oracle.UnmarshalJSON(strings.NewReader(document))
	if err != nil {
		return second{}, err
	}
	const address = "http://document.test/schema.json"
	compiler := oracle.NewCompiler()
	compiler.DefaultDraft(draft)
	compiler.UseLoader(load)
	if err := compiler.AddResource(address, value); err != nil {
		return second{}, err
	}
	compiled, err := compiler.Compile(address)
	return second{compiled}, err
}

// matches tells whether a value matches; the error is one of the oracle itself.
func (s second) matches(value string) (ok bool, err error) {
	defer recovered(&err)
	decoded, err := oracle.UnmarshalJSON(strings.NewReader(value))
	return err == nil && s.compiled.Validate(decoded) == nil, err
}

func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("the oracle gave up: %v", r)
	}
}

// nothing is a loader that has no documents.
type nothing struct{}

func (nothing) Load(string) (any, error) { return nil, errors.New("nothing is loaded") }

// sameVerdict asserts that both say the same of a value.
func sameVerdict(t require.TestingT, document string, here *schema.Schema, there second, value string) {
	want, err := there.matches(value)
	require.NoError(t, err, "%s\non\n%s", document, value)
	complaints := here.Check(jsontext.Value(value))
	require.Equal(t, want, complaints == nil, "the oracle and this package differ on\n%s\nof\n%s\n%v", value, document, complaints)
}

// onPurpose is why this package refuses schemas that the standard allows, by what the refusals say.
var onPurpose = map[string]string{
	"leaves the document":             "nothing that a schema names is ever fetched",
	"names no schema of the document": "a reference is resolved even where no value would get to it",
	"leads back to":                   "no value could ever be decided",
	"has this dynamic anchor too":     "which one is meant depends on the way to it, and the library gets that wrong",
	"the dialect":                     "a metaschema of one's own is never fetched",
	"without one nothing can match":   "an empty enum is a mistake",
	"is defined twice":                "the library knows both as one",
	"in one schema with contains":     "draft 2019-09 means another thing than the library",
}

// purpose is what a refusal on purpose says, or "" for another error.
func purpose(err error) string {
	for says := range onPurpose {
		if strings.Contains(err.Error(), says) {
			return says
		}
	}
	return ""
}
