package feed

import (
	"context"
	"errors"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// multi streams the events of all transactions, of one submitter, or of several named ones.
//
// A new stream joins the feed first and then sends snapshots, so that it misses nothing in between.
// An event between the two is delivered although the snapshot includes it; the seq of
// the event and the version of the snapshot show that. A heartbeat ends the snapshots and carries
// the first token.
type multi struct {
	*stream
	// rejected is why the named transactions cannot be watched. An expired token takes precedence.
	rejected error
}

func (m *multi) done() bool { return m.progress.done() }

func (m *multi) token() string {
	return MultiToken(m.Target, m.subscription.redact(m.subscription.position()))
}

// prepare runs before the stream joins the feed; see readProgress.
func (m *multi) prepare() {
	if m.Target.Txs != nil && m.Token.given {
		m.rejected = m.readProgress()
	}
}

// start resumes at the token, or sends the snapshots.
func (m *multi) start() error {
	if m.Target.Txs != nil && !m.Token.given {
		m.rejected = m.readProgress()
	}
	switch {
	case m.Token.given && !m.feed.holds(m.Token.position):
		return store.ErrTokenExpired
	case m.Token.given && m.feed.trims(m.Token.position):
		return store.ErrTrimmed
	case m.rejected != nil:
		return m.rejected
	}
	if m.subscription.progress = m.progress; m.Token.given {
		m.subscription.resumeAt(m.Token.position)
		m.Token = Token{} // frees the snapshot in it
		err := m.sendNew()
		if err == nil && m.Prompt && !m.done() {
			err = m.sendHeartbeat(m.token(), false)
		}
		return err
	}
	if err := m.sendSnapshots(); err != nil {
		return err
	}
	if err := m.sendHeartbeat(m.token(), false); err != nil {
		return err
	}
	return m.sendNew()
}

func (m *multi) sendNew() error {
	for {
		events, err := m.next()
		if _, left := errors.AsType[*LeftError](err); left && m.done() {
			return nil
		}
		if err != nil || len(events) == 0 {
			return err
		}
		for i := range events {
			token := MultiToken(m.Target, m.subscription.deliver(events[i]))
			if err := m.sendEvent(&events[i].EventInfo, token); err != nil {
				return err
			}
		}
	}
}

// next returns events of the ring or, if the stream is behind, of the ledger; none once it is
// caught up. It sends heartbeats while it reads a part of the ledger without matching events:
// otherwise the client would time out, resume from its old token, and never get past that part.
func (m *multi) next() (events []positioned, err error) {
	for {
		events, behind, err := m.subscription.take()
		if err != nil || !behind {
			return events, err
		}
		if m.feed.trims(m.subscription.position()) { // it is hours behind
			return nil, store.ErrTrimmed
		}
		err = m.retryRead(m.ctx, func(ctx context.Context) (err error) {
			events, err = m.subscription.catchUp(ctx)
			return err
		})
		if err != nil || len(events) > 0 {
			return events, err
		}
		select {
		case <-m.timer.C:
			if err := m.sendHeartbeat(m.token(), true); err != nil {
				return nil, err
			}
		default:
		}
	}
}

// snapshotStates returns the states of which a new stream sends snapshots: all states for named
// transactions, otherwise those that are not final; and of these only the requested ones.
func (t Target) snapshotStates() (states []txn.State) {
	if t.Txs != nil {
		return t.States.filter(txn.States)
	}
	for _, s := range txn.States {
		if !s.Final() {
			states = append(states, s)
		}
	}
	return t.States.filter(states)
}

// SnapshotBytes bounds the call data in a page of snapshots, which may exceed it by two
// transactions. A stream holds one page while it starts.
const SnapshotBytes = 256 << 10

// sendSnapshots sends the transactions as they are now, newest first.
func (m *multi) sendSnapshots() error {
	filter := store.TxFilter{
		Submitter: m.Target.Submitter,
		Names:     m.Names,
		Labels:    m.Target.labelSet(),
		States:    m.Target.snapshotStates(),
		Limit:     m.feed.limits.PageEvents,
		MaxBytes:  SnapshotBytes,
	}
	if m.Target.Txs != nil {
		filter.IDs = *m.Target.Txs
	}
	if len(filter.States) == 0 { // the store would return all states
		return nil
	}
	for {
		var page []store.TxInfo
		err := m.retryRead(m.ctx, func(ctx context.Context) (err error) {
			page, err = m.feed.store.Txs(ctx, filter)
			return err
		})
		if err != nil {
			return err
		}
		last := filter.Ends(page)
		for i, info := range page {
			m.progress.recordSnapshot(&info)
			filter.Before, page[i] = info.ID, store.TxInfo{} // frees it once it is sent
			err := m.send(func() error { return m.client.SendSnapshot(info) })
			if err != nil {
				return err
			}
		}
		if last {
			return nil
		}
	}
}
