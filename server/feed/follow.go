package feed

import (
	"context"
	"time"

	"github.com/fencepost/fencepost/store"
)

// Page is one read of a follower.
type Page struct {
	Events []store.EventInfo // in feed order; none: the follower is at the end of the feed
	At     store.Position    // after them
	// Behind is how many events this node has read from the ledger after these. A follower that
	// the ring has left behind has at least as many.
	Behind int
}

// followPages is how many pages a follower takes at once: a sink commits once for each read.
const followPages = 4

// Follow passes all events after a position to take, in order, until ctx ends or take fails. The
// zero position is the end of the feed, and take is first called with that place. take blocks while
// the follower is slow, as the client of a stream does: that costs nothing but a read of the ledger
// once the ring is past it. Without events take is called after each idle interval. The position
// must come from the ledger as it is now: it is read again after a fail-over
// ([store.ErrTokenExpired]).
func (f *Feed) Follow(ctx context.Context, at store.Position, idle time.Duration,
	take func(Page) error) error {
	s := &stream{feed: f, ctx: ctx, Request: Request{Heartbeat: idle}}
	s.timer = f.clock.NewTimer(idle)
	defer s.timer.Stop()
	var err error
	if s.subscription, err = f.join(ctx, Target{Accounts: true}, nil, true); err != nil {
		return err
	}
	defer s.subscription.leave()
	s.subscription.pages = followPages
	if at.Seen != "" {
		f.mu.Lock()
		at.Timeline = f.head.Timeline
		f.mu.Unlock()
		if !f.holds(at) {
			return store.ErrTokenExpired
		}
		s.subscription.resumeAt(at)
	} else if err := take(Page{At: s.subscription.start()}); err != nil {
		return err
	}
	for {
		if err := s.takeAll(take); err != nil {
			return err
		}
		if _, err := s.wait(); err != nil {
			return err
		}
		s.timer.Reset(idle)
	}
}

// takeAll passes events to take until the follower is at the end of the feed.
func (s *stream) takeAll(take func(Page) error) error {
	for {
		events, behind, err := s.subscription.take()
		if err != nil {
			return err
		}
		if behind {
			err := s.retryRead(s.ctx, func(ctx context.Context) (err error) {
				events, err = s.subscription.catchUp(ctx)
				return err
			})
			if err != nil {
				return err
			}
		}
		page := Page{At: s.subscription.position(), Behind: s.subscription.unread()}
		for i := range events {
			page.Events = append(page.Events, events[i].EventInfo)
		}
		if len(events) > 0 || !behind {
			if err := take(page); err != nil {
				return err
			}
		}
		if len(events) == 0 && !behind {
			return nil
		}
	}
}

// start is where a new subscription begins.
func (s *subscription) start() store.Position {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	return s.from
}

// unread is how many events of the ring the subscription has not taken yet.
func (s *subscription) unread() int {
	f := s.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case s.caughtUp:
		return 0
	case s.behind:
		return int(f.ring.end - f.ring.first)
	}
	return int(f.ring.end - s.next)
}
