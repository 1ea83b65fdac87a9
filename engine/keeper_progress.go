package engine

import (
	"errors"
	"sync/atomic"
	"time"
)

// progress is the state of an owner that the keeper and the router read. The keeper renews only
// owners that make progress; resting and waiting to retry count as progress. The router may ask the
// owner to leave.
type progress struct {
	inside  atomic.Pointer[time.Time] // start of the current step; nil: between two steps
	leaving atomic.Pointer[error]     // why it must end before its next step; nil: it may stay
	over    atomic.Bool               // its lease is lost
	fenced  atomic.Bool               // a renewal did not find the lease
	wedged  atomic.Bool               // lost for lack of progress
	begun   bool                      // the ledger was read once; used only by the owner
}

// errMoved ends an owner whose submitter prefers another node; its lease is released.
var errMoved = errors.New("preferred by another node")

// errStopped ends the owners of a stopping node; all leases are released together.
var errStopped = errors.New("node stopping")

// proceed starts a step, unless the owner must leave.
func (a *actor) proceed() error {
	if why := a.leaving.Load(); why != nil {
		return *why
	}
	a.insideStep()
	return nil
}

func (a *actor) insideStep() {
	now := a.e.Clock.Now()
	a.inside.Store(&now)
}

func (a *actor) betweenSteps() { a.inside.Store(nil) }

// insideFor returns the duration of the current step.
func (a *actor) insideFor(now time.Time) time.Duration {
	if since := a.inside.Load(); since != nil {
		return now.Sub(*since)
	}
	return 0
}

// leave asks the owner to end before its next step.
func (a *actor) leave(why error) {
	a.leaving.Store(&why)
	a.wake()
}
