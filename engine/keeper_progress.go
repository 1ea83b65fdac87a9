package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// progress is what an owner tells of itself, for the keeper, which renews only the lease of an owner that gets on, and for the router, which may ask it to
// go. An owner that rests or waits to try again gets on.
type progress struct {
	inside  atomic.Pointer[time.Time] // since when it has been inside one step; nil: between two
	leaving atomic.Pointer[error]     // why it shall end before its next step; nil: it may stay
	over    atomic.Bool               // it has lost its lease
	fenced  atomic.Bool               // a renewal did not find it
	wedged  atomic.Bool               // for want of progress
	begun   bool                      // it has read the ledger once; the owner's own
}

// errMoved ends an owner whose submitter another node shall have; its lease is given back.
var errMoved = errors.New("another node shall have it")

// errStopped ends an owner whose node stops; all leases of the node are given back together.
var errStopped = errors.New("this node stops")

// proceed begins a step, unless the owner shall go.
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

// insideFor is how long the step under way has taken.
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

// arrived is called when the owner knows the ledger. The first time it tells how long the submitter had no owner, if there was anything to be done for it.
func (a *actor) arrived(ctx context.Context) {
	if a.begun {
		return
	}
	a.begun = true
	a.e.router.learn(a.id, a.ledger.Submitter.Chain)
	before := a.lease.Before()
	if before.Owner == "" || before.Owner == a.e.members.self ||
		!a.hadWork(a.lease.TakenAt().Add(-before.Gap)) {
		return
	}
	without := before.Gap + a.e.Clock.Now().Sub(a.lease.TakenAt())
	a.e.metrics.takeovers.Record(ctx, without.Seconds())
	a.log.Info("submitter taken over", "before", before.Owner, "released", before.Released,
		"without_owner", without.Round(time.Millisecond).String())
}

// hadWork tells whether there was something to be done when the lease before ended. What was queued later waited for no takeover; it found a submitter that was
// given back idle. That compares this node's clock with the database's, which is good enough for a measurement.
func (a *actor) hadWork(ended time.Time) bool {
	return len(a.ledger.Open) > 0 ||
		len(a.inbox.Queue) > 0 && a.inbox.Queue[0].CreatedAt.Before(ended)
}
