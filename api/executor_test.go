package api_test

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"uuid"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
)

const (
	readProfile = `{"kind":"read_only","destructive":false,"effect_scope":"closed","idempotency":"intrinsic","reconciliation":"none"}`
	announced   = `{
		"tools": [
			{"name": "read", "effect_profile": ` + readProfile + `, "description": "Reads.", "timeout_ms": 5000,
			 "input_schema": {"type": "object", "properties": {"z": {"maximum": 12345678901234567890}, "a": {"const": 1.0}}},
			 "output_schema": {"type": "object"}},
			{"name": "files_bytes", "effect_profile": ` + readProfile + `}
		],
		"environment": {"os": "linux", "cores": 1.0, "path": "<a&b>\u00e9"},
		"documents": [{"name": "workspace-tools", "description": "Tools of this image"}]
	}`
)

func TestAnnouncement(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	tn := d.newTenant()
	const self, path = "/agent_api/v1/executor", "/agent_api/v1/executor/announcement"

	t.Run("before the first", func(t *testing.T) {
		a := d.send("GET", self, tn.runnerBearer, "").ok(http.StatusOK)
		require.Equal(t, tn.runner.String(), a.get("/executor/public_id"))
		require.Equal(t, []any{}, a.get("/executor/served_tools"))
		require.Equal(t, map[string]any{}, a.get("/executor/environment"))
		require.Nil(t, a.get("/executor/announced_at"))
	})

	t.Run("it comes back digit for digit", func(t *testing.T) {
		put := d.send("PUT", path, tn.runnerBearer, announced).ok(http.StatusOK)
		got := d.send("GET", self, tn.runnerBearer, "").ok(http.StatusOK)
		require.JSONEq(t, string(put.Body), string(got.Body))
		require.NotNil(t, got.get("/executor/announced_at"))
		var seen struct {
			Executor struct {
				Tools       []toolEntry    `json:"served_tools"`
				Environment jsontext.Value `json:"environment"`
			} `json:"executor"`
		}
		require.NoError(t, json.Unmarshal(got.Body, &seen))
		require.Equal(t, []string{"read", "files_bytes"}, []string{seen.Executor.Tools[0].Name, seen.Executor.Tools[1].Name})
		require.Equal(t, `{"type":"object","properties":{"z":{"maximum":12345678901234567890},"a":{"const":1.0}}}`,
			string(seen.Executor.Tools[0].InputSchema))
		require.Equal(t, `{"os":"linux","cores":1.0,"path":"<a&b>\u00e9"}`, string(seen.Executor.Environment))
	})

	t.Run("a refused one leaves the previous standing", func(t *testing.T) {
		before := d.send("GET", self, tn.runnerBearer, "").ok(http.StatusOK)
		tool := func(name, rest string) string {
			return `{"name":"` + name + `","effect_profile":` + readProfile + rest + `}`
		}
		for name, test := range map[string]struct {
			body   string
			status int
			code   toolpark.Code
		}{
			"no tools":            {`{}`, 400, toolpark.CodeParameterMissing},
			"a bad schema":        {`{"tools":[` + tool("good", "") + `,` + tool("bad", `,"description":"x","input_schema":{"type":"string"}`) + `]}`, 422, toolpark.CodeInvalidAnnouncement},
			"no effect profile":   {`{"tools":[{"name":"x"}]}`, 422, toolpark.CodeInvalidAnnouncement},
			"a name twice":        {`{"tools":[` + tool("x", "") + `,` + tool("x", "") + `]}`, 422, toolpark.CodeInvalidAnnouncement},
			"the kernel's name":   {`{"tools":[` + tool("delegate_task", "") + `]}`, 422, toolpark.CodeReservedNamespace},
			"a name case-varied":  {`{"tools":[{"Name":"x","effect_profile":` + readProfile + `}]}`, 422, toolpark.CodeInvalidAnnouncement},
			"a key twice":         {`{"tools":[{"name":"x","name":"y","effect_profile":` + readProfile + `}]}`, 400, toolpark.CodeBadRequest},
			"too large a context": {`{"tools":[],"environment":{"a":"` + strings.Repeat("x", toolpark.MaxEnvironment) + `"}}`, 422, toolpark.CodeValidationFailed},
			"U+0000":              {`{"tools":[],"environment":{"a":"\u0000"}}`, 422, toolpark.CodeInvalidAnnouncement},
		} {
			t.Run(name, func(t *testing.T) {
				d.sendBad("PUT", path, tn.runnerBearer, test.body).refused(test.status, test.code)
			})
		}
		after := d.send("GET", self, tn.runnerBearer, "").ok(http.StatusOK)
		require.JSONEq(t, string(before.Body), string(after.Body))
	})

	t.Run("every bad entry is named", func(t *testing.T) {
		a := d.sendBad("PUT", path, tn.runnerBearer, `{"tools":[{"name":"a"},{"name":"b","effect_profile":`+readProfile+`},{"name":"c"}]}`).
			refused(http.StatusUnprocessableEntity, toolpark.CodeInvalidAnnouncement)
		entries, _ := a.get("/error/entries").([]any)
		require.Len(t, entries, 2)
	})

	t.Run("the next one replaces it whole", func(t *testing.T) {
		a := d.send("PUT", path, tn.runnerBearer, `{"tools":[]}`).ok(http.StatusOK)
		require.Equal(t, []any{}, a.get("/executor/served_tools"))
		require.Equal(t, map[string]any{}, a.get("/executor/environment"))
		require.Equal(t, []any{}, a.get("/executor/served_documents"))
	})

	t.Run("a thousand tools, twice, at once", func(t *testing.T) {
		var tools []string
		for i := range 1000 {
			tools = append(tools, fmt.Sprintf(`{"name":"t%d","effect_profile":%s,"output_schema":{"type":"object"}}`, i, readProfile))
		}
		body := `{"tools":[` + strings.Join(tools, ",") + `]}`
		done := make(chan answer, 2)
		for range 2 {
			go func() { done <- d.send("PUT", path, tn.runnerBearer, body) }()
		}
		for range 2 {
			a := <-done
			a.ok(http.StatusOK)
			require.Len(t, a.get("/executor/served_tools"), 1000)
		}
		var schemas int
		require.NoError(t, d.DB.Pool.QueryRow(t.Context(),
			`SELECT count(*) FROM output_schemas WHERE document::text = '{"type":"object"}'`).Scan(&schemas))
		require.Equal(t, 1, schemas)
	})
}

