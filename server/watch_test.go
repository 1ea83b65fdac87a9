package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

func watchID(id string) *pb.WatchTxRequest {
	return &pb.WatchTxRequest{Target: &pb.WatchTxRequest_TxId{TxId: id}}
}

func watchSubmitter(name string) *pb.WatchTxRequest {
	return &pb.WatchTxRequest{Target: &pb.WatchTxRequest_Submitter{Submitter: name}}
}

func watchAll() *pb.WatchTxRequest {
	return &pb.WatchTxRequest{Target: &pb.WatchTxRequest_All{All: &pb.AllTxs{}}}
}

// lifecycle lists the events of a successful transaction.
var lifecycle = []pb.TxEventKind{
	pb.TxEventKind_TX_EVENT_KIND_QUEUED, pb.TxEventKind_TX_EVENT_KIND_ALLOCATED,
	pb.TxEventKind_TX_EVENT_KIND_SUBMITTED,
	pb.TxEventKind_TX_EVENT_KIND_INCLUDED, pb.TxEventKind_TX_EVENT_KIND_CONFIRMED,
}

// readAll reads a stream until it ends with OK.
func readAll(t testing.TB, stream pb.TxService_WatchTxClient) (all []*pb.WatchTxResponse) {
	t.Helper()
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
}

func kinds(all []*pb.WatchTxResponse) (kinds []pb.TxEventKind) {
	for _, m := range all {
		kinds = append(kinds, m.GetEvent().GetKind())
	}
	return kinds
}

// The stream ends when the transaction is final, and can be resumed after each message, on another
// node too.
func TestWatchOne_UntilFinal_ResumesAnywhere(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n, other := h.serve(), h.serve(func(o *Options) { o.Store = h.open("b") })
	id := n.create("alice", "r1").GetTxId()
	ask := watchID(id)
	ask.UntilFinal = true
	stream := n.watch(ask)
	first, err := stream.Recv()
	h.must(err)
	o.finalize(txID(t, id))
	all := append([]*pb.WatchTxResponse{first}, readAll(t, stream)...)
	if !slices.Equal(kinds(all), lifecycle) {
		t.Fatalf("received %v", kinds(all))
	}
	for i, m := range all {
		if e := m.GetEvent(); e.GetSeq() != uint64(i+1) || e.GetSubmitter() != "alice" ||
			e.GetTxId() != id ||
			e.GetTime() == nil {
			t.Errorf("event %d is %v", i, e)
		}
	}
	if e := all[3].GetEvent(); e.GetReceipt().GetBlockNumber() != 9 ||
		e.GetSubState() != pb.TxSubState_TX_SUB_STATE_INCLUDED {
		t.Errorf("included: %v", e)
	}
	byKey := &pb.WatchTxRequest{
		Target: &pb.WatchTxRequest_Request{
			Request: &pb.RequestKey{Submitter: "alice", RequestId: "r1"},
		},
		UntilFinal: true,
	}
	for i := range append(all, nil) {
		for _, ask := range []*pb.WatchTxRequest{ask, byKey} {
			if i > 0 {
				ask.ResumeToken = all[i-1].GetResumeToken()
			}
			if got := kinds(readAll(t, other.watch(ask))); !slices.Equal(got, lifecycle[i:]) {
				t.Errorf("resumed after %d events: %v", i, got)
			}
		}
	}
}

func TestWatchOne_ReorgAfterFinality_Continues(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve()
	id := txID(t, n.create("alice", "r1").GetTxId())
	o.finalize(id)
	o.move(id, txn.EventReorged, txn.Stuck,
		func(s *txn.Status) { s.Executed, s.Receipt = txn.Unknown, nil })
	ask := watchID(id.String())
	ask.UntilFinal = true
	stream := n.watch(ask)
	for range 6 {
		_, err := stream.Recv()
		h.must(err)
	}
	o.move(id, txn.EventConfirmed, txn.Confirmed, func(s *txn.Status) {
		s.Executed = txn.Success
		s.Receipt = &txn.Receipt{
			TxHash:      s.TxHash,
			BlockNumber: 10,
			BlockHash:   txn.Hash{10},
			Success:     true,
		}
	})
	if got := kinds(readAll(t, stream)); !slices.Equal(got, lifecycle[4:]) {
		t.Errorf("after the reorg: %v", got)
	}
}

// lossyStore omits an event from the feed.
type lossyStore struct {
	Store
	lost txn.Kind
}

