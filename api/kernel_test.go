package api_test

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
)

// importing creates a run of the agent that imports all of the box's tools and some of the kernel's.
func (s *scene) importing(definitions ...jsontext.Value) string {
	s.t.Helper()
	run, err := s.Agent.CreateRun(s.t.Context(), agent.NewRun{DefaultRunner: s.Box.ID.String(), Configuration: &agent.Configuration{
		ToolDefinitions: definitions,
		KernelTools:     []string{"nexus.tools.search", "nexus.tools.call", "nexus.runners.list"},
		Runners:         []string{s.Box.ID.String()},
		ApprovalMode:    "bypass",
	}})
	require.NoError(s.t, err)
	require.Equal(s.t, toolpark.RunRunning, run.Status)
	return run.PublicID
}

// result makes one call and waits for its result.
func (s *scene) result(run, name, arguments string) agent.Task {
	s.t.Helper()
	round, err := s.Agent.PostRound(s.t.Context(), run, agent.NewRound{Calls: []agent.Call{{Name: name, Arguments: arguments}}})
	require.NoError(s.t, err)
	settled, err := s.Agent.Round(s.t.Context(), run, round.Number, patience)
	require.NoError(s.t, err)
	require.True(s.t, settled.Settled)
	return settled.Results[0]
}

func echoing(name string) runner.Tool {
	e := readOnly(name)
	return runner.Tool{
		Name: e.Name, EffectProfile: e.EffectProfile, Description: e.Description, InputSchema: e.InputSchema,
		Run: func(_ context.Context, call runner.Call) (runner.Result, error) {
			return runner.Text(string(call.Input)), nil
		},
	}
}

func TestKernelToolsWorkOverWhatTheRunMayCall(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("read"), readOnly("write"))
	s.Work(s.Box, 4, echoing("read"), echoing("write"))
	run := s.importing()

	t.Run("search finds a deferred tool whole", func(t *testing.T) {
		found := s.result(run, "tool_search", `{"query":"does read"}`)
		require.Equal(t, toolpark.Completed, found.Status)
		require.Equal(t, found.Output, string(found.StructuredContent))
		var answer struct {
			Tools []struct {
				Name  string         `json:"name"`
				Route jsontext.Value `json:"route"`
			} `json:"tools"`
			Truncated bool `json:"truncated"`
		}
		require.NoError(t, json.Unmarshal(found.StructuredContent, &answer))
		require.Len(t, answer.Tools, 1)
		require.Equal(t, "read", answer.Tools[0].Name)
		require.False(t, answer.Truncated)
		require.JSONEq(t, fmt.Sprintf(`{"kind":"runner","runner_executor_public_id":%q,"tool_name":"read"}`, s.Box.ID), string(answer.Tools[0].Route))
	})

	t.Run("call runs it, and its result is the call's own", func(t *testing.T) {
		called := s.result(run, "tool_call", `{"name":"read","input":{"path":"a","n":12345678901234567890}}`)
		require.Equal(t, toolpark.Completed, called.Status)
		require.Equal(t, `{"path":"a","n":12345678901234567890}`, called.Output)
		child, err := s.Agent.Task(t.Context(), run, called.Key+"-call-1", 0)
		require.NoError(t, err)
		require.Equal(t, called.Key, child.ParentKey)
		require.Equal(t, "read", child.ToolName)
	})
}
