package engine

import (
	"context"

	"github.com/fencepost/fencepost/txn"
)

// Point is a boundary in a step at which a crash, a freeze or a switch to another node may fall.
type Point string

// The points of peek, sign, commit, send, in their order.
const (
	BeforeStep      Point = "before-step" // awake, about to read what is new and to decide
	BeforeQuote     Point = "before-quote"
	BeforeSign      Point = "before-sign"
	BeforeAllocate  Point = "before-allocate" // signed, nothing recorded
	AfterAllocate   Point = "after-allocate"  // recorded, nothing sent
	BeforeSend      Point = "before-send"     // about to hand bytes to the chain
	AfterSend       Point = "after-send"      // the chain has them, the ledger does not know
	AfterRecordSend Point = "after-record-send"
	BeforeRecord    Point = "before-record" // about to record what the chain shows
	AfterRecord     Point = "after-record"

	BeforeReplace           Point = "before-replace"            // the fees of a replacement are known, nothing is signed
	BeforeRecordReplacement Point = "before-record-replacement" // signed, nothing recorded
	AfterRecordReplacement  Point = "after-record-replacement"  // recorded, the newest form not sent
)

// Points lists every point, for tests that try them all.
var Points = []Point{
	BeforeStep, BeforeQuote, BeforeSign, BeforeAllocate, AfterAllocate, BeforeSend, AfterSend, AfterRecordSend, BeforeRecord, AfterRecord,
	BeforeReplace, BeforeRecordReplacement, AfterRecordReplacement,
}

// Gate is passed at every point. An error ends the actor on the spot, as a crash would: nothing is tidied up. Simulations use it to fix the interleaving and
// to inject faults; in production it is open.
type Gate func(context.Context, Point, txn.SubmitterID) error

// orEnd is the gate, after which nothing of a step goes on whose owner was ended meanwhile: no outside call starts under a lease that may have lapsed. The keeper
// finds those by itself, but a process that was frozen goes on where it stood, and that may be here, before the keeper does.
func (g Gate) orEnd(overdue func(txn.SubmitterID)) Gate {
	return func(ctx context.Context, p Point, id txn.SubmitterID) error {
		if g != nil {
			if err := g(ctx, p, id); err != nil {
				return err
			}
		}
		overdue(id)
		return ctx.Err()
	}
}
