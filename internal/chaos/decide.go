package main

import (
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/toolpark/toolpark/internal/proctest"
	"github.com/toolpark/toolpark/sdk/agent"
)

// heldChild and heldCall are the calls of every round that wait for approval, the first by way of tool_call.
const (
	heldChild = 3
	heldCall  = 5
)

// held are the rules that hold them.
var held = []agent.ApprovalRule{
	{Tool: "echo_*", Path: "n", Match: new("*." + strconv.Itoa(heldChild)), Verdict: "ask"},
	{Tool: "echo_*", Path: "n", Match: new("*." + strconv.Itoa(heldCall)), Verdict: "ask"},
}

// approved tells how the calls of a round are decided about.
func approved(round int64) bool { return round%3 != 0 }

// deciders is how many decisions are under way at once.
const deciders = 16

// decide lets a person decide about every call that waits, until the context ends.
func (w *work) decide(ctx context.Context, person *proctest.Agent) {
	for ctx.Err() == nil {
		var waiting []agent.Waiting
		err := person.Try(ctx, func(c *agent.Client) (err error) {
			waiting, err = c.Approvals(ctx, agent.WaitingFilter{})
			return err
		})
		var group errgroup.Group
		group.SetLimit(deciders)
		for _, call := range waiting {
			group.Go(func() error { return w.decideOn(ctx, person, call) })
		}
		if err = errors.Join(err, group.Wait()); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "chaos: person:", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (w *work) decideOn(ctx context.Context, person *proctest.Agent, call agent.Waiting) error {
	var input struct {
		N string `json:"n"`
	}
	if err := json.Unmarshal(call.ToolInput, &input); err != nil {
		return err
	}
	number, _, _ := strings.Cut(input.N, ".")
	round, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return err
	}
	err = person.Try(ctx, func(c *agent.Client) error {
		if approved(round) {
			_, err := c.Approve(ctx, call.Run, call.TaskKey, call.InputDigest, nil)
			return err
		}
		_, err := c.Deny(ctx, call.Run, call.TaskKey, "not this one")
		return err
	})
	if err == nil {
		w.decisions.Add(1)
	}
	return err
}
