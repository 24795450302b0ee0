package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// rowWrite is for one short transaction in our own database. A local activity costs no round trip to
// the Temporal server; it must end well within the workflow task's timeout.
var rowWrite = workflow.LocalActivityOptions{
	StartToCloseTimeout:    2 * time.Second,
	ScheduleToCloseTimeout: 5 * time.Second,
	RetryPolicy: &temporal.RetryPolicy{
		InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: time.Second, MaximumAttempts: 3,
	},
}

// freeze is for accepting a run: it may read and check a megabyte of definitions.
var freeze = workflow.LocalActivityOptions{
	StartToCloseTimeout:    10 * time.Second,
	ScheduleToCloseTimeout: 20 * time.Second,
	RetryPolicy: &temporal.RetryPolicy{
		InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: time.Second, MaximumAttempts: 3,
	},
}

// upkeep is for work on the whole database that may take hours. It goes on where it was: what an attempt did is in the
// database, and nothing else waits for it.
var upkeep = workflow.ActivityOptions{
	StartToCloseTimeout: 24 * time.Hour,
	HeartbeatTimeout:    30 * time.Second,
	RetryPolicy: &temporal.RetryPolicy{
		InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute,
	},
}

const (
	// taskTimeout is how long a worker may sit on a workflow task before another one gets it.
	taskTimeout = 3 * time.Second

	// minRetry and maxRetry bound the waits between steps while the database does not answer.
	minRetry = time.Second
	maxRetry = 5 * time.Second
)
