package api_test

import (
	"bufio"
	"encoding/json/v2"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
)

const marker = "MARKER-a1b2c3"

// logLines are the log's lines as objects.
func (d *door) logLines() (lines []map[string]any) {
	d.t.Helper()
	scanner := bufio.NewScanner(strings.NewReader(d.logs.String()))
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var line map[string]any
		require.NoError(d.t, json.Unmarshal(scanner.Bytes(), &line))
		lines = append(lines, line)
	}
	return lines
}

func TestFailuresInside(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(http.ResponseWriter, *http.Request) error{
		"a panic":                   func(http.ResponseWriter, *http.Request) error { panic(marker) },
		"a panic with an error":     func(http.ResponseWriter, *http.Request) error { panic(errors.New(marker)) },
		"a panic of the runtime":    func(http.ResponseWriter, *http.Request) error { _ = []int{}[len(marker)]; return nil },
		"a code that is no code":    func(http.ResponseWriter, *http.Request) error { return toolpark.Errorf("made_up", "x") },
		"an error without a code":   func(http.ResponseWriter, *http.Request) error { return errors.New("disk on fire") },
		"an internal error by name": func(http.ResponseWriter, *http.Request) error { return toolpark.Errorf(toolpark.CodeInternal, "x") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDoor(t)
			w := httptest.NewRecorder()
			d.Probe(fail).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
			a := answer{t: t, Status: w.Code, Header: w.Header(), Body: w.Body.Bytes()}
			a.refused(http.StatusInternalServerError, toolpark.CodeInternal)
			id := w.Header().Get("X-Request-Id")
			require.Equal(t, id, a.get("/error/request_id"))
			require.Contains(t, d.logs.String(), id)
			require.Contains(t, d.logs.String(), "request failed")
			require.NotContains(t, string(a.Body)+d.logs.String(), marker)
			require.NotContains(t, string(a.Body), "disk on fire")
		})
	}
}

func TestPanicAfterTheAnswerBegan(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	server := httptest.NewServer(d.Probe(func(w http.ResponseWriter, _ *http.Request) error {
		_, err := w.Write([]byte("half of"))
		require.NoError(t, err)
		panic(marker)
	}))
	defer server.Close()
	response, err := http.Get(server.URL)
	if err == nil {
		_, err = bufio.NewReader(response.Body).ReadString(0)
		response.Body.Close()
	}
	require.Error(t, err, "the caller must not take half an answer for a whole one")
	require.Contains(t, d.logs.String(), "request failed")
}

func TestSecretsStayOutOfTheLog(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	tn := d.newTenant()
	path := "/agent_api/v1/executors"
	d.send("GET", path, tn.humanBearer, "").ok(http.StatusOK)
	d.sendBad("GET", path, "tp_member_"+marker, "")
	d.sendBad("GET", path+"?access_token="+marker, tn.humanBearer, "")
	d.sendBad("GET", path+"/"+marker, tn.humanBearer, "")
	d.sendBad("GET", "/"+marker, tn.humanBearer, "")
	d.sendBad("GET", path, tn.humanBearer, "", "Cookie", marker, "Idempotency-Key", marker, "Claim-Token", marker)
	d.sendBad("PUT", "/agent_api/v1/executor/announcement", tn.runnerBearer, `{"tools":[],"`+marker+`":"`+marker+`"}`)
	d.sendBad("PUT", "/agent_api/v1/executor/announcement", tn.runnerBearer, `{"tools":"`+marker)

	lines := d.logLines()
	require.Len(t, lines, 8)
	require.NotContains(t, d.logs.String(), marker)
	require.NotContains(t, d.logs.String(), "tp_member_")
	require.NotContains(t, d.logs.String(), "tp_executor_")
	require.Equal(t, "/agent_api/v1/executors", lines[0]["route"])
	require.Equal(t, tn.human.ID.String(), lines[0]["member"])
	require.EqualValues(t, 200, lines[0]["status"])

	var stored string
	require.NoError(t, d.DB.Pool.QueryRow(t.Context(),
		`SELECT string_agg(c::text, ' ') FROM credentials c`).Scan(&stored))
	require.NotContains(t, stored, strings.TrimPrefix(tn.humanBearer, "tp_member_"))
}
