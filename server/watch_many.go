package server

import (
	"context"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// many streams the events of one submitter or of all, or of those of them that have certain labels or lead to certain states, or those of several transactions that
// are named. A new stream takes its place first and
// then shows what is not final, so that nothing is missed in between; an event between the two is therefore delivered although the snapshot shows it already, which its seq and the snapshot's version tell. A heartbeat
// ends the snapshots and brings the first token.
//
// Where it waits it stands on little: the stacks of streams that wait are most of what they cost, and a stack is halved only when a quarter of it is in use.
func (w *watch) many(ctx context.Context, token *resumeToken) error {
	place, err := w.enter(ctx, token)
	if err != nil {
		return err
	}
	defer place.leave()
	here := func() string { return manyToken(w.target, place.shown(place.position())) }
	if err := w.start(ctx, place, token, here); err != nil {
		return err
	}
	for {
		idle, err := w.deliver(ctx, place, here)
		if err == nil && idle {
			if w.ends.over() {
				return nil
			}
			err = w.wait(ctx, place, here)
		}
		if err != nil {
			return err
		}
	}
}

// enter takes the place. Of transactions that are named it finds out how far they have come: see standing. A token of a ledger that is no more is told as that, whatever
// of what is named this one lacks.
func (w *watch) enter(ctx context.Context, token *resumeToken) (place *place, err error) {
	var unfit error
	if w.target.txs != nil && token.given {
		unfit = w.standing(ctx)
	}
	if place, err = w.feed.join(ctx, w.target, true); err != nil {
		return nil, err
	}
	if w.target.txs != nil && !token.given {
		unfit = w.standing(ctx)
	}
	if token.given && token.epoch != place.epoch {
		unfit = store.ErrTokenExpired
	}
	if unfit != nil {
		place.leave()
		return nil, unfit
	}
	place.ends = w.ends
	return place, nil
}

// start goes on where a token says, or shows what there is to begin with.
func (w *watch) start(ctx context.Context, place *place, token *resumeToken, here func() string) error {
	if token.given {
		place.resume(token.position)
		return nil
	}
	if err := w.snapshots(ctx); err != nil {
		return err
	}
	return w.beat(here(), false)
}

// deliver sends what comes next, and tells whether there was nothing.
func (w *watch) deliver(ctx context.Context, place *place, here func() string) (idle bool, err error) {
	events, err := w.next(ctx, place, here)
	if err != nil {
		return false, err
	}
	for i := range events {
		if err := w.sendEvent(&events[i].EventInfo, manyToken(w.target, place.delivers(events[i]))); err != nil {
			return false, err
		}
	}
	return len(events) == 0, nil
}

// next returns events from the ring or, behind it, from the ledger; none when all have been delivered. Where the ledger has much that is not for the stream, it beats
// meanwhile: a client that hears nothing would come back with the token of before, and never get beyond.
func (w *watch) next(ctx context.Context, p *place, token func() string) (events []placed, err error) {
	for {
		events, behind, err := p.take()
		if err != nil || !behind {
			return events, err
		}
		err = w.patiently(ctx, func(ctx context.Context) (err error) {
			events, err = p.catchUp(ctx)
			return err
		})
		if err != nil || len(events) > 0 {
			return events, err
		}
		select {
		case <-w.timer.C:
			if err := w.beat(token(), true); err != nil {
				return nil, err
			}
		default:
		}
	}
}

// shows are the states that a new stream shows transactions of, unless it is asked for others: all of those that are named, and of others what is not final.
func (t target) shows() (states []txn.State) {
	if t.txs != nil {
		return txn.States
	}
	for _, s := range txn.States {
		if !s.Final() {
			states = append(states, s)
		}
	}
	return states
}

// snapshotBytes is how much call data a page of snapshots has, and that of two more: each stream that begins holds one, for as long as its client takes to read it.
const snapshotBytes = 256 << 10

// snapshots shows the transactions that are not final, or are named, and in a state that is asked for, newest first, page by page.
func (w *watch) snapshots(ctx context.Context) error {
	filter := store.TxFilter{
		Submitter: w.target.submitter, Names: rightsIn(ctx).only(), Labels: w.target.labelSet(), States: w.target.states.of(w.target.shows()), Limit: w.limits.PageEvents,
		MaxBytes: snapshotBytes,
	}
	if w.target.txs != nil {
		filter.IDs = *w.target.txs
	}
	if len(filter.States) == 0 { // which the store takes for all
		return nil
	}
	for {
		var page []store.TxInfo
		err := w.patiently(ctx, func(ctx context.Context) (err error) {
			page, err = w.store.Txs(ctx, filter)
			return err
		})
		if err != nil {
			return err
		}
		for _, info := range page {
			if err := w.send(&pb.WatchTxResponse{Message: &pb.WatchTxResponse_Snapshot{Snapshot: wireTx(info)}}); err != nil {
				return err
			}
		}
		if filter.Ends(page) {
			return nil
		}
		filter.Before = page[len(page)-1].ID
	}
}
