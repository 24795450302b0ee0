package runner

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/sdk/internal/rest"
)

// interrupted is what is said of work that this runner lost: the tool may or may not have done it.
var interrupted = Errorf("interrupted; effects unknown")

// serve claims one piece of work, runs its tool and reports the result.
func (l *loop) serve(e entry) {
	if l.journal != nil {
		// On disk before the request: a claim that this process forgets could only wait for its deadline.
		if err := l.journal.begin(e); err != nil {
			l.fail(err)
			return
		}
	}
	grant, err := l.claim(e)
	if err != nil {
		e.Untouched = true
		l.notClaimed(e, err)
		return
	}
	l.do(e, grant)
}

// do runs the tool of a fresh claim and reports its result.
func (l *loop) do(e entry, grant Grant) {
	if e.Ref != grant.Task.Ref && l.journal != nil {
		// The task was retried before the claim. What the journal calls held must be what the tool is run for: a
		// process that comes after this one reports that as lost, and runs anything else.
		e = entry{Key: e.Key, Ref: grant.Task.Ref}
		if err := l.journal.begin(e); err != nil {
			l.fail(err)
			return
		}
	}
	result, over := l.work(grant)
	if over {
		l.forget(e.Key)
		return
	}
	l.deliver(e, grant, result.report())
}

// settleLeft reports a claim that an earlier process left: the result it had, or that the work was lost. When the
// task has been retried meanwhile, the claim is one of the new generation, and is served like any other.
func (l *loop) settleLeft(e entry) {
	grant, err := l.claim(e) // the same key: the same grant
	if err != nil {
		l.notClaimed(e, err)
		return
	}
	if grant.Task.Ref != e.Ref {
		l.do(e, grant) // what that process held is over; this is a later generation, which nobody has begun
		return
	}
	if e.Report == nil {
		r := interrupted.report()
		e.Report = &r
	}
	l.log.Info("reporting work of an earlier process", "run", e.Ref.Run, "task", e.Ref.TaskKey)
	l.deliver(e, grant, *e.Report)
}

// claim asks until the server has answered or the worker gives up.
func (l *loop) claim(e entry) (Grant, error) {
	for retry := (backoff{}); ; {
		grant, err := l.client.Claim(l.reportsCtx, e.Ref, e.Key)
		if err == nil || rest.Final(err) {
			return grant, err
		}
		l.log.Warn("claiming again", "run", e.Ref.Run, "task", e.Ref.TaskKey, "error", err)
		if retry.wait(l.reportsCtx, err) != nil {
			return Grant{}, err
		}
	}
}

// notClaimed closes the matter of a claim that was refused, and leaves one that was not answered, or
// whose bearer no longer works, to the next process.
func (l *loop) notClaimed(e entry, err error) {
	if rest.Final(err) && !unauthorized(err) {
		l.log.Debug("not claimed", "run", e.Ref.Run, "task", e.Ref.TaskKey, "error", err)
		l.forget(e.Key)
		return
	}
	if unauthorized(err) {
		l.stop(err)
	}
	l.keep(e)
}

// work runs the tool under the claim; over tells that the claim ended and there is nothing to report.
func (l *loop) work(grant Grant) (result Result, over bool) {
	task := grant.Task
	tool, ok := l.tools[task.ToolName]
	if !ok {
		return Result{Failed: true, Text: fmt.Sprintf("this runner does not serve %q", task.ToolName)}, false
	}
	deadline := time.Now().Add(grant.Remaining)
	ctx, cancel := context.WithCancelCause(l.toolsCtx)
	l.mu.Lock()
	l.running[task.Ref] = claimed{grant.Token, cancel}
	l.mu.Unlock()
	extended := make(chan struct{})
	go func() {
		defer close(extended)
		l.extend(ctx, cancel, grant, span(task, tool), deadline)
	}()

	result = l.call(ctx, tool, Call{
		Ref: task.Ref, Tool: task.ToolName, Input: task.ToolInput, IdempotencyKey: task.IdempotencyKey,
		Redelivery: task.Redelivery, Session: task.Session, Deadline: deadline,
		Progress: l.progress(ctx, task.Ref, grant.Token),
	})

	over = errors.Is(context.Cause(ctx), errLost)
	l.mu.Lock()
	delete(l.running, task.Ref)
	l.mu.Unlock()
	cancel(nil)
	<-extended
	return result, over
}

// call runs the tool and makes a result of whatever becomes of it.
func (l *loop) call(ctx context.Context, tool Tool, call Call) (result Result) {
	defer func() {
		if p := recover(); p != nil {
			l.log.Error("a tool panicked", "tool", tool.Name, "panic", p, "stack", string(debug.Stack()))
			result = Result{Failed: true, Text: fmt.Sprintf("the tool %s crashed", tool.Name)}
		}
	}()
	result, err := tool.Run(ctx, call)
	switch {
	case err == nil:
		return result
	case ctx.Err() != nil:
		return interrupted
	}
	return Result{Failed: true, Text: err.Error()}
}

// span is how far one extension reaches.
func span(task Row, tool Tool) time.Duration {
	d := toolpark.MaxExtension
	for _, ms := range []int64{task.TimeoutMS, tool.TimeoutMS} {
		if ms > 0 {
			d = min(d, time.Duration(ms)*time.Millisecond)
		}
	}
	return d
}

// extend moves the deadline on, each time at half of what remains, until the context ends. A refused
// extension, or a deadline that passed while the server was away, ends the tool.
func (l *loop) extend(ctx context.Context, end context.CancelCauseFunc, grant Grant, span time.Duration, deadline time.Time) {
	var retry backoff
	for pause := time.Until(deadline) / 2; ; {
		timer := time.NewTimer(max(pause, time.Millisecond))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		g, err := l.client.Extend(ctx, grant.Task.Ref, grant.Token, span)
		switch {
		case err == nil:
			deadline, retry = time.Now().Add(g.Remaining), backoff{}
			pause = g.Remaining / 2
		case ctx.Err() != nil:
			return
		case rest.CodeOf(err) == toolpark.CodeExtensionTooLong && span > time.Millisecond:
			span, pause = span/2, 0 // the bound was announced before this worker's
		case rest.Final(err):
			l.log.Info("the claim was not extended", "run", grant.Task.Run, "task", grant.Task.TaskKey, "error", err)
			end(errLost)
			return
		case time.Now().After(deadline):
			end(errExpired)
			return
		default:
			if retry.wait(ctx, err) != nil {
				return
			}
			pause = 0
		}
	}
}
