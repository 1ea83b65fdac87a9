package server

import (
	"testing"

	"google.golang.org/grpc/codes"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// TestLedgers_PoolWhileAnotherIsDown_Found: a pool needs its own ledger only, also on a node that
// began while another was down.
func TestLedgers_PoolWhileAnotherIsDown_Found(t *testing.T) {
	t.Parallel()
	s := newSeveral(t, "eu1", "eu2")
	n := s.node("n")
	ask := &pb.CreatePoolRequest{Pool: "fees", ChainId: chainID, Ledger: "eu1"}
	_, err := pb.NewPoolServiceClient(n.conn).CreatePool(n.ctx, ask)
	n.must(err)
	s.down(n, 1)
	pools := pb.NewPoolServiceClient(s.node("m").conn)
	if _, err := pools.GetPool(n.ctx, &pb.GetPoolRequest{Pool: "fees"}); err != nil {
		t.Errorf("a pool of the ledger that is up: %v", err)
	}
	ask.Pool = "other"
	_, err = pools.CreatePool(n.ctx, ask)
	wantStatus(t, err, codes.Unavailable, "STORE_UNAVAILABLE")
}

// TestLedgers_OneIsBusy_Retryable: while a ledger has no room for a question, a transaction is not
// said to be missing, and lists have the rows of the others.
func TestLedgers_OneIsBusy_Retryable(t *testing.T) {
	t.Parallel()
	s := newSeveral(t, "eu1", "eu2")
	n := s.node("n")
	kept := n.create("at-eu1", "1").GetTxId()
	full := n.server.router.ledgers[1]
	for range cap(full.slots) {
		full.slots <- struct{}{}
	}
	hash := "0x" + "11111111111111111111111111111111" + "11111111111111111111111111111111"
	_, err := n.txs.GetTx(n.ctx, &pb.GetTxRequest{Key: &pb.GetTxRequest_Hash{Hash: hash}})
	wantStatus(t, err, codes.ResourceExhausted, "NODE_BUSY")
	list, err := n.txs.ListTxs(n.ctx, &pb.ListTxsRequest{})
	n.must(err)
	if txs := list.GetTxs(); len(txs) != 1 || txs[0].GetTxId() != kept ||
		len(list.GetMissingLedgers()) != 1 || list.GetMissingLedgers()[0] != "eu2" {
		t.Errorf("the list: %v", list)
	}
	for range cap(full.slots) {
		<-full.slots
	}
	_, err = n.txs.GetTx(n.ctx, &pb.GetTxRequest{Key: &pb.GetTxRequest_Hash{Hash: hash}})
	wantStatus(t, err, codes.NotFound, "TX_NOT_FOUND")
}
