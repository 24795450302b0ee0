package api_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"uuid"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
)

// sources draws a configuration over the runners, as its members.
func sources(t *rapid.T, runners []kerneltest.Executor) map[string]any {
	names := []string{"read", "bash", "天気", "skill", "operate", "gone"}
	definition := rapid.Custom(func(t *rapid.T) jsontext.Value {
		target := rapid.SampledFrom(runners).Draw(t, "target").ID
		served := rapid.SampledFrom(names).Draw(t, "served")
		deferred := rapid.SampledFrom([]string{"", `,"defer_loading":true`, `,"defer_loading":false`}).Draw(t, "deferred")
		return jsontext.Value(rapid.SampledFrom([]string{
			`{"type":"function","name":"f","strict":true` + deferred + `}`,
			`{"type":"function","function":{"name":"read","description":"Mine."}` + deferred + `}`,
			`{"type":"function","name":"` + fmt.Sprintf("to_%x", served) + `",` + routed(target, served) + deferred + `}`,
			`{"name":"Find","canonical":"nexus.tools.search","params":{"words":{"maps_to":"query"}}` + deferred + `}`,
			`{"name":"Go","canonical":"nexus.tools.call","description":"Goes."` + deferred + `}`,
			`{"name":"tool_call","canonical":"nexus.tools.call"` + deferred + `}`,
			`{"name":"Boxes","canonical":"nexus.runners.list"` + deferred + `}`,
		}).Draw(t, "definition"))
	})
	members := map[string]any{"approval_mode": "bypass"}
	if rapid.Bool().Draw(t, "definitions") {
		members["tool_definitions"] = rapid.SliceOfNDistinct(definition, 0, 4, func(v jsontext.Value) string { return string(v) }).Draw(t, "tool_definitions")
	}
	if rapid.Bool().Draw(t, "kernel") {
		members["kernel_tools"] = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
			"nexus.tools.search", "nexus.tools.call", "nexus.runners.list",
		}), 0, 3, rapid.ID).Draw(t, "kernel_tools")
	}
	if rapid.Bool().Draw(t, "candidates") {
		ids := []string{uuid.NewV7().String()}
		for _, r := range runners {
			ids = append(ids, r.ID.String())
		}
		members["runner_executor_public_ids"] = rapid.SliceOfNDistinct(rapid.SampledFrom(ids), 0, 3, rapid.ID).Draw(t, "runner_executor_public_ids")
	}
	if rapid.Bool().Draw(t, "allowed") {
		members["runner_tool_names"] = rapid.SliceOfN(rapid.SampledFrom(names), 0, 3).Draw(t, "runner_tool_names")
	}
	return members
}

// What is projected is what a run that is created at the same moment freezes, refusals included, whatever is
// declared, announced and eligible.
func TestAProjectionIsWhatARunFreezes(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	runners := []kerneltest.Executor{s.Box, s.Runner("second")}
	accepted, refused := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		if accepted+refused >= 40 && os.Getenv("TOOLPARK_FULL") == "" {
			return // each case is a run of its own
		}
		for i, e := range runners {
			var entries []runner.Entry
			for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"read", "bash", "天気", "skill"}), 0, 4, rapid.ID).Draw(r, "announced") {
				entries = append(entries, readOnly(name))
			}
			announcement := runner.Announcement{
				Tools:       append(entries, capability("operate")),
				Environment: jsontext.Value(fmt.Sprintf(`{"z":%d.0,"a":"<&>"}`, i)),
				Documents:   []runner.Document{{Name: "notes", Description: "What is noted."}},
			}
			_, err := e.Announce(t.Context(), announcement)
			require.NoError(r, err)
			if rapid.IntRange(0, 3).Draw(r, "leaving") == 0 {
				require.NoError(r, e.Shutdown(t.Context()))
			}
		}
		members := sources(r, runners)
		selected := "null"
		if i := rapid.IntRange(0, len(runners)).Draw(r, "selected"); i < len(runners) {
			selected = `"` + runners[i].ID.String() + `"`
		}
		body := func(members map[string]any) string {
			configuration, err := json.Marshal(members)
			require.NoError(r, err)
			return `{"default_runner_executor_public_id":` + selected + `,"configuration":` + string(configuration) + `}`
		}

		projected := s.assembly(body(members))
		shown := strings.TrimSpace(string(projected.Body))
		created := s.badly("POST", "/runs", body(members))
		if projected.text("/error/code") == string(toolpark.CodeRunnerNotDeclared) && !imports(members) {
			return // without any import field a run needs no list of candidates
		}
		if projected.Status != http.StatusOK {
			require.Equal(r, projected.Status, created.Status)
			for _, field := range []string{"code", "message", "pointer"} {
				require.Equal(r, projected.text("/error/"+field), created.text("/error/"+field))
			}
			refused++
			return
		}
		created.ok(http.StatusCreated)
		run := "/runs/" + created.text("/run/public_id")
		frozen := s.asAgent("GET", run+"/context", "").ok(http.StatusOK)
		require.Equal(r, shown, string(frozen.raw("/context")))
		accepted++

		if selected == "null" || imports(members) { // what a runner is selected from is declared again with it
			members["tool_definitions"] = projected.raw("/tool_definitions")
			require.Equal(r, string(projected.Body), string(s.assembly(body(members)).ok(http.StatusOK).Body), "it assembles to itself")
		}
	})
	require.Greater(t, accepted, 5)
	require.Greater(t, refused, 5)
}

