package proctest_test

import (
	"context"
	"encoding/json/jsontext"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark/internal/proctest"
)

// TestLoad is not parallel: its figures mean something only while nothing else runs.
func TestLoad(t *testing.T) {
	skipShort(t)
	const agents, runners, slots, width = 16, 4, 16, 8
	rounds := 100
	if full() {
		rounds = 1000
	}
	s := newScene(t, servers{})
	var (
		ran         atomic.Int64
		tools       []string
		definitions []jsontext.Value
		ledger      = proctest.NewLedger()
	)
	for i := range runners {
		tool := echo(fmt.Sprintf("echo_%d", i), &ran)
		b := s.newBox(fmt.Sprintf("box-%d", i), tool.Entry)
		b.work(s.APIs[i%len(s.APIs)], ledger, slots, tool)
		tools = append(tools, tool.Name)
		definitions = append(definitions, b.declare(tool.Entry)...)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	load := proctest.Load{Agent: s.Agent, Definitions: definitions, Agents: agents, Round: echoes(rounds, width, tools...)}

	began := time.Now()
	finished, err := load.Run(ctx)
	took := time.Since(began)
	require.NoError(t, err)
	t.Logf("%d rounds of %d calls by %d agents through %d runners in %.1f s: %.1f calls/s",
		rounds, width, agents, runners, took.Seconds(), float64(rounds*width)/took.Seconds())

	require.EqualValues(t, rounds*width, ran.Load(), "every call ran once")
	// A result may reach its agent before the runner has read the answer to its commit.
	require.Eventually(t, func() bool {
		_, answered := ledger.Counts()
		return answered == rounds*width
	}, 10*time.Second, 10*time.Millisecond)
	granted, _ := ledger.Counts()
	require.Equal(t, rounds*width, granted)
	finished, err = s.Agent.Reread(ctx, finished)
	require.NoError(t, err)
	require.NoError(t, ledger.Check(finished))
	s.over()
}

func skipShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs real processes")
	}
}
