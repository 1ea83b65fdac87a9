package server

import (
	"testing"

	"google.golang.org/grpc/codes"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/txn"
)

// A decision names the version that the operator saw. A decision that was applied returns OK when
// repeated.
func TestResolveStuck_VersionChanged_Rejected(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve()
	id := n.create("alice", "r1").GetTxId()
	o.allocate(txID(t, id))
	o.loseNonce(txID(t, id))
	ask := &pb.ResolveStuckRequest{
		TxId:          id,
		Decision:      fail,
		Reason:        "looked",
		ExpectVersion: n.submitter().GetBlocking().GetVersion(),
	}
	if ask.GetExpectVersion() != uint64(o.read(txID(t, id)).Version) {
		t.Fatalf("the blocking transaction has version %d", ask.GetExpectVersion())
	}
	answer := make(chan error, 1)
	go func() {
		_, err := n.subs.ResolveStuck(h.ctx, ask)
		answer <- err
	}()
	h.eventually("a command", func() bool { return len(o.commands()) == 1 })
	tx := o.read(txID(t, id))
	w := txn.Write{
		Tx:      tx.ID,
		Version: tx.Version,
		From:    tx.State,
		Kind:    txn.EventCancelRequested,
		Next:    tx.Status,
	}
	w.Next.CancelRequested, w.Next.Version = true, tx.Version+1
	o.commit(txn.Change{Writes: []txn.Write{w}})
	o.decide(at(1))
	wantStatus(t, <-answer, codes.FailedPrecondition, "DECISION_REFUSED")
	if got := o.read(tx.ID).State; got != txn.Stuck {
		t.Fatalf("it is %s", got)
	}
	defer o.runDecisions(at(1))()
	ask.ExpectVersion++
	for range 2 {
		r, err := n.subs.ResolveStuck(h.ctx, ask)
		h.must(err)
		if r.GetTx().GetState() != pb.TxState_TX_STATE_FAILED_FINAL {
			t.Errorf("resolved: %v", r.GetTx())
		}
	}
	list, err := n.subs.ListCommands(h.ctx, &pb.ListCommandsRequest{Submitter: "alice"})
	h.must(err)
	for _, c := range list.GetCommands() {
		if c.GetKind() == "RESOLVE" && c.GetProtectionId() != 0 {
			t.Errorf("a decision on a transaction is listed as one on protection %d",
				c.GetProtectionId())
		}
	}
}

// An earlier decision of the same kind does not count for this one, regardless of later moves. The
// earlier one may be repeated.
func TestResolveStuck_RepeatedAfterRequeue_NotConfused(t *testing.T) {
	t.Parallel()
	for _, versioned := range []bool{true, false} {
		h := newHarness(t)
		o := h.own(h.register("alice"))
		n := h.serve()
		id := n.create("alice", "r1").GetTxId()
		ask := func(expect int64) error {
			_, err := n.subs.ResolveStuck(h.ctx, &pb.ResolveStuckRequest{
				TxId:          id,
				Decision:      requeue,
				Reason:        "looked",
				ExpectVersion: uint64(expect),
			})
			return err
		}
		o.allocate(txID(t, id))
		o.loseNonce(txID(t, id))
		first := int64(0)
		if versioned {
			first = o.read(txID(t, id)).Version
		}
		end := o.runDecisions(at(1))
		h.must(ask(first))
		end()
		o.commit(txn.Change{
			Unprotect: &txn.Unprotection{ID: 1, Expect: o.next, To: o.next, Reason: "x"},
		})
		o.allocate(txID(t, id))
		o.loseNonce(txID(t, id))
		looked := o.read(txID(t, id)).Version
		o.include(txID(t, id)) // after all
		o.runDecisions(at(1))
		before := h.count("submitter_command")
		wantStatus(t, ask(looked), codes.FailedPrecondition, "DECISION_REFUSED")
		h.must(ask(first))
		if got := h.count("submitter_command") - before; got != 1 {
			t.Errorf("%d commands for one decision and a repeat", got)
		}
		o.confirm(txID(t, id))
		wantStatus(t, ask(looked), codes.FailedPrecondition, "DECISION_REFUSED")
		h.must(ask(first))
	}
}

// This includes a decision that was never made, but would have led to the same state.
func TestResolveStuck_OtherDecision_Rejected(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve()
	id, other := n.create("alice", "r1").GetTxId(), n.create("alice", "r2").GetTxId()
	o.allocate(txID(t, id))
	o.loseNonce(txID(t, id))
	end := o.runDecisions(at(1))
	for range 2 {
		_, err := n.resolve(id, fail)
		h.must(err)
	}
	end()
	o.commit(
		txn.Change{Unprotect: &txn.Unprotection{ID: 1, Expect: o.next, To: o.next, Reason: "x"}})
	o.allocate(txID(t, other))
	o.move(txID(t, other), txn.EventFailed, txn.Failed, func(s *txn.Status) {
		s.Executed, s.Released = txn.No, true
		s.Reason = txn.ReasonNonceElsewhere
	})
	for _, c := range []struct {
		id       string
		decision pb.StuckDecision
	}{{id, requeue}, {id, retry}, {id, pb.StuckDecision_STUCK_DECISION_FAIL_UNPROVEN},
		{other, fail}} {
		_, err := n.resolve(c.id, c.decision)
		wantStatus(t, err, codes.FailedPrecondition, "DECISION_REFUSED")
	}
}

// Only the owner knows whether a requeued transaction executed, so no response excludes it earlier.
func TestCancelTx_Requeued_OwnerDecides(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve()
	id := n.create("alice", "r1").GetTxId()
	o.allocate(txID(t, id))
	o.loseNonce(txID(t, id))
	end := o.runDecisions(at(1))
	_, err := n.resolve(id, requeue)
	h.must(err)
	end()
	cancel := func(want pb.CancelOutcome, safe bool) {
		t.Helper()
		r, err := n.txs.CancelTx(h.ctx, &pb.CancelTxRequest{TxId: id})
		h.must(err)
		if r.GetOutcome() != want || r.GetTx().GetRetrySafe() != safe {
			t.Errorf("%v, want %v", r, want)
		}
	}
	for range 2 {
		cancel(pb.CancelOutcome_CANCEL_OUTCOME_REQUESTED, false)
	}
	if c := o.commands(); len(c) != 1 || c[0].Kind != txn.CommandCancel ||
		o.read(txID(t, id)).State != txn.Queued {
		t.Errorf("commands %+v, and it is %s", c, o.read(txID(t, id)).State)
	}
	o.move(txID(t, id), txn.EventCancelRequested, txn.Queued,
		func(s *txn.Status) { s.CancelRequested = true })
	cancel(pb.CancelOutcome_CANCEL_OUTCOME_REQUESTED, false)
	o.move(txID(t, id), txn.EventCancelled, txn.Cancelled,
		func(s *txn.Status) { s.Executed = txn.No })
	cancel(pb.CancelOutcome_CANCEL_OUTCOME_CANCELLED, true)
}
