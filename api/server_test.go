package api_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"uuid"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/api"
	"github.com/toolpark/toolpark/api/apitest"
)

// routes is the true tree.
func routes(t *testing.T) chi.Routes {
	t.Helper()
	tree, ok := (&api.Server{Metrics: prometheus.NewRegistry()}).Handler().(chi.Routes)
	require.True(t, ok)
	return tree
}

func TestTheDocumentDescribesExactlyTheRoutes(t *testing.T) {
	t.Parallel()
	apitest.RequireRoutes(t, routes(t))
}

func TestEveryRouteKeepsToItsPlane(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	tn := d.newTenant()
	parameter := regexp.MustCompile(`\{\w+\}`)
	guarded := 0
	require.NoError(t, chi.Walk(routes(t), func(method, pattern string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		if !strings.HasPrefix(pattern, "/agent_api/") {
			return nil
		}
		wrong := tn.runnerBearer
		if strings.HasPrefix(pattern, "/agent_api/v1/executor/") || pattern == "/agent_api/v1/executor" {
			wrong = tn.humanBearer
		}
		path := parameter.ReplaceAllString(pattern, uuid.NewV7().String())
		for _, bearer := range []string{"", wrong} {
			d.sendBad(method, path, bearer, "").refused(http.StatusUnauthorized, toolpark.CodeUnauthorized)
		}
		guarded++
		return nil
	}))
	require.Greater(t, guarded, 20)
}
