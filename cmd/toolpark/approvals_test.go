package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/kerneltest"
	"github.com/toolpark/toolpark/sdk/agent"
)

// office is an installation whose agent has calls waiting for a person.
type office struct {
	*kerneltest.Account
	t   *testing.T
	box kerneltest.Executor
	run string
}

func openOffice(t *testing.T) *office {
	t.Helper()
	account := kerneltest.Start(t).Account()
	o := &office{Account: account, t: t, box: account.Runner("box")}
	entry := kerneltest.Entry("bash", kerneltest.Writes)
	entry.InputSchema = jsontext.Value(`{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}`)
	account.Serve(o.box, entry)
	run, err := account.Agent.CreateRun(t.Context(), agent.NewRun{
		DefaultRunner: o.box.ID.String(),
		Configuration: &agent.Configuration{
			Runners: []string{o.box.ID.String()}, ApprovalMode: "ask",
			ApprovalRules: []agent.ApprovalRule{{Tool: "bash", Path: "command", Match: new("*secret*"), Verdict: "deny", Reason: "secrets stay"}},
		},
	})
	require.NoError(t, err)
	o.run = run.PublicID
	return o
}

// hold makes a call that waits for its approval.
func (o *office) hold(input string) agent.Waiting {
	o.t.Helper()
	round, err := o.Agent.PostRound(o.t.Context(), o.run, agent.NewRound{Calls: []agent.Call{{Name: "bash", Arguments: jsontext.Value(input)}}})
	require.NoError(o.t, err)
	require.Equal(o.t, toolpark.NeedsApproval, round.Tasks[0].Status)
	return o.waiting(round.Tasks[0].Key)
}

func (o *office) waiting(key string) agent.Waiting {
	o.t.Helper()
	all, err := o.Admin.Approvals(o.t.Context(), agent.WaitingFilter{Run: o.run})
	require.NoError(o.t, err)
	for _, w := range all {
		if w.TaskKey == key {
			return w
		}
	}
	require.Fail(o.t, "the call does not wait")
	return agent.Waiting{}
}

func (o *office) task(w agent.Waiting) agent.Task {
	o.t.Helper()
	task, err := o.Admin.Task(o.t.Context(), w.Run, w.TaskKey, 0)
	require.NoError(o.t, err)
	return task
}

// desk is a person who types the lines, and whose editor replaces the text.
func (o *office) desk(typed, edited string) (*desk, *bytes.Buffer) {
	var out bytes.Buffer
	return &desk{
		Client: o.Admin.Client, in: bufio.NewReader(strings.NewReader(typed)), forget: func() {}, out: &out, columns: 80,
		edit: func(_ context.Context, text []byte) ([]byte, error) {
			if edited == "" {
				return text, nil
			}
			return []byte(edited), nil
		},
	}, &out
}

