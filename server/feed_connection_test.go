package server

import (
	"testing"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/store"
)

// One call occupies the only API connection, waiting for a lock.
func TestWatch_AllAPIConnectionsBusy_Continues(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	narrow, err := store.Open(
		k.ctx,
		store.Config{
			URL:           k.db.URL,
			Schema:        k.db.Schema,
			Node:          "narrow/boot",
			LeaseDuration: leaseDuration,
			APIConns:      1,
		},
	)
	k.must(err)
	t.Cleanup(narrow.Close)
	n := k.serve(func(o *Options) { o.Store = narrow })
	o := k.own(k.register("hot"))
	k.register("cold")
	id, other := n.create("hot", "one").GetTxId(), n.create("cold", "two").GetTxId()
	c := collect(t,
		n.watch(&pb.WatchTxRequest{Target: &pb.WatchTxRequest_Submitter{Submitter: "hot"}}))
	first, err := c.stream.Recv() // the snapshot
	k.must(err)
	if first.GetSnapshot().GetTxId() != id {
		t.Fatalf("the stream begins with %v", first)
	}

	lock, err := k.db.Pool.Begin(k.ctx)
	k.must(err)
	defer func() { _ = lock.Rollback(k.ctx) }()
	_, err = lock.Exec(k.ctx, "SELECT FROM managed_tx WHERE tx_id::TEXT = $1 FOR UPDATE", other)
	k.must(err)
	answered := make(chan error, 1)
	go func() {
		_, err := n.txs.CancelTx(n.ctx, &pb.CancelTxRequest{TxId: other})
		answered <- err
	}()
	k.eventually("the call waits for the lock", func() bool {
		return k.count(
			"pg_stat_activity WHERE application_name = 'fencepost/api/narrow' AND "+
				"wait_event_type = 'Lock'") == 1
	})
	o.allocate(txID(t, id))
	c.until(id, 2)
	select {
	case err := <-answered:
		t.Errorf("the call was answered before the event came: %v", err)
	default:
	}
	k.must(lock.Rollback(k.ctx))
	k.must(<-answered)
}
