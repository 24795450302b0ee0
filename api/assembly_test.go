package api_test

import (
	"encoding/json/jsontext"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"uuid"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/api/apitest"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
)

// importsOf is a body that selects a runner and imports all of its tools. more are further members of the
// configuration, each with a comma behind it.
func importsOf(runner, more string) string {
	return fmt.Sprintf(`{"default_runner_executor_public_id":%[1]q,"configuration":{%[2]s"runner_executor_public_ids":[%[1]q]}}`, runner, more)
}

// assembly projects; what is wrong with the request is so on purpose.
func (s *scene) assembly(body string) answer {
	s.t.Helper()
	return s.badly("POST", "/tools/assembly", body)
}

// capability is an entry that no model may call.
func capability(name string) runner.Entry {
	e := readOnly(name)
	e.Description, e.InputSchema = "", nil
	return e
}

func TestAssemblyRefusals(t *testing.T) {
	t.Parallel()
	s := sceneAt(t, kerneltest.StartAPI(t), readOnly("look"), capability("operate"))
	elsewhere := sceneAt(t, s.Kernel, readOnly("look")).Box.ID
	bobs := s.executorOf(s.Human("bob").ID, "bobs", readOnly("look")).ID
	revoked, leaving := s.Runner("revoked"), s.Runner("leaving")
	s.Serve(revoked, readOnly("look"))
	s.Serve(leaving, readOnly("look"))
	_, err := s.Kernel.DB.Pool.Exec(t.Context(), `UPDATE executors SET status = 'revoked' WHERE id = $1`, revoked.ID)
	require.NoError(t, err)
	require.NoError(t, leaving.Shutdown(t.Context()))
	provider := s.Executor(toolpark.ToolsProvider, "pool", toolpark.AccountWide)
	s.Serve(provider, readOnly("look"))
	ineligible := map[string]uuid.UUID{
		"an unknown runner": uuid.NewV7(), "a revoked runner": revoked.ID, "a runner that is shutting down": leaving.ID,
		"another account's runner": elsewhere, "another person's private runner": bobs,
		"a tools provider": provider.ID, "the agent's own application": s.AgentAt.ID,
	}
	const none = `"default_runner_executor_public_id":null`
	const selector = "/default_runner_executor_public_id"

	type refusal struct {
		body    string
		status  int
		code    toolpark.Code
		pointer string
	}
	refusals := map[string]refusal{
		"no selector":                      {`{}`, 400, toolpark.CodeParameterMissing, selector},
		"no selector beside a declaration": {`{"configuration":{}}`, 400, toolpark.CodeParameterMissing, selector},
		"a selector of no UUID":            {`{"default_runner_executor_public_id":"box"}`, 400, toolpark.CodeParameterInvalid, selector},
		"a configuration that is null":     {`{` + none + `,"configuration":null}`, 400, toolpark.CodeParameterMissing, "/configuration"},
		"a configuration that is a list":   {`{` + none + `,"configuration":[]}`, 400, toolpark.CodeParameterMissing, "/configuration"},
		"a configuration that is a text":   {`{` + none + `,"configuration":"x"}`, 400, toolpark.CodeParameterMissing, "/configuration"},
		"an unknown field":                 {`{` + none + `,"tool_definitions":[]}`, 400, toolpark.CodeParameterInvalid, "/tool_definitions"},
		"a field in other case":            {`{` + none + `,"Configuration":{}}`, 400, toolpark.CodeParameterInvalid, "/Configuration"},
		"a field twice":                    {`{` + none + `,"configuration":{},"configuration":{}}`, 400, toolpark.CodeBadRequest, "/configuration"},
		"no JSON":                          {`{`, 400, toolpark.CodeBadRequest, ""},

		"an unknown conversation":             {`{` + none + `,"conversation_public_id":"` + uuid.NewV7().String() + `"}`, 404, toolpark.CodeNotFound, ""},
		"a conversation of no UUID":           {`{` + none + `,"conversation_public_id":"x"}`, 400, toolpark.CodeParameterInvalid, "/conversation_public_id"},
		"a conversation beside a declaration": {`{` + none + `,"conversation_public_id":"` + uuid.NewV7().String() + `","configuration":{}}`, 422, toolpark.CodeValidationFailed, "/conversation_public_id"},

		"a runner outside the candidates":          {`{"default_runner_executor_public_id":"` + s.Box.ID.String() + `","configuration":{"runner_executor_public_ids":["` + elsewhere.String() + `"]}}`, 422, toolpark.CodeRunnerNotDeclared, selector},
		"a runner without candidates":              {`{"default_runner_executor_public_id":"` + s.Box.ID.String() + `","configuration":{}}`, 422, toolpark.CodeRunnerNotDeclared, selector},
		"a runner without candidates or a profile": {`{"default_runner_executor_public_id":"` + s.Box.ID.String() + `"}`, 422, toolpark.CodeRunnerNotDeclared, selector},

		"a route to what is not served": {assembling(string(function("f", routed(s.Box.ID, "Look")))), 422, toolpark.CodeToolNotServed, "/configuration/tool_definitions/0/route/tool_name"},
		"a route to a capability":       {assembling(string(function("f", routed(s.Box.ID, "operate")))), 422, toolpark.CodeToolNotServed, "/configuration/tool_definitions/0/route/tool_name"},
		"too large a declaration":       {assembling(string(function("f", `"x":"`+strings.Repeat("x", toolpark.MaxToolDefinitions)+`"`))), 413, toolpark.CodeContentTooLarge, "/configuration/tool_definitions"},
		"too large a body":              {assembling(`"` + strings.Repeat("x", toolpark.MaxBody) + `"`), 413, toolpark.CodeContentTooLarge, ""},
	}
	for name, id := range ineligible {
		refusals[name+" selected"] = refusal{importsOf(id.String(), ""), 422, toolpark.CodeRunnerNotEligible, selector}
		refusals["a route to "+name] = refusal{
			assembling(string(function("f", routed(id, "look")))), 422,
			toolpark.CodeRunnerNotEligible, "/configuration/tool_definitions/0/route/runner_executor_public_id",
		}
	}
	for name, c := range declarationRefusals {
		refusals[name] = refusal{`{` + none + `,"configuration":` + c.configuration + `}`, 422, c.code, "/configuration" + c.pointer}
	}
	for name, c := range refusals {
		t.Run(name, func(t *testing.T) {
			a := s.assembly(c.body).refused(c.status, c.code)
			if c.pointer != "" {
				require.Equal(t, c.pointer, a.text("/error/pointer"), "%s", a.Body)
			}
			require.Nil(t, a.raw("/tool_definitions"))
			require.Nil(t, a.raw("/environment"))
		})
	}

	t.Run("no accepted credential of a member", func(t *testing.T) {
		for _, bearer := range []string{"", "tp_member_wrong", s.Box.Token, s.AgentAt.Token} {
			s.sendBad("POST", base+"/tools/assembly", bearer, `{`+none+`}`).refused(http.StatusUnauthorized, toolpark.CodeUnauthorized)
		}
	})
	t.Run("a human", func(t *testing.T) {
		s.send("POST", base+"/tools/assembly", s.Admin.Token, `{`+none+`}`).refused(http.StatusForbidden, toolpark.CodeNotAgent)
	})
}