func TestAPersonDecidesAtATerminal(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	ask := func(t *testing.T, w agent.Waiting, typed, edited string) (out string, more bool) {
		t.Helper()
		d, printed := o.desk(typed, edited)
		more, err := d.ask(t.Context(), w)
		require.NoError(t, err)
		return printed.String(), more
	}

	t.Run("approves what is shown", func(t *testing.T) {
		w := o.hold(`{"command":"ls -la"}`)
		out, more := ask(t, w, "what?\n\na\n", "")
		require.True(t, more)
		require.Contains(t, out, w.Run+"/"+w.TaskKey+"\n  bash → box, asked for by robot (agent) ")
		require.Contains(t, out, "  a write that can destroy, reaches the open world, and may not be repeated\n")
		require.Contains(t, out, "  digest "+w.InputDigest+"\n")
		require.Contains(t, out, "  | {\n  |   \"command\": \"ls -la\"\n  | }\n")
		require.Equal(t, 3, strings.Count(out, "[a]pprove"), "nothing is approved by another word")
		require.Equal(t, 1, strings.Count(out, `"what?" is none of the letters in brackets`))
		require.Equal(t, toolpark.Dispatched, o.task(w).Status)
	})
	t.Run("denies, with a reason", func(t *testing.T) {
		w := o.hold(`{"command":"ls"}`)
		_, more := ask(t, w, "d\nnot on a Friday\n", "")
		require.True(t, more)
		require.Contains(t, o.task(w).Error.Detail, `"not on a Friday"`)
	})
	t.Run("edits, is refused, and edits again", func(t *testing.T) {
		w := o.hold(`{"command":"ls"}`)
		out, _ := ask(t, w, "e\ns\n", `{"command":`)
		require.Contains(t, out, "Not changed: what you wrote is no JSON")
		out, _ = ask(t, w, "e\ns\n", "")
		require.Contains(t, out, "Unchanged.")
		out, _ = ask(t, w, "e\na\ns\n", `{"cmd":"ls"}`)
		require.Contains(t, out, "Not approved:")
		require.Contains(t, out, "invalid_tool_input")
		out, _ = ask(t, w, "e\na\ns\n", `{"command":"cat secret"}`)
		require.Contains(t, out, "secrets stay")
		require.Equal(t, toolpark.NeedsApproval, o.task(w).Status)
		out, _ = ask(t, w, "e\na\n", "{\n  \"command\": \"ls /tmp\"\n}\n")
		require.Contains(t, out, "it runs with this instead:\n  | {\n  |   \"command\": \"ls /tmp\"\n")
		require.JSONEq(t, `{"command":"ls /tmp"}`, string(o.task(w).ToolInput))
		require.JSONEq(t, `{"command":"ls"}`, string(o.task(w).OriginalInput))
	})
	t.Run("skips, quits, or leaves", func(t *testing.T) {
		w := o.hold(`{"command":"ls"}`)
		for typed, goesOn := range map[string]bool{"s\n": true, "q\n": false, "": false, "d\n": false} {
			_, more := ask(t, w, typed, "")
			require.Equal(t, goesOn, more, typed)
		}
		require.Equal(t, toolpark.NeedsApproval, o.task(w).Status)
	})
	t.Run("is shown an input that changed before it is approved", func(t *testing.T) {
		w := o.hold(`{"command":"ls"}`)
		_, err := o.DB.Pool.Exec(t.Context(), `UPDATE task_payloads SET input = '{"command":"reboot"}' WHERE run_id = $1 AND task_key = $2`, w.Run, w.TaskKey)
		require.NoError(t, err)
		out, _ := ask(t, w, "a\ns\n", "")
		_, after, found := strings.Cut(out, "Not approved: the input has changed.")
		require.True(t, found)
		require.Contains(t, after, `"command": "reboot"`)
		require.Equal(t, toolpark.NeedsApproval, o.task(w).Status)
		_, _ = ask(t, w, "a\na\n", "")
		require.Equal(t, toolpark.Dispatched, o.task(w).Status)
	})
	t.Run("is told that somebody was faster", func(t *testing.T) {
		w := o.hold(`{"command":"ls"}`)
		_, err := o.Admin.Deny(t.Context(), w.Run, w.TaskKey, "")
		require.NoError(t, err)
		out, more := ask(t, w, "a\n", "")
		require.True(t, more)
		require.Contains(t, out, "Too late:")
		require.Contains(t, out, "denied before")
	})
	t.Run("sees a long input in part, and whole", func(t *testing.T) {
		w := o.hold(`{"command":"` + strings.Repeat(`echo a long line of a script\n`, 300) + `echo end"}`)
		out, _ := ask(t, w, "f\ns\n", "")
		cut, whole, found := strings.Cut(out, "[f]ull input, ")
		require.True(t, found)
		require.Regexp(t, `… \d+ lines are left out here …`, cut)
		require.Contains(t, cut, "echo end")
		require.NotContains(t, whole, "left out")
		require.Greater(t, strings.Count(whole, "\n"), 100)
	})
	t.Run("one after the other", func(t *testing.T) {
		d, printed := o.desk(strings.Repeat("s\n", 99), "")
		require.NoError(t, d.list(t.Context(), d.calls(), agent.WaitingFilter{Run: o.run, Tool: "bash"}, true, false))
		require.Contains(t, printed.String(), "1 of 2\n")
		require.Contains(t, printed.String(), "2 of 2\n")
		d, printed = o.desk("q\n", "")
		require.NoError(t, d.list(t.Context(), d.calls(), agent.WaitingFilter{Run: o.run}, true, true))
		require.Equal(t, 1, strings.Count(printed.String(), " of 2\n"))
	})
}

