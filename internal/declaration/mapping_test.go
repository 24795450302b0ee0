package declaration_test

import (
	"encoding/json/v2"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/declaration"
	"github.com/toolpark/toolpark/schema"
)

// spelled is a context with the tool memory_grep under an alias that renames one parameter, turns
// another, keeps a third and omits a fourth.
func spelled(t testing.TB) *declaration.Context {
	t.Helper()
	return assemble(t, bypass(grepAlias(`,"params":{"re":{"maps_to":"pattern"},"match_case":{"maps_to":"ignore_case","invert":true,"description":"x"}},"omit":["path"]`)),
		nil, declaration.Snapshot{})
}

func TestACallUnderAnAliasIsMappedBack(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, arguments, input string }{
		{"all", `{"re":"a","match_case":true,"limit":5}`, `{"pattern":"a","ignore_case":false,"limit":5}`},
		{"in the order given", `{ "limit" : 5, "match_case" : false, "re" : "a" }`, `{"limit":5,"ignore_case":true,"pattern":"a"}`},
		{"what is left out stays out", `{"re":"a"}`, `{"pattern":"a"}`},
		{"digits and escapes stay", `{"limit":1.00e1,"re":"\u0061"}`, `{"limit":1.00e1,"pattern":"\u0061"}`},
		{"a key in escapes", `{"r\u0065":"a"}`, `{"pattern":"a"}`},
		{"in a string", quoted(`{"re":"a","match_case":true}`), `{"pattern":"a","ignore_case":false}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			admitted := declaration.Admit(spelled(t), schema.NewCache(8), call("Grep", tc.arguments))
			require.Nil(t, admitted.Failure)
			require.Equal(t, tc.input, string(admitted.Input))
			require.Equal(t, "Grep", admitted.Tool.Name)
			require.Equal(t, "memory_grep", admitted.Tool.Kernel.Name)
			require.Equal(t, "nexus.memory.grep", admitted.Tool.Kernel.Canonical)
			require.True(t, admitted.Tool.Kernel.Alias)
		})
	}
}

func TestACallUnderAnAliasIsHeldToTheAliasesParameters(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, arguments, detail string }{
		{"the kernel's spelling", `{"re":"a","ignore_case":true}`, "/ignore_case"},
		{"an omitted parameter", `{"re":"a","path":"/"}`, "/path"},
		{"a required parameter is missing", `{"match_case":true}`, "re"},
		{"only the kernel's required parameter", `{"pattern":"a"}`, "re"},
		{"a boolean in quotes", `{"re":"a","match_case":"true"}`, "/match_case"},
		{"the kernel's bound", `{"re":"a","limit":101}`, "/limit"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			admitted := declaration.Admit(spelled(t), schema.NewCache(8), call("Grep", tc.arguments))
			require.NotNil(t, admitted.Failure)
			require.Equal(t, toolpark.ErrInvalidToolInput, admitted.Failure.Key)
			require.Contains(t, admitted.Failure.Detail, tc.detail)
			require.Equal(t, tc.arguments, string(admitted.Input), "what stays readable is what the model wrote")
		})
	}
	for _, name := range []string{"memory_grep", "nexus.memory.grep", "grep"} {
		admitted := declaration.Admit(spelled(t), schema.NewCache(8), call(name, `{"pattern":"a"}`))
		require.Equal(t, toolpark.ErrUnknownTool, admitted.Failure.Key, "only the alias is declared, not %s", name)
	}
}

// Case 6: every digit arrives, through an alias's parameter map, too.
func TestDigitsPassAnAlias(t *testing.T) {
	t.Parallel()
	c := assemble(t, bypass(`{"name":"Do","canonical":"nexus.tools.call","params":{"tool":{"maps_to":"name"},"with":{"maps_to":"input"}}}`), nil, declaration.Snapshot{})
	const numbers = `{"id":9007199254740993,"big":12345678901234567890,"d":0.10}`
	admitted := declaration.Admit(c, schema.NewCache(8), call("Do", `{"with":`+numbers+`,"tool":"x"}`))
	require.Nil(t, admitted.Failure)
	require.Equal(t, `{"input":`+numbers+`,"name":"x"}`, string(admitted.Input))
}

func TestAPlainKernelToolTakesItsInputAsItIs(t *testing.T) {
	t.Parallel()
	c := assemble(t, with(`"kernel_tools":["nexus.tools.call"],`), nil, declaration.Snapshot{})
	admitted := declaration.Admit(c, schema.NewCache(8), call("tool_call", `{"input":{"b":1.0,"a":2},"name":"x"}`))
	require.Nil(t, admitted.Failure)
	require.Equal(t, `{"input":{"b":1.0,"a":2},"name":"x"}`, string(admitted.Input))
	require.False(t, admitted.Tool.Kernel.Alias)
}

// Whatever an alias spells and however a call is written, the kernel reads the call that a model without
// the alias would have made.
func TestMappingIsRespelling(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		spelling := rapid.SliceOfNDistinct(rapid.StringMatching(`[A-Za-z0-9_.-]{1,4}`), 4, 4, rapid.ID).Draw(t, "spellings")
		kernelNames := []string{"pattern", "path", "ignore_case", "limit"}
		invert := rapid.Bool().Draw(t, "invert")
		params, given, want := []string{}, []string{}, []string{}
		for _, i := range rapid.Permutation([]int{0, 1, 2, 3}).Draw(t, "order") {
			turned := ""
			if i == 2 && invert {
				turned = `,"invert":true,"description":"turned"`
			}
			params = append(params, fmt.Sprintf(`%s:{"maps_to":%q%s}`, quoted(spelling[i]), kernelNames[i], turned))
			if i != 0 && rapid.Bool().Draw(t, "left out") {
				continue
			}
			value, mapped := `"x\u0041"`, `"x\u0041"`
			switch i {
			case 2:
				on := rapid.Bool().Draw(t, "on")
				value, mapped = fmt.Sprint(on), fmt.Sprint(on != invert)
			case 3:
				value = rapid.SampledFrom([]string{"1", "1.0", "-0", "1e1"}).Draw(t, "number")
				mapped = value
			}
			given = append(given, quoted(spelling[i])+":"+value)
			want = append(want, quoted(kernelNames[i])+":"+mapped)
		}
		cfg, err := declaration.ParseConfigurationOver(kernel, bypass(grepAlias(`,"params":{`+strings.Join(params, ",")+`}`)))
		require.NoError(t, err)
		c, err := declaration.Assemble(cfg.Sources, nil, declaration.Options{}, declaration.Snapshot{})
		require.NoError(t, err)
		admitted := declaration.Admit(&c, schema.NewCache(8), call("Grep", "{"+strings.Join(given, ",")+"}"))
		require.Nil(t, admitted.Failure, "%v", admitted.Failure)
		require.Equal(t, "{"+strings.Join(want, ",")+"}", string(admitted.Input))

		memory, _ := kernel.ByName("memory_grep")
		compiled, err := schema.CompileObject(memory.Parameters)
		require.NoError(t, err)
		require.Empty(t, compiled.Check(admitted.Input))
		var object map[string]any
		require.NoError(t, json.Unmarshal(admitted.Input, &object))
	})
}
