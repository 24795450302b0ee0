package declaration_test

import (
	"encoding/json/jsontext"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/declaration"
	"github.com/toolpark/toolpark/schema"
)

// admission is a context of three tools: echo takes anything, add needs a number, and small bounds it.
func admission(t testing.TB) *declaration.Context {
	t.Helper()
	return assemble(t, bypass(
		`{"type":"function","name":"echo","parameters":{"type":"object"}}`,
		`{"type":"function","name":"add","parameters":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false}}`,
		`{"type":"function","name":"small","parameters":{"type":"object","properties":{"id":{"type":"integer","maximum":9007199254740992}}}}`,
	), nil, declaration.Snapshot{})
}

func TestAdmit(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, tool, arguments, input string }{
		{"an object", "echo", `{"n":1}`, `{"n":1}`},
		{"a string that holds one", "echo", quoted(`{"n":1}`), `{"n":1}`},
		{"white space goes, order and digits stay", "echo", quoted(" {\n \"z\" : 1.0, \"a\" : [ 1E+2 ] }\n"), `{"z":1.0,"a":[1E+2]}`},
		{"exact digits", "echo", `{"id":9007199254740993,"big":12345678901234567890,"d":0.10}`, `{"id":9007199254740993,"big":12345678901234567890,"d":0.10}`},
		{"absent", "echo", ``, `{}`},
		{"null", "echo", `null`, `{}`},
		{"empty", "echo", `""`, `{}`},
		{"blank", "echo", `" \n\u00a0"`, `{}`},
		{"escapes stay as they were written", "echo", `{"a":"\u00e9"}`, `{"a":"\u00e9"}`},
		{"an escaped escape is ordinary text", "echo", `{"a":"\\u0000"}`, `{"a":"\\u0000"}`},
		{"keys that differ in case", "echo", `{"a":1,"A":2}`, `{"a":1,"A":2}`},
		{"a match", "add", `{"a":12345678901234567890}`, `{"a":12345678901234567890}`},
		{"64 KiB to the byte", "echo", `{"a":"` + strings.Repeat("x", 64<<10-8) + `"}`, `{"a":"` + strings.Repeat("x", 64<<10-8) + `"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			admitted := declaration.Admit(admission(t), schema.NewCache(8), call(tc.tool, tc.arguments))
			require.Nil(t, admitted.Failure)
			require.Equal(t, tc.tool, admitted.Tool.Name)
			require.Equal(t, tc.input, string(admitted.Input))
		})
	}
}

func call(name, arguments string) declaration.Call {
	c := declaration.Call{Name: name}
	if arguments != "" {
		c.Arguments = jsontext.Value(arguments)
	}
	return c
}

func TestBirthFailures(t *testing.T) {
	t.Parallel()
	deep := func(n int) string { return `{"a":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}` }
	const (
		arguments = toolpark.ErrInvalidToolArguments
		input     = toolpark.ErrInvalidToolInput
	)
	cut := `{"path":"/r.txt","content":"line one`
	for _, tc := range []struct {
		name, tool, arguments string
		key, detail           string
		kept                  string // the input that stays readable
	}{
		{"an unknown tool", "no_such", `{"n":1}`, toolpark.ErrUnknownTool, `"no_such" is not declared`, `{"n":1}`},
		{"an unknown tool with bad arguments", "no_such", `"{"`, toolpark.ErrUnknownTool, `"no_such"`, ""},
		{"a kernel tool", "tool_search", `{}`, toolpark.ErrUnknownTool, `"tool_search"`, `{}`},
		{"another case", "Echo", `{}`, toolpark.ErrUnknownTool, `"Echo"`, `{}`},
		{"a name of 9 KB", strings.Repeat("n", 9<<10), `{}`, toolpark.ErrUnknownTool, "nnn", `{}`},
		{"a name that cannot be stored", "a\x00\xff", `{}`, toolpark.ErrUnknownTool, `"a\x00\xff"`, `{}`},

		{"cut in a text", "echo", quoted(cut), arguments, "cut off", ""},
		{"cut after a colon", "echo", quoted(`{"n":`), arguments, "byte 5", ""},
		{"two objects", "echo", quoted(`{"a":1}{"b":2}`), arguments, "byte 7", ""},
		{"text behind", "echo", quoted(`{"a":1} x`), arguments, "byte 8", ""},
		{"prose", "echo", quoted(`I will call it`), arguments, "byte 0", ""},
		{"NaN", "echo", quoted(`{"a":NaN}`), arguments, "byte 5", ""},
		{"null in a string", "echo", `"null"`, arguments, "must be a JSON object", ""},
		{"a list in a string", "echo", `"[]"`, arguments, "must be a JSON object", ""},
		{"a number in a string", "echo", `"5"`, arguments, "must be a JSON object", ""},
		{"a string in a string", "echo", `"\"{}\""`, arguments, "must be a JSON object", ""},
		{"a list", "echo", `[]`, arguments, "must be a JSON object", ""},
		{"a number", "echo", `5`, arguments, "must be a JSON object", ""},
		{"true", "echo", `true`, arguments, "must be a JSON object", ""},
		{"a key twice", "echo", `{"amount":1,"amount":1000}`, arguments, "/amount", ""},
		{"a key twice in a string", "echo", quoted(`{"a":{"b":1,"b":2}}`), arguments, "/a/b", ""},
		{"a number beyond the bound", "echo", `{"x":1e131072}`, arguments, "/x", ""},
		{"a long number", "echo", `{"x":` + strings.Repeat("9", 1001) + `}`, arguments, "/x", ""},
		{"nesting", "echo", deep(1_000), arguments, "nesting", ""},
		{"nesting in a string", "echo", quoted(deep(20_000)), arguments, "", ""},

		{"64 KiB and a byte", "echo", `{"a":"` + strings.Repeat("x", 64<<10-7) + `"}`, toolpark.ErrToolInputTooLarge, "65537 bytes; they may have 65536", ""},

		{"U+0000", "echo", `{"a":"\u0000"}`, input, "/a: ", ""},
		{"U+0000 in a string", "echo", quoted(`{"a":"\u0000"}`), input, "/a: ", ""},
		{"U+0000 of the outer string", "echo", `"{\"a\":\"\u0000\"}"`, input, "U+0000 at byte 6", ""},
		{"U+0000 in a key", "echo", `{"k\u0000":1}`, input, "U+0000", ""},
		{"a lone surrogate", "echo", `{"a":"a\ud83db"}`, input, "/a: ", ""},
		{"a lone surrogate in a string", "echo", quoted(`{"a":"a\ud83db"}`), input, "/a: ", ""},
		{"a lone surrogate of the outer string", "echo", `"{\"a\":\"\ud83d\"}"`, input, "not Unicode", ""},
		{"a raw byte", "echo", "{\"a\":\"\xff\"}", input, "/a: ", ""},
		{"a raw byte of the outer string", "echo", "\"{\\\"a\\\":\\\"\xff\\\"}\"", input, "not Unicode", ""},

		{"a required property is missing", "add", `{}`, input, "the arguments: ", `{}`},
		{"absent, with a required property", "add", ``, input, "the arguments: ", `{}`},
		{"blank, with a required property", "add", `" "`, input, "the arguments: ", `{}`},
		{"null in a string, with a required property", "add", `"null"`, arguments, "", ""},
		{"another type", "add", `{"a":"1"}`, input, "/a: ", `{"a":"1"}`},
		{"an unknown property", "add", `{"a":1,"b":2}`, input, "/b: ", `{"a":1,"b":2}`},
		{"one above the maximum", "small", `{"id":9007199254740993}`, input, "/id: ", `{"id":9007199254740993}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			admitted := declaration.Admit(admission(t), schema.NewCache(8), call(tc.tool, tc.arguments))
			require.NotNil(t, admitted.Failure)
			require.Equal(t, tc.key, admitted.Failure.Key, admitted.Failure.Detail)
			require.Contains(t, admitted.Failure.Detail, tc.detail)
			require.Equal(t, tc.kept, string(admitted.Input))
			requireStorable(t, admitted.Failure.Detail)
		})
	}
}

func requireStorable(t *testing.T, detail string) {
	t.Helper()
	require.True(t, utf8.ValidString(detail))
	require.NotContains(t, detail, "\x00")
	require.Less(t, len(detail), 16<<10)
}

func TestACutOffTextIsSaidToBeCutOffAtItsEnd(t *testing.T) {
	t.Parallel()
	whole := `{"path":"/r.txt","content":"line one","n":[1,true,null]}`
	for n := 1; n < len(whole); n++ {
		admitted := declaration.Admit(admission(t), schema.NewCache(8), call("echo", quoted(whole[:n])))
		require.NotNil(t, admitted.Failure, whole[:n])
		require.Equal(t, toolpark.ErrInvalidToolArguments, admitted.Failure.Key)
		require.Contains(t, admitted.Failure.Detail, "cut off")
		require.Contains(t, admitted.Failure.Detail, "byte "+strconv.Itoa(n))
	}
}

func TestAtMostTenReasonsAreNamed(t *testing.T) {
	t.Parallel()
	members := make([]string, 40)
	for i := range members {
		members[i] = fmt.Sprintf(`"p%02d":1`, i)
	}
	admitted := declaration.Admit(admission(t), schema.NewCache(8), call("add", `{"a":1,`+strings.Join(members, ",")+`}`))
	require.NotNil(t, admitted.Failure)
	require.Len(t, strings.Split(admitted.Failure.Detail, "\n"), 10)
}

func TestHostileNumbersCostNoTime(t *testing.T) {
	t.Parallel()
	start := time.Now()
	for _, arguments := range []string{
		`{"id":1e1000}`,
		`{"id":[` + strings.TrimSuffix(strings.Repeat("1e999999,", 100), ",") + `]}`,
	} {
		require.NotNil(t, declaration.Admit(admission(t), schema.NewCache(8), call("small", arguments)).Failure)
	}
	require.Less(t, time.Since(start), time.Second)
}

// What Admit lets through, it lets through again in the form it keeps; what it refuses says so in
// text that can be stored.
func FuzzAdmit(f *testing.F) {
	c := admission(f)
	schemas := schema.NewCache(8)
	for _, arguments := range []string{
		`{"n":1}`, `"{\"n\":1}"`, `""`, `null`, `"{\"a\":"`, `{"a":1,"a":2}`, "{\"a\":\"\xff\"}", `{"a":"\ud83d"}`,
		`"{\"a\":\"\u0000\"}"`, `[]`, `{"x":1e9999}`, ` { "z" : 1.0 } `,
	} {
		f.Add("echo", []byte(arguments))
		f.Add("add", []byte(arguments))
	}
	f.Fuzz(func(t *testing.T, name string, arguments []byte) {
		admitted := declaration.Admit(c, schemas, declaration.Call{Name: name, Arguments: arguments})
		if admitted.Failure != nil {
			require.NotEmpty(t, admitted.Failure.Key)
			requireStorable(t, admitted.Failure.Detail)
			return
		}
		require.Equal(t, jsontext.KindBeginObject, admitted.Input.Kind())
		again := declaration.Admit(c, schemas, declaration.Call{Name: name, Arguments: admitted.Input})
		require.Equal(t, admitted, again)
	})
}

// A round of costly calls takes no longer than a costly call, and an ordinary one beside them is admitted.
func TestARoundOfCostlyCallsIsBounded(t *testing.T) {
	// Not parallel: the clock is the subject.
	c := assemble(t, bypass(
		`{"type":"function","name":"tree","parameters":{"type":"object","properties":{"a":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}}}`,
	), nil, declaration.Snapshot{})
	costly := call("tree", strings.Repeat(`{"a":`, 10)+"{}"+strings.Repeat("}", 10))
	calls := slices.Repeat([]declaration.Call{costly}, 127)
	calls = append(calls, call("tree", `{"a":{"a":{}}}`))
	start := time.Now()
	admitted := declaration.AdmitAll(c, schema.NewCache(8), calls)
	require.Less(t, time.Since(start), 5*time.Second)
	require.Nil(t, admitted[0].Failure)
	require.Equal(t, toolpark.ErrInvalidToolInput, admitted[126].Failure.Key)
	require.Nil(t, admitted[127].Failure)
}
