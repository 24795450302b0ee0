package workflows_test

import (
	"encoding/json/jsontext"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"uuid"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/temporalproto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/visibility"
	"github.com/toolpark/toolpark/sdk/agent"
	"github.com/toolpark/toolpark/workflows"
)

// histories are the lives of tasks and runs that are recorded and replayed. Each lives one in a shop
// with a worker and returns the id of its workflow.
var histories = map[string]func(*testing.T, *shop) string{
	"task_commit": func(_ *testing.T, s *shop) string {
		task := s.echo(time.Hour)
		task.Commit(task.Claim(), "done")
		return task.WorkflowID()
	},

	// The report is sooner than the first start, so its signal starts the workflow, which shows the status that the
	// report asks for from then on.
	"task_quick_commit": func(t *testing.T, s *shop) string {
		task := s.Step(s.run, s.runner, "echo", `{}`, time.Hour)
		task.Commit(task.Claim(), "done")
		s.closed(task.WorkflowID(), enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
		require.Zero(t, countOf(s.history(task.WorkflowID()), enumspb.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES),
			"the report came too late; record again")
		return task.WorkflowID()
	},

	"task_commit_of_a_lost_start": func(_ *testing.T, s *shop) string {
		task := s.Unstarted(s.run, s.runner, "echo", time.Hour, 1)[0]
		task.Commit(task.Claim(), "done")
		return task.WorkflowID()
	},

	"task_expiry": func(_ *testing.T, s *shop) string {
		task := s.echo(time.Second)
		task.Settled()
		return task.WorkflowID()
	},

	"task_cancel_by_a_member": func(t *testing.T, s *shop) string {
		task := s.echo(time.Hour)
		_, err := s.Agent.CancelTask(t.Context(), s.run, task.Key)
		require.NoError(t, err)
		return task.WorkflowID()
	},

	"task_cancel_from_the_web_ui": func(t *testing.T, s *shop) string {
		task := s.echo(time.Hour)
		require.NoError(t, s.Temporal.CancelWorkflow(t.Context(), task.WorkflowID(), ""))
		task.Settled()
		return task.WorkflowID()
	},

	"task_claim_shown": func(_ *testing.T, s *shop) string {
		task := s.echo(time.Hour)
		token := task.Claim()
		s.Eventually("the claim is shown", func() bool {
			return keywords(s.describe(task.WorkflowID()))["ToolparkState"] == visibility.StateClaimed
		})
		task.Commit(token, "done")
		return task.WorkflowID()
	},

	"task_cancel_from_the_web_ui_of_a_shown_claim": func(t *testing.T, s *shop) string {
		task := s.echo(time.Hour)
		task.Claim()
		s.Eventually("the claim is shown", func() bool {
			return keywords(s.describe(task.WorkflowID()))["ToolparkState"] == visibility.StateClaimed
		})
		require.NoError(t, s.Temporal.CancelWorkflow(t.Context(), task.WorkflowID(), ""))
		task.Settled()
		return task.WorkflowID()
	},

	// Two alarms ring early: the first of the start delay, the next of a timer.
	"task_deadline_extended": func(t *testing.T, s *shop) string {
		task := s.echo(2 * time.Second)
		token := task.Claim()
		s.Eventually("two alarms find that the deadline has moved", func() bool {
			_, err := s.runner.Extend(t.Context(), task.Ref, token, 2*time.Second)
			require.NoError(t, err)
			time.Sleep(200 * time.Millisecond)
			return countOf(s.history(task.WorkflowID()), enumspb.EVENT_TYPE_TIMER_STARTED) == 2
		})
		task.Commit(token, "done")
		return task.WorkflowID()
	},

	"task_step_fails_and_is_taken_again": func(t *testing.T, s *shop) string {
		task := s.echo(time.Hour)
		token := task.Claim()
		_, err := s.Park.StageCommit(t.Context(), s.runner.As(s.Account), task.TaskID, token, text("done"))
		require.NoError(t, err)
		row := task.Row().Task
		release := s.hold(`SELECT FROM tasks WHERE run_id = $1 AND key = $2 FOR UPDATE`, task.Run, task.Key)
		require.NoError(t, s.Delivery.Nudge(t.Context(), &row, workflows.SignalCommit))
		s.Eventually("the workflow waits to try again", func() bool {
			return countOf(s.history(task.WorkflowID()), enumspb.EVENT_TYPE_TIMER_STARTED) > 0
		})
		release()
		require.Equal(t, toolpark.Completed, task.Settled().Status)
		return task.WorkflowID()
	},

	"task_kernel_call": func(_ *testing.T, s *shop) string {
		s.run = s.KernelRun(s.runner)
		task := s.Call(s.run, s.runner, "tool_search", `{"query":"echo"}`)
		task.Settled()
		return task.WorkflowID()
	},

	"task_tool_call": func(_ *testing.T, s *shop) string {
		s.run = s.KernelRun(s.runner)
		call, child := s.wrap(`{"name":"echo","input":{}}`)
		child.Commit(child.Claim(), "done")
		call.Settled()
		return call.WorkflowID()
	},

	"task_tool_call_canceled": func(t *testing.T, s *shop) string {
		s.run = s.KernelRun(s.runner)
		call, child := s.wrap(`{"name":"echo","input":{}}`)
		_, err := s.Agent.CancelTask(t.Context(), s.run, call.Key)
		require.NoError(t, err)
		child.Settled()
		return call.WorkflowID()
	},

	"task_tool_call_canceled_from_the_web_ui": func(t *testing.T, s *shop) string {
		s.run = s.KernelRun(s.runner)
		call, child := s.wrap(`{"name":"echo","input":{}}`)
		require.NoError(t, s.Temporal.CancelWorkflow(t.Context(), call.WorkflowID(), ""))
		child.Settled()
		return call.WorkflowID()
	},

	"task_ask_answered": func(t *testing.T, s *shop) string {
		question := s.ask("Which?")
		s.started(question)
		_, err := s.Agent.Resolve(t.Context(), s.run, question.Key, agent.Answer{Text: "This."})
		require.NoError(t, err)
		return question.WorkflowID()
	},

	"task_ask_tool": func(t *testing.T, s *shop) string {
		s.run = s.KernelRun(s.runner)
		call := s.Call(s.run, s.runner, "ask", `{"prompt":"Which?"}`)
		question := call.Question()
		s.made(question)
		_, err := s.Agent.Resolve(t.Context(), s.run, question.Key, agent.Answer{Text: "This."})
		require.NoError(t, err)
		call.Settled()
		return call.WorkflowID()
	},

	"task_wait": func(_ *testing.T, s *shop) string {
		target := s.echo(time.Hour)
		wait := s.waitFor(target)
		s.Eventually("it has looked", func() bool { return target.Row().Watched })
		target.Commit(target.Claim(), "done")
		wait.Settled()
		return wait.WorkflowID()
	},

	"prune_nothing": func(_ *testing.T, s *shop) string { return s.prune() },

	"prune_a_run": func(t *testing.T, s *shop) string {
		task := s.echo(time.Hour)
		task.Commit(task.Claim(), "done")
		_, err := s.Agent.CompleteRun(t.Context(), s.run)
		require.NoError(t, err)
		s.Age(s.run, 91)
		return s.prune()
	},

	"task_held_then_approved": func(_ *testing.T, s *shop) string {
		task := s.held(`{}`)
		s.approve(task, nil)
		task.Commit(task.Claim(), "done")
		return task.WorkflowID()
	},

	"task_held_then_denied": func(t *testing.T, s *shop) string {
		task := s.held(`{}`)
		_, err := s.Admin.Deny(t.Context(), s.run, task.Key, "no")
		require.NoError(t, err)
		return task.WorkflowID()
	},

	"task_hold_expires": func(_ *testing.T, s *shop) string {
		task := s.held(`{}`, agent.ApprovalRule{Tool: "echo", Verdict: "ask", HoldMS: time.Second.Milliseconds()})
		task.Settled()
		return task.WorkflowID()
	},

	"run_completed": func(t *testing.T, s *shop) string {
		run := s.RunOf(s.Agent, s.runner)
		_, err := s.Agent.CompleteRun(t.Context(), run)
		require.NoError(t, err)
		return workflows.RunWorkflowID(uuid.MustParse(run))
	},

	"run_refused": func(t *testing.T, s *shop) string {
		served, err := s.Agent.Executor(t.Context(), s.runner.ID.String())
		require.NoError(t, err)
		definition, err := served.Declare("echo", served.ServedTools[0])
		require.NoError(t, err)
		s.Serve(s.runner) // what the definition routes to is gone when the run is decided
		_, err = s.Agent.CreateRun(t.Context(), agent.NewRun{Configuration: &agent.Configuration{
			ToolDefinitions: []jsontext.Value{definition}, ApprovalMode: "bypass",
		}})
		requireCode(t, toolpark.CodeToolNotServed, err)
		var id uuid.UUID
		require.NoError(t, s.DB.Pool.QueryRow(t.Context(), `SELECT id FROM runs WHERE status = 'refused'`).Scan(&id))
		return workflows.RunWorkflowID(id)
	},

	"run_stopped_by_a_member": func(t *testing.T, s *shop) string {
		run := s.RunOf(s.Agent, s.runner)
		task := s.Step(run, s.runner, "echo", `{}`, time.Hour)
		_, err := s.Agent.StopRun(t.Context(), run, true)
		require.NoError(t, err)
		task.Settled()
		return workflows.RunWorkflowID(uuid.MustParse(run))
	},

	"run_stopped_from_the_web_ui": func(t *testing.T, s *shop) string {
		run := s.RunOf(s.Agent, s.runner)
		task := s.Step(run, s.runner, "echo", `{}`, time.Hour)
		id := workflows.RunWorkflowID(uuid.MustParse(run))
		require.NoError(t, s.Temporal.CancelWorkflow(t.Context(), id, ""))
		task.Settled()
		return id
	},
}

// TestRecordHistories writes the histories that TestReplay replays. Run it when a workflow gained a new
// way to live, and add to the recordings rather than replace them: an old one stands for the runs that are
// open when a new version is released.
//
//	TOOLPARK_RECORD=1 go test ./workflows -run TestRecordHistories
func TestRecordHistories(t *testing.T) {
	t.Parallel()
	if os.Getenv("TOOLPARK_RECORD") == "" {
		t.Skip("recorded histories are kept; TOOLPARK_RECORD=1 writes those that are missing")
	}
	for name, live := range histories {
		path := filepath.Join("testdata", "replay", name+".json")
		if _, err := os.Stat(path); err == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s := openShop(t)
			id := live(t, s)
			s.closed(id, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
			recorded := &historypb.History{Events: s.history(id)}
			forget(recorded.ProtoReflect())
			text, err := temporalproto.CustomJSONMarshalOptions{Indent: "  "}.Marshal(recorded)
			require.NoError(t, err)
			host, err := os.Hostname()
			require.NoError(t, err)
			require.NotContains(t, string(text), host)
			require.NoError(t, os.WriteFile(path, append(text, '\n'), 0o600))
		})
	}
}

// forget replaces what names the machine that recorded: who called, and the queues of its own.
func forget(m protoreflect.Message) {
	if queue, ok := m.Interface().(*taskqueuepb.TaskQueue); ok {
		if queue.GetKind() == enumspb.TASK_QUEUE_KIND_STICKY {
			queue.Name = "sticky"
		} else if !strings.HasPrefix(queue.GetName(), "toolpark") {
			queue.Name = "toolpark"
		}
		queue.NormalName = ""
	}
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.Kind() == protoreflect.StringKind && !field.IsList() && field.Name() == "identity":
			m.Set(field, protoreflect.ValueOfString("toolpark"))
		case field.IsMap():
			value.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				if field.MapValue().Kind() == protoreflect.MessageKind {
					forget(v.Message())
				}
				return true
			})
		case field.Kind() != protoreflect.MessageKind:
		case field.IsList():
			for i := range value.List().Len() {
				forget(value.List().Get(i).Message())
			}
		default:
			forget(value.Message())
		}
		return true
	})
}
