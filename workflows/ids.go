// Package workflows holds what decides when: one Temporal workflow a task and one a run. Its code is
// deterministic; what it wants done it asks of package activities.
//
// A task's row holds what is true and its workflow holds the time. Signals carry nothing but the fact
// that something may have changed: losing, repeating or forging one changes nothing.
package workflows

import (
	"strconv"
	"strings"
	"uuid"

	"github.com/toolpark/toolpark"
)

// TaskWorkflowID names the workflow of one generation of a task: task/{run}/{key}/{generation}.
func TaskWorkflowID(run uuid.UUID, key string, generation int) string {
	return "task/" + run.String() + "/" + key + "/" + strconv.Itoa(generation)
}

// RunWorkflowID names the workflow of a run: run/{run}.
func RunWorkflowID(run uuid.UUID) string { return "run/" + run.String() }

// PruneID names the schedule that prunes, and, followed by the time, its workflows: prune/{queue}. Two deployments in
// one namespace have queues of their own.
func PruneID(queue string) string { return "prune/" + queue }

// TaskOfWorkflow reads a task workflow's id back. The account is not in it.
func TaskOfWorkflow(id string) (task toolpark.GenerationID, ok bool) {
	parts := strings.Split(id, "/")
	if len(parts) != 4 || parts[0] != "task" {
		return toolpark.GenerationID{}, false
	}
	run, err := uuid.Parse(parts[1])
	if err != nil {
		return toolpark.GenerationID{}, false
	}
	generation, err := strconv.Atoi(parts[3])
	return toolpark.GenerationID{Run: run, Key: parts[2], Generation: generation}, err == nil
}

// RunOfWorkflow reads a run workflow's id back.
func RunOfWorkflow(id string) (uuid.UUID, bool) {
	text, ok := strings.CutPrefix(id, "run/")
	if !ok {
		return uuid.UUID{}, false
	}
	run, err := uuid.Parse(text)
	return run, err == nil
}

// Signal says what happened, for the reader of a history. Workflows treat each as "look again".
type Signal string

const (
	SignalCommit     Signal = "commit"     // an executor's report is staged
	SignalCancel     Signal = "cancel"     // a cancel is staged
	SignalClaimed    Signal = "claimed"    // a claim has lasted long enough to be shown
	SignalDecision   Signal = "decision"   // an approval or a denial is staged
	SignalResolution Signal = "resolution" // an answer to an ask is staged
	SignalWake       Signal = "wake"       // the recovery loop found something due
	SignalStop       Signal = "stop"       // a run is being stopped
	SignalEnded      Signal = "ended"      // a run has ended
)

var (
	taskSignals = []Signal{SignalCommit, SignalCancel, SignalClaimed, SignalDecision, SignalResolution, SignalWake}
	runSignals  = []Signal{SignalStop, SignalEnded, SignalWake}
)
