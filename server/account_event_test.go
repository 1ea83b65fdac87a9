package server

import (
	"testing"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// TestWatchTx_AccountEvents_OnRequestOnly: a stream that does not ask for events of accounts gets
// none. One that does resumes after the last one.
func TestWatchTx_AccountEvents_OnRequestOnly(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n := h.serve(limits(func(*Limits) {}))
	alice := h.register("alice")
	low := func(low bool, block uint64) {
		_, err := h.store.RecordLow(h.ctx, alice, store.LowChange{Low: low, Block: block,
			Emit: &txn.LowBalance{Balance: "3", Committed: "1", Low: "5", Block: block}})
		h.must(err)
	}
	with, without := watchSubmitter("alice"), watchAll()
	with.AccountEvents = true
	streams := map[*pb.WatchTxRequest]pb.TxService_WatchTxClient{}
	for _, ask := range []*pb.WatchTxRequest{with, without} {
		stream, err := n.txs.WatchTx(h.ctx, ask)
		h.must(err)
		_, with.ResumeToken = readSnapshots(t, stream)
		streams[ask] = stream
	}
	low(true, 1)
	low(false, 2)
	low(true, 3)
	_, err := n.txs.CreateTx(h.ctx, labelled("alice", rand(), nil))
	h.must(err)
	next := func(stream pb.TxService_WatchTxClient) *pb.WatchTxResponse {
		for {
			m, err := stream.Recv()
			h.must(err)
			if m.GetHeartbeat() == nil {
				return m
			}
		}
	}
	token := ""
	for seq := uint64(1); seq <= 2; seq++ {
		m := next(streams[with])
		if e := m.GetAccountEvent(); e.GetSeq() != seq || e.GetSubmitter() != "alice" ||
			e.GetKind() != pb.AccountEventKind_ACCOUNT_EVENT_KIND_LOW_BALANCE ||
			e.GetBalance() != "3" || e.GetCommitted() != "1" || e.GetLow() != "5" ||
			e.GetBlock() != 2*seq-1 || e.GetTime() == nil {
			t.Fatalf("message %d: %v", seq, m)
		}
		if seq == 1 {
			token = m.GetResumeToken()
		}
	}
	for _, stream := range streams {
		if m := next(stream); m.GetEvent().GetKind() != pb.TxEventKind_TX_EVENT_KIND_QUEUED {
			t.Fatalf("the transaction: %v", m)
		}
	}
	with.ResumeToken = token
	resumed, err := n.txs.WatchTx(h.ctx, with)
	h.must(err)
	if m := next(resumed); m.GetAccountEvent().GetSeq() != 2 {
		t.Errorf("resumed with %v", m)
	}
	sse := n.stream("/api/v1/submitters/alice/events?account_events=true&resume_token="+token,
		"Accept", "text/event-stream")
	for line, more := sse.next(); line != "event: account_event"; line, more = sse.next() {
		if !more || line == "event: heartbeat" || line == "event: event" {
			t.Fatalf("over HTTP: %q", line)
		}
	}
	with.ResumeToken, with.States = "", []pb.TxState{confirmedState}
	refused, err := n.txs.WatchTx(h.ctx, with)
	h.must(err)
	if _, err = refused.Recv(); grpcstatus.Code(err) != codes.InvalidArgument {
		t.Errorf("with states: %v", err)
	}
}
