package server

import (
	"context"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// many is the stream of the events of one submitter or of all, or of those of them that have certain labels or lead to certain states, or those of several transactions
// that are named. A new stream takes its place first and then shows what is not final, so that nothing is missed in between; an event between the two is therefore
// delivered although the snapshot shows it already, which its seq and the snapshot's version tell. A heartbeat ends the snapshots and brings the first token.
type many struct {
	*watch
	given *resumeToken // by its caller; nil once it has begun
	unfit error        // why what is named cannot be watched, which a token of a ledger that is no more is told before
}

func (m *many) over() bool { return m.ends.over() }

func (m *many) token() string { return manyToken(m.target, m.place.shown(m.place.position())) }

// prepare is what has to be done before the stream takes its place: see standing.
func (m *many) prepare() {
	if m.target.txs != nil && m.given.given {
		m.unfit = m.standing()
	}
}

// begin goes on where a token says, or shows what there is to begin with.
func (m *many) begin() error {
	given := m.given
	m.given = nil
	if m.target.txs != nil && !given.given {
		m.unfit = m.standing()
	}
	switch {
	case given.given && given.epoch != m.place.epoch:
		return store.ErrTokenExpired
	case m.unfit != nil:
		return m.unfit
	}
	if m.place.ends = m.ends; given.given {
		m.place.resume(given.position)
		return m.news()
	}
	if err := m.snapshots(); err != nil {
		return err
	}
	if err := m.beat(m.token(), false); err != nil {
		return err
	}
	return m.news()
}

// news delivers what comes next, until there is nothing.
func (m *many) news() error {
	for {
		events, err := m.next()
		if err != nil || len(events) == 0 {
			return err
		}
		for i := range events {
			if err := m.sendEvent(&events[i].EventInfo, manyToken(m.target, m.place.delivers(events[i]))); err != nil {
				return err
			}
		}
	}
}

// next returns events from the ring or, behind it, from the ledger; none when all have been delivered. Where the ledger has much that is not for the stream, it beats
// meanwhile: a client that hears nothing would come back with the token of before, and never get beyond.
func (m *many) next() (events []placed, err error) {
	for {
		events, behind, err := m.place.take()
		if err != nil || !behind {
			return events, err
		}
		err = m.patiently(m.stream.Context(), func(ctx context.Context) (err error) {
			events, err = m.place.catchUp(ctx)
			return err
		})
		if err != nil || len(events) > 0 {
			return events, err
		}
		select {
		case <-m.timer.C:
			if err := m.beat(m.token(), true); err != nil {
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
func (m *many) snapshots() error {
	ctx := m.stream.Context()
	filter := store.TxFilter{
		Submitter: m.target.submitter, Names: rightsIn(ctx).only(), Labels: m.target.labelSet(), States: m.target.states.of(m.target.shows()), Limit: m.limits.PageEvents,
		MaxBytes: snapshotBytes,
	}
	if m.target.txs != nil {
		filter.IDs = *m.target.txs
	}
	if len(filter.States) == 0 { // which the store takes for all
		return nil
	}
	for {
		var page []store.TxInfo
		err := m.patiently(ctx, func(ctx context.Context) (err error) {
			page, err = m.store.Txs(ctx, filter)
			return err
		})
		if err != nil {
			return err
		}
		ends := filter.Ends(page)
		for i, info := range page {
			m.ends.shown(&info)
			filter.Before, page[i] = info.ID, store.TxInfo{} // what is sent is not held while the client takes the rest
			if err := m.send(&pb.WatchTxResponse{Message: &pb.WatchTxResponse_Snapshot{Snapshot: wireTx(info)}}); err != nil {
				return err
			}
		}
		if ends {
			return nil
		}
	}
}
