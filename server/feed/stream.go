package feed

import (
	"context"
	"errors"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// Client is the client's side of a stream. A Send method blocks while the client does not read;
// that is all the back-pressure there is.
type Client interface {
	Context() context.Context
	SendEvent(e *store.EventInfo, token string) error
	SendSnapshot(info store.TxInfo) error
	// SendHeartbeat reports that the stream is alive and, unless behind is set, up to date.
	SendHeartbeat(at time.Time, behind bool, token string) error
}

// Request selects the events of a stream and its start.
type Request struct {
	Target Target
	Names  []string // sorted submitters whose events are sent; nil: all
	// Restricted means that the caller may not see every account, whatever Names is: a right to a
	// pool has no names. Its tokens then name no event of another stream.
	Restricted bool
	Token      Token // of the target; the zero Token starts a new stream
	Heartbeat  time.Duration
	UntilFinal bool // end the stream once all named transactions are final
	// Prompt makes a resumed stream of several transactions send a heartbeat as soon as it is up to
	// date.
	Prompt bool
}

// Serve streams events to the client until the stream is complete, the client's context ends, or
// the stream cannot continue. It returns context.Cause of an ended context.
//
// Prepare resolves the request. It may read the ledger; its context has the deadline of one read.
//
// Serve runs on the goroutine of the call and only waits there (see OnFreshStack).
func (f *Feed) Serve(client Client, prepare func(context.Context) (Request, error)) error {
	s := &stream{feed: f, client: client, ctx: client.Context()}
	var source source
	err := s.withReadSlot(func() (err error) {
		source, err = s.prepare(prepare)
		return err
	})
	if err != nil {
		return err
	}
	defer s.timer.Stop()
	s.subscription, err = f.join(s.ctx, s.Target, s.Names, s.multi())
	if err != nil {
		return err
	}
	defer s.subscription.leave()
	s.subscription.restricted = s.Restricted
	if err := s.withReadSlot(source.start); err != nil {
		return err
	}
	for !source.done() {
		heartbeat, err := s.wait()
		if err != nil {
			return err
		}
		if err := OnFreshStack(func() error { return s.proceed(source, heartbeat) }); err != nil {
			return err
		}
	}
	return nil
}

// source sends the messages of a stream between its waits.
type source interface {
	start() error   // sends the existing transactions or events
	sendNew() error // sends new events
	done() bool
	token() string
}

// stream is a stream being served.
type stream struct {
	Request
	feed         *Feed
	client       Client
	ctx          context.Context
	timer        *clock.Timer // of the next heartbeat
	subscription *subscription
	progress     *progress // of named transactions with UntilFinal, otherwise nil
	hasSlot      bool      // it holds a read slot
}

func (s *stream) prepare(prepare func(context.Context) (Request, error)) (source, error) {
	bounded, cancel := s.feed.bound(s.ctx)
	var err error
	s.Request, err = prepare(bounded)
	cancel()
	if err != nil {
		return nil, err
	}
	s.timer = s.feed.clock.NewTimer(s.Heartbeat)
	if !s.multi() {
		return &single{stream: s, last: s.Token.seq}, nil
	}
	m := &multi{stream: s}
	m.prepare()
	return m, nil
}

// multi reports whether the stream follows the order of the feed. The stream of one transaction
// follows the numbers of its events instead.
func (s *stream) multi() bool { return s.Target.Tx == (txn.TxID{}) }

// send sends a message. A stream whose context has ended sends nothing more, even if it has read
// more.
func (s *stream) send(message func() error) error {
	s.releaseSlot() // a slow client must not block other readers
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	s.timer.Reset(s.Heartbeat)
	return message()
}

func (s *stream) sendEvent(e *store.EventInfo, token string) error {
	return s.send(func() error { return s.client.SendEvent(e, token) })
}

func (s *stream) sendHeartbeat(token string, behind bool) error {
	now := s.feed.clock.Now()
	return s.send(func() error { return s.client.SendHeartbeat(now, behind, token) })
}

// wait returns when there may be events, or when a heartbeat is due.
func (s *stream) wait() (heartbeat bool, err error) {
	select {
	case <-s.subscription.wake:
		return false, nil
	case <-s.timer.C:
		return true, nil
	case <-s.ctx.Done():
		return false, context.Cause(s.ctx)
	}
}

func (s *stream) proceed(source source, heartbeat bool) error {
	switch {
	case !heartbeat:
		return source.sendNew()
	case s.feed.Healthy():
		return s.sendHeartbeat(source.token(), false)
	}
	// no heartbeat: the client must see that the stream is not up to date
	s.timer.Reset(s.Heartbeat)
	return nil
}

// retryRead repeats a read while the database is down, for at most Limits.Outage.
func (s *stream) retryRead(ctx context.Context, read func(context.Context) error) error {
	f := s.feed
	started, pause := f.clock.Now(), f.limits.Poll
	for {
		err := s.read(ctx, read)
		if !errors.Is(err, store.ErrUnavailable) || f.clock.Now().Sub(started) > f.limits.Outage {
			return err
		}
		if err := clock.Sleep(ctx, f.clock, pause); err != nil {
			return err
		}
		pause = min(2*pause, maxBackoff)
	}
}

// withReadSlot runs a step that begins with a read on a fresh stack, once the stream has a read
// slot.
func (s *stream) withReadSlot(step func() error) error {
	if err := s.acquireSlot(); err != nil {
		return err
	}
	defer s.releaseSlot()
	return OnFreshStack(step)
}

// read runs one read of the ledger with a read slot and a deadline.
func (s *stream) read(ctx context.Context, read func(context.Context) error) error {
	if !s.hasSlot {
		if err := s.acquireSlot(); err != nil {
			return err
		}
	}
	defer s.releaseSlot()
	bounded, cancel := s.feed.bound(ctx)
	defer cancel()
	return read(bounded)
}

func (s *stream) acquireSlot() error {
	select {
	case s.feed.readSlots <- struct{}{}:
		s.hasSlot = true
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

func (s *stream) releaseSlot() {
	if s.hasSlot {
		s.hasSlot = false
		<-s.feed.readSlots
	}
}
