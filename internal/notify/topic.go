package notify

import (
	"fmt"
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
