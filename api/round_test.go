package api_test

import (
	"context"
	"encoding/json/jsontext"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
)

// echo answers with its own input.
func echo() runner.Tool {
	return runner.Tool{Entry: kerneltest.Entry("echo", kerneltest.ReadOnly), Run: func(_ context.Context, c runner.Call) (runner.Result, error) {
		return runner.Result{Text: string(c.Input), StructuredContent: c.Input}, nil
	}}
}

func TestARoundOfCallsComesBackPaired(t *testing.T) {
	t.Parallel()
	a := kerneltest.Start(t).Account()
	r := a.Runner("box")
	a.Serve(r, echo().Entry)
	run := a.Run(r)
	a.Work(r, 4, echo())

	round, err := a.Agent.PostRound(t.Context(), run, agent.NewRound{Calls: []agent.Call{
		{ID: "c1", Name: "echo", Arguments: jsontext.Value(`{"n":1}`)},
		{ID: "c2", Name: "echo", Arguments: `{"n":`},
		{ID: "c3", Name: "no_such", Arguments: jsontext.Value(`{}`)},
		{ID: "c4", Name: "echo", Arguments: `{"n":4}`},
	}})
	require.NoError(t, err)
	settled, err := a.Agent.Round(t.Context(), run, round.Number, 20*time.Second)
	require.NoError(t, err)
	require.True(t, settled.Settled)
	require.Len(t, settled.Results, 4)
	require.Equal(t, `{"n":1}`, settled.Results[0].Output)
	require.Equal(t, toolpark.ErrInvalidToolArguments, settled.Results[1].Error.Key)
	require.Equal(t, toolpark.ErrUnknownTool, settled.Results[2].Error.Key)
	require.Equal(t, `{"n":4}`, settled.Results[3].Output)
	for i, id := range []string{"c1", "c2", "c3", "c4"} {
		require.Equal(t, id, settled.Results[i].ToolCallID)
	}
	_, err = a.Agent.CompleteRun(t.Context(), run)
	require.NoError(t, err)
}
