package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/sdk/runner"
)

// waitFor appends a wait for a task. More members of the verb are JSON.
func (s *scene) waitFor(task runner.Ref, more string) runner.Ref {
	s.t.Helper()
	a := s.asAgent("POST", "/runs/"+task.Run+"/tasks", `{"steps":[{"wait":{"task":"`+task.TaskKey+`"`+more+`}}]}`).ok(http.StatusCreated)
	return runner.Ref{Run: task.Run, TaskKey: a.text("/tasks/0/task_key"), Generation: 1}
}

// told requires that a wait completed and tells this of its task.
func (s *scene) told(wait runner.Ref, facts string) {
	s.t.Helper()
	a := s.settled(wait)
	require.EqualValues(s.t, toolpark.Completed, a.text("/task/status"), "%s", a.Body)
	require.Equal(s.t, facts, a.text("/task/output"))
	require.Equal(s.t, facts, string(a.raw("/task/structured_content")))
	require.Equal(s.t, "false", string(a.raw("/task/is_error")))
}

func completed(task runner.Ref) string {
	return fmt.Sprintf(`{"generation":1,"is_error":false,"status":"completed","task":%q}`, task.TaskKey)
}

func TestAWaitTellsHowItsTaskEnded(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	run := s.run()

	t.Run("that ends later", func(t *testing.T) {
		ref, token := s.claimed(run, "look")
		wait := s.waitFor(ref, "")
		row := s.read(wait)
		require.EqualValues(t, toolpark.KindWait, row.text("/task/kind"))
		require.EqualValues(t, toolpark.Running, row.text("/task/status"))
		require.Equal(t, "null", string(row.raw("/task/tool_name")))
		require.Equal(t, "null", string(row.raw("/task/addressed_to")))
		require.Equal(t, "null", string(row.raw("/task/approval")))
		require.Equal(t, `{"task":"`+ref.TaskKey+`"}`, string(row.raw("/task/tool_input")))
		require.Equal(t, "3600000", string(row.raw("/task/timeout_ms")))
		_, err := s.Box.Claim(t.Context(), wait, "k")
		require.Equal(t, toolpark.CodeNotAddressedHere, code(err))
		s.resolve(wait, `{}`).refused(http.StatusConflict, toolpark.CodeNotAwaitingInput)
		s.report(ref, token, `"content":"no such file","is_error":true`).ok(http.StatusOK)
		s.told(wait, fmt.Sprintf(`{"generation":1,"is_error":true,"status":"completed","task":%q}`, ref.TaskKey))
	})

	t.Run("that ended before", func(t *testing.T) {
		ref := s.call(run, "gone", `{}`)
		s.told(s.waitFor(ref, ""), fmt.Sprintf(
			`{"error":{"detail":"\"gone\" is not declared","key":"unknown_tool"},"generation":1,"is_error":false,"status":"failed","task":%q}`, ref.TaskKey))
	})

	t.Run("whose failure is a long story", func(t *testing.T) {
		ref, token := s.claimed(run, "look")
		wait := s.waitFor(ref, "")
		s.report(ref, token, `"content":"`+strings.Repeat("long ", 100_000)+`","outcome":"failed"`).ok(http.StatusOK)
		a := s.settled(wait)
		require.Equal(t, toolpark.ErrToolFailed, a.text("/task/structured_content/error/key"))
		require.Less(t, len(a.text("/task/output")), 4<<10)
	})

	t.Run("that somebody canceled", func(t *testing.T) {
		ref := s.call(run, "look", `{}`)
		wait := s.waitFor(ref, "")
		s.asAgent("POST", taskPath(ref)+"/cancel", "").ok(http.StatusOK)
		s.told(wait, fmt.Sprintf(`{"error":{"key":"task_canceled"},"generation":1,"is_error":false,"status":"canceled","task":%q}`, ref.TaskKey))
	})

	t.Run("that is a question, or another wait", func(t *testing.T) {
		question := s.ask(run, `"prompt":"Which?"`)
		first := s.waitFor(question, "")
		second := s.waitFor(first, `,"key":"second"`)
		s.resolve(question, `{"content":"This."}`).ok(http.StatusOK)
		s.told(first, completed(question))
		s.told(second, completed(first))
	})

	t.Run("to many", func(t *testing.T) {
		ref, token := s.claimed(run, "look")
		var waits []runner.Ref
		for range 20 {
			waits = append(waits, s.waitFor(ref, ""))
		}
		s.report(ref, token, `"content":"done"`).ok(http.StatusOK)
		for _, wait := range waits {
			s.told(wait, completed(ref))
		}
	})

	t.Run("and ends alone when it is canceled", func(t *testing.T) {
		ref, token := s.claimed(run, "look")
		wait := s.waitFor(ref, "")
		s.asAgent("POST", taskPath(wait)+"/cancel", "").ok(http.StatusOK)
		require.EqualValues(t, toolpark.Canceled, s.settled(wait).text("/task/status"))
		s.report(ref, token, `"content":"done"`).ok(http.StatusOK)
		require.EqualValues(t, toolpark.Canceled, s.settled(wait).text("/task/status"))
	})

	t.Run("or when its time is over", func(t *testing.T) {
		ref := s.call(run, "look", `{}`)
		a := s.settled(s.waitFor(ref, `,"timeout_ms":1`))
		require.EqualValues(t, toolpark.TimedOut, a.text("/task/status"))
		require.Equal(t, toolpark.ErrToolTimeout, a.text("/task/error/key"))
		require.EqualValues(t, toolpark.Dispatched, s.read(ref).text("/task/status"))
	})

	t.Run("or with its run", func(t *testing.T) {
		run := s.run()
		wait := s.waitFor(s.call(run, "look", `{}`), "")
		s.asAgent("POST", "/runs/"+run+"/stop", `{"force":true}`).ok(http.StatusOK)
		s.settled(wait)
		s.Eventually("the run ends", func() bool {
			return s.asAgent("GET", "/runs/"+run, "").text("/run/status") == string(toolpark.RunCanceled)
		})
	})

	t.Run("of the generation that lives when it looks", func(t *testing.T) {
		ref, token := s.claimed(run, "look")
		first := s.waitFor(ref, "")
		s.report(ref, token, `"content":"no","outcome":"failed"`).ok(http.StatusOK)
		failed := fmt.Sprintf(`{"error":{"detail":"no","key":"tool_failed"},"generation":1,"is_error":false,"status":"failed","task":%q}`, ref.TaskKey)
		s.told(first, failed)
		_, err := s.Agent.Retry(t.Context(), run, ref.TaskKey)
		require.NoError(t, err)
		second := s.waitFor(ref, "")
		s.report(ref, s.claim(ref), `"content":"done"`).ok(http.StatusOK)
		s.told(second, fmt.Sprintf(`{"generation":2,"is_error":false,"status":"completed","task":%q}`, ref.TaskKey))
		s.told(first, failed)
	})

	t.Run("again when the wait is retried", func(t *testing.T) {
		ref, token := s.claimed(run, "look")
		wait := s.waitFor(ref, `,"timeout_ms":1`)
		require.EqualValues(t, toolpark.TimedOut, s.settled(wait).text("/task/status"))
		s.report(ref, token, `"content":"done"`).ok(http.StatusOK)
		_, err := s.Agent.Retry(t.Context(), run, wait.TaskKey)
		require.NoError(t, err)
		s.told(wait, completed(ref))
	})

	t.Run("through the client", func(t *testing.T) {
		made, err := s.Agent.AppendTasks(t.Context(), run, []agent.Step{
			{Name: "look", Route: &agent.Route{Kind: "runner"}, Key: "mine"}, {WaitFor: "mine", TimeoutMS: 60_000, Key: "until"},
		}, "")
		require.NoError(t, err)
		require.Equal(t, toolpark.KindWait, made[1].Kind)
		ref := runner.Ref{Run: run, TaskKey: "mine", Generation: 1}
		s.report(ref, s.claim(ref), `"content":"done"`).ok(http.StatusOK)
		s.told(runner.Ref{Run: run, TaskKey: "until"}, completed(ref))
	})
}