func TestAnAgentMayNotDecide(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	w := o.hold(`{"command":"ls"}`)
	d, _ := o.desk("a\n", "")
	d.Client = o.Agent.Client
	_, err := d.ask(t.Context(), w)
	require.Equal(t, toolpark.CodeNotAuthorized, codeOf(err))
}

func TestApprovalsAsProcesses(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	env := []string{"TOOLPARK_URL=" + o.URL, "TOOLPARK_TOKEN=" + o.Admin.Token}

	stdout, stderr, code := run(t, env, "approvals")
	require.Zero(t, code, stderr)
	require.Equal(t, "No call waits for approval.\n", stdout)
	stdout, _, code = run(t, env, "approvals", "--json")
	require.Zero(t, code)
	require.Equal(t, "[]\n", stdout)

	t.Run("lists what waits, and asks nothing without a terminal", func(t *testing.T) {
		w := o.hold(`{"command":"printf '\u001b[2J\u202e'"}`)
		ref := w.Run + "/" + w.TaskKey
		stdout, stderr, code := run(t, env, "approvals", "--run", o.run, "--tool=bash")
		require.Zero(t, code, stderr)
		require.Contains(t, stdout, ref)
		require.Contains(t, stdout, `printf '\u001b[2J\u202e'`)
		require.NotContains(t, stdout, "approve")
		stdout, _, _ = run(t, env, "approvals", "--min-age", "1h")
		require.NotContains(t, stdout, ref)

		stdout, stderr, code = run(t, env, "approvals", "--json")
		require.Zero(t, code, stderr)
		var list []agent.Waiting
		require.NoError(t, json.Unmarshal([]byte(stdout), &list))
		require.Len(t, list, 1)
		require.Equal(t, w.InputDigest, list[0].InputDigest)
		require.NotContains(t, stdout, "\u202e")

		stdout, stderr, code = run(t, env, "approvals", "approve", ref)
		require.Zero(t, code, stderr)
		require.Contains(t, stdout, "digest "+w.InputDigest)
		require.True(t, strings.HasSuffix(stdout, "\napproved\n"), stdout)
		require.Equal(t, toolpark.Dispatched, o.task(w).Status)
		_, _, code = run(t, env, "approvals", "approve", ref, "--digest", w.InputDigest)
		require.Zero(t, code, "once more is the same")
		_, stderr, code = run(t, env, "approvals", "deny", ref)
		require.Equal(t, exitNotDecided, code)
		require.Contains(t, stderr, "approved before")
		_, stderr, code = run(t, env, "approvals", "approve", ref)
		require.Equal(t, exitNotDecided, code)
		require.Contains(t, stderr, "waits for no decision: it is dispatched")
	})
	t.Run("approves the digest that is given and no other", func(t *testing.T) {
		w := o.hold(`{"command":"ls"}`)
		ref := w.Run + "/" + w.TaskKey
		stdout, stderr, code := run(t, env, "approvals", "approve", ref, "--digest", "other")
		require.Equal(t, exitNotDecided, code)
		require.Contains(t, stdout, `"command": "ls"`)
		require.Contains(t, stderr, w.InputDigest)
		require.Equal(t, toolpark.NeedsApproval, o.task(w).Status)
		stdout, stderr, code = run(t, env, "approvals", "--json", "approve", ref, "--digest", w.InputDigest, "--input", `{"command":"ls /"}`)
		require.Zero(t, code, stderr)
		var task struct {
			Input jsontext.Value `json:"tool_input"`
		}
		require.NoError(t, json.Unmarshal([]byte(stdout), &task))
		require.JSONEq(t, `{"command":"ls /"}`, string(task.Input))
	})
	t.Run("denies with a reason", func(t *testing.T) {
		w := o.hold(`{"command":"ls"}`)
		stdout, stderr, code := run(t, env, "approvals", "deny", w.Run+"/"+w.TaskKey, "--reason", "not now")
		require.Zero(t, code, stderr)
		require.Equal(t, "denied\n", stdout)
		require.Contains(t, o.task(w).Error.Detail, "not now")
	})
	t.Run("what cannot be asked", func(t *testing.T) {
		w := o.hold(`{"command":"ls"}`)
		ref := w.Run + "/" + w.TaskKey
		for name, test := range map[string]struct {
			args []string
			want string
		}{
			"no such run":     {[]string{"approve", "019aa000-0000-7000-8000-000000000000/r1t0"}, "not_found"},
			"no such key":     {[]string{"deny", w.Run + "/r9t9"}, "not_found"},
			"no key":          {[]string{"deny", w.Run}, "RUN/KEY"},
			"input of no use": {[]string{"approve", ref, "--input", "{"}, "JSON"},
			"a wrong input":   {[]string{"approve", ref, "--input", "{}"}, "invalid_tool_input"},
			"a stream":        {[]string{"--json", "--watch"}, "--json"},
		} {
			t.Run(name, func(t *testing.T) {
				_, stderr, code := run(t, env, append([]string{"approvals"}, test.args...)...)
				require.NotZero(t, code)
				require.NotEqual(t, exitNotDecided, code)
				require.Contains(t, stderr, test.want)
			})
		}
	})
}

