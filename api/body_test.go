package api_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