// assembling is a body that declares entries and selects no runner.
func assembling(definitions ...string) string {
	return `{"default_runner_executor_public_id":null,"configuration":{"tool_definitions":[` + strings.Join(definitions, ",") + `]}}`
}

const nothingAssembled = `{"environment":{"default_runner_executor_public_id":null,"executors":[],"runner_candidates":[]},"tool_definitions":[]}`

func TestAssemblySources(t *testing.T) {
	t.Parallel()
	s := sceneAt(t, kerneltest.StartAPI(t), readOnly("read"), readOnly("bash"), capability("operate"))
	box := s.Box.ID.String()
	_, err := s.Box.Announce(t.Context(), runner.Announcement{
		Tools:       []runner.Entry{readOnly("read"), readOnly("bash"), capability("operate")},
		Environment: jsontext.Value(`{"os":"linux","n":1.0}`),
	})
	require.NoError(t, err)

	t.Run("absent, null and empty declare nothing", func(t *testing.T) {
		for _, body := range []string{
			``, `,"configuration":{}`, `,"conversation_public_id":null`, `,"configuration":{},"conversation_public_id":null`,
			`,"configuration":{"tool_definitions":null,"kernel_tools":null,"runner_executor_public_ids":null,"runner_tool_names":null}`,
			`,"configuration":{"tool_definitions":[],"kernel_tools":[],"runner_executor_public_ids":[],"runner_tool_names":[]}`,
		} {
			a := s.assembly(`{"default_runner_executor_public_id":null` + body + `}`).ok(http.StatusOK)
			require.Equal(t, nothingAssembled, sorted(t, a.Body), body)
		}
	})

	t.Run("without a configuration it is the profile", func(t *testing.T) {
		s.profile(`{"approval_mode":"bypass","kernel_tools":["nexus.tools.call"],"runner_executor_public_ids":["` + box + `"]}`).ok(http.StatusOK)
		a := s.assembly(`{"default_runner_executor_public_id":"` + box + `"}`).ok(http.StatusOK)
		require.Equal(t, []string{"bash", "read", "tool_call"}, a.names("/tool_definitions"))
		a = s.assembly(`{"default_runner_executor_public_id":null,"configuration":{}}`).ok(http.StatusOK)
		require.Equal(t, nothingAssembled, sorted(t, a.Body), "an explicit one is no patch")
		s.profile(`{}`).ok(http.StatusOK)
	})

	t.Run("other fields of a configuration are ignored", func(t *testing.T) {
		a := s.assembly(`{"default_runner_executor_public_id":null,"configuration":{"approval_mode":"never","approval_rules":5,"prompt":"x",
			"kernel_tools":["nexus.tools.call"]}}`).ok(http.StatusOK)
		require.Equal(t, []string{"tool_call"}, a.names("/tool_definitions"))
	})

	t.Run("an import keeps schema and served name, and is deferred", func(t *testing.T) {
		a := s.assembly(importsOf(box, `"runner_tool_names":["read"],`)).ok(http.StatusOK)
		require.Equal(t, `[{"type":"function","function":{"name":"read","description":"Does read.","parameters":{"type":"object"}},`+
			`"route":{"kind":"runner","runner_executor_public_id":"`+box+`","tool_name":"read"},"defer_loading":true}]`, string(a.raw("/tool_definitions")))
		facts := `{"runner_executor_public_id":"` + box + `","display_name":"box","environment":{"os":"linux","n":1.0}}`
		require.Equal(t, `{"default_runner_executor_public_id":"`+box+`","executors":[`+facts+`],"runner_candidates":[`+facts+`]}`,
			string(a.raw("/environment")))
	})

	t.Run("runner_tool_names", func(t *testing.T) {
		for names, want := range map[string][]string{
			`null`:                                 {"bash", "read"}, // and never what only operators may call
			`[]`:                                   {},
			`["read"]`:                             {"read"},
			`["read","gone","Read","rea","read "]`: {"read"}, // exact, and what is not served adds nothing
			`["gone"]`:                             {},
			`["operate"]`:                          {},
			`["bash","read","bash"]`:               {"bash", "read"},
		} {
			a := s.assembly(importsOf(box, `"runner_tool_names":`+names+`,`)).ok(http.StatusOK)
			require.Equal(t, want, a.names("/tool_definitions"), names)
		}
	})

	t.Run("explicit tools stay when nothing is imported", func(t *testing.T) {
		a := s.assembly(importsOf(box, `"kernel_tools":[],"runner_tool_names":[],"tool_definitions":[{"name":"Call","canonical":"nexus.tools.call"},`+
			string(function("f", ""))+`],`)).ok(http.StatusOK)
		require.Equal(t, []string{"Call", "f"}, a.names("/tool_definitions"))
	})

	t.Run("what is declared with its route is not imported again", func(t *testing.T) {
		a := s.assembly(importsOf(box, `"tool_definitions":[`+string(function("my_read", routed(s.Box.ID, "read")))+`],`)).ok(http.StatusOK)
		require.Equal(t, []string{"bash", "my_read"}, a.names("/tool_definitions"))
	})

	t.Run("no runner selected imports nothing, and the candidates are shown", func(t *testing.T) {
		a := s.assembly(`{"default_runner_executor_public_id":null,"configuration":{"runner_executor_public_ids":["` + box + `"]}}`).ok(http.StatusOK)
		require.Empty(t, a.names("/tool_definitions"))
		require.Equal(t, box, a.text("/environment/runner_candidates/0/runner_executor_public_id"))
		require.Equal(t, "[]", string(a.raw("/environment/executors")))
	})

	t.Run("presence plays no role", func(t *testing.T) {
		before := s.assembly(importsOf(box, "")).ok(http.StatusOK)
		s.listen("/executor/events", s.Box.Token)
		require.Eventually(t, func() bool {
			return string(s.asAgent("GET", "/executors/"+box, "").raw("/executor/presence")) == "true"
		}, patience, patience/400)
		require.Equal(t, string(before.Body), string(s.assembly(importsOf(box, "")).ok(http.StatusOK).Body))
	})
}

