package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kerneltest"
)

// profile puts an agent's configuration.
func (s *scene) profile(configuration string) answer {
	s.t.Helper()
	return s.badly("PUT", "/profile/configuration", `{"configuration":`+configuration+`}`)
}

// names are the callable names of a list of tool definitions.
func (a answer) names(pointer string) []string {
	a.t.Helper()
	names := []string{}
	for i := 0; ; i++ {
		at := fmt.Sprintf("%s/%d", pointer, i)
		if a.raw(at) == nil {
			return names
		}
		names = append(names, a.text(at+"/function/name"))
	}
}

func TestAProfile(t *testing.T) {
	t.Parallel()
	s := sceneAt(t, kerneltest.StartAPI(t), readOnly("look"))
	empty := s.asAgent("GET", "/profile", "").ok(http.StatusOK)
	require.Equal(t, s.Agent.ID.String(), empty.text("/profile/member_public_id"))
	require.Equal(t, "robot", empty.text("/profile/handle"))
	require.Equal(t, "{}", string(empty.raw("/profile/configuration")))
	require.Equal(t, "null", string(empty.raw("/profile/updated_at")))

	const first = `{"runner_tool_names":["b"],"kernel_tools":["nexus.tools.call"],"approval_mode":"bypass"}`
	put := s.profile(first).ok(http.StatusOK)
	require.Equal(t, first, string(put.raw("/profile/configuration")), "as it was put")
	require.NotEmpty(t, put.text("/profile/updated_at"))
	require.Equal(t, string(put.Body), string(s.asAgent("GET", "/profile", "").ok(http.StatusOK).Body))

	const ruled = `{"approval_rules":[{"verdict":"ask","tool":"b*","hold_ms":5}],"approval_mode":"rules"}`
	require.Equal(t, ruled, string(s.profile(ruled).ok(http.StatusOK).raw("/profile/configuration")), "as it was put")

	const second = `{"runner_executor_public_ids":null}`
	s.profile(second).ok(http.StatusOK)
	require.Equal(t, second, string(s.asAgent("GET", "/profile", "").raw("/profile/configuration")), "replaced whole")

	t.Run("a human has none", func(t *testing.T) {
		s.send("GET", base+"/profile", s.Admin.Token, "").refused(http.StatusForbidden, toolpark.CodeNotAgent)
		s.send("PUT", base+"/profile/configuration", s.Admin.Token, `{"configuration":{}}`).refused(http.StatusForbidden, toolpark.CodeNotAgent)
	})

	t.Run("it is the agent's own", func(t *testing.T) {
		robot, err := s.Kernel.DB.CreateAgent(t.Context(), s.ID, s.Admin.ID, "other", "Other", false)
		require.NoError(t, err)
		other := s.send("GET", base+"/profile", s.member(robot.ID).Token, "").ok(http.StatusOK)
		require.Equal(t, "{}", string(other.raw("/profile/configuration")))
	})

	t.Run("it judges no runner yet", func(t *testing.T) {
		gone := sceneAt(t, s.Kernel).Box.ID
		s.profile(`{"approval_mode":"bypass","runner_executor_public_ids":["` + gone.String() + `"],"tool_definitions":[` +
			string(function("look", routed(gone, "look"))) + `]}`).ok(http.StatusOK)
	})
}

