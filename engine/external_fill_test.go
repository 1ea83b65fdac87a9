package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencepost/fencepost/audit"
	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// TestExternal_FillCancelled_StillFilled: only that transaction can ever close the nonce, so it is
// not cancelled in the queue.
func TestExternal_FillCancelled_StillFilled(t *testing.T) {
	t.Parallel()
	r, c := externalChain(t, 8)
	n := r.startOn(c, "a", nil)
	id, nonce := r.allocateNonce(n.store, "k")
	r.underReservation(r.admin, id, store.NonceAsk{Kind: txn.RequestQuarantine}, txn.Applied)
	n.stop()
	tx, err := r.admin.QueueReserved(t.Context(), store.ReservedTx{Reservation: id,
		Payload: txn.CancelPayload(devchain.Address(0))})
	if err != nil {
		t.Fatal(err)
	}
	if done, err := r.admin.CancelQueued(t.Context(), tx); done || err != nil {
		t.Fatalf("cancelled in the queue: %t %v", done, err)
	}
	command, err := r.admin.AddCommand(t.Context(), r.submitters[0],
		store.Ask{Kind: txn.CommandCancel, Tx: &tx})
	if err != nil {
		t.Fatal(err)
	}
	r.startOn(c, "b", nil)
	r.eventually("the cancel is refused", func() error {
		result, done, err := r.admin.CommandResult(context.Background(), r.submitters[0], command)
		if !done || codeOf(result) != txn.ResultRefused {
			return fmt.Errorf("%q %v", result, err)
		}
		return nil
	})
	if is := r.mineUntilFinal(c, tx); is.State != txn.Confirmed || *is.Nonce != nonce {
		t.Fatalf("it ended as %s %v", is.State, is.Nonce)
	}
}

// fillBehindClient queues a cancel transaction for a nonce that a client uses after all: the pool
// has the client's transaction.
func (r *harness) fillBehindClient(c *chaintest.Chain, n *testNode) (fill txn.TxID,
	nonce txn.Nonce) {
	r.t.Helper()
	id, nonce := r.allocateNonce(n.store, "k")
	r.underReservation(r.admin, id, store.NonceAsk{Kind: txn.RequestQuarantine}, txn.Applied)
	if answer := c.Send(r.t.Context(), signFor(r.t, c, nonce, 1)); answer.Class != txn.Accepted {
		r.t.Fatalf("sent: %+v", answer)
	}
	fill, err := r.admin.QueueReserved(r.t.Context(), store.ReservedTx{Reservation: id,
		Payload: txn.CancelPayload(devchain.Address(0))})
	if err != nil {
		r.t.Fatal(err)
	}
	return fill, nonce
}

// awaitFill mines until a cancel transaction was broadcast and is in that state.
func (r *harness) awaitFill(fill txn.TxID, want txn.State, mine func()) {
	r.t.Helper()
	r.eventually("the cancel transaction is "+string(want), func() error {
		mine()
		tx, err := r.admin.Tx(context.Background(), fill)
		if err == nil && (tx.State != want || tx.LastOutcome == "") {
			err = fmt.Errorf("it is %s %s", tx.State, tx.LastOutcome)
		}
		return err
	})
}

// TestExternal_FillLostToClient_Ends: the client signed after all, and its transaction uses the
// nonce. The cancel transaction ends once no reorg can include it. Nonces are reserved meanwhile.
func TestExternal_FillLostToClient_Ends(t *testing.T) {
	t.Parallel()
	r, c := externalChain(t, 8)
	r.policy.ResubmitInterval = 10 * time.Millisecond
	r.policy.AuditDepth = r.policy.Confirmations + 20
	n := r.startOn(c, "a", nil)
	fill, nonce := r.fillBehindClient(c, n)
	state := func(mine int, want txn.State) {
		t.Helper()
		r.awaitFill(fill, want, func() { c.Mine(mine) })
	}
	state(0, txn.Allocated) // the pool has the other one
	c.Mine(1)
	used, err := c.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	state(1, txn.Stuck)
	r.nonceIs(nonce, txn.NonceAccepted, "")
	r.allocateNonce(n.store, "next")
	is := r.mineUntilFinal(c, fill)
	if is.State != txn.Failed || is.Executed != txn.No || is.Reason != txn.ReasonNonceElsewhere {
		t.Fatalf("it ended as %s, executed %s: %s", is.State, is.Executed, is.LastError)
	}
	head, err := c.Head(t.Context())
	if err != nil || head.Number < used.Number+r.policy.AuditDepth {
		t.Fatalf("it ended at block %d, nonce used at %d: %v", head.Number, used.Number, err)
	}
	info, err := r.admin.Submitter(t.Context(), r.submitters[0])
	if err != nil || info.Cursor.Protected != nil {
		t.Fatalf("protected: %+v %v", info.Cursor, err)
	}
	if found, _, err := r.admin.AuditWhole(t.Context(), r.submitters[0]); err != nil ||
		len(found) > 0 {
		t.Fatalf("audit: %v %v", found, err)
	}
}

