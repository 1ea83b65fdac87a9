package server

import (
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// untilEvent reads a stream up to an event, or to its end.
func untilEvent(stream pb.TxService_WatchTxClient, id string, seq uint64) (err error) {
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		if m.GetEvent().GetTxId() == id && m.GetEvent().GetSeq() == seq {
			return nil
		}
	}
}

// opened is a stream that has begun.
func (n *node) opened(ask *pb.WatchTxRequest) pb.TxService_WatchTxClient {
	n.t.Helper()
	ask.Heartbeat = durationpb.New(time.Second)
	stream := n.watch(ask)
	for {
		m, err := stream.Recv()
		n.must(err)
		if m.GetHeartbeat() != nil { // up to date
			return stream
		}
	}
}

// TestLedgersWatch_OpenWhenMoved_Follows: a stream that is open when its account moves has all
// later events, and ends as usual.
func TestLedgersWatch_OpenWhenMoved_Follows(t *testing.T) {
	t.Parallel()
	s := newSeveral(t, "eu1", "eu2", "us1")
	n := s.node("n")
	id, other := n.create("at-eu2", "1").GetTxId(), n.create("at-eu2", "2").GetTxId()
	elsewhere := n.create("at-eu1", "3").GetTxId()
	key := func() *pb.WatchTxRequest {
		return &pb.WatchTxRequest{Target: &pb.WatchTxRequest_Request{
			Request: &pb.RequestKey{Submitter: "at-eu2", RequestId: "1"}}}
	}
	var open, final []pb.TxService_WatchTxClient
	for _, ask := range []*pb.WatchTxRequest{watchID(id), key(), watchIDs(id, other),
		watchSubmitter("at-eu2"), watchAll()} {
		open = append(open, n.opened(ask))
	}
	for _, ask := range []*pb.WatchTxRequest{watchID(id), key(), watchIDs(id, other)} {
		final = append(final, n.opened(untilFinal(ask)))
	}
	mixed := n.opened(watchIDs(id, elsewhere))
	s.moveAccount()
	for _, tx := range []string{id, other} {
		_, err := n.txs.CancelTx(n.ctx, &pb.CancelTxRequest{TxId: tx})
		n.must(err)
	}
	for i, stream := range open {
		if err := untilEvent(stream, id, 2); err != nil {
			t.Errorf("open stream %d: %v", i, err)
		}
	}
	for i, stream := range final {
		if err := untilEvent(stream, id, 2); err != nil {
			t.Errorf("stream %d until final: %v", i, err)
		}
		if err := untilEvent(stream, id, 3); !errors.Is(err, io.EOF) {
			t.Errorf("stream %d until final ends with: %v", i, err)
		}
	}
	// one position cannot be in both ledgers
	wantStatus(t, untilEvent(mixed, id, 2), codes.OutOfRange, "RESUME_TOKEN_EXPIRED")
	if err := untilEvent(n.opened(watchIDs(id, elsewhere)), "", 0); err != nil {
		t.Error(err)
	}
}

// TestWatch_AccountMoved_EndsMoved: a stream of a node that serves only the old ledger ends once it
// has all events of that ledger.
func TestWatch_AccountMoved_EndsMoved(t *testing.T) {
	t.Parallel()
	s := newSeveral(t, "eu1", "eu2", "us1")
	n := s.of[1].serve()
	id, other := n.create("at-eu2", "1").GetTxId(), n.create("at-eu2", "2").GetTxId()
	var streams []pb.TxService_WatchTxClient
	for _, ask := range []*pb.WatchTxRequest{watchID(id), untilFinal(watchID(id)),
		watchIDs(id, other), untilFinal(watchIDs(id, other)), watchSubmitter("at-eu2")} {
		streams = append(streams, n.opened(ask))
	}
	_, err := n.txs.CancelTx(n.ctx, &pb.CancelTxRequest{TxId: other})
	n.must(err)
	s.moveAccount()
	for i, stream := range streams {
		if i > 1 {
			if err := untilEvent(stream, other, 2); err != nil {
				t.Errorf("stream %d: %v", i, err)
			}
		}
		wantStatus(t, untilEvent(stream, id, 2), codes.FailedPrecondition, "SUBMITTER_MOVED")
	}
	_, err = n.watch(watchIDs(id, other)).Recv()
	wantStatus(t, err, codes.FailedPrecondition, "SUBMITTER_MOVED")
}