// A newcomer's first call of bash waits, says what to do, and goes on once somebody approves.
func TestACallWaitsForAPerson(t *testing.T) {
	t.Parallel()
	b := setupCalls(t)
	file := filepath.Join(t.TempDir(), "credentials.json")
	text, err := json.Marshal(credentials{
		URL: b.account.URL, RunnerID: b.box.ID.String(), AgentToken: b.account.Agent.Token, MemberToken: b.account.Admin.Token,
	})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, text, 0o600))
	env := []string{"TOOLPARK_CREDENTIALS=" + file}
	held := regexp.MustCompile(`waits for approval; decide in another terminal with: \S+ approvals\n`)

	// call calls in the background and returns what it printed, and its exit status, once it ended.
	call := func(t *testing.T, args ...string) (ended func() (stdout, stderr string, code int)) {
		t.Helper()
		command := newCommand(t, env, append([]string{"call"}, args...)...)
		var out, errs bytes.Buffer
		command.Stdout, command.Stderr = &out, &errs
		require.NoError(t, command.Start())
		return func() (string, string, int) {
			_ = command.Wait()
			return out.String(), errs.String(), command.ProcessState.ExitCode()
		}
	}
	// waits waits until a call does, and names it as the list does.
	waits := func(t *testing.T) string {
		t.Helper()
		var list []agent.Waiting
		b.account.Eventually("the call waits", func() bool {
			stdout, stderr, code := run(t, env, "approvals", "--json")
			require.Zero(t, code, stderr)
			list = nil
			require.NoError(t, json.Unmarshal([]byte(stdout), &list))
			return len(list) == 1
		})
		return list[0].Run + "/" + list[0].TaskKey
	}

	t.Run("who approves", func(t *testing.T) {
		ended := call(t, "bash", `{"command":"echo hello"}`)
		_, stderr, code := run(t, env, "approvals", "approve", waits(t))
		require.Zero(t, code, stderr)
		stdout, stderr, code := ended()
		require.Zero(t, code, stderr)
		require.Equal(t, "hello\n", stdout)
		require.Regexp(t, held, stderr)
	})
	t.Run("who denies", func(t *testing.T) {
		ended := call(t, "bash", `{"command":"echo hello"}`)
		_, stderr, code := run(t, env, "approvals", "deny", waits(t), "--reason", "not today")
		require.Zero(t, code, stderr)
		stdout, stderr, code := ended()
		require.Equal(t, exitCallFailed, code)
		require.Empty(t, stdout)
		require.Contains(t, stderr, "bash: failed: Permission for this call was declined")
		require.Contains(t, stderr, "not today")
	})
	t.Run("unless the rules know", func(t *testing.T) {
		for _, test := range []struct {
			args []string
			code int
			want string
		}{
			{[]string{"write", `{"path":"a.txt","content":"a"}`}, 0, "Wrote 1 byte"},
			{[]string{"read", `{"path":"a.txt"}`}, 0, "a"},
			{[]string{"--approval=bypass", "bash", `{"command":"echo free"}`}, 0, "free"},
			{[]string{"bash", `{"command":"sudo rm -rf /*"}`}, exitCallFailed, "would destroy more than the workspace"},
		} {
			stdout, stderr, code := run(t, env, append([]string{"call"}, test.args...)...)
			require.Equal(t, test.code, code, stderr)
			require.Contains(t, stdout+stderr, test.want)
			require.NotRegexp(t, held, stderr)
		}
	})
	t.Run("for files that other programs obey", func(t *testing.T) {
		ended := call(t, "--approval=rules", "write", `{"path":".git/hooks/pre-commit","content":"#!/bin/sh\n"}`)
		_, stderr, code := run(t, env, "approvals", "deny", waits(t))
		require.Zero(t, code, stderr)
		_, _, code = ended()
		require.Equal(t, exitCallFailed, code)
	})
}

