package server

import (
	"context"

	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// single is the stream of the events of one transaction. Their numbers have no hole, so the number of the last one says exactly what is missing.
type single struct {
	*watch
	given *resumeToken // by its caller; nil once it has begun
	last  int64        // number of the last event that was dealt with
	state txn.State    // after it, if known
}

func (s *single) over() bool { return s.untilFinal && s.state.Final() }

func (s *single) token() string { return oneToken(s.place.epoch, s.target, s.last) }

// begin delivers what the ledger has beyond the token.
func (s *single) begin() error {
	given := s.given
	s.given = nil
	if given.given && given.epoch != s.place.epoch {
		return store.ErrTokenExpired
	}
	if err := s.look(); err != nil || s.over() {
		return err
	}
	if err := s.fromLedger(); err != nil {
		return err
	}
	if s.target.states != 0 && !s.over() { // else nobody would know that it stands
		if err := s.beat(s.token(), false); err != nil {
			return err
		}
	}
	return s.news()
}

// news delivers what the ring has, or the ledger where the ring lacks an event.
func (s *single) news() error {
	for !s.over() {
		idle, hole, err := s.takeAll()
		if err == nil && hole {
			err = s.fromLedger()
		}
		if err != nil || idle {
			return err
		}
	}
	return nil
}

// look finds out whether there is such a transaction, and whether its last event was delivered before.
func (s *single) look() error {
	return s.patiently(s.stream.Context(), func(ctx context.Context) error {
		info, err := s.store.Tx(ctx, s.target.tx)
		switch {
		case err != nil:
			return status.AboutTx(s.target.tx.String(), err)
		case s.last > info.Version:
			return store.ErrTokenExpired
		case s.last == info.Version:
			s.state = info.State
		}
		return nil
	})
}

// fromLedger delivers what the ledger has.
func (s *single) fromLedger() error {
	for {
		var page []store.EventInfo
		err := s.patiently(s.stream.Context(), func(ctx context.Context) (err error) {
			page, err = s.store.EventsOfTx(ctx, s.target.tx, s.last, s.limits.PageEvents)
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
		if len(page) < s.limits.PageEvents {
			return nil
		}
	}
}

// takeAll delivers what the ring has, and tells whether that is nothing, or lacks an event.
func (s *single) takeAll() (idle, hole bool, err error) {
	events, behind, err := s.place.take()
	if err != nil {
		return false, false, err
	}
	if behind {
		s.place.skip()
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

// deliver sends the event unless it was sent before, or leads to a state that is not asked for.
func (s *single) deliver(e *store.EventInfo) error {
	if e.Seq <= s.last {
		return nil
	}
	s.last, s.state = e.Seq, e.State
	if !s.target.states.has(e.State) {
		return nil
	}
	return s.sendEvent(e, s.token())
}
