package server

import (
	"testing"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/store"
)

// One call occupies the only API connection, waiting for a lock.
func TestWatch_APIConnectionsBusy_Continues(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	narrow, err := store.Open(h.ctx, store.Config{
		URL:           h.db.NodeURL,
		Schema:        h.db.Schema,
		Node:          "narrow/boot",
		LeaseDuration: leaseDuration,
		APIConns:      1,
	})
	h.must(err)
	t.Cleanup(narrow.Close)
	n := h.serve(func(o *Options) { o.Store = narrow })
	o := h.own(h.register("hot"))
	h.register("cold")
	id, other := n.create("hot", "one").GetTxId(), n.create("cold", "two").GetTxId()
	c := collect(t,
		n.watch(&pb.WatchTxRequest{Target: &pb.WatchTxRequest_Submitter{Submitter: "hot"}}))
	first, err := c.stream.Recv() // the snapshot
	h.must(err)
	if first.GetSnapshot().GetTxId() != id {
		t.Fatalf("the stream starts with %v", first)
	}

	lock, err := h.db.Pool.Begin(h.ctx)
	h.must(err)
	defer func() { _ = lock.Rollback(h.ctx) }()
	_, err = lock.Exec(h.ctx, "SELECT FROM managed_tx WHERE tx_id::TEXT = $1 FOR UPDATE", other)
	h.must(err)
	answered := make(chan error, 1)
	go func() {
		_, err := n.txs.CancelTx(n.ctx, &pb.CancelTxRequest{TxId: other})
		answered <- err
	}()
	h.eventually("the call waits for the lock", func() bool {
		return h.count(
			"pg_stat_activity WHERE application_name = 'fencepost/api/narrow' AND "+
				"wait_event_type = 'Lock'") == 1
	})
	o.allocate(txID(t, id))
	c.until(id, 2)
	select {
	case err := <-answered:
		t.Errorf("the call returned before the event was delivered: %v", err)
	default:
	}
	h.must(lock.Rollback(h.ctx))
	h.must(<-answered)
}