type toolEntry struct {
	Name        string         `json:"name"`
	InputSchema jsontext.Value `json:"input_schema"`
}

func TestShutdown(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	tn := d.newTenant()
	runner := "/agent_api/v1/executors/" + tn.runner.String()
	d.send("GET", runner, tn.botBearer, "").ok(http.StatusOK)

	for _, body := range []string{"", "{}"} {
		a := d.send("POST", "/agent_api/v1/executor/shutdown", tn.runnerBearer, body).ok(http.StatusOK)
		require.Equal(t, true, a.get("/executor/shutting_down"))
	}
	d.send("GET", runner, tn.botBearer, "").refused(http.StatusNotFound, toolpark.CodeNotFound)
	d.sendBad("POST", "/agent_api/v1/executor/shutdown", tn.runnerBearer, `{"now":true}`).
		refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)

	a := d.send("PUT", "/agent_api/v1/executor/announcement", tn.runnerBearer, `{"tools":[]}`).ok(http.StatusOK)
	require.Equal(t, false, a.get("/executor/shutting_down"))
	d.send("GET", runner, tn.botBearer, "").ok(http.StatusOK)
}

func TestDiscovery(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	tn, other := d.newTenant(), d.newTenant()
	provider, _ := d.newExecutor(tn, toolpark.ToolsProvider, "pool", toolpark.AccountWide)
	d.send("PUT", "/agent_api/v1/executor/announcement", tn.runnerBearer, announced).ok(http.StatusOK)
	const path = "/agent_api/v1/executors"
	ids := func(a answer) (ids []string) {
		list, _ := a.ok(http.StatusOK).get("/executors").([]any)
		for _, item := range list {
			ids = append(ids, item.(map[string]any)["public_id"].(string))
		}
		return ids
	}

	t.Run("by kind", func(t *testing.T) {
		require.Equal(t, []string{tn.runner.String(), provider.String()}, ids(d.send("GET", path, tn.botBearer, "")))
		require.Equal(t, []string{tn.runner.String()}, ids(d.send("GET", path+"?kind=runner", tn.humanBearer, "")))
		require.Equal(t, []string{provider.String()}, ids(d.send("GET", path+"?kind=tools_provider", tn.botBearer, "")))
		for _, kind := range []string{"agent_application", "Runner", "", "robots"} {
			d.sendBad("GET", path+"?kind="+kind, tn.botBearer, "").refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
		}
	})

	t.Run("a row shows what it serves", func(t *testing.T) {
		a := d.send("GET", path+"/"+tn.runner.String(), tn.botBearer, "").ok(http.StatusOK)
		require.Len(t, a.get("/executor/served_tools"), 2)
		require.Len(t, a.get("/executor/served_documents"), 1)
		require.Equal(t, false, a.get("/executor/presence"))
	})

	t.Run("another account's id reads like none at all", func(t *testing.T) {
		none := d.send("GET", path+"/"+uuid.NewV7().String(), tn.botBearer, "").refused(http.StatusNotFound, toolpark.CodeNotFound)
		for _, id := range []string{other.runner.String(), other.agent.ExecutorID.String(), tn.agent.ExecutorID.String()} {
			a := d.send("GET", path+"/"+id, tn.botBearer, "").refused(http.StatusNotFound, toolpark.CodeNotFound)
			require.Equal(t, string(none.Body), string(a.Body))
		}
		for _, id := range []string{
			"x", strings.ToUpper(tn.runner.String()), "urn:uuid:" + tn.runner.String(), "{" + tn.runner.String() + "}",
			strings.ReplaceAll(tn.runner.String(), "-", ""), "%00",
		} {
			d.sendBad("GET", path+"/"+id, tn.botBearer, "").refused(http.StatusNotFound, toolpark.CodeNotFound)
		}
		require.NotContains(t, ids(d.send("GET", path, tn.botBearer, "")), other.runner.String())
	})

	t.Run("page by page", func(t *testing.T) {
		for i := range 5 {
			d.newExecutor(tn, toolpark.Runner, fmt.Sprint("more", i), toolpark.UserPrivate)
		}
		whole := ids(d.send("GET", path, tn.botBearer, ""))
		require.Len(t, whole, 7)
		for _, limit := range []int{1, 3, 7, 200} {
			var pages []string
			next := ""
			for {
				a := d.send("GET", fmt.Sprintf("%s?limit=%d%s", path, limit, next), tn.botBearer, "")
				page := ids(a)
				require.LessOrEqual(t, len(page), limit)
				pages = append(pages, page...)
				cursor, more := a.get("/pagination/next_after").(string)
				if !more {
					break
				}
				next = "&after=" + cursor
			}
			require.Equal(t, whole, pages)
		}
	})

	t.Run("bad limits and cursors", func(t *testing.T) {
		for _, query := range []string{
			"limit=0", "limit=201", "limit=-1", "limit=x", "limit=", "limit=1.5", "limit=99999999999999999999",
			"after=", "after=x", "after=" + tn.runner.String(), "after=bnVsbA==", "after=bnVsbA", "after=e30", "after=%00",
		} {
			d.sendBad("GET", path+"?"+query, tn.botBearer, "").refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
		}
	})
}
