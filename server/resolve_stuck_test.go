package server

import (
	"testing"

	"google.golang.org/grpc/codes"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/txn"
)

// A decision names what was looked at: what has changed before the owner decides, is not decided on. What was carried out answers OK all the same.
func TestResolveStuckOfAnotherVersion(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	o := k.own(k.register("alice"))
	n := k.serve()
	id := n.create("alice", "r1").GetTxId()
	o.allocate(txID(t, id))
	o.lose(txID(t, id))
	ask := &pb.ResolveStuckRequest{TxId: id, Decision: fail, Reason: "looked", ExpectVersion: n.submitter().GetBlocking().GetVersion()}
	if ask.GetExpectVersion() != uint64(o.read(txID(t, id)).Version) {
		t.Fatalf("what blocks is shown with version %d", ask.GetExpectVersion())
	}
	answer := make(chan error, 1)
	go func() {
		_, err := n.subs.ResolveStuck(k.ctx, ask)
		answer <- err
	}()
	k.eventually("a command", func() bool { return len(o.commands()) == 1 })
	tx := o.read(txID(t, id))
	w := txn.Write{Tx: tx.ID, Version: tx.Version, From: tx.State, Kind: txn.EventCancelRequested, Next: tx.Status}
	w.Next.CancelRequested, w.Next.Version = true, tx.Version+1
	o.commit(txn.Change{Writes: []txn.Write{w}})
	o.decide(at(1))
	wantStatus(t, <-answer, codes.FailedPrecondition, "DECISION_REFUSED")
	if got := o.read(tx.ID).State; got != txn.Stuck {
		t.Fatalf("it is %s", got)
	}
	defer o.deciding(at(1))()
	ask.ExpectVersion++
	for range 2 {
		r, err := n.subs.ResolveStuck(k.ctx, ask)
		k.must(err)
		if r.GetTx().GetState() != pb.TxState_TX_STATE_FAILED_FINAL {
			t.Errorf("resolved: %v", r.GetTx())
		}
	}
	list, err := n.subs.ListCommands(k.ctx, &pb.ListCommandsRequest{Submitter: "alice"})
	k.must(err)
	for _, c := range list.GetCommands() {
		if c.GetProtectionId() != 0 {
			t.Errorf("a decision on a transaction is listed as one on protection %d", c.GetProtectionId())
		}
	}
}
