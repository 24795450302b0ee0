package api_test

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/sdk/runner"
)

// found is what a search answers.
type found struct {
	Tools []struct {
		Name       string         `json:"name"`
		Definition jsontext.Value `json:"definition"`
		Route      jsontext.Value `json:"route"`
		Skills     jsontext.Value `json:"skills"`
	} `json:"tools"`
	Truncated bool `json:"truncated"`
}

// names are the callable names that were found, in order.
func (f found) names() []string {
	names := []string{}
	for _, t := range f.Tools {
		names = append(names, t.Name)
	}
	return names
}

// search calls tool_search with words, and perhaps further members of its input.
func (s *scene) search(run, query, more string, names ...string) found {
	s.t.Helper()
	task := s.result(run, "tool_search", fmt.Sprintf(`{"query":%q%s}`, query, more), names...)
	require.Equal(s.t, toolpark.Completed, task.Status, "%s", task.Raw)
	require.False(s.t, task.IsError)
	var f found
	require.NoError(s.t, json.Unmarshal(task.StructuredContent, &f, json.RejectUnknownMembers(true)))
	return f
}

func TestToolSearch(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	announcement := runner.Announcement{
		Tools: []runner.Entry{
			entryOf("tint", "Makes a photo darker.", `{"type":"object","properties":{"z":{"maximum":1.0},"a":{}}}`),
			entryOf("photo_tint", "Turns it.", `{"type":"object"}`),
			entryOf("crop", "Cuts a PHOTO, to tint it.", `{"type":"object"}`),
			entryOf("read", "Reads.", `{"type":"object"}`),
			entryOf("read/all", "Reads everything.", `{"type":"object"}`),
			readOnly("skill"), capability("operate"),
		},
		Documents: []runner.Document{{Name: "darkroom", Description: "How to develop a film."}},
	}
	_, err := s.Box.Announce(t.Context(), announcement)
	require.NoError(t, err)
	box := s.Box.ID.String()
	run := s.importing(
		function("mac_skill", routed(s.Box.ID, "skill")),
		jsontext.Value(`{"type":"function","name":"strict_one","strict":true,"parameters":{"type":"object","properties":{"n":{"maximum":1.0}}}}`),
	)

	t.Run("its result is canonical JSON, as text and as structure", func(t *testing.T) {
		task := s.result(run, "tool_search", `{"query":"tint"}`)
		require.Equal(t, `{"tools":[{"definition":{"function":{"description":"Makes a photo darker.","name":"tint",`+
			`"parameters":{"properties":{"a":{},"z":{"maximum":1.0}},"type":"object"},"strict":false},"type":"function"},"name":"tint",`+
			`"route":{"kind":"runner","runner_executor_public_id":"`+box+`","tool_name":"tint"},"skills":[]}],"truncated":false}`, task.Output)
		require.Equal(t, task.Output, string(task.StructuredContent))
	})

	t.Run("what it finds, in order", func(t *testing.T) {
		all := s.search(run, "reads everything", "")
		require.Len(t, all.Tools, 1)
		readAll := all.Tools[0].Name
		require.Regexp(t, `^read_all__[0-9a-f]{12}$`, readAll)
		for query, want := range map[string][]string{
			"read":                  {"read"},                       // an exact name alone
			"photo tint":            {"photo_tint", "tint", "crop"}, // by name, then by description, then by name
			"tInT PHOTO":            {"photo_tint", "tint", "crop"},
			"reads":                 {"read", readAll},
			"read/all":              {readAll},
			"darkroom":              {"mac_skill"},
			"FILM develop":          {"mac_skill"},
			"strict_one":            {"strict_one"},
			"reads nothing":         {},
			"operate":               {},
			"tool_search":           {"tool_search"},
			box + " cuts":           {"crop"},
			"crop " + s.ID.String(): {},
		} {
			f := s.search(run, query, "")
			require.Equal(t, want, f.names(), query)
			require.False(t, f.Truncated)
		}
	})

	t.Run("definitions are whole", func(t *testing.T) {
		f := s.search(run, "strict_one", "")
		require.Equal(t, `{"function":{"name":"strict_one","parameters":{"properties":{"n":{"maximum":1.0}},"type":"object"},"strict":true},"type":"function"}`,
			string(f.Tools[0].Definition))
		require.Empty(t, f.Tools[0].Route, "without a route there is none to show")
		f = s.search(run, "mac_skill", "")
		require.Equal(t, `[{"callable":"mac_skill","description":"How to develop a film.","executor_public_id":"`+box+`","name":"darkroom","source":"runner"}]`,
			string(f.Tools[0].Skills))
	})

	t.Run("a limit", func(t *testing.T) {
		f := s.search(run, box, "")
		require.Len(t, f.Tools, 5, "by default")
		require.True(t, f.Truncated)
		f = s.search(run, box, `,"limit":1`)
		require.Len(t, f.Tools, 1)
		require.True(t, f.Truncated)
		f = s.search(run, box, `,"limit":20`)
		require.Len(t, f.Tools, 6)
		require.False(t, f.Truncated)
	})

	t.Run("bounds are of the schema", func(t *testing.T) {
		for _, input := range []string{
			`{}`, `{"query":""}`, `{"query":5}`, `{"query":"a","limit":0}`, `{"query":"a","limit":21}`, `{"query":"a","limit":1.5}`,
			`{"query":"a","limit":"5"}`, `{"query":"a","more":1}`, `{"Query":"a"}`, `{"query":"` + strings.Repeat("x", 1001) + `"}`,
		} {
			task := s.result(run, "tool_search", input)
			require.Equal(t, toolpark.Failed, task.Status, input)
			require.Equal(t, toolpark.ErrInvalidToolInput, task.Error.Key, input)
		}
	})

	t.Run("a blank query is an error result that says so", func(t *testing.T) {
		for _, query := range []string{" ", `\t\n `, "\u3000"} {
			task := s.result(run, "tool_search", `{"query":"`+query+`"}`)
			require.Equal(t, toolpark.Completed, task.Status)
			require.True(t, task.IsError)
			require.Contains(t, task.Output, "blank")
		}
	})

	t.Run("of a narrowed round", func(t *testing.T) {
		f := s.search(run, box, `,"limit":20`, "tool_search", "crop")
		require.Equal(t, []string{"crop"}, f.names())
		require.Empty(t, s.search(run, "photo", "", "tool_search").names())
		task := s.result(run, "tool_search", `{"query":"a"}`, "crop")
		require.Equal(t, toolpark.ErrUnknownTool, task.Error.Key)
	})

	t.Run("never of a later announcement", func(t *testing.T) {
		s.Serve(s.Box, readOnly("later"))
		require.Empty(t, s.search(run, "later", "").names())
		require.Equal(t, []string{"crop"}, s.search(run, "crop", "").names())
		_, err := s.Box.Announce(t.Context(), announcement)
		require.NoError(t, err)
	})
}

func TestToolSearchKeepsWholeSchemasWithinItsBound(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	var entries []runner.Entry
	for _, name := range []string{"a_large", "b_large", "c_large", "huge"} {
		size := 30 << 10
		if name == "huge" {
			size = 70 << 10
		}
		entries = append(entries, entryOf(name, "Large.", `{"type":"object","description":"`+strings.Repeat("x", size)+`"}`))
	}
	s.Serve(s.Box, entries...)
	run := s.importing()
	f := s.search(run, "large", "")
	require.Equal(t, []string{"a_large", "b_large"}, f.names())
	require.True(t, f.Truncated)
	f = s.search(run, "c_large", "")
	require.Equal(t, []string{"c_large"}, f.names(), "more words find the rest")
	require.False(t, f.Truncated)
	f = s.search(run, "huge", "")
	require.Empty(t, f.names())
	require.True(t, f.Truncated)
}