func (l lossyStore) EventsSince(ctx context.Context, page []store.EventInfo, since, until string,
	after store.EventKey, of txn.SubmitterID, limit int) ([]store.EventInfo, error) {
	events, err := l.Store.EventsSince(ctx, page, since, until, after, of, limit)
	return slices.DeleteFunc(events, func(e store.EventInfo) bool { return e.Kind == l.lost }), err
}

// The feed only wakes the stream; events come from the ledger.
func TestWatchOne_WrongFeedEvent_LedgerRead(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve(func(o *Options) { o.Store = lossyStore{h.store, txn.EventSubmitted} })
	id := n.create("alice", "r1").GetTxId()
	ask := watchID(id)
	ask.UntilFinal = true
	stream := n.watch(ask)
	first, err := stream.Recv()
	h.must(err)
	o.finalize(txID(t, id))
	if got := kinds(append([]*pb.WatchTxResponse{first}, readAll(t, stream)...)); !slices.Equal(
		got, lifecycle) {
		t.Errorf("received %v", got)
	}
}

// A new stream sends the open transactions, then its position, then events.
func TestWatchMany_Start_SnapshotsFirst(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	h.register("bob")
	n := h.serve(limits(func(l *Limits) { l.PageEvents = 2 }))
	ids := map[string]string{}
	for _, name := range []string{"final", "flying", "queued", "waiting", "last"} {
		ids[name] = n.create("alice", name).GetTxId()
	}
	o.finalize(txID(t, ids["final"]))
	o.allocate(txID(t, ids["flying"]))
	bobs := n.create("bob", "other").GetTxId()

	for _, ask := range []*pb.WatchTxRequest{watchSubmitter("alice"), watchAll()} {
		want := []string{ids["last"], ids["waiting"], ids["queued"], ids["flying"]}
		if ask.GetAll() != nil {
			want = append(want, bobs)
		}
		slices.Sort(want)
		slices.Reverse(want)
		stream := n.watch(ask)
		got := []string{}
		m, err := stream.Recv()
		for ; err == nil && m.GetSnapshot() != nil; m, err = stream.Recv() {
			got = append(got, m.GetSnapshot().GetTxId())
		}
		h.must(err)
		if !slices.Equal(got, want) {
			t.Errorf("snapshots of %v, want %v", got, want)
		}
		if m.GetHeartbeat() == nil || m.GetResumeToken() == "" {
			t.Errorf("the snapshots are followed by %v", m)
		}
		_, err = h.store.CancelQueued(h.ctx, txID(t, ids["last"]))
		h.must(err)
		m, err = stream.Recv()
		h.must(err)
		if m.GetEvent().GetTxId() != ids["last"] || m.GetEvent().GetSeq() != 2 {
			t.Errorf("the first event is %v", m)
		}
		ids["last"] = n.create("alice", rand()).GetTxId()
	}
}

var counter atomic.Int64

// rand returns an unused request id.
func rand() string { return fmt.Sprint("another-", counter.Add(1)) }

func TestHeartbeat_IdleStream_TokenValid(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve()
	id := n.create("alice", "r1").GetTxId()
	for _, ask := range []*pb.WatchTxRequest{watchID(id), watchAll()} {
		ask.Heartbeat = durationpb.New(time.Second)
		stream := n.watch(ask)
		_, err := stream.Recv() // the event, or the snapshot
		h.must(err)
		m := &pb.WatchTxResponse{}
		for range 2 {
			m, err = stream.Recv()
			if h.must(err); m.GetHeartbeat().GetTime() == nil || m.GetResumeToken() == "" {
				t.Errorf("an idle stream returns %v", m)
			}
		}
		h.must(h.cancelled(id, ask))
		ask.ResumeToken = m.GetResumeToken()
		if m, err = n.watch(ask).Recv(); err != nil || m.GetEvent() == nil {
			t.Errorf("resumed from a heartbeat: %v, %v", m, err)
		}
	}
}

// cancelled causes an event of the stream.
func (h *harness) cancelled(id string, ask *pb.WatchTxRequest) error {
	tx, err := txn.ParseTxID(id)
	if err != nil {
		return err
	}
	if ask.GetAll() != nil {
		_, _, err = h.store.CreateTx(h.ctx,
			store.Intent{Submitter: tx.Submitter(), RequestID: rand()})
		return err
	}
	_, err = h.store.CancelQueued(h.ctx, tx)
	return err
}