// declarationRefusals are configurations that break the grammar, with the code and the place of what is wrong.
// They are refused alike wherever a configuration may be.
var declarationRefusals = map[string]struct {
	configuration string
	code          toolpark.Code
	pointer       string // below the configuration
}{
	"definitions of no list":       {`{"tool_definitions":{}}`, toolpark.CodeValidationFailed, "/tool_definitions"},
	"a definition of no object":    {`{"tool_definitions":["f"]}`, toolpark.CodeValidationFailed, "/tool_definitions/0"},
	"a definition of another type": {`{"tool_definitions":[{"type":"web_search"}]}`, toolpark.CodeValidationFailed, "/tool_definitions/0/type"},
	"a name no provider takes":     {`{"tool_definitions":[{"type":"function","name":"a b"}]}`, toolpark.CodeValidationFailed, "/tool_definitions/0/name"},
	"a name twice":                 {`{"tool_definitions":[{"type":"function","name":"f"},{"type":"function","function":{"name":"f"}}]}`, toolpark.CodeDuplicateToolName, "/tool_definitions/1"},
	"strict of no boolean":         {`{"tool_definitions":[{"type":"function","name":"f","strict":1}]}`, toolpark.CodeValidationFailed, "/tool_definitions/0/strict"},
	"defer_loading of no boolean":  {`{"tool_definitions":[{"type":"function","name":"f","defer_loading":null}]}`, toolpark.CodeValidationFailed, "/tool_definitions/0/defer_loading"},
	"a route without a target":     {`{"tool_definitions":[{"type":"function","name":"f","route":{"kind":"runner","tool_name":"f"}}]}`, toolpark.CodeRunnerTargetRequired, "/tool_definitions/0/route/runner_executor_public_id"},
	"a malformed route":            {`{"tool_definitions":[{"type":"function","name":"f","route":"box"}]}`, toolpark.CodeInvalidToolRoute, "/tool_definitions/0/route"},
	"a kernel tool paraphrased":    {`{"tool_definitions":[{"type":"function","function":{"name":"tool_call","description":"Calls.","parameters":{"type":"object"}}}]}`, toolpark.CodeKernelToolRedefined, "/tool_definitions/0/function/name"},
	"a name kept for the kernel":   {`{"tool_definitions":[{"type":"function","name":"delegate_task"}]}`, toolpark.CodeKernelToolRedefined, "/tool_definitions/0/name"},
	"kernel_tools of no list":      {`{"kernel_tools":"nexus.tools.call"}`, toolpark.CodeValidationFailed, "/kernel_tools"},
	"kernel_tools by wire name":    {`{"kernel_tools":["tool_call"]}`, toolpark.CodeValidationFailed, "/kernel_tools/0"},
	"kernel_tools not live":        {`{"kernel_tools":["nexus.tools.call","nexus.memory.read"]}`, toolpark.CodeValidationFailed, "/kernel_tools/1"},
	"kernel_tools twice":           {`{"kernel_tools":["nexus.tools.call","nexus.tools.call"]}`, toolpark.CodeValidationFailed, "/kernel_tools/1"},
	"candidates of no list":        {`{"runner_executor_public_ids":{}}`, toolpark.CodeValidationFailed, "/runner_executor_public_ids"},
	"a candidate of no UUID":       {`{"runner_executor_public_ids":["box"]}`, toolpark.CodeValidationFailed, "/runner_executor_public_ids/0"},
	"a candidate in capitals":      {`{"runner_executor_public_ids":["01900000-0000-7000-8000-00000000000A"]}`, toolpark.CodeValidationFailed, "/runner_executor_public_ids/0"},
	"a candidate twice":            {`{"runner_executor_public_ids":["01900000-0000-7000-8000-00000000000a","01900000-0000-7000-8000-00000000000a"]}`, toolpark.CodeValidationFailed, "/runner_executor_public_ids/1"},
	"runner_tool_names of no list": {`{"runner_tool_names":"read"}`, toolpark.CodeValidationFailed, "/runner_tool_names"},
	"runner_tool_names of numbers": {`{"runner_tool_names":["read",1]}`, toolpark.CodeValidationFailed, "/runner_tool_names/1"},

	"U+0000 in a definition": {`{"tool_definitions":[{"type":"function","name":"f","description":"a\u0000"}]}`, toolpark.CodeValidationFailed, "/tool_definitions/0/description"},
	"U+0000 in an import":    {`{"runner_tool_names":["a\u0000"]}`, toolpark.CodeValidationFailed, "/runner_tool_names/0"},

	"an alias of nothing":             {`{"tool_definitions":[{"name":"Call","canonical":"tool_call"}]}`, toolpark.CodeAliasCanonicalUnknown, "/tool_definitions/0/canonical"},
	"an alias of what is not live":    {`{"tool_definitions":[{"name":"Skill","canonical":"nexus.skill.load"}]}`, toolpark.CodeAliasCanonicalUnknown, "/tool_definitions/0/canonical"},
	"an alias by another's name":      {`{"tool_definitions":[{"name":"ask","canonical":"nexus.tools.call"}]}`, toolpark.CodeAliasNameReserved, "/tool_definitions/0/name"},
	"an alias twice":                  {`{"tool_definitions":[{"name":"Go","canonical":"nexus.tools.call"},{"name":"Go","canonical":"nexus.tools.search"}]}`, toolpark.CodeDuplicateToolName, "/tool_definitions/1"},
	"an alias of no such parameter":   {`{"tool_definitions":[{"name":"Go","canonical":"nexus.tools.call","params":{"tool":{"maps_to":"tool"}}}]}`, toolpark.CodeAliasParamUnknown, "/tool_definitions/0/params/tool/maps_to"},
	"an alias that omits nothing":     {`{"tool_definitions":[{"name":"Go","canonical":"nexus.tools.call","omit":["tool"]}]}`, toolpark.CodeAliasParamUnknown, "/tool_definitions/0/omit/0"},
	"an alias that omits too much":    {`{"tool_definitions":[{"name":"Go","canonical":"nexus.tools.call","omit":["input"]}]}`, toolpark.CodeValidationFailed, "/tool_definitions/0/omit/0"},
	"an alias that turns a text":      {`{"tool_definitions":[{"name":"Go","canonical":"nexus.tools.call","params":{"tool":{"maps_to":"name","invert":true,"description":"x"}}}]}`, toolpark.CodeAliasInvertNeedsBoolean, "/tool_definitions/0/params/tool/invert"},
	"an alias cut where nothing is":   {`{"tool_definitions":[{"name":"Go","canonical":"nexus.tools.call","recut":{"anchor":"no such words","replacement":"x"}}]}`, toolpark.CodeAliasRecutAnchorMissing, "/tool_definitions/0/recut/anchor"},
	"an alias cut at a render's word": {`{"tool_definitions":[{"name":"Go","canonical":"nexus.tools.call","recut":{"anchor":"once tool_search","replacement":"x"}}]}`, toolpark.CodeAliasRecutAnchorMissing, "/tool_definitions/0/recut/anchor"},
	"an alias cut and described":      {`{"tool_definitions":[{"name":"Go","canonical":"nexus.tools.call","description":"d","recut":{"anchor":"not shown to you, once","replacement":"x"}}]}`, toolpark.CodeValidationFailed, "/tool_definitions/0/recut"},
	"an alias with another field":     {`{"tool_definitions":[{"name":"Go","canonical":"nexus.tools.call","route":{}}]}`, toolpark.CodeValidationFailed, "/tool_definitions/0/route"},
}