func imports(members map[string]any) bool {
	for _, field := range []string{"kernel_tools", "runner_executor_public_ids", "runner_tool_names"} {
		if members[field] != nil {
			return true
		}
	}
	return false
}

func TestWhatAModelIsOffered(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("read"), readOnly("skill"))
	box := s.Box.ID.String()
	create := func(configuration string) string {
		t.Helper()
		a := s.badly("POST", "/runs", `{"default_runner_executor_public_id":"`+box+`","configuration":{"approval_mode":"bypass",`+configuration+`}}`)
		return a.ok(http.StatusCreated).text("/run/public_id")
	}
	offered := func(run, query string) answer {
		t.Helper()
		return s.asAgent("GET", "/runs/"+run+"/tools?"+query, "").ok(http.StatusOK)
	}
	names := func(a answer) (names []string) {
		t.Helper()
		for i := 0; a.raw(fmt.Sprintf("/tools/%d", i)) != nil; i++ {
			names = append(names, a.text(fmt.Sprintf("/tools/%d/name", i)))
		}
		return names
	}
	const read = `{"type":"function","name":"a_read","parameters":{"type":"object","properties":{"z":{},"n":{"maximum":1.0}}},"strict":true,"defer_loading":false,`
	run := create(`"tool_definitions":[` + read + routed(s.Box.ID, "read") + `},{"type":"function","name":"f","description":"<f>"},
		{"name":"Boxes","canonical":"nexus.runners.list","description":"Lists."}]`)

	t.Run("in the form of each provider, routes and alias facts left out", func(t *testing.T) {
		const schema = `{"type":"object","properties":{"z":{},"n":{"maximum":1.0}}}`
		const nothing, closed = `{"type":"object","properties":{}}`, `{"type":"object","properties":{},"additionalProperties":false}`
		for format, want := range map[string]string{
			"chat_completions": `[{"type":"function","function":{"name":"Boxes","description":"Lists.","parameters":` + closed + `,"strict":false}},` +
				`{"type":"function","function":{"name":"a_read","parameters":` + schema + `,"strict":true}},` +
				`{"type":"function","function":{"name":"f","description":"<f>","parameters":` + nothing + `,"strict":false}}]`,
			"responses": `[{"type":"function","name":"Boxes","description":"Lists.","parameters":` + closed + `,"strict":false},` +
				`{"type":"function","name":"a_read","parameters":` + schema + `,"strict":true},` +
				`{"type":"function","name":"f","description":"<f>","parameters":` + nothing + `,"strict":false}]`,
			"anthropic": `[{"name":"Boxes","description":"Lists.","input_schema":` + closed + `},` +
				`{"name":"a_read","input_schema":` + schema + `,"strict":true},` +
				`{"name":"f","description":"<f>","input_schema":` + nothing + `}]`,
		} {
			a := offered(run, "format="+format)
			require.Equal(t, want, string(a.raw("/tools")))
			sum := sha256.Sum256([]byte(format + "\n" + want))
			require.Equal(t, "sha256:"+hex.EncodeToString(sum[:]), a.text("/projection_digest"))
			require.Equal(t, string(a.Body), string(offered(run, "format="+format).Body), "the same bytes every time")
		}
		again := create(`"tool_definitions":[{"name":"Boxes","canonical":"nexus.runners.list","description":"Lists."},
			{"type":"function","name":"f","description":"<f>"},` + read + routed(s.Box.ID, "read") + `}]`)
		require.Equal(t, string(offered(run, "format=responses").Body), string(offered(again, "format=responses").Body), "in whatever order it was declared")
	})

	t.Run("tool_names narrows it", func(t *testing.T) {
		require.Equal(t, []string{"a_read", "f"}, names(offered(run, "format=anthropic&tool_names=f,a_read")))
		require.Empty(t, names(offered(run, "format=anthropic&tool_names=")))
		a := s.asAgent("GET", "/runs/"+run+"/tools?format=anthropic&tool_names=f,gone", "").refused(http.StatusUnprocessableEntity, toolpark.CodeToolNotDeclared)
		require.Equal(t, "/tool_names/1", a.text("/error/pointer"))
	})

	t.Run("deferred tools are left out once they can be found and called", func(t *testing.T) {
		imported := `"runner_executor_public_ids":["` + box + `"],"runner_tool_names":["read"]`
		for _, c := range []struct {
			name, more string
			want       []string
		}{
			{"neither", ``, []string{"read"}},
			{"only a search", `,"kernel_tools":["nexus.tools.search"]`, []string{"read", "tool_search"}},
			{"only a call", `,"kernel_tools":["nexus.tools.call"]`, []string{"read", "tool_call"}},
			{"both", `,"kernel_tools":["nexus.tools.search","nexus.tools.call"]`, []string{"tool_call", "tool_search"}},
			{"both, as aliases", `,"tool_definitions":[{"name":"Find","canonical":"nexus.tools.search"},{"name":"Go","canonical":"nexus.tools.call"}]`, []string{"Find", "Go"}},
			{
				"both, one deferred", `,"kernel_tools":["nexus.tools.search"],"tool_definitions":[{"name":"Go","canonical":"nexus.tools.call","defer_loading":true}]`,
				[]string{"Go", "read", "tool_search"},
			},
		} {
			t.Run(c.name, func(t *testing.T) {
				require.Equal(t, c.want, names(offered(create(imported+c.more), "format=responses")))
			})
		}
		t.Run("but not when tool_names takes the search away", func(t *testing.T) {
			both := create(imported + `,"kernel_tools":["nexus.tools.search","nexus.tools.call"]`)
			require.Equal(t, []string{"read", "tool_call"}, names(offered(both, "format=responses&tool_names=read,tool_call")))
		})
	})

	t.Run("a skill callable without a skill is left out", func(t *testing.T) {
		skilled := `"tool_definitions":[{"type":"function","name":"box_skill",` + routed(s.Box.ID, "skill") + `},{"type":"function","name":"f"}]`
		require.Equal(t, []string{"f"}, names(offered(create(skilled), "format=responses")))
		_, err := s.Box.Announce(t.Context(), runner.Announcement{
			Tools: []runner.Entry{readOnly("read"), readOnly("skill")}, Documents: []runner.Document{{Name: "notes", Description: "Notes."}},
		})
		require.NoError(t, err)
		require.Equal(t, []string{"box_skill", "f"}, names(offered(create(skilled), "format=responses")))
	})

	t.Run("refusals", func(t *testing.T) {
		for query, want := range map[string]toolpark.Code{
			"": toolpark.CodeParameterMissing, "?format=": toolpark.CodeParameterInvalid, "?format=openai": toolpark.CodeParameterInvalid,
			"?format=responses&format=anthropic": toolpark.CodeParameterInvalid, "?format=responses&strict=1": toolpark.CodeParameterInvalid,
		} {
			s.badly("GET", "/runs/"+run+"/tools"+query, "").refused(http.StatusBadRequest, want)
		}
	})
}

