package server

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// defaultHeartbeat is how often an idle stream says that it is alive when the caller does not say.
const defaultHeartbeat = 15 * time.Second

// WatchTx streams events. What a stream of one transaction does is in watch_one.go, a stream of many in watch_many.go.
func (s *txService) WatchTx(r *pb.WatchTxRequest, stream pb.TxService_WatchTxServer) error {
	w, token, err := s.watch(r, stream)
	if err != nil {
		return err
	}
	defer w.timer.Stop()
	if w.target.tx != (txn.TxID{}) {
		return w.one(stream.Context(), token)
	}
	return w.many(stream.Context(), token)
}

// watch is the stream that a request asks for, and where it goes on.
func (s *txService) watch(r *pb.WatchTxRequest, stream pb.TxService_WatchTxServer) (*watch, *resumeToken, error) {
	finding, cancel := s.limits.bound(stream.Context())
	what, err := s.target(finding, r)
	cancel()
	if err != nil {
		return nil, nil, err
	}
	token, err := parseResumeToken(r.GetResumeToken(), what)
	if err != nil {
		return nil, nil, err
	}
	w := &watch{Server: s.Server, stream: stream, target: what, heartbeat: defaultHeartbeat, untilFinal: r.GetUntilFinal()}
	if r.GetHeartbeat() != nil {
		w.heartbeat = r.GetHeartbeat().AsDuration()
	}
	w.timer = s.clock.NewTimer(w.heartbeat)
	return w, &token, nil
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
		return nil, invalidField("until_final", "ends the stream of transactions that are named; name one, by tx_id or request, or several, by txs, or leave it out")
	}
	if byName && len(r.GetLabels()) > 0 {
		return nil, invalidField("labels", "select among many transactions; leave them out, or name a submitter or all instead of single transactions")
	}
	labels, found := selectors(r.GetLabels())
	if len(found) > 0 {
		return nil, &invalid{pb.ErrorReason_ERROR_REASON_INVALID_FIELD, found}
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
}

// send hands a message to the transport, which blocks while the client does not read: that is all the back-pressure there is. A stream that was ended meanwhile
// tells nothing more, whatever has been read for it.
func (w *watch) send(m *pb.WatchTxResponse) error {
	if ctx := w.stream.Context(); ctx.Err() != nil {
		return context.Cause(ctx)
	}
	w.timer.Reset(w.heartbeat)
	return w.stream.Send(m)
}

func (w *watch) sendEvent(e *store.EventInfo, token string) error {
	return w.send(&pb.WatchTxResponse{Message: &pb.WatchTxResponse_Event{Event: wireEvent(e)}, ResumeToken: token})
}

// beat says that the stream is alive, and up to date unless it is behind.
func (w *watch) beat(token string, behind bool) error {
	beat := &pb.Heartbeat{Time: timestamppb.New(w.clock.Now()), Behind: behind}
	return w.send(&pb.WatchTxResponse{Message: &pb.WatchTxResponse_Heartbeat{Heartbeat: beat}, ResumeToken: token})
}

// wait returns when there may be something to take, and beats meanwhile.
func (w *watch) wait(ctx context.Context, p *place, token func() string) error {
	for {
		select {
		case <-p.wake:
			return nil
		case <-w.timer.C:
			if !p.upToDate() {
				w.timer.Reset(w.heartbeat) // silence is what tells the client that this stream is not up to date
				continue
			}
			if err := w.beat(token(), false); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// patiently repeats a read that fails because the database is down, for as long as a stream waits for it.
func (w *watch) patiently(ctx context.Context, read func(context.Context) error) error {
	started, pause := w.clock.Now(), w.limits.FeedPoll
	for {
		err := w.apart(ctx, read)
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

// apart reads on a stack of its own, which is gone then: what asks the database goes deep, and the stack of a stream that waits never has to grow that far.
func (w *watch) apart(ctx context.Context, read func(context.Context) error) (err error) {
	select {
	case w.reading <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	bounded, cancel := w.limits.bound(ctx)
	defer cancel()
	var panicked any
	done := make(chan struct{})
	go func() {
		defer func() {
			if p := recover(); p != nil {
				panicked = fmt.Sprintf("%v\n%s", p, debug.Stack())
			}
			<-w.reading
			close(done)
		}()
		err = read(bounded)
	}()
	<-done
	if panicked != nil {
		panic(panicked) // where it is answered and logged
	}
	return err
}
