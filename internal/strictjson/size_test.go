package strictjson_test

import (
	"encoding/json/jsontext"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/toolpark/toolpark/internal/strictjson"
)

func TestSizeIsThatOfTheCanonicalForm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := jsontext.Value(genJSON(3).Draw(t, "json"))
		canonical, err := strictjson.Canonical(in)
		require.NoError(t, err)
		size, ok := strictjson.Size(in)
		require.True(t, ok)
		require.Equal(t, len(canonical), size)
	})
	for in, want := range map[string]int{
		` [ 1 , { "b" : [ ] , "a" : "é" } , [ ] ] `: len(`[1,{"b":[],"a":"é"},[]]`),
		`"\u003c\/\u0001"`:                          len(`"</\u0001"`),
		`{"a":1,"a":1}`:                             len(`{"a":1,"a":1}`), // what Value refuses has a size, too
	} {
		size, ok := strictjson.Size(jsontext.Value(in))
		require.True(t, ok, in)
		require.Equal(t, want, size, in)
	}
	for _, in := range []string{``, `[1,`, `{"a"`, `"x`} {
		_, ok := strictjson.Size(jsontext.Value(in))
		require.False(t, ok, in)
	}
}

func TestElements(t *testing.T) {
	t.Parallel()
	elements, count, ok := strictjson.Elements(jsontext.Value(` [ 1 , {"a" : [2]} , null ] `), 2)
	require.True(t, ok)
	require.Equal(t, 3, count)
	require.Equal(t, []jsontext.Value{jsontext.Value(`1`), jsontext.Value(`{"a" : [2]}`)}, elements)
	for _, in := range []string{``, `null`, `{}`, `[1`} {
		_, _, ok := strictjson.Elements(jsontext.Value(in), 2)
		require.False(t, ok, in)
	}
}

// A body of a million elements costs a few values, not a million.
func TestElementsMakesNoMoreThanItsLimit(t *testing.T) {
	text := jsontext.Value("[" + strings.Repeat("0,", 1<<20) + "0]")
	allocs := testing.AllocsPerRun(1, func() {
		_, count, ok := strictjson.Elements(text, 10)
		require.True(t, ok)
		require.Equal(t, 1<<20+1, count)
	})
	require.Less(t, allocs, 100.0)
}
