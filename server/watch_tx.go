package server

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// defaultHeartbeat is how often an idle stream says that it is alive when the caller does not say.
const defaultHeartbeat = 15 * time.Second

// WatchTx streams events. What a stream of one transaction tells is in watch_one.go, that of many in watch_many.go. This is the goroutine of the stream: it waits here
// and nowhere else, and stands on little while it does (apart.go).
func (s *txService) WatchTx(r *pb.WatchTxRequest, stream pb.TxService_WatchTxServer) error {
	w := &watch{Server: s.Server, stream: stream}
	var tell teller
	err := w.turn(func() (err error) {
		tell, err = w.set(s, r)
		return err
	})
	if err != nil {
		return err
	}
	defer w.timer.Stop()
	if w.place, err = w.feed.join(stream.Context(), w.target, w.fresh()); err != nil {
		return err
	}
	defer w.place.leave()
	if err := w.turn(tell.begin); err != nil {
		return err
	}
	for !tell.over() {
		beat, err := w.wait()
		if err != nil {
			return err
		}
		if err := apart(func() error { return w.goOn(tell, beat) }); err != nil {
			return err
		}
	}
	return nil
}

// teller is what a stream does between its waits.
type teller interface {
	begin() error // tells what there is
	news() error  // tells what has come since
	over() bool
	token() string
}

// set finds out which stream a request asks for, and where it goes on.
func (w *watch) set(s *txService, r *pb.WatchTxRequest) (teller, error) {
	finding, cancel := s.limits.bound(w.stream.Context())
	what, err := s.target(finding, r)
	cancel()
	if err != nil {
		return nil, err
	}
	token, err := parseResumeToken(r.GetResumeToken(), what)
	if err != nil {
		return nil, err
	}
	w.target, w.heartbeat, w.untilFinal = what, defaultHeartbeat, r.GetUntilFinal()
	if r.GetHeartbeat() != nil {
		w.heartbeat = r.GetHeartbeat().AsDuration()
	}
	w.timer = s.clock.NewTimer(w.heartbeat)
	if w.fresh() {
		m := &many{watch: w, given: &token}
		m.prepare()
		return m, nil
	}
	return &single{watch: w, given: &token, last: token.seq}, nil
}

// target finds what is to be watched.
func (s *txService) target(ctx context.Context, r *pb.WatchTxRequest) (t target, err error) {
	labels, err := narrowed(r)
	if err != nil {
		return t, err
	}
	t.states = setOfWire(r.GetStates())
	switch what := r.GetTarget().(type) {
	case *pb.WatchTxRequest_TxId:
		t.tx, err = s.txID(ctx, what.TxId)
		return t, err
	case *pb.WatchTxRequest_Request:
		info, err := s.txByRequest(ctx, what.Request)
		t.tx = info.ID
		return t, err
	case *pb.WatchTxRequest_Txs:
		t.txs, err = s.txIDs(ctx, what.Txs.GetTxIds())
		return t, err
	case *pb.WatchTxRequest_Submitter:
		t.submitter, err = s.lookup(ctx, "submitter", what.Submitter)
	}
	return t.withLabels(labels), err
}

// narrowed refuses what goes with transactions that are named alone, or with all others, and returns the labels that are asked for.
func narrowed(r *pb.WatchTxRequest) (labels map[string]string, err error) {
	byName := r.GetTxId() != "" || r.GetRequest() != nil || r.GetTxs() != nil
	if !byName && r.GetUntilFinal() {
		return nil, status.InvalidField("until_final",
			"ends the stream of transactions that are named; name one, by tx_id or request, or several, by txs, or leave it out")
	}
	if byName && len(r.GetLabels()) > 0 {
		return nil, status.InvalidField("labels",
			"select among many transactions; leave them out, or name a submitter or all instead of single transactions")
	}
	labels, found := selectors(r.GetLabels())
	if len(found) > 0 {
		return nil, status.Invalid(found...)
	}
	return labels, nil
}

