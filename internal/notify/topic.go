package notify

import (
	"fmt"
	"strconv"
	"strings"
	"uuid"

	"github.com/toolpark/toolpark"
)

// Topic is what a waiter waits for. It is made of ids only, so that it always fits a notification.
type Topic string

// TaskTopic tells of a task's verdicts and its settlement.
func TaskTopic(id toolpark.TaskID) Topic { return Topic("task/" + id.Run.String() + "/" + id.Key) }

// RunTopic tells of a run's status and its events.
func RunTopic(run uuid.UUID) Topic { return Topic("run/" + run.String()) }

// RoundTopic tells that every task of a round has settled.
func RoundTopic(run uuid.UUID, round int) Topic {
	return Topic(fmt.Sprintf("round/%s/%d", run, round))
}

// InboxTopic tells of an executor's inbox. Its messages carry a Delivery.
func InboxTopic(executor uuid.UUID) Topic { return Topic("inbox/" + executor.String()) }

// ProgressTopic tells of new progress frames of a run's tasks.
func ProgressTopic(run uuid.UUID) Topic { return Topic("progress/" + run.String()) }

// Message is one thing that happened. Losing, repeating or forging it changes nothing: a waiter reads
// the database again, and every two seconds it would have done so anyway.
type Message struct {
	Topic Topic
	// Note says what happened in ids, for a reader that can act on it without a query. May be empty.
	Note string
}

// Push is what an inbox note says.
type Push struct {
	RunID      uuid.UUID
	TaskKey    string
	Generation int
	Reason     string // empty: the row is new; else what settled it, and the row is gone
}

// Arrived is the note of a new inbox row.
func Arrived(run uuid.UUID, key string, generation int) string {
	return fmt.Sprintf("%s %s %d", run, key, generation)
}

// Gone is the note of a row that left the inbox because its task settled by the given reason.
func Gone(run uuid.UUID, key string, generation int, reason string) string {
	return Arrived(run, key, generation) + " " + reason
}

// ParsePush reads a note of an inbox topic. A note of another form is none.
func ParsePush(note string) (Push, bool) {
	fields := strings.Fields(note)
	if len(fields) < 3 || len(fields) > 4 {
		return Push{}, false
	}
	run, err := uuid.Parse(fields[0])
	if err != nil {
		return Push{}, false
	}
	generation, err := strconv.Atoi(fields[2])
	if err != nil {
		return Push{}, false
	}
	push := Push{RunID: run, TaskKey: fields[1], Generation: generation}
	if len(fields) == 4 {
		push.Reason = fields[3]
	}
	return push, true
}