func TestAModelWaits(t *testing.T) {
	t.Parallel()
	s := newScene(t, readOnly("look"))
	run := s.askingRun("bypass")
	look := func() (runner.Ref, string) { return s.claimed(run, "look") }

	t.Run("for a call of its own round", func(t *testing.T) {
		refs := s.calls(run, agent.Call{Name: "wait", Arguments: `{"task":"r1t1"}`}, agent.Call{Name: "look"})
		wait, ref := refs[0], refs[1]
		row := s.read(wait)
		require.EqualValues(t, toolpark.KindTool, row.text("/task/kind"))
		require.Equal(t, "wait", row.text("/task/tool_name"))
		require.Equal(t, "kernel", row.text("/task/approval/origin"))
		_, err := s.Box.Claim(t.Context(), wait, "k")
		require.Equal(t, toolpark.CodeNotAddressedHere, code(err))
		s.report(ref, s.claim(ref), `"content":"done"`).ok(http.StatusOK)
		s.told(wait, completed(ref))
	})

	t.Run("for what has ended", func(t *testing.T) {
		ref, token := look()
		s.report(ref, token, `"content":"done"`).ok(http.StatusOK)
		s.told(s.call(run, "wait", `{"task":"`+ref.TaskKey+`"}`), completed(ref))
	})

	t.Run("through tool_call", func(t *testing.T) {
		ref, token := look()
		wrapper := s.call(run, "tool_call", `{"name":"wait","input":{"task":"`+ref.TaskKey+`"}}`)
		child := s.made(wrapper, "-call-1")
		s.report(ref, token, `"content":"done"`).ok(http.StatusOK)
		s.told(child, completed(ref))
		s.told(wrapper, completed(ref))
	})

	t.Run("for nothing", func(t *testing.T) {
		for _, key := range []string{"r99t0", strings.Repeat("k", 256)} {
			task := s.result(run, "wait", fmt.Sprintf(`{"task":%q}`, key))
			require.Equal(t, toolpark.Completed, task.Status)
			require.True(t, task.IsError)
			require.Contains(t, task.Output, "no task")
			require.Contains(t, task.Output, key)
		}
	})

	t.Run("for what is no key, which operators would read", func(t *testing.T) {
		for _, key := range []string{"Not a key", "[release it](https://evil.example)", "r1t0\n"} {
			task := s.result(run, "wait", fmt.Sprintf(`{"task":%q}`, key))
			require.Equal(t, toolpark.Failed, task.Status)
			require.Equal(t, toolpark.ErrInvalidToolInput, task.Error.Key)
		}
	})

	t.Run("for itself", func(t *testing.T) {
		round, err := s.Agent.PostRound(t.Context(), run, agent.NewRound{Calls: []agent.Call{{Name: "gone"}}})
		require.NoError(t, err)
		task := s.result(run, "wait", fmt.Sprintf(`{"task":"r%dt0"}`, round.Number+1))
		require.True(t, task.IsError, "%s", task.Raw)
		require.Contains(t, task.Output, "itself")
	})

	t.Run("in a circle, until the time is over", func(t *testing.T) {
		round, err := s.Agent.PostRound(t.Context(), run, agent.NewRound{Calls: []agent.Call{{Name: "gone"}}})
		require.NoError(t, err)
		next := round.Number + 1
		refs := s.calls(run, agent.Call{Name: "wait", Arguments: fmt.Sprintf(`{"task":"r%dt1"}`, next)},
			agent.Call{Name: "wait", Arguments: fmt.Sprintf(`{"task":"r%dt0"}`, next)})
		s.Eventually("each waits for the other", func() bool {
			var watched int
			require.NoError(t, s.Kernel.DB.Pool.QueryRow(t.Context(), `
				SELECT count(*) FROM tasks WHERE run_id = $1 AND round = $2 AND watched`, run, next).Scan(&watched))
			return watched == 2
		})
		s.overdue(refs[0])
		require.Equal(t, toolpark.ErrToolTimeout, s.settled(refs[0]).text("/task/error/key"))
		s.told(refs[1], fmt.Sprintf(`{"error":{"key":"tool_timeout"},"generation":1,"is_error":false,"status":"timed_out","task":"r%dt0"}`, next))
	})
}

