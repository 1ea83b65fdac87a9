package feed

import (
	"context"
	"errors"

	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// single streams the events of one transaction. They are numbered without gaps, so the number of
// the last event determines the missing ones.
type single struct {
	*stream
	last  int64     // number of the last event handled
	state txn.State // after it; empty if unknown
}

func (s *single) done() bool { return s.UntilFinal && s.state.Final() }

func (s *single) token() string { return TxToken(s.subscription.epoch, s.Target, s.last) }

// start sends the events of the ledger after the token.
func (s *single) start() error {
	if s.Token.given && s.Token.epoch != s.subscription.epoch {
		return store.ErrTokenExpired
	}
	if err := s.readState(); err != nil || s.done() {
		return err
	}
	if err := s.sendFromLedger(); err != nil {
		return err
	}
	if s.Target.States != 0 && !s.done() { // there may be no event to show that the stream is open
		if err := s.sendHeartbeat(s.token(), false); err != nil {
			return err
		}
	}
	return s.sendNew()
}

// sendNew sends the events of the ring, or of the ledger where the ring lacks one.
func (s *single) sendNew() error {
	for !s.done() {
		idle, gap, err := s.sendFromRing()
		if err == nil && gap {
			err = s.sendFromLedger()
		}
		if err != nil || idle {
			return err
		}
	}
	return nil
}

// readState checks that the transaction exists, and whether its last event was sent before. A new
// stream of a transaction whose events were archived gets the transaction in their place.
func (s *single) readState() error {
	var archived *store.TxInfo
	err := s.retryRead(s.ctx, func(ctx context.Context) error {
		info, err := s.feed.store.Tx(ctx, s.Target.Tx)
		switch {
		case err != nil:
			return status.AboutTx(s.Target.Tx.String(), err)
		case s.last > info.Version:
			return store.ErrTokenExpired
		case s.last == info.Version:
			s.state = info.State
		case !info.TrimmedAt.IsZero() && s.Token.given:
			return store.ErrTrimmed
		case !info.TrimmedAt.IsZero():
			archived = &info
		}
		return nil
	})
	if err != nil || archived == nil {
		return err
	}
	s.last, s.state = archived.Version, archived.State
	if !s.Target.States.has(s.state) {
		return nil
	}
	return s.send(func() error { return s.client.SendSnapshot(*archived) })
}

func (s *single) sendFromLedger() error {
	limit := s.feed.limits.PageEvents
	for {
		var page []store.EventInfo
		err := s.retryRead(s.ctx, func(ctx context.Context) (err error) {
			page, err = s.feed.store.EventsOfTx(ctx, s.Target.Tx, s.last, limit)
			return err
		})
		if err != nil {
			return err
		}
		for i := range page {
			if err := s.deliver(&page[i]); err != nil {
				return err
			}
		}
		if len(page) < limit {
			return nil
		}
	}
}

// sendFromRing sends a page of the ring. Idle means that there was none; gap, that an event is
// missing from it.
func (s *single) sendFromRing() (idle, gap bool, err error) {
	events, behind, err := s.subscription.take()
	if left, ok := errors.AsType[*LeftError](err); ok {
		left.Seq = s.last
	}
	if err != nil {
		return false, false, err
	}
	if behind {
		s.subscription.skipToEnd()
		return false, true, nil
	}
	for i := range events {
		if events[i].Seq > s.last+1 {
			return false, true, nil
		}
		if err := s.deliver(&events[i].EventInfo); err != nil {
			return false, false, err
		}
	}
	return len(events) == 0, false, nil
}

// deliver sends the event unless it was sent before or leads to a state that was not requested.
func (s *single) deliver(e *store.EventInfo) error {
	if e.Seq <= s.last {
		return nil
	}
	s.last, s.state = e.Seq, e.State
	if !s.Target.States.has(e.State) {
		return nil
	}
	return s.sendEvent(e, s.token())
}
