package main

import (
	"cmp"
	"encoding/json/jsontext"
	"fmt"
	"strings"
	"time"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/sdk/agent"
)

// show prints all that a decision needs.
func (d *desk) show(w agent.Waiting) {
	target := cmp.Or(w.TargetName, "nobody")
	if target == "kernel" {
		target = "Toolpark itself"
	}
	fmt.Fprintf(d.out, "%s/%s\n", line(w.Run), line(w.TaskKey))
	if w.Generation > 1 {
		fmt.Fprintf(d.out, "  again: attempt %d of this call\n", w.Generation)
	}
	fmt.Fprintf(d.out, "  %s → %s, asked for by %s (%s) %s ago, %s left to decide\n",
		line(w.ToolName), line(target), line(w.RequestedBy.Handle), line(string(w.RequestedBy.Kind)),
		span(time.Since(w.StartedAt)), span(time.Until(w.DeadlineAt)))
	if w.EffectProfile != nil {
		fmt.Fprintf(d.out, "  %s\n", effect(*w.EffectProfile))
	}
	fmt.Fprintf(d.out, "  digest %s\n", line(w.InputDigest))
	d.showInput(w.ToolInput)
}

// showInput prints an input, of a long one the beginning and the end.
func (d *desk) showInput(input jsontext.Value) {
	lines := block(pretty(input), d.columns)
	if !d.full {
		lines = cut(lines)
	}
	fmt.Fprintln(d.out, strings.Join(lines, "\n"))
}

// pretty is JSON with one member a line. Strings are spelled one way, with nothing hidden; numbers keep their digits.
func pretty(input jsontext.Value) string {
	if input == nil {
		return "{}"
	}
	text := input.Clone()
	if err := text.Format(jsontext.Multiline(true), jsontext.WithIndent("  "), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		return visible(string(input))
	}
	return visible(string(text))
}

// effect says what a call may do, in words.
func effect(p toolpark.EffectProfile) string {
	within, repeat := "stays with its executor", "may not be repeated"
	if p.EffectScope == toolpark.ScopeOpen {
		within = "reaches the open world"
	}
	switch p.Kind {
	case toolpark.EffectPure:
		return "computes, and touches nothing"
	case toolpark.EffectReadOnly:
		return "only reads, and " + within
	}
	switch p.Idempotency {
	case toolpark.IdempotentBy:
		repeat = "may be repeated"
	case toolpark.IdempotentKeyed:
		repeat = "knows a repeat by its key"
	}
	kind := "a write"
	if p.Destructive {
		kind = "a write that can destroy"
	}
	return fmt.Sprintf("%s, %s, and %s", kind, within, repeat)
}

// span is a time in two units at most.
func span(d time.Duration) string {
	d = max(d, 0)
	hours, minutes := int(d.Hours()), int(d.Minutes())%60
	switch {
	case hours > 0:
		return fmt.Sprintf("%dh%02dm", hours, minutes)
	case minutes > 0:
		return fmt.Sprintf("%dm%02ds", minutes, int(d.Seconds())%60)
	}
	return fmt.Sprintf("%ds", int(d.Seconds()))
}