func TestAssemblyCandidates(t *testing.T) {
	t.Parallel()
	s := sceneAt(t, kerneltest.StartAPI(t), readOnly("read"))
	second, leaving := s.Runner("second"), s.Runner("leaving")
	s.Serve(second, readOnly("other"))
	s.Serve(leaving, readOnly("gone"))
	require.NoError(t, leaving.Shutdown(t.Context()))
	elsewhere := sceneAt(t, s.Kernel, readOnly("read")).Box
	bobs := s.executorOf(s.Human("bob").ID, "bobs", readOnly("read"))
	mine := s.executorOf(s.Admin.ID, "mine", readOnly("private"))

	order := []uuid.UUID{second.ID, elsewhere.ID, mine.ID, leaving.ID, s.Box.ID, bobs.ID, uuid.NewV7()}
	list := make([]string, len(order))
	for i, id := range order {
		list[i] = `"` + id.String() + `"`
	}
	a := s.assembly(`{"default_runner_executor_public_id":"` + s.Box.ID.String() + `","configuration":{
		"runner_executor_public_ids":[` + strings.Join(list, ",") + `],
		"tool_definitions":[` + string(function("f", routed(mine.ID, "private"))) + `]}}`).ok(http.StatusOK)
	ids := func(pointer string) (ids []string) {
		for i := 0; ; i++ {
			id := a.text(fmt.Sprintf("%s/%d/runner_executor_public_id", pointer, i))
			if id == "" {
				return ids
			}
			ids = append(ids, id)
		}
	}
	require.Equal(t, []string{second.ID.String(), mine.ID.String(), s.Box.ID.String()}, ids("/environment/runner_candidates"),
		"the eligible ones, in declared order")
	require.Equal(t, []string{s.Box.ID.String(), mine.ID.String()}, ids("/environment/executors"), "the selected one and what a route names")
	require.Equal(t, []string{"f", "read"}, a.names("/tool_definitions"), "only the selected runner is imported from")
	for _, hidden := range []uuid.UUID{elsewhere.ID, leaving.ID, bobs.ID} {
		require.NotContains(t, string(a.Body), hidden.String())
	}
}

