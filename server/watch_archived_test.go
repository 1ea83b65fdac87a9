package server

import (
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/feed"
	"github.com/fencepost/fencepost/store"
)

// archived cancels a queued transaction, and archives it as soon as that is possible.
func (h *harness) archived(n *node, id string) {
	h.t.Helper()
	_, err := n.txs.CancelTx(h.ctx, &pb.CancelTxRequest{TxId: id})
	h.must(err)
	owner := h.openAs(h.db.URL, "archive/boot")
	tx := txID(h.t, id)
	h.eventually("it is archived", func() bool {
		lease, err := owner.AcquireArchive(h.ctx)
		h.must(err)
		lines, _, _, err := owner.ArchivePage(h.ctx, lease, store.ArchiveQuery{
			Submitter: tx.Submitter(), Before: time.Now().Add(time.Hour), Whole: true, Limit: 100})
		h.must(err)
		for _, line := range lines {
			if line.ID != tx {
				continue
			}
			h.must(owner.TrimFeed(h.ctx, lease, line.Xid))
			removed, err := owner.RemoveArchived(h.ctx, lease,
				[]store.ArchiveTx{line.ArchiveTx}, true)
			h.must(err)
			return removed.Transactions == 1
		}
		return false
	})
}

// TestArchived_ReadAndWatched: GetTx shows that it was archived, a new watch gets the transaction
// in place of its events, and a resume token from before is rejected.
func TestArchived_ReadAndWatched(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve()
	id := n.create("alice", "r").GetTxId()
	head, err := h.store.Head(h.ctx)
	h.must(err)
	before := store.Position{Epoch: head.Epoch, Timeline: head.Timeline, Seen: head.Snapshot}
	h.archived(n, id)

	got, err := n.txs.GetTx(h.ctx, &pb.GetTxRequest{Key: &pb.GetTxRequest_TxId{TxId: id}})
	h.must(err)
	tx := got.GetTx()
	if tx.GetArchiveTime() == nil || tx.GetEventsArchiveTime() == nil ||
		tx.GetState() != pb.TxState_TX_STATE_CANCELLED || len(tx.GetPayload().GetData()) > 0 {
		t.Errorf("%v", tx)
	}
	if again := n.create("alice", "r"); again.GetTxId() != id || again.GetArchiveTime() == nil {
		t.Errorf("its key names %v", again)
	}

	ask := &pb.WatchTxRequest{Target: &pb.WatchTxRequest_TxId{TxId: id}, UntilFinal: true}
	stream := n.watch(ask)
	m, err := stream.Recv()
	h.must(err)
	if m.GetSnapshot().GetTxId() != id || m.GetSnapshot().GetArchiveTime() == nil {
		t.Errorf("the watch begins with %v", m)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("then %v", err)
	}
	ask.ResumeToken = feed.TxToken(head.Epoch, feed.Target{Tx: txID(t, id)}, 1)
	_, err = n.watch(ask).Recv()
	wantStatus(t, err, codes.OutOfRange, "RESUME_TOKEN_EXPIRED")
	ask.ResumeToken = feed.TxToken(head.Epoch, feed.Target{Tx: txID(t, id)}, 2)
	if _, err = n.watch(ask).Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after its last event: %v", err)
	}

	all := &pb.WatchTxRequest{Target: &pb.WatchTxRequest_All{All: &pb.AllTxs{}},
		ResumeToken: feed.MultiToken(feed.Target{}, before)}
	_, err = n.watch(all).Recv()
	wantStatus(t, err, codes.OutOfRange, "RESUME_TOKEN_EXPIRED")
	several := &pb.WatchTxRequest{Target: &pb.WatchTxRequest_Txs{
		Txs: &pb.TxIds{TxIds: []string{id}}}, UntilFinal: true}
	if m, err = n.watch(several).Recv(); err != nil || m.GetSnapshot().GetArchiveTime() == nil {
		t.Errorf("several transactions: %v, %v", m, err)
	}
}