func TestSpansAndEffectsInWords(t *testing.T) {
	t.Parallel()
	require.Equal(t, "23h05m", span(23*time.Hour+5*time.Minute+9*time.Second))
	require.Equal(t, "1m09s", span(69*time.Second))
	require.Equal(t, "0s", span(-time.Hour))
	require.Equal(t, "only reads, and stays with its executor", effect(kerneltest.ReadOnly))
	require.Equal(t, "a write, reaches the open world, and knows a repeat by its key", effect(kerneltest.Keyed))
	require.Equal(t, "computes, and touches nothing", effect(toolpark.EffectProfile{Kind: toolpark.EffectPure}))
}

// A run that names no configuration has the rules of the demo agent's profile, until somebody puts another.
func TestTheDemoAgentHasRules(t *testing.T) {
	t.Parallel()
	b := setupCalls(t)
	ctx, client, box := t.Context(), b.account.Agent.Client, b.box.ID.String()
	require.NoError(t, furnish(ctx, client, box))
	run, err := client.CreateRun(ctx, agent.NewRun{DefaultRunner: box})
	require.NoError(t, err)
	require.Equal(t, approvalRules, run.ApprovalMode)
	round, err := client.PostRound(ctx, run.PublicID, agent.NewRound{Calls: []agent.Call{
		{Name: "write", Arguments: jsontext.Value(`{"path":"docs/a.txt","content":""}`)},
		{Name: "write", Arguments: jsontext.Value(`{"path":"docs/.hidden","content":""}`)},
		{Name: "edit", Arguments: jsontext.Value(`{"path":"../a.txt","old_string":"a","new_string":"b"}`)},
		{Name: "glob", Arguments: jsontext.Value(`{"pattern":"*"}`)},
		{Name: "bash", Arguments: jsontext.Value(`{"command":"true"}`)},
		{Name: "bash", Arguments: jsontext.Value(`{"command":"dd if=/dev/zero of=/dev/sda"}`)},
	}})
	require.NoError(t, err)
	var born []toolpark.Status
	for _, task := range round.Tasks {
		born = append(born, task.Status)
	}
	require.Equal(t, []toolpark.Status{
		toolpark.Dispatched, toolpark.NeedsApproval, toolpark.NeedsApproval, toolpark.Dispatched, toolpark.NeedsApproval, toolpark.Failed,
	}, born)

	_, err = client.PutConfiguration(ctx, agent.Configuration{Runners: []string{box}, ApprovalMode: approvalAsk})
	require.NoError(t, err)
	require.NoError(t, furnish(ctx, client, box))
	run, err = client.CreateRun(ctx, agent.NewRun{DefaultRunner: box})
	require.NoError(t, err)
	require.Equal(t, approvalAsk, run.ApprovalMode)
}