// Distinct served names get distinct callable names, the same ones whatever the order.
func TestServedNamesThatAreNoCallableNames(t *testing.T) {
	t.Parallel()
	s := sceneAt(t, kerneltest.StartAPI(t))
	names := []string{
		strings.Repeat("n", 76), strings.Repeat("n", 75) + "m", strings.Repeat("n", 128), strings.Repeat("n", 127) + "m",
		"repo.list-tags", "repo_list_tags", "repo/list tags", "天気", "翻訳", "openDoc", "OpenDoc", "caf\u00e9", "cafe\u0301",
		"memory_read", "skill", "nexus.memory.read", "taken",
	}
	body := importsOf(s.Box.ID.String(), `"tool_definitions":[{"type":"function","name":"taken"}],`)
	assembled := func() (string, map[string]string) {
		a := s.assembly(body).ok(http.StatusOK)
		callable := map[string]string{}
		for i, name := range a.names("/tool_definitions") {
			require.Regexp(t, `^[A-Za-z0-9_-]{1,64}$`, name)
			if served := a.text(fmt.Sprintf("/tool_definitions/%d/route/tool_name", i)); served != "" {
				callable[served] = name
			}
		}
		return string(a.Body), callable
	}
	serve := func(order []string) {
		entries := make([]runner.Entry, len(order))
		for i, name := range order {
			entries[i] = readOnly(name)
		}
		s.Serve(s.Box, entries...)
	}
	serve(names)
	first, callable := assembled()
	require.Len(t, callable, len(names), "every served name has a callable name of its own")
	for _, plain := range []string{"repo_list_tags", "openDoc", "OpenDoc"} {
		require.Equal(t, plain, callable[plain])
	}
	for _, other := range []string{"repo.list-tags", "taken", "skill", "memory_read", "天気"} {
		require.Regexp(t, `^.{1,49}__[0-9a-f]{12}$`, callable[other])
	}
	require.True(t, strings.HasPrefix(callable["repo/list tags"], "repo_list_tags__"), callable["repo/list tags"])
	require.True(t, strings.HasPrefix(callable["天気"], "____"), callable["天気"])
	for range 3 {
		names = append(names[5:], names[:5]...)
		serve(names)
		again, _ := assembled()
		require.Equal(t, first, again, "in any order")
	}

	t.Run("impossible names are refused by name", func(t *testing.T) {
		for _, name := range []string{"", strings.Repeat("n", 129), "a\u0000", "two\nlines", " lead"} {
			_, err := s.Box.Announce(apitest.BadRequest(t.Context()), runner.Announcement{Tools: []runner.Entry{readOnly(name)}})
			require.Equal(t, toolpark.CodeInvalidAnnouncement, code(err), "%q", name)
			require.ErrorContains(t, err, "tools[0].name")
		}
	})
}

