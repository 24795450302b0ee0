package schema_test

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	oracle "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark/schema"
)

// suiteDrafts are the drafts of the official suite that are run, and the optional files that hold for
// this package too. The others are about formats, content and regular expressions as ECMA-262 has them,
// none of which decide here, and about references that leave the document.
var suiteDrafts = map[string]struct {
	draft    *oracle.Draft
	optional []string
}{
	"draft7":       {oracle.Draft7, []string{"bignum", "float-overflow", "id", "non-bmp-regex", "unknownKeyword"}},
	"draft2020-12": {oracle.Draft2020, []string{"anchor", "bignum", "dependencies-compatibility", "float-overflow", "id", "no-schema", "non-bmp-regex", "unknownKeyword"}},
}

// suiteExceptions are the groups of cases whose schema is refused on purpose, by what the refusal says.
// An entry that is no longer needed fails the test.
var suiteExceptions = map[string][]string{
	"has this dynamic anchor too": {
		"draft2020-12/dynamicRef: $dynamicRef avoids the root of each schema, but scopes are still registered",
		"draft2020-12/dynamicRef: $dynamicRef skips over intermediate resources - direct reference",
		"draft2020-12/dynamicRef: A $dynamicRef resolves to the first $dynamicAnchor still in scope that is encountered when the schema is evaluated",
		"draft2020-12/dynamicRef: A $dynamicRef that initially resolves to a schema with a matching $dynamicAnchor resolves to the first $dynamicAnchor in the dynamic scope",
		"draft2020-12/dynamicRef: A $dynamicRef with intermediate scopes that don't include a matching $dynamicAnchor does not affect dynamic scope resolution",
		"draft2020-12/dynamicRef: A $dynamicRef without anchor in fragment behaves identical to $ref",
		"draft2020-12/dynamicRef: after leaving a dynamic scope, it is not used by a $dynamicRef",
		"draft2020-12/dynamicRef: multiple dynamic paths to the $dynamicRef keyword",
		"draft2020-12/unevaluatedItems: unevaluatedItems with $dynamicRef",
		"draft2020-12/unevaluatedProperties: unevaluatedProperties with $dynamicRef",
	},
	"leaves the document": {
		"draft7/definitions: validate definition against metaschema",
		"draft7/ref: remote ref, containing refs itself",
		"draft7/refRemote: $ref to $ref finds location-independent $id",
		"draft7/refRemote: Location-independent identifier in remote ref",
		"draft7/refRemote: base URI change",
		"draft7/refRemote: base URI change - change folder",
		"draft7/refRemote: base URI change - change folder in subschema",
		"draft7/refRemote: fragment within remote ref",
		"draft7/refRemote: ref within remote ref",
		"draft7/refRemote: remote ref",
		"draft7/refRemote: remote ref with ref to definitions",
		"draft7/refRemote: retrieved nested refs resolve relative to their URI not $id",
		"draft7/refRemote: root ref in remote ref",
		"draft2020-12/defs: validate definition against metaschema",
		"draft2020-12/dynamicRef: $ref and $dynamicAnchor are independent of order - $defs first",
		"draft2020-12/dynamicRef: $ref and $dynamicAnchor are independent of order - $ref first",
		"draft2020-12/dynamicRef: $ref to $dynamicRef finds detached $dynamicAnchor",
		"draft2020-12/dynamicRef: strict-tree schema, guards against misspelled properties",
		"draft2020-12/dynamicRef: tests for implementation dynamic anchor and reference link",
		"draft2020-12/ref: remote ref, containing refs itself",
		"draft2020-12/refRemote: $ref to $ref finds detached $anchor",
		"draft2020-12/refRemote: Location-independent identifier in remote ref",
		"draft2020-12/refRemote: anchor within remote ref",
		"draft2020-12/refRemote: base URI change",
		"draft2020-12/refRemote: base URI change - change folder",
		"draft2020-12/refRemote: base URI change - change folder in subschema",
		"draft2020-12/refRemote: fragment within remote ref",
		"draft2020-12/refRemote: ref within remote ref",
		"draft2020-12/refRemote: remote HTTP ref with different $id",
		"draft2020-12/refRemote: remote HTTP ref with different URN $id",
		"draft2020-12/refRemote: remote HTTP ref with nested absolute ref",
		"draft2020-12/refRemote: remote ref",
		"draft2020-12/refRemote: remote ref with ref to defs",
		"draft2020-12/refRemote: retrieved nested refs resolve relative to their URI not $id",
		"draft2020-12/refRemote: root ref in remote ref",
	},
	"the dialect": {
		"draft2020-12/vocabulary: ignore unrecognized optional vocabulary",
		"draft2020-12/vocabulary: schema that uses custom metaschema with with no validation vocabulary",
	},
	"without one nothing can match": {
		"draft2020-12/enum: empty enum",
	},
}

