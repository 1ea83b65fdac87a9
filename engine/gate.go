package engine

import (
	"context"

	"github.com/fencepost/fencepost/txn"
)

// Point is a boundary in a step where a crash, a freeze or a takeover may happen.
type Point string

// The points of peek, sign, commit and send, in order.
const (
	BeforeStep      Point = "before-step" // awake, about to read news and to decide
	BeforeQuote     Point = "before-quote"
	BeforeSign      Point = "before-sign"
	BeforeAllocate  Point = "before-allocate" // signed, nothing recorded
	AfterAllocate   Point = "after-allocate"  // recorded, nothing sent
	BeforeSend      Point = "before-send"     // about to send bytes to the chain
	AfterSend       Point = "after-send"      // broadcast, not yet in the ledger
	AfterRecordSend Point = "after-record-send"
	BeforeRecord    Point = "before-record" // about to record chain facts
	AfterRecord     Point = "after-record"

	BeforeReplace           Point = "before-replace"            // fees known, nothing signed
	BeforeRecordReplacement Point = "before-record-replacement" // signed, nothing recorded
	AfterRecordReplacement  Point = "after-record-replacement"  // recorded, nothing sent
)

// Points lists every point, for tests that cover them all.
var Points = []Point{
	BeforeStep, BeforeQuote, BeforeSign, BeforeAllocate, AfterAllocate,
	BeforeSend, AfterSend, AfterRecordSend, BeforeRecord, AfterRecord,
	BeforeReplace, BeforeRecordReplacement, AfterRecordReplacement,
}

// Gate is called at every point. An error ends the actor at once, without cleanup, as a crash
// would. Simulations use it to control the interleaving and to inject faults; in production it is
// always open.
type Gate func(context.Context, Point, txn.SubmitterID) error

// orEnd adds a check to the gate: after it, a step continues only if its owner was not cancelled.
// So no external call starts under a lease that may have lapsed. The keeper also checks, but a
// process that was frozen resumes where it was, possibly here, before the keeper runs.
func (g Gate) orEnd(checkDeadline func(txn.SubmitterID)) Gate {
	return func(ctx context.Context, p Point, id txn.SubmitterID) error {
		if g != nil {
			if err := g(ctx, p, id); err != nil {
				return err
			}
		}
		checkDeadline(id)
		return ctx.Err()
	}
}
