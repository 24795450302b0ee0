package api_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/api/apitest"
)

// A caller that keeps its body back is answered and cut off, with a credential or without one.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	tn := d.newTenant()
	listener := httptest.NewServer(d.HurryHandler(500 * time.Millisecond))
	t.Cleanup(listener.Close)

	for name, c := range map[string]struct {
		bearer, declared string
		status           int
	}{
		"from a member":    {tn.humanBearer, "1000", http.StatusBadRequest},
		"from anybody":     {"none", "1000", http.StatusUnauthorized},
		"a declared flood": {tn.humanBearer, "99999999999", http.StatusRequestEntityTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", listener.Listener.Addr().String())
			require.NoError(t, err)
			t.Cleanup(func() { _ = conn.Close() })
			_, err = fmt.Fprintf(conn, "POST /agent_api/v1/runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
				"Content-Type: application/json\r\nContent-Length: %s\r\n\r\n{", c.bearer, c.declared)
			require.NoError(t, err)
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(20*time.Second)))
			reader := bufio.NewReader(conn)
			answer, err := http.ReadResponse(reader, nil)
			require.NoError(t, err)
			defer answer.Body.Close()
			require.Equal(t, c.status, answer.StatusCode)
		})
	}
}

// Where a body is optional, one that comes in chunks and is empty is as good as none.
func TestChunkedBodies(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	chunked := func(path, bearer, body string, headers ...string) answer {
		r, err := http.NewRequestWithContext(apitest.BadRequest(t.Context()), http.MethodPost, s.url+base+path, nil)
		require.NoError(t, err)
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), -1
		r.Header.Set("Authorization", "Bearer "+bearer)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		response, err := s.http.Do(r)
		require.NoError(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return answer{t: t, Status: response.StatusCode, Header: response.Header, Body: text}
	}

	run := s.run()
	stop, cancel := "/runs/"+s.run()+"/stop", taskPath(s.call(run, "look", `{}`))+"/cancel"
	chunked(stop, s.Agent.Token, `{}`).refused(http.StatusUnsupportedMediaType, toolpark.CodeUnsupportedMediaType)
	chunked(stop, s.Agent.Token, `{"force":1}`, "Content-Type", "application/json").refused(http.StatusBadRequest, toolpark.CodeParameterInvalid)
	chunked(stop, s.Agent.Token, `{"force":`, "Content-Type", "application/json").refused(http.StatusBadRequest, toolpark.CodeBadRequest)
	for _, path := range []string{stop, cancel, "/runs/" + run + "/complete"} {
		require.Less(t, chunked(path, s.Agent.Token, "").Status, 300, path)
	}
	chunked("/runs/"+s.run()+"/stop", s.Agent.Token, `{"force":true}`, "Content-Type", "application/json").ok(http.StatusOK)
	chunked("/executor/shutdown", s.Box.Token, "").ok(http.StatusOK)
	chunked("/runs", s.Agent.Token, "", "Content-Type", "application/json").refused(http.StatusBadRequest, toolpark.CodeBadRequest)
}