func TestSkills(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	mac, build := s.Runner("mac"), s.Runner("build")
	announce := func(e kerneltest.Executor, documents ...runner.Document) {
		t.Helper()
		_, err := e.Announce(t.Context(), runner.Announcement{Tools: []runner.Entry{readOnly("skill"), readOnly("read")}, Documents: documents})
		require.NoError(t, err)
	}
	announce(mac, runner.Document{Name: "notes", Description: "Notes of mac."}, runner.Document{Name: "apps", Description: "Its <apps>."})
	announce(build, runner.Document{Name: "notes", Description: "Notes of build."})
	announce(s.Box)
	declared := `"approval_mode":"bypass","tool_definitions":[` + strings.Join([]string{
		`{"type":"function","name":"mac_skill",` + routed(mac.ID, "skill") + `}`,
		`{"type":"function","name":"build_skill","defer_loading":true,` + routed(build.ID, "skill") + `}`,
		`{"type":"function","name":"read",` + routed(mac.ID, "read") + `}`,
		`{"type":"function","name":"box_skill",` + routed(s.Box.ID, "skill") + `}`,
	}, ",") + `]`
	create := func(more string) answer {
		return s.asAgent("POST", "/runs", `{"default_runner_executor_public_id":null,"configuration":{`+declared+`}`+more+`}`)
	}
	skills := func(run answer, query string) answer {
		return s.asAgent("GET", "/runs/"+run.ok(http.StatusCreated).text("/run/public_id")+"/skills"+query, "").ok(http.StatusOK)
	}
	entry := func(name, description, callable string, id uuid.UUID) string {
		return fmt.Sprintf(`{"name":%q,"description":%q,"callable":%q,"source":"runner","executor_public_id":%q}`, name, description, callable, id)
	}
	run := create("")
	want := `[` + entry("notes", "Notes of build.", "build_skill", build.ID) + `,` + entry("apps", "Its <apps>.", "mac_skill", mac.ID) + `,` +
		entry("notes", "Notes of mac.", "mac_skill", mac.ID) + `]`
	require.Equal(t, want, string(skills(run, "").raw("/skills")), "equal names stay apart, deferred ones included")
	require.Equal(t, want, string(skills(run, "?format=json").raw("/skills")))
	require.Equal(t, fmt.Sprintf("- build_skill / notes [%s]: Notes of build.\n- mac_skill / apps [%s]: Its <apps>.\n- mac_skill / notes [%s]: Notes of mac.\n",
		build.ID, mac.ID, mac.ID), skills(run, "?format=text").text("/text"))
	s.badly("GET", "/runs/"+run.text("/run/public_id")+"/skills?format=xml", "").refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)

	require.Equal(t, `[`+entry("notes", "Notes of build.", "build_skill", build.ID)+`]`,
		string(skills(create(`,"tool_names":["build_skill","read"]`), "").raw("/skills")), "they follow tool_names")

	announce(mac)
	require.Equal(t, want, string(skills(run, "").raw("/skills")), "frozen with the run")
	none := create(`,"tool_names":["read"]`)
	require.Equal(t, "[]", string(skills(none, "").raw("/skills")))
	require.Empty(t, skills(none, "?format=text").text("/text"))

	many := make([]runner.Document, 20)
	for i := range many {
		many[i] = runner.Document{Name: fmt.Sprintf("n%d", i), Description: strings.Repeat("x", 900)}
	}
	announce(mac, many...)
	create("").refused(http.StatusUnprocessableEntity, toolpark.CodeSkillCatalogTooLarge)
}