// The official suite, as this package, the suite and a second implementation judge it.
func TestOfficialSuite(t *testing.T) {
	t.Parallel()
	folder := os.Getenv("JSON_SCHEMA_TEST_SUITE")
	if folder == "" {
		t.Skip("set JSON_SCHEMA_TEST_SUITE to a clone of github.com/json-schema-org/JSON-Schema-Test-Suite to run its cases")
	}
	for name, suite := range suiteDrafts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files, err := filepath.Glob(filepath.Join(folder, "tests", name, "*.json"))
			require.NoError(t, err)
			require.NotEmpty(t, files, "JSON_SCHEMA_TEST_SUITE names a folder without tests/%s", name)
			for _, optional := range suite.optional {
				files = append(files, filepath.Join(folder, "tests", name, "optional", optional+".json"))
			}
			refused := map[string]string{} // says, by group
			cases, exceptions := 0, map[string]int{}
			for _, file := range files {
				for _, group := range suiteGroups(t, file) {
					cases += len(group.Tests)
					group.name = fmt.Sprintf("%s/%s: %s", name, strings.TrimSuffix(filepath.Base(file), ".json"), group.Description)
					if says := group.judge(t, suite.draft, remotes(filepath.Join(folder, "remotes"))); says != "" {
						refused[group.name] = says
						exceptions[says] += len(group.Tests)
					}
				}
			}
			for says, groups := range suiteExceptions {
				for _, group := range groups {
					draft, _, _ := strings.Cut(group, "/")
					require.Contains(t, suiteDrafts, draft)
					if draft == name {
						require.Equal(t, says, refused[group], "an exception that is not needed: %s", group)
						delete(refused, group)
					}
				}
			}
			require.Empty(t, refused, "refused, and not listed as an exception")
			t.Logf("%d cases; the schemas of these are refused: %v", cases, exceptions)
		})
	}
}

// suiteGroup is a schema of the suite and what it says of values.
type suiteGroup struct {
	Description string         `json:"description"`
	Schema      jsontext.Value `json:"schema"`
	Tests       []struct {
		Description string         `json:"description"`
		Data        jsontext.Value `json:"data"`
		Valid       bool           `json:"valid"`
	} `json:"tests"`

	name string
}

func suiteGroups(t *testing.T, file string) []suiteGroup {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	var groups []suiteGroup
	require.NoError(t, json.Unmarshal(content, &groups), file)
	require.NotEmpty(t, groups, file)
	return groups
}

// judge asserts that all three agree on each value, or returns what a refusal on purpose says.
func (g suiteGroup) judge(t *testing.T, draft *oracle.Draft, load oracle.URLLoader) string {
	t.Helper()
	document := string(g.Schema)
	if named := fmt.Sprintf(`{"$schema":%q`, draft); draft != oracle.Draft2020 && g.Schema.Kind() == '{' && !strings.Contains(document, `"$schema"`) {
		// Without the keyword a schema is one of draft 2020-12 here.
		document = strings.Replace(named+","+strings.TrimLeft(document[1:], " \n"), ",}", "}", 1)
	}
	there, err := secondOpinion(document, draft, load)
	require.NoError(t, err, g.name)
	here, refusal := schema.Compile(jsontext.Value(document))
	for _, tc := range g.Tests {
		ok, err := there.matches(string(tc.Data))
		require.NoError(t, err, g.name)
		require.Equal(t, tc.Valid, ok, "the oracle: %s: %s", g.name, tc.Description)
		if refusal == nil {
			complaints := here.Check(tc.Data)
			require.Equal(t, tc.Valid, complaints == nil, "%s: %s: %v", g.name, tc.Description, complaints)
		}
	}
	if refusal == nil {
		return ""
	}
	require.NotEmpty(t, purpose(refusal), "%s: %v", g.name, refusal)
	return purpose(refusal)
}

// remotes is the folder whose documents the suite takes to be at http://localhost:1234.
type remotes string

func (r remotes) Load(address string) (any, error) {
	path, ok := strings.CutPrefix(address, "http://localhost:1234/")
	if !ok {
		return nothing{}.Load(address)
	}
	file, err := os.Open(filepath.Join(string(r), filepath.FromSlash(path)))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return oracle.UnmarshalJSON(file)
}