func TestProfileRefusals(t *testing.T) {
	t.Parallel()
	s := sceneAt(t, kerneltest.StartAPI(t))
	const standing = `{"kernel_tools":["nexus.runners.list"],"approval_mode":"bypass"}`
	s.profile(standing).ok(http.StatusOK)
	before := string(s.asAgent("GET", "/profile", "").ok(http.StatusOK).Body)
	unchanged := func(t *testing.T) {
		t.Helper()
		require.Equal(t, before, string(s.asAgent("GET", "/profile", "").ok(http.StatusOK).Body))
	}

	for name, c := range declarationRefusals {
		t.Run(name, func(t *testing.T) {
			a := s.profile(c.configuration).refused(http.StatusUnprocessableEntity, c.code)
			require.Equal(t, "/configuration"+c.pointer, a.text("/error/pointer"), "%s", a.Body)
			require.Contains(t, a.text("/error/message"), string(c.code), "the message names the code")
			field, _, _ := strings.Cut(c.pointer[1:], "/")
			require.Contains(t, a.text("/error/message"), field, "and the field")
			unchanged(t)
		})
	}
	for name, c := range map[string]struct {
		body    string
		status  int
		code    toolpark.Code
		pointer string
	}{
		"no configuration":             {`{}`, 400, toolpark.CodeParameterMissing, "/configuration"},
		"a configuration that is null": {`{"configuration":null}`, 400, toolpark.CodeParameterMissing, "/configuration"},
		"a configuration of no object": {`{"configuration":[]}`, 400, toolpark.CodeParameterMissing, "/configuration"},
		"an unknown field":             {`{"configuration":{},"name":"x"}`, 400, toolpark.CodeParameterInvalid, "/name"},
		"a misspelt field":             {`{"configuration":{"approval_rule":[]}}`, 400, toolpark.CodeParameterInvalid, "/configuration/approval_rule"},
		"no approval mode":             {`{"configuration":{"kernel_tools":["nexus.tools.call"]}}`, 422, toolpark.CodeValidationFailed, "/configuration/approval_mode"},
		"candidates and no mode":       {`{"configuration":{"runner_executor_public_ids":["01900000-0000-7000-8000-00000000000a"]}}`, 422, toolpark.CodeValidationFailed, "/configuration/approval_mode"},
		"a mode that does not exist":   {`{"configuration":{"approval_mode":"never"}}`, 422, toolpark.CodeValidationFailed, "/configuration/approval_mode"},
		"a malformed approval rule":    {`{"configuration":{"approval_rules":[{"tool":"*","verdict":"allow"},{"tool":"*","verdict":"deny","when":"always"}]}}`, 422, toolpark.CodeInvalidApprovalRules, "/configuration/approval_rules/1/when"},
		"too large":                    {`{"configuration":{"tool_definitions":["` + strings.Repeat("x", toolpark.MaxToolDefinitions) + `"]}}`, 413, toolpark.CodeContentTooLarge, "/configuration/tool_definitions"},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.badly("PUT", "/profile/configuration", c.body).refused(c.status, c.code)
			require.Equal(t, c.pointer, a.text("/error/pointer"), "%s", a.Body)
			unchanged(t)
		})
	}

	t.Run("nothing callable needs no mode", func(t *testing.T) {
		for _, configuration := range []string{
			`{}`, `{"tool_definitions":[],"kernel_tools":null,"runner_executor_public_ids":[]}`,
			`{"runner_executor_public_ids":["01900000-0000-7000-8000-00000000000a"],"runner_tool_names":[]}`,
		} {
			s.profile(configuration).ok(http.StatusOK)
		}
	})
}

