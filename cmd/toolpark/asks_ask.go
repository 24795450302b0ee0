package main

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/sdk/agent"
)

// showQuestion prints all that an answer needs: of a long prompt the beginning and the end, unless it is wanted whole.
// Options are always whole: nobody should choose from a part of them.
func (d *desk) showQuestion(w agent.Waiting, whole bool) {
	fmt.Fprintf(d.out, "%s/%s\n", line(w.Run), line(w.TaskKey))
	if w.Generation > 1 {
		fmt.Fprintf(d.out, "  again: attempt %d of this question\n", w.Generation)
	}
	fmt.Fprintf(d.out, "  asked by %s (%s) %s ago, %s left to answer\n",
		line(w.RequestedBy.Handle), line(string(w.RequestedBy.Kind)), span(time.Since(w.StartedAt)), span(time.Until(w.DeadlineAt)))
	lines := block(visible(w.Prompt), d.columns)
	if !whole {
		lines = cut(lines)
	}
	for i, option := range w.Options {
		lines = append(lines, fold(line(option), d.columns, fmt.Sprintf("%4d | ", i+1), "     + ")...)
	}
	fmt.Fprintln(d.out, strings.Join(lines, "\n"))
}

// answer shows a question and takes a person's answer to it. More is false when the person wants to see no more.
func (d *desk) answer(ctx context.Context, w agent.Waiting) (more bool, err error) {
	d.showQuestion(w, d.full)
	whole := d.full || len(block(visible(w.Prompt), d.columns)) <= shownLines
	for {
		typed, err := d.readLine(ctx, invitation(w.Question, whole))
		if err != nil {
			return false, quit(err)
		}
		var a agent.Answer
		switch {
		case typed == "":
			continue
		case typed == "-":
			return true, nil
		case typed == "q":
			return false, nil
		case typed == "+" && !whole:
			d.showQuestion(w, true)
			continue
		case typed == "!":
			reason, err := d.readLine(ctx, "why it cannot be answered: ")
			if err != nil {
				return false, quit(err)
			}
			if reason == "" {
				fmt.Fprintln(d.out, "Not sent: it needs a reason.")
				continue
			}
			a = agent.Answer{Text: reason, Failed: true}
		default:
			var sure bool
			if a, sure, err = d.read(ctx, w.Question, typed); err != nil {
				return false, quit(err)
			}
			if !sure {
				continue
			}
		}
		task, err := d.Resolve(ctx, w.Run, w.TaskKey, a)
		if codeOf(err) == toolpark.CodeAlreadySettled {
			d.tellAnswer(err)
			return true, nil
		}
		if settled, err := d.answered(task, err, answeredAs); settled || err != nil {
			return true, err
		}
	}
}

// invitation says how a question may be answered.
func invitation(q agent.Question, whole bool) string {
	how := "your answer"
	if q.Options != nil {
		how = "a number"
		if q.Multi {
			how = "numbers with commas"
		}
		if !q.Strict {
			how += ", or your own words"
		}
	}
	if whole {
		return how + "; [-] skip, [!] cannot answer, [q]uit: "
	}
	return how + "; [+] whole question, [-] skip, [!] cannot answer, [q]uit: "
}

// tellAnswer says that a question takes no answer any more, and which one it took.
func (d *desk) tellAnswer(err error) {
	d.tell("Too late: ", err.Error())
	var task agent.Task
	if e, ok := errors.AsType[*toolpark.Error](err); ok {
		if raw, ok := e.Details["task"].(jsontext.Value); ok && json.Unmarshal(raw, &task) == nil && task.Output != "" {
			fmt.Fprintln(d.out, strings.Join(cut(block(visible(task.Output), d.columns)), "\n"))
		}
	}
	fmt.Fprintln(d.out)
}

// read takes what was typed for an answer. A person is asked again when it could be meant in another way; sure is
// false when nothing should be sent.
func (d *desk) read(ctx context.Context, q agent.Question, typed string) (a agent.Answer, sure bool, err error) {
	option := optionOf(q, typed)
	indexes, numbers := readNumbers(typed)
	wrong := wrongChoice(q, indexes)
	var doubt string
	switch {
	case q.Options == nil, !numbers && option < 0:
		return agent.Answer{Text: typed}, true, nil
	case !numbers, wrong != "" && option >= 0:
		a, err = choose(q, []int{option})
		return a, true, err
	case wrong == "":
		if a, err = choose(q, indexes); err != nil || option < 0 || slices.Equal(indexes, []int{option}) {
			return a, true, err
		}
		doubt = fmt.Sprintf("%s is also the text of option %d. Choose %s?", typed, option+1, quoted(texts(q, indexes)))
	case q.Strict:
		d.tell("Not answered: ", wrong)
		return a, false, nil
	default:
		a.Text, doubt = typed, wrong+"; send it as your own words?"
	}
	d.tell("", doubt)
	yes, err := d.readLine(ctx, "[y]es, [n]o: ")
	return a, yes == "y" || yes == "yes", err
}

// optionOf is the index of the option with this text, as the API compares them: white space around does not count.
// It is -1 for none.
func optionOf(q agent.Question, text string) int {
	text = strings.TrimSpace(text)
	return slices.IndexFunc(q.Options, func(option string) bool { return strings.TrimSpace(option) == text })
}

// readNumbers reads numbers with commas as indexes, and tells whether the text is that and nothing else.
func readNumbers(text string) (indexes []int, all bool) {
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseUint(strings.TrimSpace(part), 10, 31)
		if err != nil {
			return nil, false
		}
		indexes = append(indexes, int(n)-1)
	}
	return indexes, true
}

// wrongChoice says why these options cannot be chosen together; "" when they can.
func wrongChoice(q agent.Question, indexes []int) string {
	seen := map[int]bool{}
	for _, i := range indexes {
		switch {
		case i < 0 || i >= len(q.Options):
			return fmt.Sprintf("there is no option %d", i+1)
		case seen[i]:
			return fmt.Sprintf("option %d is chosen twice", i+1)
		case len(indexes) > 1 && !q.Multi:
			return "only one option may be chosen"
		}
		seen[i] = true
	}
	return ""
}

// choose is the answer that chooses options: for a model one on each line, for programs a text, or a list where
// several may be chosen.
func choose(q agent.Question, indexes []int) (agent.Answer, error) {
	chosen := texts(q, indexes)
	var value any = chosen
	if !q.Multi {
		value = chosen[0]
	}
	structured, err := json.Marshal(value)
	return agent.Answer{Text: strings.Join(chosen, "\n"), StructuredContent: structured}, err
}

func texts(q agent.Question, indexes []int) (chosen []string) {
	for _, i := range indexes {
		chosen = append(chosen, q.Options[i])
	}
	return chosen
}

// quoted lists texts, none of which can hide anything.
func quoted(texts []string) string {
	list := make([]string, len(texts))
	for i, text := range texts {
		list[i] = `"` + line(text) + `"`
	}
	return strings.Join(list, ", ")
}
