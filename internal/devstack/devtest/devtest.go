// Package devtest gives tests a real Postgres and a real Temporal.
//
// `make test` starts one of each for all test binaries and names them in the environment. A test
// binary that runs alone starts its own, the first time a test asks, and they end with it.
package devtest

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"uuid"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark/internal/devstack"
)

// sharedTemporal is kept for the life of the test binary.
var sharedTemporal = sync.OnceValues(func() (*devstack.Temporal, error) {
	return devstack.StartTemporal(context.Background(), devstack.TemporalOptions{Progress: os.Stderr})
})

// Temporal returns the host and port of a server with the search attributes registered in
// namespace "default". Other tests use it too: keep apart by [TaskQueue] and by workflow id.
func Temporal(t testing.TB) string {
	t.Helper()
	if address := os.Getenv(devstack.TestTemporalVariable); address != "" {
		return address
	}
	server, err := sharedTemporal()
	require.NoError(t, err)
	return server.Address
}

// TaskQueue returns a task queue name that nobody else uses.
func TaskQueue(t testing.TB) string {
	t.Helper()
	name := strings.NewReplacer("/", "-", " ", "-").Replace(t.Name())
	return name + "-" + uuid.NewV7().String()
}
