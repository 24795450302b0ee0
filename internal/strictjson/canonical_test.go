package strictjson_test

import (
	"bytes"
	stdjson "encoding/json"
	"encoding/json/jsontext"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/toolpark/toolpark/internal/strictjson"
)

func TestCanonical(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ in, out string }{
		"white space and order":   {` { "b" : [ 1 , { } ] , "a" : null } `, `{"a":null,"b":[1,{}]}`},
		"every digit":             {`{"id":9007199254740993,"big":12345678901234567890,"d":0.10,"e":1E+2,"z":-0}`, `{"big":12345678901234567890,"d":0.10,"e":1E+2,"id":9007199254740993,"z":-0}`},
		"no HTML escapes":         {`"\u003c&>\/"`, `"<&>/"`},
		"the fewest escapes":      {`"\u00e9\u0009\u0000\u001f\""`, `"é\t\u0000\u001f\""`},
		"UTF-8 order, not UTF-16": {`{"😀":1,"\uffee":2,"b":3}`, `{"b":3,"￮":2,"😀":1}`},
		"names by their text":     {`{"\u0062":1,"a":2}`, `{"a":2,"b":1}`},
		"inner objects":           {`{"z":{"b":1,"a":{"d":1,"c":2}},"a":[{"y":1,"x":2}]}`, `{"a":[{"x":2,"y":1}],"z":{"a":{"c":2,"d":1},"b":1}}`},
		"the empty name":          {`{"a":1,"":2}`, `{"":2,"a":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := strictjson.Canonical(jsontext.Value(tc.in))
			require.NoError(t, err)
			require.Equal(t, tc.out, string(out))
		})
	}
	for _, bad := range []string{``, `{"a":1,"a":2}`, `"\ud83d"`, `[1,`, nested(200)} {
		_, err := strictjson.Canonical(jsontext.Value(bad))
		var p *strictjson.Problem
		require.ErrorAs(t, err, &p, bad)
	}
}

func TestCanonicalProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := genJSON(3).Draw(t, "json")
		out, err := strictjson.Canonical(jsontext.Value(in))
		require.NoError(t, err)
		again, err := strictjson.Canonical(out)
		require.NoError(t, err)
		require.Equal(t, string(out), string(again), "it is stable")
		require.Equal(t, exactly(t, in), exactly(t, string(out)), "it is the same value, digit by digit")
		require.True(t, strictjson.Equal(jsontext.Value(in), out))
	})
}

// exactly reads a value with the standard decoder, keeping numbers as they were written.
func exactly(t *rapid.T, text string) any {
	dec := stdjson.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	require.NoError(t, dec.Decode(&v))
	return v
}

func TestEqual(t *testing.T) {
	t.Parallel()
	require.True(t, strictjson.Equal(jsontext.Value(`{"a":1,"b":"\u0041"}`), jsontext.Value(`{ "b":"A","a":1 }`)))
	require.False(t, strictjson.Equal(jsontext.Value(`1.0`), jsontext.Value(`1`)))
	require.False(t, strictjson.Equal(nil, nil))
}

func TestUnstorable(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ in, pointer, says string }{
		"U+0000 in a text":        {`{"content":[{"text":"a\u0000b"}]}`, "/content/0/text", "U+0000"},
		"U+0000 in a key":         {`{"a":{"k\u0000":1}}`, "/a/k\x00", "U+0000"},
		"after escaped backslash": {`["\\\u0000"]`, "/0", "U+0000"},
		"a lone surrogate":        {`{"a":"a\ud83db"}`, "/a", "surrogate"},
		"a raw byte":              {"[1,\"\xff\"]", "/1", "UTF-8"},
		"the whole value":         {`"\u0000"`, "", "U+0000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pointer, reason, bad := strictjson.Unstorable([]byte(tc.in))
			require.True(t, bad)
			require.Equal(t, tc.pointer, pointer)
			require.Contains(t, reason, tc.says)
		})
	}
	for _, fine := range []string{`"\\u0000"`, `"a\\\\u0000"`, `"\u0041"`, `"\ud83d\ude00"`, `{"a":[1,2,"x"]}`, `null`} {
		_, _, bad := strictjson.Unstorable([]byte(fine))
		require.False(t, bad, fine)
	}
}

// A value that can be stored decodes to text without U+0000 or replacement characters of its own.
func FuzzUnstorable(f *testing.F) {
	for _, seed := range []string{`"\u0000"`, `"\\u0000"`, `{"\ud83d":1}`, "\"\xff\"", `["\\\u0000","x"]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !jsontext.Value(data).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
			return
		}
		strict := jsontext.Value(data).IsValid(jsontext.AllowDuplicateNames(true))
		holdsNUL := false
		dec := jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
		for {
			token, err := dec.ReadToken()
			if err != nil {
				break
			}
			holdsNUL = holdsNUL || token.Kind() == '"' && strings.ContainsRune(token.String(), 0)
		}
		_, _, bad := strictjson.Unstorable(data)
		require.Equal(t, !strict || holdsNUL, bad)
	})
}

func TestCutString(t *testing.T) {
	t.Parallel()
	require.Equal(t, "short", strictjson.CutString("short", 5))
	require.Equal(t, "ab…", strictjson.CutString("abcdef", 5))
	require.Equal(t, "…", strictjson.CutString("😀😀", 6))
	require.Equal(t, "😀…", strictjson.CutString("😀😀", 7))
	require.Equal(t, "a", strictjson.CutString("a😀", 2))
	require.Empty(t, strictjson.CutString("abc", 0))
	rapid.Check(t, func(t *rapid.T) {
		s, limit := rapid.String().Draw(t, "s"), rapid.IntRange(0, 40).Draw(t, "limit")
		cut := strictjson.CutString(s, limit)
		require.LessOrEqual(t, len(cut), limit)
		require.True(t, utf8.ValidString(cut))
		require.True(t, strings.HasPrefix(s, strings.TrimSuffix(cut, "…")))
	})
}
