package server

import (
	"testing"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/txn"
)

// Everywhere a receipt is returned, it names the kind of the included attempt: a cancel transaction
// succeeds without executing the payload.
func TestReceipt_BeforeFinal_NamesAttemptKind(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve()
	for _, form := range []txn.AttemptKind{txn.Original, txn.Bump, txn.Cancel} {
		request := "in the block: " + string(form)
		tx := n.create("alice", request)
		feed := n.watch(watchSubmitter("alice"))
		for begun := false; !begun; { // the events below must not become snapshots
			m, err := feed.Recv()
			h.must(err)
			begun = m.GetHeartbeat() != nil
		}
		id := txID(t, tx.GetTxId())
		o.allocate(id)
		o.submit(id)
		if form != txn.Original {
			o.replace(id, form)
		}
		o.include(id)
		received := map[string]*pb.Receipt{}
		r, err := n.txs.GetTx(h.ctx, byKey("alice", request))
		h.must(err)
		received["GetTx by request"] = r.GetTx().GetReceipt()
		if r.GetTx().GetExecuted() != pb.Executed_EXECUTED_UNKNOWN {
			t.Errorf("%s: %v", form, r)
		}
		r, err = n.txs.GetTx(h.ctx,
			&pb.GetTxRequest{Key: &pb.GetTxRequest_TxId{TxId: tx.GetTxId()}})
		h.must(err)
		received["GetTx"] = r.GetTx().GetReceipt()
		for what, ask := range map[string]*pb.ListTxsRequest{"ListTxs": {Submitter: "alice"},
			"ListTxs of open ones": {Submitter: "alice",
				States: []pb.TxState{pb.TxState_TX_STATE_TRACKING}}} {
			list, err := n.txs.ListTxs(h.ctx, ask)
			h.must(err)
			received[what] = list.GetTxs()[0].GetReceipt()
		}
		for what, stream := range map[string]pb.TxService_WatchTxClient{
			"its events": n.watch(
				&pb.WatchTxRequest{Target: &pb.WatchTxRequest_TxId{TxId: tx.GetTxId()}}),
			"the feed": feed} {
			m := &pb.WatchTxResponse{}
			for m.GetEvent().GetKind() != pb.TxEventKind_TX_EVENT_KIND_INCLUDED {
				m, err = stream.Recv()
				h.must(err)
			}
			received[what] = m.GetEvent().GetReceipt()
		}
		snapshot, err := n.watch(watchSubmitter("alice")).Recv()
		h.must(err)
		received["a snapshot"] = snapshot.GetSnapshot().GetReceipt()
		for what, receipt := range received {
			if receipt.GetKind() != string(form) || !receipt.GetSuccess() {
				t.Errorf("%s in %s: %v", form, what, receipt)
			}
		}
		o.confirm(id) // its outcome is not tested here
	}
}

// replace records another attempt for the same nonce.
func (o *owner) replace(id txn.TxID, kind txn.AttemptKind) {
	tx := o.read(id)
	a := attempt(tx, *tx.Nonce)
	a.No, a.Kind = 2, kind
	a.Hash[31] ^= 1
	a.Raw = append(a.Raw, 1)
	w := txn.Write{
		Tx:      id,
		Version: tx.Version,
		From:    tx.State,
		Kind:    txn.EventReplaced,
		Next:    tx.Status,
		Attempt: a,
	}
	w.Next.Version, w.Next.TxHash = tx.Version+1, a.Hash
	o.commit(txn.Change{Writes: []txn.Write{w}})
}
