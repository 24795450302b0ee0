package main

import (
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"strings"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/sdk/agent"
)

// AsksCmd shows the questions that wait for a person, and answers.
type AsksCmd struct {
	PersonFlags `embed:""`

	List   AsksListCmd `cmd:"" default:"withargs" help:"Show what waits and, at a terminal, answer one after the other (the default)."`
	Answer AnswerCmd   `cmd:"" help:"Answer a question."`
}

// Help says who answers, and what the exit status tells.
func (*AsksCmd) Help() string {
	return "You answer as the person of the credentials file, or as the member of --token. Exit status: 0 what was asked is " +
		"done; 1 the answer did not take: the question has settled, or the task asks nobody; 2 wrong usage, or the API " +
		"refused or could not be reached."
}

// answeredAs is what is said of a question that took an answer.
const answeredAs = "answered"

// AsksListCmd shows what waits for an answer.
type AsksListCmd struct {
	Look `embed:""`
}

// Run lists the questions and, when a person sits there, asks for an answer to each.
func (c *AsksListCmd) Run(ctx context.Context, all *AsksCmd) error {
	return all.work(ctx, c.Look, "", (*desk).questions)
}

// questions are what waits for an answer.
func (d *desk) questions() pile {
	return pile{list: d.Asks, none: "No question waits for an answer.", show: func(w agent.Waiting) { d.showQuestion(w, d.full) }, ask: d.answer}
}

// AnswerCmd answers a question.
type AnswerCmd struct {
	Question CallRef  `arg:"" placeholder:"RUN/KEY" help:"The question, as the list names it."`
	Text     *string  `arg:"" optional:"" placeholder:"TEXT" help:"The answer in your own words; with strict options, the text of one."`
	Option   []string `sep:"none" placeholder:"TEXT" help:"One of the options, by its text; several times where several may be chosen."`
	Cannot   *string  `placeholder:"TEXT" help:"The question cannot be answered, and why."`
}

// Run answers the question.
func (c *AnswerCmd) Run(ctx context.Context, all *AsksCmd) error {
	ways := 0
	for _, given := range []bool{c.Text != nil, c.Option != nil, c.Cannot != nil} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return exitError{exitNoAnswer, errors.New("give one of TEXT, --option and --cannot")}
	}
	d, err := all.desk()
	if err != nil {
		return err
	}
	var a agent.Answer
	switch {
	case c.Text != nil:
		a = agent.Answer{Text: *c.Text}
	case c.Cannot != nil:
		if strings.TrimSpace(*c.Cannot) == "" {
			return exitError{exitNoAnswer, errors.New("--cannot needs a reason")}
		}
		a = agent.Answer{Text: *c.Cannot, Failed: true}
	default:
		if a, err = d.chosen(ctx, c.Question, c.Option); err != nil {
			return exitError{exitNoAnswer, err}
		}
	}
	task, err := d.Resolve(ctx, c.Question.Run, c.Question.Key, a)
	return d.decided(task, err, answeredAs)
}

// chosen is the answer that chooses options by their texts. The question may have settled: the same answer once more
// reads what it read before.
func (d *desk) chosen(ctx context.Context, ref CallRef, texts []string) (a agent.Answer, err error) {
	task, err := d.Task(ctx, ref.Run, ref.Key, 0)
	if err != nil {
		return a, fmt.Errorf("read question %s/%s: %w", ref.Run, ref.Key, err)
	}
	if task.Kind != toolpark.KindAsk {
		return agent.Answer{Text: strings.Join(texts, "\n")}, nil // which the API refuses, and says why
	}
	var q agent.Question
	if err := json.Unmarshal(task.ToolInput, &q); err != nil {
		return a, fmt.Errorf("read question %s/%s: %w", ref.Run, ref.Key, err)
	}
	var indexes []int
	for _, text := range texts {
		i := optionOf(q, text)
		if q.Options == nil {
			return a, errors.New("the question has no options; answer with a text")
		}
		if i < 0 {
			return a, fmt.Errorf("%q is no option; the options are %s", text, quoted(q.Options))
		}
		indexes = append(indexes, i)
	}
	if wrong := wrongChoice(q, indexes); wrong != "" {
		return a, errors.New(wrong)
	}
	return choose(q, indexes)
}