// TestExternal_FillLostThenReorged_Fills: the client used the nonce, which was ACCEPTED. A deep
// reorg removes that transaction, so the cancel transaction fills the nonce after all.
func TestExternal_FillLostThenReorged_Fills(t *testing.T) {
	t.Parallel()
	r, c := externalChain(t, 8)
	r.policy.ResubmitInterval = 10 * time.Millisecond
	r.policy.AuditDepth = r.policy.Confirmations + 10_000
	n := r.startOn(c, "a", nil)
	fill, nonce := r.fillBehindClient(c, n)
	state := func(mine int, want txn.State) {
		t.Helper()
		r.awaitFill(fill, want, func() { c.MineEmpty(mine) })
	}
	state(0, txn.Allocated) // the pool has the other one
	used := c.Mine(1)
	state(1, txn.Stuck)
	r.nonceIs(nonce, txn.NonceAccepted, "")
	head, err := c.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Reorg(int(head.Number-used.Number)+1, chaintest.Drop); err != nil {
		t.Fatal(err)
	}
	if is := r.mineUntilFinal(c, fill); is.State != txn.Confirmed || *is.Nonce != nonce {
		t.Fatalf("it ended as %s, executed %s: %s", is.State, is.Executed, is.LastError)
	}
}

// lyingEndpoint is a wrongEndpoint that also names a user of the nonce.
type lyingEndpoint struct{ wrongEndpoint }

func (l *lyingEndpoint) Consumer(ctx context.Context, address txn.Address,
	nonce txn.Nonce) (*txn.Consumer, error) {
	block, err := l.BlockByNumber(ctx, 1)
	if !l.wrong.Load() || err != nil || block == nil {
		return l.Chain.Consumer(ctx, address, nonce)
	}
	return &txn.Consumer{Block: 1, BlockHash: block.Hash, TxHash: txn.Hash{8}}, nil
}

// TestExternal_OneEndpointWrong_FillContinues: one endpoint shows the nonce as used, and another
// one does not. The cancel transaction does not end, since no other one can fill the nonce.
func TestExternal_OneEndpointWrong_FillContinues(t *testing.T) {
	t.Parallel()
	r, memory := externalChain(t, 8)
	r.policy.ResubmitInterval = 10 * time.Millisecond
	r.policy.AuditDepth = r.policy.Confirmations + 20
	memory.Mine(int(r.policy.AuditDepth) + 10)
	c := &lyingEndpoint{wrongEndpoint{Chain: memory}}
	var sent atomic.Int32
	memory.Intercept(func(_ context.Context, call chaintest.Call) chaintest.Fault {
		if call.Method == chaintest.MethodSend && c.wrong.Load() {
			sent.Add(1)
			return chaintest.Swallow()
		}
		return chaintest.Fault{}
	})
	n := r.startNode("a", func(o *Options) { o.Chains[0].Chain = c })
	id, nonce := r.allocateNonce(n.store, "k")
	r.underReservation(r.admin, id, store.NonceAsk{Kind: txn.RequestQuarantine}, txn.Applied)
	c.wrong.Store(true)
	fill, err := r.admin.QueueReserved(t.Context(), store.ReservedTx{Reservation: id,
		Payload: txn.CancelPayload(devchain.Address(0))})
	if err != nil {
		t.Fatal(err)
	}
	least := int32(0)
	r.eventually("it is broadcast three times while it is STUCK", func() error {
		memory.Mine(1)
		is, err := r.admin.Tx(context.Background(), fill)
		switch {
		case err != nil || is.State.Final():
			return err
		case is.State == txn.Stuck && least == 0:
			least = sent.Load() + 3
		}
		if least == 0 || sent.Load() < least {
			return fmt.Errorf("%s, broadcast %d times", is.State, sent.Load())
		}
		return nil
	})
	r.nonceIs(nonce, txn.NoncePending, "")
	c.wrong.Store(false)
	if is := r.mineUntilFinal(memory, fill); is.State != txn.Confirmed || *is.Nonce != nonce {
		t.Fatalf("it ended as %s, executed %s: %s", is.State, is.Executed, is.LastError)
	}
}

