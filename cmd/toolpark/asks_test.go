package main

import (
	"encoding/json/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/sdk/agent"
)

// ask makes a question that waits for an answer.
func (o *office) ask(q agent.Question) agent.Waiting {
	o.t.Helper()
	made, err := o.Agent.AppendTasks(o.t.Context(), o.run, []agent.Step{{Ask: &q}}, "")
	require.NoError(o.t, err)
	all, err := o.Admin.Asks(o.t.Context(), agent.WaitingFilter{Run: o.run})
	require.NoError(o.t, err)
	for _, w := range all {
		if w.TaskKey == made[0].Key {
			return w
		}
	}
	require.Fail(o.t, "the question does not wait")
	return agent.Waiting{}
}

func TestAPersonAnswersAtATerminal(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	answer := func(t *testing.T, w agent.Waiting, typed string) (out string, more bool) {
		t.Helper()
		d, printed := o.desk(typed, "")
		more, err := d.answer(t.Context(), w)
		require.NoError(t, err)
		return printed.String(), more
	}
	places := []string{"staging", "production", "both"}

	for name, test := range map[string]struct {
		question   agent.Question
		typed      string
		shown      []string // on the way
		text       string
		structured string // "": none
	}{
		"in own words": {
			agent.Question{Prompt: "Why?\nReally."},
			"\nBecause, 1.\n",
			[]string{"asked by robot (agent) ", " left to answer\n  | Why?\n  | Really.\nyour answer; "},
			"Because, 1.", "",
		},
		"a number that no option has, to a question without options": {agent.Question{Prompt: "How many?"}, "12\n", nil, "12", ""},
		"by a number": {
			agent.Question{Prompt: "Where?", Options: places},
			"2\n",
			[]string{"  | Where?\n   1 | staging\n   2 | production\n   3 | both\na number, or your own words; "},
			"production", `"production"`,
		},
		"by the text of an option": {agent.Question{Prompt: "Where?", Options: places}, "both\n", nil, "both", `"both"`},
		"in own words beside options": {
			agent.Question{Prompt: "Where?", Options: places},
			"staging, then production\n", nil,
			"staging, then production", "",
		},
		"by several numbers": {
			agent.Question{Prompt: "Where?", Options: places, Multi: true},
			"3, 1\n",
			[]string{"numbers with commas, or your own words; "},
			"both\nstaging", `["both","staging"]`,
		},
		"by one number where several may be chosen": {agent.Question{Prompt: "Where?", Options: places, Multi: true}, "1\n", nil, "staging", `["staging"]`},
		"after a refusal": {
			agent.Question{Prompt: "Where?", Options: places, Strict: true},
			"nowhere\n4\n1,2\n1\n",
			[]string{
				"a number; ", "Not answered:\n  | invalid_content: The answer must be one of the options: \"staging\", ",
				"Not answered: there is no option 4\n", "Not answered: only one option may be chosen\n",
			},
			"staging", `"staging"`,
		},
		"after the refusal of several": {
			agent.Question{Prompt: "Where?", Options: places, Strict: true, Multi: true},
			"1,1\nstaging, both\n1,3\n",
			[]string{"numbers with commas; ", "Not answered: option 1 is chosen twice\n", "each at most once"},
			"staging\nboth", `["staging","both"]`,
		},
		"a number that no option has, said again": {
			agent.Question{Prompt: "How many?", Options: []string{"few", "many"}},
			"7\n\n7\ny\n",
			[]string{"there is no option 7; send it as your own words?\n[y]es, [n]o: "},
			"7", "",
		},
		"a number that an option is": {agent.Question{Prompt: "How many?", Options: []string{"5", "10"}}, "10\n", nil, "10", `"10"`},
		"a number that means two options": {
			agent.Question{Prompt: "How many?", Options: []string{"3", "2", "1"}, Strict: true},
			"1\nn\n3\ny\n",
			[]string{"1 is also the text of option 3. Choose \"3\"?\n", "3 is also the text of option 1. Choose \"1\"?\n"},
			"1", `"1"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := o.ask(test.question)
			out, more := answer(t, w, test.typed)
			require.True(t, more)
			require.Contains(t, out, w.Run+"/"+w.TaskKey+"\n")
			for _, shown := range test.shown {
				require.Contains(t, out, shown)
			}
			require.True(t, strings.HasSuffix(out, "\nanswered\n\n") || strings.HasSuffix(out, ": answered\n\n"), out)
			task := o.task(w)
			require.Equal(t, toolpark.Completed, task.Status)
			require.Equal(t, test.text, task.Output)
			if test.structured == "" {
				require.Contains(t, []string{"", "null"}, string(task.StructuredContent))
			} else {
				require.Equal(t, test.structured, string(task.StructuredContent))
			}
		})
	}

	t.Run("says that it cannot be answered", func(t *testing.T) {
		w := o.ask(agent.Question{Prompt: "Where?", Options: places, Strict: true})
		out, more := answer(t, w, "!\n\n!\nnobody knows\n")
		require.True(t, more)
		require.Contains(t, out, "Not sent: it needs a reason.\n")
		task := o.task(w)
		require.Equal(t, toolpark.Failed, task.Status)
		require.Contains(t, task.Error.Detail, "nobody knows")
	})
	t.Run("skips, quits, or leaves", func(t *testing.T) {
		w := o.ask(agent.Question{Prompt: "Where?", Options: places})
		for typed, goesOn := range map[string]bool{"-\n": true, "q\n": false, "": false, "!\n": false, "9\n": false} {
			_, more := answer(t, w, typed)
			require.Equal(t, goesOn, more, typed)
		}
		require.Equal(t, toolpark.AwaitingInput, o.task(w).Status)
	})
	t.Run("is told that somebody was faster, and the answer", func(t *testing.T) {
		w := o.ask(agent.Question{Prompt: "Where?"})
		_, err := o.Admin.Resolve(t.Context(), w.Run, w.TaskKey, agent.Answer{Text: "Here.\x1b[2J"})
		require.NoError(t, err)
		out, more := answer(t, w, "There.\n")
		require.True(t, more)
		require.Contains(t, out, "Too late:")
		require.Contains(t, out, "it has been answered")
		require.Contains(t, out, "\n  | Here.\\u001b[2J\n")
	})
	t.Run("sees nothing that imitates the terminal", func(t *testing.T) {
		w := o.ask(agent.Question{
			Prompt:  "Where?\x1b[2J\u202e\n   1 | nowhere" + strings.Repeat(" ", 100) + "2 | here",
			Options: []string{"staging\n   2 | production" + strings.Repeat(" ", 60) + "answered", "really\u200b"}, Strict: true,
		})
		out, _ := answer(t, w, "x\n-\n")
		require.Contains(t, out, `Where?\u001b[2J\u202e`)
		require.Contains(t, out, `   1 | staging\n   2 | production`)
		require.Contains(t, out, `   2 | really\u200b`)
		for l := range strings.Lines(out) {
			require.LessOrEqual(t, len(strings.TrimSuffix(l, "\n")), 80, l)
		}
		require.Len(t, regexp.MustCompile(`(?m)^ +2 \| `).FindAllString(out, -1), 1)
	})
	t.Run("sees a long question in part, and whole", func(t *testing.T) {
		w := o.ask(agent.Question{Prompt: strings.Repeat("a line\n", 300) + "the end", Options: places})
		out, _ := answer(t, w, "+\n-\n")
		part, whole, found := strings.Cut(out, "[+] whole question, ")
		require.True(t, found)
		require.Regexp(t, `… \d+ lines are left out here …`, part)
		require.Contains(t, part, "the end\n   1 | staging\n")
		require.NotContains(t, whole, "left out")
		require.Greater(t, strings.Count(whole, "a line"), 290)
	})
}

func TestAPersonAnswersOneAfterTheOther(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	first, second := o.ask(agent.Question{Prompt: "Where?"}), o.ask(agent.Question{Prompt: "When?"})
	d, printed := o.desk("-\nNow.\n", "")
	require.NoError(t, d.list(t.Context(), d.questions(), agent.WaitingFilter{Run: o.run}, true, false))
	require.Contains(t, printed.String(), "1 of 2\n")
	require.Contains(t, printed.String(), "2 of 2\n")
	require.Equal(t, toolpark.AwaitingInput, o.task(first).Status)
	require.Equal(t, "Now.", o.task(second).Output)
	d, printed = o.desk("q\n", "")
	require.NoError(t, d.list(t.Context(), d.questions(), agent.WaitingFilter{Run: o.run}, true, true))
	require.Equal(t, 1, strings.Count(printed.String(), " of 1\n"))
}

func TestAsksAsProcesses(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	env := []string{"TOOLPARK_URL=" + o.URL, "TOOLPARK_TOKEN=" + o.Admin.Token}
	asks := func(t *testing.T, args ...string) (stdout, stderr string, code int) {
		t.Helper()
		return run(t, env, append([]string{"asks"}, args...)...)
	}
	places := agent.Question{Prompt: "Where?\u202e", Options: []string{"staging", "production, now"}, Multi: true, Strict: true}

	stdout, stderr, code := asks(t)
	require.Zero(t, code, stderr)
	require.Equal(t, "No question waits for an answer.\n", stdout)

	t.Run("lists what waits, and asks nothing without a terminal", func(t *testing.T) {
		w := o.ask(places)
		stdout, stderr, code := asks(t, "--run", o.run)
		require.Zero(t, code, stderr)
		require.Contains(t, stdout, w.Run+"/"+w.TaskKey+"\n")
		require.Contains(t, stdout, "  | Where?\\u202e\n   1 | staging\n   2 | production, now\n")
		require.NotContains(t, stdout, "skip")
		stdout, _, _ = asks(t, "--min-age", "1h")
		require.NotContains(t, stdout, w.TaskKey)
		stdout, stderr, code = asks(t, "--json")
		require.Zero(t, code, stderr)
		var list []agent.Waiting
		require.NoError(t, json.Unmarshal([]byte(stdout), &list))
		require.Len(t, list, 1)
		require.Equal(t, places, list[0].Question)
		require.NotContains(t, stdout, "\u202e")
	})
	t.Run("answers by options", func(t *testing.T) {
		w := o.ask(places)
		ref := w.Run + "/" + w.TaskKey
		_, stderr, code := asks(t, "answer", ref, "elsewhere")
		require.Equal(t, exitNoAnswer, code)
		require.Contains(t, stderr, `"staging", "production, now"`)
		_, stderr, code = asks(t, "answer", ref, "--option", "production")
		require.Equal(t, exitNoAnswer, code)
		require.Contains(t, stderr, `"production" is no option; the options are "staging", "production, now"`)
		require.Equal(t, toolpark.AwaitingInput, o.task(w).Status)
		for range 2 { // once more is the same
			stdout, stderr, code := asks(t, "answer", ref, "--option", "production, now", "--option", "staging")
			require.Zero(t, code, stderr)
			require.Equal(t, "answered\n", stdout)
		}
		require.Equal(t, `["production, now","staging"]`, string(o.task(w).StructuredContent))
		_, stderr, code = asks(t, "answer", ref, "--option", "staging")
		require.Equal(t, exitNotDecided, code)
		require.Contains(t, stderr, "it has been answered")
	})
	t.Run("answers by a text", func(t *testing.T) {
		w := o.ask(agent.Question{Prompt: "Why?"})
		stdout, stderr, code := asks(t, "--json", "answer", w.Run+"/"+w.TaskKey, "Because.\nReally.")
		require.Zero(t, code, stderr)
		var task agent.Task
		require.NoError(t, json.Unmarshal([]byte(stdout), &task))
		require.Equal(t, "Because.\nReally.", task.Output)
	})
	t.Run("says that it cannot be answered", func(t *testing.T) {
		w := o.ask(places)
		stdout, stderr, code := asks(t, "answer", w.Run+"/"+w.TaskKey, "--cannot", "nobody knows")
		require.Zero(t, code, stderr)
		require.Equal(t, "answered\n", stdout)
		require.Contains(t, o.task(w).Error.Detail, "nobody knows")
	})
	t.Run("what cannot be asked", func(t *testing.T) {
		one, free, held := o.ask(agent.Question{Prompt: "Where?", Options: []string{"a", "b"}}), o.ask(agent.Question{Prompt: "Why?"}), o.hold(`{"command":"ls"}`)
		ref := one.Run + "/" + one.TaskKey
		for name, test := range map[string]struct {
			args []string
			code int
			want string
		}{
			"no such run":         {[]string{"answer", "019aa000-0000-7000-8000-000000000000/q", "x"}, exitNoAnswer, "not_found"},
			"no such question":    {[]string{"answer", one.Run + "/other", "--option", "x"}, exitNoAnswer, "not_found"},
			"no answer":           {[]string{"answer", ref}, exitNoAnswer, "one of TEXT, --option and --cannot"},
			"two answers":         {[]string{"answer", ref, "a", "--option", "a"}, exitNoAnswer, "one of TEXT, --option and --cannot"},
			"no reason":           {[]string{"answer", ref, "--cannot", " "}, exitNoAnswer, "needs a reason"},
			"two options of one":  {[]string{"answer", ref, "--option", "a", "--option", "b"}, exitNoAnswer, "only one option"},
			"an option of none":   {[]string{"answer", free.Run + "/" + free.TaskKey, "--option", "a"}, exitNoAnswer, "no options"},
			"what asks nobody":    {[]string{"answer", held.Run + "/" + held.TaskKey, "x"}, exitNotDecided, "asks nobody"},
			"an option of a call": {[]string{"answer", held.Run + "/" + held.TaskKey, "--option", "x"}, exitNotDecided, "asks nobody"},
			"a stream":            {[]string{"--json", "--watch"}, exitNoAnswer, "--json"},
		} {
			t.Run(name, func(t *testing.T) {
				_, stderr, code := asks(t, test.args...)
				require.Equal(t, test.code, code, stderr)
				require.Contains(t, stderr, test.want)
			})
		}
	})
}
