package api_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/api/apitest"
	"github.com/toolpark/toolpark/internal/credential"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	require.Equal(t, "ok", d.send("GET", "/healthz", "", "").ok(http.StatusOK).get("/status"))
	require.Equal(t, "ok", d.send("GET", "/readyz", "", "").ok(http.StatusOK).get("/status"))

	d.temporalDown.Store(true)
	require.Equal(t, "degraded", d.send("GET", "/readyz", "", "").ok(http.StatusOK).get("/status"))
}

func TestDatabaseDown(t *testing.T) {
	t.Parallel()
	d := newDoorOver(t, "postgres://nobody@127.0.0.1:1/none")
	bearer, _ := credential.Mint(credential.Member)
	for _, path := range []string{"/readyz", "/agent_api/v1/executors"} {
		a := d.send("GET", path, bearer, "").refused(http.StatusServiceUnavailable, toolpark.CodeUnavailable)
		require.NotEmpty(t, a.Header.Get("Retry-After"))
	}
	d.send("GET", "/healthz", "", "").ok(http.StatusOK)
}

func TestDrainedServerIsNotReady(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.Drain()
	d.Drain()
	a := d.send("GET", "/readyz", "", "").refused(http.StatusServiceUnavailable, toolpark.CodeUnavailable)
	require.NotEmpty(t, a.Header.Get("Retry-After"))
}

func TestOpenAPIDocument(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	require.Equal(t, "3.1.0", d.send("GET", "/openapi.json", "", "").ok(http.StatusOK).get("/openapi"))
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	tn := d.newTenant()
	d.send("GET", "/agent_api/v1/executors/"+tn.runner.String(), tn.botBearer, "").ok(http.StatusOK)
	d.send("GET", "/secret-in-a-path", "", "").refused(http.StatusNotFound, toolpark.CodeNotFound)
	r, err := http.NewRequestWithContext(apitest.BadRequest(t.Context()), http.MethodGet, d.url+"/metrics", nil)
	require.NoError(t, err)
	response, err := d.http.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Contains(t, string(text),
		`toolpark_http_requests_total{code="200",method="GET",route="/agent_api/v1/executors/{executor}"} 1`)
	require.Contains(t, string(text), `toolpark_http_requests_total{code="404",method="GET",route="none"} 1`)
	require.NotContains(t, string(text), "secret-in-a-path")
	require.NotContains(t, string(text), tn.runner.String())
}
