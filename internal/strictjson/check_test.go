package strictjson_test

import (
	"encoding/json/jsontext"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/strictjson"
)

func refused(t *testing.T, err error, code toolpark.Code, pointer string) *toolpark.Error {
	t.Helper()
	var e *toolpark.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, code, e.Code)
	require.Equal(t, pointer, e.Details["pointer"])
	return e
}

func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

func TestCheckAccepts(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"an object":               ` {"a":[1,-0.50e+3,"x",null,true,{}]} `,
		"names that differ":       `{"name":1,"Name":2,"na\u006de2":3}`,
		"one name in two objects": `{"a":{"x":1},"b":{"x":1}}`,
		"a surrogate pair":        `{"a":"\ud83d\ude00 😀"}`,
		"U+0000":                  `{"a":"\u0000"}`,
		"an escaped backslash":    `{"a":"\\ud83d"}`,
		"the deepest nesting":     nested(toolpark.MaxJSONDepth),
		"the longest number":      strings.Repeat("7", toolpark.MaxNumberLength),
		"the largest exponents":   `[1e1000,1E-1000,1e+0001000]`,
		"a scalar":                `7`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, strictjson.Check([]byte(body)))
		})
	}
}

func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		body, pointer string
		offset        int64
		says          string
	}{
		"nothing":                       {"", "", 0, "no JSON value"},
		"white space":                   {"  ", "", 2, "no JSON value"},
		"a cut text":                    {`{"path":"/r.txt","content":"line one`, "/content", 36, "cut off"},
		"a second document":             {`{"a":1}{"b":2}`, "", 7, "after the JSON value"},
		"a word behind":                 {`{"a":1} x`, "", 8, "after the JSON value"},
		"NaN":                           {`{"a":[1,NaN]}`, "/a/1", 8, "invalid character 'N'"},
		"a key twice":                   {`{"x":{"amount":1,"b":2,"amount":1000}}`, "/x/amount", 23, "twice"},
		"a key twice, once escaped":     {`{"amount":1,"\u0061mount":2}`, "/amount", 12, "twice"},
		"a key twice after many":        {`{` + manyMembers(40) + `,"k7":0}`, "/k7", 0, "twice"},
		"a raw byte":                    {"{\"a\":[\"x\xffy\"]}", "/a/0", 6, "UTF-8"},
		"a raw byte in a key":           {"{\"a\":1,\"\xff\":2}", "/\uFFFD", 7, "in a key"},
		"a lone high surrogate":         {`{"a":"a\ud83db"}`, "/a", 5, "surrogate"},
		"a lone low surrogate":          {`{"a":"\ude00"}`, "/a", 5, "surrogate"},
		"two high surrogates":           {`["\ud83d\ud83d"]`, "/0", 1, "surrogate"},
		"a high surrogate and a letter": {`["\ud83d\u0041"]`, "/0", 1, "surrogate"},
		"one level too deep":            {nested(toolpark.MaxJSONDepth + 1), strings.Repeat("/0", toolpark.MaxJSONDepth), 128, "128 levels"},
		"a number one too long":         {`{"n":` + strings.Repeat("7", toolpark.MaxNumberLength+1) + `}`, "/n", 5, "1000 characters"},
		"1e131072":                      {`{"x":1e131072}`, "/x", 5, "exponent"},
		"1e-1001":                       {`[0,1e-1001]`, "/1", 3, "exponent"},
		"an endless exponent":           {`1e99999999999999999999999999`, "", 0, "exponent"},
		"a pointer with escapes":        {`{"a/b~c":{"d":1e9999}}`, "/a~1b~0c/d", 14, "exponent"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := refused(t, strictjson.Check([]byte(tc.body)), toolpark.CodeBadRequest, tc.pointer)
			require.Contains(t, e.Message, tc.says)
			if tc.offset != 0 {
				require.Equal(t, tc.offset, e.Details["offset"])
			}
		})
	}
}

