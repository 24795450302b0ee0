package park

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"slices"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/internal/postgres"
	"github.com/toolpark/toolpark/internal/strictjson"
)

// A wait and the task that it waits for find each other under the lock of the latter. Either the wait comes first
// and marks it as watched, so that its settlement begins again with all waiters locked and wakes them; or the
// settlement comes first, and the wait finds it.

// maxEndedDetail bounds, in bytes, what a wait tells of why its task did not complete. All of it stays on that task.
const maxEndedDetail = 2 << 10

// waitedFor reads the key of the task that a wait's input names.
func waitedFor(input jsontext.Value) string {
	var in struct {
		Task string `json:"task"`
	}
	_ = json.Unmarshal(input, &in) // it matched the schema, or was made by waitInput
	return in.Task
}

// waitInput is the input of a wait for a task.
func waitInput(task string) jsontext.Value {
	quoted, _ := jsontext.AppendQuote(nil, task) // of a key, which is plain ASCII
	return jsontext.Value(fmt.Sprintf(`{"task":%s}`, quoted))
}

// waiting is a wait as it begins: the kernel looks after it.
func waiting(task string, timeoutMS *int64) postgres.NewTask {
	if timeoutMS == nil {
		ms := toolpark.DefaultWaitTimeout.Milliseconds()
		timeoutMS = &ms
	}
	return postgres.NewTask{
		Kind: toolpark.KindWait, Origin: toolpark.OriginAuthor, Status: toolpark.Running,
		WaitsFor: &task, TargetName: &task, Input: waitInput(task), TimeoutMS: timeoutMS,
	}
}

// target is the locked task that this one waits for; nil when it waits for none, or for one that does not exist.
// It is errFamily while that is not locked.
func (a *advance) target() (*toolpark.Task, error) {
	switch {
	case a.task.WaitsFor == nil:
		return nil, nil
	case a.family == nil:
		return nil, errFamily
	}
	return a.family[*a.task.WaitsFor], nil
}

// watch has the wait told when its target settles. The outcome is that of a wait that can never end.
func (a *advance) watch(tx *postgres.Tx, target *toolpark.Task) *postgres.Outcome {
	var o *postgres.Outcome
	switch {
	case target == nil:
		o = said(fmt.Sprintf("There is no task %q in this run, so there is nothing to wait for.", *a.task.WaitsFor))
	case target.Key == a.task.Key:
		o = said("A task cannot wait for itself.")
	default:
		if !target.Watched {
			postgres.Watch(tx, target)
		}
		return nil
	}
	o.IsError = true
	return o
}

// withSettlement puts the settlement of the task that is waited for among what was staged for the wait, in the
// order of the stamps: what came before counts before, and a wait that it ends in time ends well, however late
// that is judged.
func withSettlement(inputs []toolpark.Input, task *postgres.LockedTask, target *toolpark.Task) []toolpark.Input {
	settlement := toolpark.Input{Generation: task.Generation, Kind: toolpark.InputTarget, StagedAt: *target.SettledAt}
	at := slices.IndexFunc(inputs, func(in toolpark.Input) bool { return settlement.StagedAt.Before(in.StagedAt) })
	if at < 0 {
		at = len(inputs)
	}
	return slices.Insert(slices.Clone(inputs), at, settlement)
}

// ended is how a wait ends whose task has settled: what became of it, as text and as structure.
func ended(ctx context.Context, q postgres.Querier, target *toolpark.Task) (*postgres.Outcome, error) {
	facts := struct {
		Task       string              `json:"task"`
		Generation int                 `json:"generation"`
		Status     toolpark.Status     `json:"status"`
		IsError    bool                `json:"is_error"`
		Error      *toolpark.TaskError `json:"error,omitzero"`
	}{target.Key, target.Generation, target.Status, target.IsError, nil}
	if target.ErrorKey != nil {
		detail, err := postgres.ErrorDetail(ctx, q, target)
		if err != nil {
			return nil, err
		}
		facts.Error = &toolpark.TaskError{Key: *target.ErrorKey, Detail: strictjson.CutString(detail, maxEndedDetail)}
	}
	document, err := json.Marshal(facts)
	if err != nil {
		return nil, err
	}
	canonical, err := strictjson.Canonical(document)
	if err != nil {
		return nil, err
	}
	return answered(canonical).outcome, nil
}
