package catalog

import (
	"encoding/json/jsontext"
	"time"

	"github.com/toolpark/toolpark"
)

// A description tells a model when to use the tool and how, and gives one example. It names other
// kernel tools by macro and no parameter at all, since an alias may spell both in its own way.

var toolsSearch = Tool{
	Canonical:     ToolsSearch,
	Name:          "tool_search",
	EffectProfile: reads,
	Timeout:       time.Minute,
	Template: `Find tools that you may call but that are not shown to you. ` +
		`Look here before you say that something cannot be done. ` +
		`Every word you give must occur, in any case and order, in a tool's name, in its description, ` +
		`in the id of the runner that it runs on, or in the skills that it loads; ` +
		`the exact name of a tool finds that tool alone. ` +
		`Each result is the complete definition of a tool, ready for {{tool_call}}. ` +
		`When the result says that it is truncated, more tools match: use more words. ` +
		`For example, "resize image" finds the tools that have both words.`,
	Parameters: jsontext.Value(`{"type":"object","properties":{` +
		`"query":{"type":"string","minLength":1,"maxLength":1000,"description":"Words that must all occur, or the exact name of a tool."},` +
		`"limit":{"type":"integer","minimum":1,"maximum":20,"default":5,"description":"How many tools to return at most."}},` +
		`"required":["query"],"additionalProperties":false}`),
}

var toolsCall = Tool{
	Canonical: ToolsCall,
	Name:      "tool_call",
	EffectProfile: toolpark.EffectProfile{
		Kind: toolpark.EffectWrite, EffectScope: toolpark.ScopeClosed,
		Idempotency: toolpark.IdempotentNone, Reconciliation: toolpark.ReconcileNone,
	},
	Timeout: time.Minute,
	Template: `Call a tool that is not shown to you, once {{tool_search}} has found it. ` +
		`Give its exact name and an input that matches its definition. ` +
		`What comes back is that tool's own result, as if you had called it by itself; the same checks and approvals apply. ` +
		`For example, a tool found as box_read that takes a path is called by the name box_read with the input {"path":"notes.txt"}. ` +
		`A tool that is shown to you is called by itself, not through this one.`,
	Parameters: jsontext.Value(`{"type":"object","properties":{` +
		`"name":{"type":"string","description":"The tool's exact name, as it was found."},` +
		`"input":{"type":"object","description":"The tool's own input, as its definition describes it."}},` +
		`"required":["name","input"],"additionalProperties":false}`),
}

var runnersList = Tool{
	Canonical:     RunnersList,
	Name:          "runners_list",
	EffectProfile: reads,
	Timeout:       time.Minute,
	Template: `List the runners, the machines that this work may use: the id of each, its name, and what it says of itself, ` +
		`such as its operating system, working directory and installed programs. ` +
		`Look here before you assume what a machine is like: for example, whether a command meets Linux or Windows. ` +
		`The current runner is the one in use; it is null when none was chosen. ` +
		`The list was made when this work began and does not tell which machines are connected now. ` +
		`The id of a runner, given to {{tool_search}}, finds the tools that run there.`,
	Parameters: jsontext.Value(`{"type":"object","properties":{},"additionalProperties":false}`),
}

var humanAsk = Tool{
	Canonical: HumanAsk,
	Name:      "ask",
	EffectProfile: toolpark.EffectProfile{
		Kind: toolpark.EffectWrite, EffectScope: toolpark.ScopeOpen,
		Idempotency: toolpark.IdempotentBy, Reconciliation: toolpark.ReconcileLookup,
	},
	Timeout: toolpark.DefaultAskTimeout,
	Template: `Ask a person a question and wait for the answer. ` +
		`Use it when only a person can say: what they want when the task can be read in more than one way, ` +
		`a fact that is written nowhere you can look, or which of several good ways to take. ` +
		`Do not use it for what another tool can find out, nor to be allowed a call: calls that need approval are held for it by themselves. ` +
		`Put one question at a time, and write it so that somebody who has seen nothing else can answer. ` +
		`Offer options when the likely answers are few; the person may still answer in other words. ` +
		`The answer may take long, and may never come: then this call says that it timed out, and you go on as well as you can. ` +
		`For example, ask "Deploy to staging or to production?" with the options "staging" and "production".`,
	Parameters: jsontext.Value(`{"type":"object","properties":{` +
		`"prompt":{"type":"string","minLength":1,"maxLength":8192,"description":"The question, complete in itself."},` +
		`"options":{"type":"array","minItems":1,"maxItems":50,"uniqueItems":true,"items":{"type":"string","minLength":1,"maxLength":256},` +
		`"description":"Answers to choose from."},` +
		`"multi":{"type":"boolean","default":false,"description":"Whether several options may be chosen. Only with options."}},` +
		`"required":["prompt"],"additionalProperties":false}`),
}

var graphWait = Tool{
	Canonical:     GraphWait,
	Name:          "wait",
	EffectProfile: reads,
	Timeout:       toolpark.DefaultWaitTimeout,
	Template: `Wait until another task of this run has ended, and learn how. ` +
		`Give the key of the task, such as r2t0. The result says whether it completed, failed, was canceled or timed out; ` +
		`what the task itself returned is not in it. A task that has ended already is answered at once. ` +
		`Use it only for a task whose key you were told and whose end you need before you go on; ` +
		`the results of the calls you make come back by themselves.`,
	Parameters: jsontext.Value(`{"type":"object","properties":{` +
		`"task":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,255}$","description":"The key of the task to wait for."}},` +
		`"required":["task"],"additionalProperties":false}`),
}

// reads is the profile of a kernel tool that only looks at what was frozen with the work.
var reads = toolpark.EffectProfile{
	Kind: toolpark.EffectReadOnly, EffectScope: toolpark.ScopeClosed,
	Idempotency: toolpark.IdempotentBy, Reconciliation: toolpark.ReconcileNone,
}
