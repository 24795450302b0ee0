package proctest_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark/internal/proctest"
	"github.com/toolpark/toolpark/sdk/agent"
)

func TestPostgresDiesUnderLoad(t *testing.T) {
	t.Parallel()
	skipShort(t)
	server := ownPostgres(t)
	s := newScene(t, servers{postgres: server})
	var (
		ran    atomic.Int64
		tool   = echo("echo", &ran)
		ledger = proctest.NewLedger()
	)
	b := s.newBox("box", tool.Entry)
	b.work(s.APIs[0], ledger, 16, tool)
	next := echoes(1_000_000, 4, tool.Name)
	load := proctest.Load{
		Agent: s.Agent, Agents: 4, Definitions: b.declare(tool.Entry),
		Round: next,
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	end := underway(ctx, load)

	busy := func() {
		before := ran.Load()
		s.eventually("calls run", func() bool { return ran.Load() > before+8 })
	}
	for range 2 {
		busy()
		require.NoError(t, server.Kill())
		for _, api := range s.APIs {
			requireUnavailable(t, s, api)
		}
		require.NoError(t, server.Restart(t.Context())) // from a crash
		busy()
		require.NoError(t, server.Restart(t.Context())) // from a clean stop: sessions end with an error of their own
	}
	busy()
	finished, err := end()
	require.NoError(t, err, "nothing failed")
	finished, err = s.Agent.Reread(ctx, finished)
	require.NoError(t, err)
	require.NoError(t, ledger.Check(finished))
	s.over()
}

// requireUnavailable wants 503 of an API whose database is away, and a word about it in /readyz.
func requireUnavailable(t *testing.T, s *scene, api *proctest.Process) {
	t.Helper()
	_, err := s.Agent.At(api).Executors(t.Context(), "")
	var answered *agent.ResponseError
	require.ErrorAs(t, err, &answered)
	require.Equal(t, http.StatusServiceUnavailable, answered.Status)
	require.True(t, agent.Retryable(err))

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, api.URL+"/readyz", nil)
	require.NoError(t, err)
	ready, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, ready.Body.Close())
	require.Equal(t, http.StatusServiceUnavailable, ready.StatusCode)
}
