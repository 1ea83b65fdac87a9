package engine

import (
	"context"
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

// arrived is called when the ledger is known. The first call records how long the submitter had no
// owner, if it had work.
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

// hadWork reports whether work existed when the previous lease ended. Work queued later waited for
// no takeover. The comparison mixes this node's clock with the database's, which is accurate enough
// for a metric.
func (a *actor) hadWork(ended time.Time) bool {
	return len(a.ledger.Open) > 0 ||
		len(a.inbox.Queue) > 0 && a.inbox.Queue[0].CreatedAt.Before(ended)
}