// What an assembly shows is valid input: declared again, it comes to the same bytes.
func TestAnAssemblyAssemblesToItself(t *testing.T) {
	t.Parallel()
	s := sceneAt(t, kerneltest.StartAPI(t), readOnly("read"), readOnly("天気"), readOnly("skill"))
	box := s.Box.ID.String()
	first := s.assembly(importsOf(box, `"kernel_tools":["nexus.runners.list","nexus.tools.call"],"tool_definitions":[
		{"name":"Find","canonical":"nexus.tools.search","params":{"words":{"maps_to":"query","description":"What to look for"}},"omit":["limit"]},
		{"name":"Go","canonical":"nexus.tools.call","recut":{"anchor":"not shown to you, once","replacement":"hidden, when"},"defer_loading":true},
		{"name":"tool_call","canonical":"nexus.tools.call","description":"Mine: {{tool_search}}."},
		{"type":"function","name":"flat","strict":true,"parameters":{"type":"object","properties":{"b":{"maximum":1.0},"a":{}}}}],`)).ok(http.StatusOK)
	require.Len(t, first.names("/tool_definitions"), 8)
	again := s.assembly(importsOf(box, `"kernel_tools":["nexus.runners.list","nexus.tools.call"],"tool_definitions":`+string(first.raw("/tool_definitions"))+`,`)).ok(http.StatusOK)
	require.Equal(t, string(first.Body), string(again.Body))
	explicit := s.assembly(importsOf(box, `"runner_tool_names":[],"tool_definitions":`+string(first.raw("/tool_definitions"))+`,`)).ok(http.StatusOK)
	require.Equal(t, string(first.Body), string(explicit.Body), "with nothing left to import")

	find := `{"type":"function","function":{"name":"Find","description":`
	require.Contains(t, string(first.Body), find)
	require.Contains(t, string(first.Body), `"canonical":"nexus.tools.search","params":{"words":{"maps_to":"query","description":"What to look for"}},"omit":["limit"]`)
	require.Contains(t, string(first.Body), "hidden, when Find has found it", "a recut text speaks the declaration's names")
	require.Contains(t, string(first.Body), `"Mine: {{tool_search}}."`, "an author's text is never rendered")
}

func TestAnAssemblyWritesNothing(t *testing.T) {
	t.Parallel()
	s := sceneAt(t, kerneltest.StartAPI(t), readOnly("read"))
	s.profile(`{"approval_mode":"bypass","runner_executor_public_ids":["` + s.Box.ID.String() + `"]}`).ok(http.StatusOK)
	before := dump(t, s.Kernel)
	for range 3 {
		_, err := s.Agent.Assemble(t.Context(), s.Box.ID.String(), nil)
		require.NoError(t, err)
		_, err = s.Agent.Assemble(t.Context(), "", &agent.Configuration{KernelTools: []string{"nexus.tools.call"}})
		require.NoError(t, err)
	}
	s.assembly(importsOf(uuid.NewV7().String(), "")).refused(http.StatusUnprocessableEntity, toolpark.CodeRunnerNotEligible)
	s.assembly(`{}`).refused(http.StatusBadRequest, toolpark.CodeParameterMissing)
	require.Equal(t, before, dump(t, s.Kernel), "every row of every table")
}

func TestAnAssemblyIsBounded(t *testing.T) {
	t.Parallel()
	s := sceneAt(t, kerneltest.StartAPI(t))
	entries := make([]runner.Entry, 3)
	for i := range entries {
		entries[i] = readOnly(fmt.Sprintf("tool%d", i))
		entries[i].InputSchema = jsontext.Value(`{"type":"object","description":"` + strings.Repeat("x", 200<<10) + `"}`)
	}
	s.Serve(s.Box, entries...)
	box := s.Box.ID.String()
	large := `{"type":"function","name":"f","description":"` + strings.Repeat("y", 500<<10) + `"}`
	s.assembly(importsOf(box, "")).ok(http.StatusOK)
	s.assembly(assembling(large)).ok(http.StatusOK)
	s.assembly(importsOf(box, `"tool_definitions":[`+large+`],`)).refused(http.StatusRequestEntityTooLarge, toolpark.CodeContentTooLarge)
}