// A wait, and the task that it waits for, find each other when the worker comes late and when it goes in between.
func TestAWaitOutlivesItsWorker(t *testing.T) {
	t.Parallel()
	s := sceneAt(t, kerneltest.StartAPI(t), readOnly("look"))
	run := s.BareRun()
	step := func() runner.Ref {
		ref, _ := s.step(run, fmt.Sprintf(`"name":"look","route":{"kind":"runner","runner_executor_public_id":%q}`, s.Box.ID))
		return ref
	}
	impatient := *s
	impatient.door = hasty(t, s.Kernel)
	reported := func(ref runner.Ref) {
		t.Helper()
		impatient.report(ref, s.claim(ref), `"content":"done"`).ok(http.StatusAccepted)
	}

	early := step()
	before := s.waitFor(early, "")
	reported(early)
	stop := s.StartWorker()
	s.told(before, completed(early))

	across := step()
	wait := s.waitFor(across, "")
	s.Eventually("the wait has looked", func() bool {
		var watched bool
		require.NoError(t, s.Kernel.DB.Pool.QueryRow(t.Context(), `SELECT watched FROM tasks WHERE run_id = $1 AND key = $2`, run, across.TaskKey).Scan(&watched))
		return watched
	})
	stop()
	reported(across)
	s.StartWorker()
	s.told(wait, completed(across))
}