// TestExternal_Reserved_NotSettled: a nonce that a client may still use is not recorded as settled,
// whatever the cursor is: else its transaction could be archived, and its bytes be erased, within
// reach of a reorg.
func TestExternal_Reserved_NotSettled(t *testing.T) {
	t.Parallel()
	r, c := externalChain(t, 8)
	r.policy.AuditDepth = r.policy.Confirmations + 6
	n := r.startOn(c, "a", func(o *Options) { o.SettleInterval = 5 * time.Millisecond })
	low, _ := r.allocateNonce(n.store, "low")
	high, _ := r.allocateNonce(n.store, "high")
	settled := func(below int) func() error {
		return func() error {
			c.Mine(1)
			if is := r.number("SELECT coalesce(max(erased_below), 0) FROM submitter_settled"); is !=
				below {
				return fmt.Errorf("settled and erased below %d", is)
			}
			return nil
		}
	}
	for nonce, id := range []txn.ReservationID{low, high} {
		r.mineUntilFinal(c, r.submitSigned(c, id, txn.Nonce(nonce), 1))
		if is := r.number("SELECT coalesce(max(settled_below), 0) FROM submitter_settled"); is !=
			nonce {
			t.Fatalf("settled below %d while nonce %d is within reach of a reorg", is, nonce)
		}
		r.eventually("it is settled", settled(nonce+1))
		if with := r.number("SELECT count(raw_tx) FROM tx_attempt"); with != 0 {
			t.Fatalf("%d attempts keep their bytes", with)
		}
	}
}

// TestFullAudit_NonceReserved_NoFalseFinding: a nonce that a client has reserved and not used is no
// difference between ledger and chain.
func TestFullAudit_NonceReserved_NoFalseFinding(t *testing.T) {
	t.Parallel()
	r, c := externalChain(t, 8)
	n := r.startOn(c, "a", nil)
	low, _ := r.allocateNonce(n.store, "low")
	r.allocateNonce(n.store, "high")
	r.mineUntilFinal(c, r.submitSigned(c, low, 0, 1))
	report, err := audit.Run(t.Context(), audit.Options{Store: r.admin, Chain: c,
		Submitter: r.submitters[0]})
	if err != nil || len(report.Violations) > 0 {
		t.Errorf("%v, %v", report.Violations, err)
	}
}

// TestSubmitSigned_HighestFirst_AllRecorded: many clients submit in any order while no node runs.
func TestSubmitSigned_HighestFirst_AllRecorded(t *testing.T) {
	t.Parallel()
	const many = 90 // more than an owner reads of a queue, and of bytes
	r, c := externalChain(t, many)
	n := r.startOn(c, "a", nil)
	ids := make([]txn.ReservationID, many)
	for i := range ids {
		var nonce txn.Nonce
		if ids[i], nonce = r.allocateNonce(n.store, fmt.Sprint(i)); int(nonce) != i {
			t.Fatalf("nonce %d instead of %d", nonce, i)
		}
		r.underReservation(n.store, ids[i], store.NonceAsk{Kind: txn.RequestRecordHash,
			Hash: signFor(t, c, nonce, 1).Hash}, txn.Applied)
	}
	n.stop()
	for i := many - 1; i >= 0; i-- {
		r.queueSigned(c, ids[i], txn.Nonce(i), 1)
	}
	r.startOn(c, "b", nil)
	r.eventually("all are recorded", func() error {
		if n := r.number("SELECT count(*) FROM tx_attempt"); n != many {
			return fmt.Errorf("%d of %d", n, many)
		}
		return nil
	})
}
