package runner

import (
	"errors"

	"github.com/toolpark/toolpark"
	"github.com/toolpark/toolpark/sdk/internal/rest"
)

// deliver commits a report until the server has answered it. A report that it refuses, with the claim
// still live, is replaced by one that says so, since a task must not wait for a deadline because its tool
// answered badly.
func (l *loop) deliver(e entry, grant Grant, r report) {
	var retry backoff
	replaced, kept := false, e.Report != nil
	log := l.log.With("run", e.Ref.Run, "task", e.Ref.TaskKey)
	for {
		judged, err := l.client.commit(l.reportsCtx, e.Ref, grant.Token, r)
		switch {
		case judged:
			l.forget(e.Key)
			return
		case err == nil: // safe with the server; asking again tells the verdict
			err = errPending
		case rest.Final(err) && !unauthorized(err):
			if replaced || claimOver(err) {
				log.Warn("the report was refused", "error", err)
				l.forget(e.Key)
				return
			}
			log.Warn("the tool's result was refused", "error", err)
			replaced, r = true, refused(err)
			continue
		}
		if !kept {
			kept, e.Report = true, &r
			l.keep(e)
		}
		if unauthorized(err) {
			l.stop(err)
			return
		}
		log.Warn("reporting again", "error", err)
		if retry.wait(l.reportsCtx, err) != nil {
			return // the journal has it
		}
	}
}

var errPending = errors.New("no verdict yet")

// claimOver tells whether a refusal ends the claim, as against one that judges the report's form.
func claimOver(err error) bool {
	switch rest.CodeOf(err) {
	case toolpark.CodeClaimExpired, toolpark.CodeClaimCanceled, toolpark.CodeStaleClaim,
		toolpark.CodeNotAddressedHere, toolpark.CodeNotFound, toolpark.CodeResultUnstorable:
		return true
	}
	return false
}

// refused is the report in place of one that the server does not take.
func refused(err error) report {
	text := "the server refused the tool's result"
	if e, ok := errors.AsType[*toolpark.Error](err); ok {
		text = string(e.Code) + ": " + e.Message
	}
	return Errorf("The tool ran, but its result could not be delivered: %s", text).report()
}

// keep writes down what became of a claim for the next process.
func (l *loop) keep(e entry) {
	if l.journal == nil {
		return
	}
	if err := l.journal.keep(e); err != nil {
		l.log.Error("the journal does not have what became of a claim", "error", err)
	}
}

// forget removes a claim that is over from the journal.
func (l *loop) forget(key string) {
	if l.journal == nil {
		return
	}
	if err := l.journal.end(key); err != nil {
		l.log.Warn("the journal keeps a claim that is over", "error", err)
	}
}