func TestNothingIsFrozenOfARunThatIsNotAccepted(t *testing.T) {
	t.Parallel()
	k := kerneltest.StartAPI(t)
	s := sceneAt(t, k)
	s.door = hasty(t, k)
	accepting := s.asAgent("POST", "/runs", newRunBody(function("f", ""))).ok(http.StatusAccepted).text("/run/public_id")
	doomed := s.asAgent("POST", "/runs", newRunBody(function("f", routed(s.Box.ID, "gone")))).ok(http.StatusAccepted).text("/run/public_id")
	paths := []string{"/context", "/tools?format=responses", "/skills"}
	for _, path := range paths {
		s.asAgent("GET", "/runs/"+accepting+path, "").refused(http.StatusConflict, toolpark.CodeRunAccepting)
	}
	k.StartWorker()
	require.Eventually(t, func() bool {
		run, err := s.Agent.Run(t.Context(), doomed)
		return err == nil && run.Status == toolpark.RunRefused
	}, patience, patience/400)
	for _, path := range paths {
		s.asAgent("GET", "/runs/"+doomed+path, "").refused(http.StatusConflict, toolpark.CodeRunSettled)
	}
}

func TestWhatARoundWasOffered(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("read"), readOnly("write"))
	run := s.run()
	rounds := "/runs/" + run + "/rounds"
	post := func(more string) answer {
		return s.asAgent("POST", rounds, `{"calls":[{"name":"gone"}]`+more+`}`)
	}
	offered := func(query string) answer {
		return s.asAgent("GET", "/runs/"+run+"/tools?"+query, "").ok(http.StatusOK)
	}
	for i, format := range []string{"chat_completions", "responses", "anthropic"} {
		was := offered("format=" + format)
		post(`,"offered":"` + was.text("/projection_digest") + `"`).ok(http.StatusCreated)
		kept := s.asAgent("GET", fmt.Sprintf("%s/%d/tools", rounds, i+1), "").ok(http.StatusOK)
		require.Equal(t, format, kept.text("/format"))
		require.Equal(t, was.text("/projection_digest"), kept.text("/projection_digest"))
		require.Equal(t, string(was.raw("/tools")), string(kept.raw("/tools")), "byte for byte")
	}
	whole, narrowed := offered("format=responses").text("/projection_digest"), offered("format=responses&tool_names=read").text("/projection_digest")
	require.NotEqual(t, whole, narrowed)

	t.Run("a digest of anything else is refused", func(t *testing.T) {
		for _, more := range []string{
			`,"offered":"sha256:0"`, `,"offered":"` + narrowed + `"`, `,"offered":"` + whole + `","tool_names":["read"]`,
			`,"offered":"` + whole + `","tools":[{"type":"function","name":"f"}]`, `,"offered":"` + strings.ToUpper(whole) + `"`,
		} {
			a := post(more).refused(http.StatusUnprocessableEntity, toolpark.CodeValidationFailed)
			require.Equal(t, "/offered", a.text("/error/pointer"))
		}
		s.badly("POST", rounds, `{"calls":[{"name":"gone"}],"offered":5}`).refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
		s.badly("GET", rounds+"/4", "").refused(http.StatusNotFound, toolpark.CodeNotFound)
	})

	t.Run("of the narrowed round", func(t *testing.T) {
		post(`,"offered":"` + narrowed + `","tool_names":["read"]`).ok(http.StatusCreated)
		kept := s.asAgent("GET", rounds+"/4/tools", "").ok(http.StatusOK)
		require.Equal(t, narrowed, kept.text("/projection_digest"))
		require.NotContains(t, string(kept.Body), "write")
	})

	t.Run("of the round's own tools", func(t *testing.T) {
		const own = `[{"type":"function","name":"f"}]`
		other := s.asAgent("POST", "/runs", newRunBody(jsontext.Value(`{"type":"function","name":"f"}`))).ok(http.StatusCreated).text("/run/public_id")
		digest := s.asAgent("GET", "/runs/"+other+"/tools?format=anthropic", "").ok(http.StatusOK).text("/projection_digest")
		post(`,"offered":"` + digest + `","tools":` + own).ok(http.StatusCreated)
		require.Equal(t, digest, s.asAgent("GET", rounds+"/5/tools", "").ok(http.StatusOK).text("/projection_digest"))
	})

	t.Run("a round that did not say", func(t *testing.T) {
		post("").ok(http.StatusCreated)
		post(`,"offered":null`).ok(http.StatusCreated)
		for _, number := range []string{"6", "7", "8", "x"} {
			s.badly("GET", rounds+"/"+number+"/tools", "").refused(http.StatusNotFound, toolpark.CodeNotFound)
		}
	})

	t.Run("the SDK says it", func(t *testing.T) {
		tools, err := s.Agent.Tools(t.Context(), run, toolpark.FormatAnthropic, "read")
		require.NoError(t, err)
		require.Len(t, tools.Tools, 1)
		_, err = s.Agent.PostRound(t.Context(), run, agent.NewRound{Calls: []agent.Call{{Name: "gone"}}, ToolNames: []string{"read"}, Offered: tools.Digest})
		require.NoError(t, err)
	})
}