// watch is one stream under way.
type watch struct {
	*Server
	stream     pb.TxService_WatchTxServer
	target     target
	heartbeat  time.Duration
	untilFinal bool
	ends       *ends // of the transactions that the stream ends with; nil: it does not end, or is of one
	timer      *clock.Timer
	place      *place
	reads      bool // it has a place among those who read the ledger
}

// fresh tells whether the stream begins where the feed ends now: that of one transaction goes by the numbers of its events.
func (w *watch) fresh() bool { return w.target.tx == (txn.TxID{}) }

// send hands a message to the transport, which blocks while the client does not read: that is all the back-pressure there is. A stream that was ended meanwhile
// tells nothing more, whatever has been read for it.
func (w *watch) send(m *pb.WatchTxResponse) error {
	w.release() // whoever waits for a client must not have others wait
	if ctx := w.stream.Context(); ctx.Err() != nil {
		return context.Cause(ctx)
	}
	w.timer.Reset(w.heartbeat)
	return w.stream.Send(m)
}

func (w *watch) sendEvent(e *store.EventInfo, token string) error {
	return w.send(
		&pb.WatchTxResponse{
			Message:     &pb.WatchTxResponse_Event{Event: wireEvent(e)},
			ResumeToken: token,
		},
	)
}

// beat says that the stream is alive, and up to date unless it is behind.
func (w *watch) beat(token string, behind bool) error {
	beat := &pb.Heartbeat{Time: timestamppb.New(w.clock.Now()), Behind: behind}
	return w.send(
		&pb.WatchTxResponse{
			Message:     &pb.WatchTxResponse_Heartbeat{Heartbeat: beat},
			ResumeToken: token,
		},
	)
}

// wait returns when there may be something to tell, or when it is time to beat.
func (w *watch) wait() (beat bool, err error) {
	ctx := w.stream.Context()
	select {
	case <-w.place.wake:
		return false, nil
	case <-w.timer.C:
		return true, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// goOn does what the wait has ended for.
func (w *watch) goOn(tell teller, beat bool) error {
	switch {
	case !beat:
		return tell.news()
	case w.place.upToDate():
		return w.beat(tell.token(), false)
	}
	w.timer.Reset(
		w.heartbeat) // silence is what tells the client that this stream is not up to date
	return nil
}

// patiently repeats a read that fails because the database is down, for as long as a stream waits for it.
func (w *watch) patiently(ctx context.Context, read func(context.Context) error) error {
	started, pause := w.clock.Now(), w.limits.FeedPoll
	for {
		err := w.read(ctx, read)
		if !errors.Is(err, store.ErrUnavailable) || w.clock.Now().Sub(started) > w.limits.Outage {
			return err
		}
		if err := clock.Sleep(ctx, w.clock, pause); err != nil {
			return err
		}
		pause = min(2*pause, maxBackoff)
	}
}

// readers is how many streams read the ledger at the same time: no more than that get at a connection anyway, by far.
const readers = 32

// turn takes a step apart that begins with a read, once it is the turn of this stream to read: what waits for that shall be small too.
func (w *watch) turn(step func() error) error {
	if err := w.acquire(); err != nil {
		return err
	}
	defer w.release()
	return apart(step)
}

// read reads when it is the turn of this stream.
func (w *watch) read(ctx context.Context, read func(context.Context) error) error {
	if !w.reads {
		if err := w.acquire(); err != nil {
			return err
		}
	}
	defer w.release()
	bounded, cancel := w.limits.bound(ctx)
	defer cancel()
	return read(bounded)
}

func (w *watch) acquire() error {
	ctx := w.stream.Context()
	select {
	case w.reading <- struct{}{}:
		w.reads = true
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (w *watch) release() {
	if w.reads {
		w.reads = false
		<-w.reading
	}
}