func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"k` + string(rune('0'+i/10)) + string(rune('0'+i%10)) + `":1`)
	}
	return strings.Replace(b.String(), `"k07"`, `"k7"`, 1)
}

func TestCheckExempts(t *testing.T) {
	t.Parallel()
	check := func(body string) error {
		return strictjson.Check([]byte(body), "/calls/*/arguments", "/content")
	}
	bad := "{\"amount\":1,\"amount\":1000,\"t\":\"\xff\\ud83d\",\"n\":1e999999,\"d\":" + nested(2000) + "}"
	t.Run("what an exempt value holds is not judged", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, check(`{"calls":[{"arguments":{}},{"arguments":`+bad+`}],"content":`+bad+`}`))
		require.NoError(t, check(`{"content":"\ud83d"}`))
	})
	t.Run("its neighbours are", func(t *testing.T) {
		t.Parallel()
		refused(t, check(`{"calls":[{"arguments":`+bad+`,"id":"\ud83d"}]}`), toolpark.CodeBadRequest, "/calls/0/id")
		refused(t, check(`{"content":`+bad+`,"title":1e9999}`), toolpark.CodeBadRequest, "/title")
		refused(t, check(`{"deep":{"content":`+bad+`}}`), toolpark.CodeBadRequest, "/deep/content/amount")
		refused(t, check(`{"calls":[{"Arguments":`+bad+`}]}`), toolpark.CodeBadRequest, "/calls/0/Arguments/amount")
	})
	t.Run("an exempt member may not come twice", func(t *testing.T) {
		t.Parallel()
		refused(t, check(`{"content":1,"content":2}`), toolpark.CodeBadRequest, "/content")
	})
	t.Run("what the decoder cannot pass over is refused", func(t *testing.T) {
		t.Parallel()
		require.Error(t, check(`{"content":`+nested(20_000)+`}`))
		refused(t, check(`{"content":{"a":nope}}`), toolpark.CodeBadRequest, "/content/a")
	})
}

func TestCheckIsFast(t *testing.T) {
	// Not parallel: the clock is the subject.
	for name, body := range map[string]string{
		"20 000 levels":         nested(20_000),
		"1 MiB of brackets":     strings.Repeat("[", 1<<20),
		"1 MiB of objects":      strings.Repeat(`{"a":`, 1<<20/5),
		"1 MiB of names":        `{` + strings.TrimSuffix(strings.Repeat(`"k":1,`, 1<<20/6), ",") + `}`,
		"exempt 20 000 levels":  `{"content":` + nested(20_000) + `}`,
		"exempt 1 MiB brackets": `{"content":` + strings.Repeat("[", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			best, err := time.Hour, error(nil)
			for range 5 { // what the code takes when the machine is not busy with others
				start := time.Now()
				err = strictjson.Check([]byte(body), "/content")
				best = min(best, time.Since(start))
			}
			require.Less(t, best, 100*time.Millisecond)
			require.Error(t, err)
			require.Less(t, len(err.Error()), 4096)
		})
	}
}

func TestValueReturnsTheProblem(t *testing.T) {
	t.Parallel()
	require.Nil(t, strictjson.Value(jsontext.Value(`{"a":1}`)))
	require.Equal(t, &strictjson.Problem{Pointer: "/a", Offset: 7, Reason: "the key is there twice"},
		strictjson.Value(jsontext.Value(`{"a":1,"a":2}`)))
	require.Equal(t, "the key is there twice at /a (byte 7)", strictjson.Value(jsontext.Value(`{"a":1,"a":2}`)).Error())
	require.Nil(t, strictjson.ValueWithin(jsontext.Value(nested(64)), 64))
	require.NotNil(t, strictjson.ValueWithin(jsontext.Value(nested(65)), 64))
}

func TestShapeLeavesTextAside(t *testing.T) {
	t.Parallel()
	for _, fine := range []string{
		`"\ud83d"`, "[\"\xff\"]", `{"\ud83d":1,"\ud83e":2}`, "{\"\xff\":1,\"\xfe\":2,\"\uFFFD\":3}", `{"\"\\ud83d\"":1,"\ud83d":2}`,
	} {
		require.Nil(t, strictjson.Shape(jsontext.Value(fine)), fine)
	}
	for bad, pointer := range map[string]string{
		`{"a":1,"\u0061":2}`:      "/a",
		`{"\ud83d":1,"\ud83d":2}`: "/\uFFFD",
		`{"\ud83d":[1e1001]}`:     "/\uFFFD/0",
		`["\ud83d",[1,2]`:         "",
		nested(129):               strings.Repeat("/0", 128),
	} {
		problem := strictjson.Shape(jsontext.Value(bad))
		require.NotNil(t, problem, bad)
		require.Equal(t, pointer, problem.Pointer, bad)
	}
}

// What is accepted must read the same in a second, strict decoder.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{`{"a":[1,"x\u0041"],"b":{}}`, `{"a":1,"a":2}`, `"\ud83d"`, "\"\xff\"", `1e1001`, `[[[`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := strictjson.Check(data); err != nil {
			var e *toolpark.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, toolpark.CodeBadRequest, e.Code)
			return
		}
		require.True(t, jsontext.Value(data).IsValid(), "accepted %q", data)
		out, err := strictjson.Canonical(data)
		require.NoError(t, err)
		require.NoError(t, strictjson.Check(out))
	})
}

func BenchmarkCheck(b *testing.B) {
	body := []byte(`{"calls":[` + strings.TrimSuffix(strings.Repeat(`{"id":"call_1","name":"read_note","arguments":{"path":"/r.txt","n":12}},`, 1000), ",") + `]}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if err := strictjson.Check(body); err != nil {
			b.Fatal(err)
		}
	}
}

func genJSON(depth int) *rapid.Generator[string] {
	scalars := rapid.OneOf(
		rapid.SampledFrom([]string{"null", "true", "false", "0", "-0.0", "1.50", "9007199254740993", "1e-7", `""`, `"\u00e9\n"`, `"<&>"`}),
		rapid.Map(rapid.String(), quote),
	)
	if depth == 0 {
		return scalars
	}
	child := genJSON(depth - 1)
	return rapid.OneOf(
		scalars,
		rapid.Map(rapid.SliceOfN(child, 0, 4), func(items []string) string { return "[ " + strings.Join(items, " ,") + "]" }),
		rapid.Map(rapid.MapOfN(rapid.String(), child, 0, 5), func(members map[string]string) string {
			var parts []string
			for name, value := range members {
				parts = append(parts, quote(name)+": "+value)
			}
			return "{" + strings.Join(parts, ", ") + "}"
		}),
	)
}

func quote(s string) string {
	quoted, err := jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "?"))
	if err != nil {
		panic(err)
	}
	return string(quoted)
}