func TestARunUsesTheProfile(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"), readOnly("write"))
	box := s.Box.ID.String()
	s.profile(`{"approval_mode":"bypass","kernel_tools":["nexus.tools.search"],"runner_executor_public_ids":["` + box + `"],
		"tool_definitions":[{"name":"Call","canonical":"nexus.tools.call"}]}`).ok(http.StatusOK)
	create := func(more string, headers ...string) answer {
		return s.asAgent("POST", "/runs", `{"default_runner_executor_public_id":"`+box+`"`+more+`}`, headers...)
	}
	contextOf := func(run answer) answer {
		return s.asAgent("GET", "/runs/"+run.text("/run/public_id")+"/context", "").ok(http.StatusOK)
	}

	run := create("", "Idempotency-Key", "k").ok(http.StatusCreated)
	require.Equal(t, "bypass", run.text("/run/approval_mode"))
	frozen := contextOf(run)
	require.Equal(t, []string{"Call", "look", "tool_search", "write"}, frozen.names("/context/tool_definitions"))
	require.Contains(t, frozen.text("/context/tool_definitions/2/function/description"), "ready for Call.", "kernel texts speak the profile's names")

	t.Run("tool_names narrows it", func(t *testing.T) {
		narrowed := create(`,"tool_names":["look","Call"]`).ok(http.StatusCreated)
		require.Equal(t, []string{"Call", "look"}, contextOf(narrowed).names("/context/tool_definitions"))
		require.Equal(t, toolpark.ErrUnknownTool, s.result(narrowed.text("/run/public_id"), "write", `{}`).Error.Key)
		none := create(`,"tool_names":[]`).ok(http.StatusCreated)
		require.Empty(t, contextOf(none).names("/context/tool_definitions"))
		all := create(`,"tool_names":null`).ok(http.StatusCreated)
		require.Equal(t, string(frozen.Body), string(contextOf(all).Body))
		a := create(`,"tool_names":["look","gone"]`).refused(http.StatusUnprocessableEntity, toolpark.CodeToolNotDeclared)
		require.Equal(t, "/tool_names/1", a.text("/error/pointer"))
	})

	t.Run("approval rules are frozen", func(t *testing.T) {
		const rules = `[{"tool":"write|Call","path":"path","match":"/etc/*","verdict":"deny","reason":"Not there"},{"tool":"*","verdict":"ask","origin":"author","hold_ms":60000}]`
		ruled := func(members string) answer {
			return create(`,"configuration":{` + members + `"runner_executor_public_ids":["` + box + `"]}`).ok(http.StatusCreated)
		}
		for _, mode := range []string{"bypass", "ask", "rules"} {
			run := ruled(`"approval_mode":"` + mode + `","approval_rules":` + rules + `,`)
			require.Equal(t, mode, run.text("/run/approval_mode"))
			require.Equal(t, rules, string(contextOf(run).raw("/approval_rules")))
			require.Equal(t, []string{"look", "write"}, contextOf(run).names("/context/tool_definitions"))
		}
		require.Equal(t, "[]", string(frozen.raw("/approval_rules")))
		narrowed := create(`,"tool_names":["look"],"configuration":{"approval_mode":"rules","approval_rules":` + rules +
			`,"runner_executor_public_ids":["` + box + `"]}`).ok(http.StatusCreated)
		require.Equal(t, rules, string(contextOf(narrowed).raw("/approval_rules")), "they are about the calls, whatever is declared")
	})

	t.Run("a configuration of its own replaces it whole", func(t *testing.T) {
		own := create(`,"configuration":{}`).ok(http.StatusCreated)
		require.Empty(t, contextOf(own).names("/context/tool_definitions"))
		require.Equal(t, "null", string(own.raw("/run/approval_mode")))
	})

	t.Run("a human has no profile", func(t *testing.T) {
		own := s.send("POST", base+"/runs", s.Admin.Token, `{"default_runner_executor_public_id":null}`).ok(http.StatusCreated)
		frozen := s.send("GET", base+"/runs/"+own.text("/run/public_id")+"/context", s.Admin.Token, "").ok(http.StatusOK)
		require.Empty(t, frozen.names("/context/tool_definitions"))
	})

	t.Run("a later profile is for later runs", func(t *testing.T) {
		s.profile(`{}`).ok(http.StatusOK)
		require.Equal(t, string(frozen.Body), string(contextOf(run).Body))
		again := create("", "Idempotency-Key", "k").ok(http.StatusCreated)
		require.Equal(t, run.text("/run/public_id"), again.text("/run/public_id"))
		require.Empty(t, contextOf(create("").ok(http.StatusCreated)).names("/context/tool_definitions"))
	})

	t.Run("what it names is judged at acceptance", func(t *testing.T) {
		s.profile(`{"approval_mode":"bypass","tool_definitions":[` + string(function("f", routed(s.Box.ID, "gone"))) + `]}`).ok(http.StatusOK)
		a := create("").refused(http.StatusUnprocessableEntity, toolpark.CodeToolNotServed)
		require.Equal(t, "/configuration/tool_definitions/0/route/tool_name", a.text("/error/pointer"))
	})
}
