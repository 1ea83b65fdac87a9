package txn

import (
	"testing"
	"time"
)

func TestMaxAge_Included_NotStuck(t *testing.T) {
	t.Parallel()
	p := policy
	p.ResubmitMaxAge, p.Confirmations = time.Hour, 100
	w := newWorld(1, p)
	b := until[Broadcast](t, w)
	w.do(t, b, Outcome{Class: Accepted}, accepted)
	w.include(b.Attempt.Hash, true)
	w.settle(t)
	w.view.Now = w.view.Now.Add(2 * time.Hour)
	w.settle(t)
	if tx := w.view.Open[0]; tx.Sub != Included || w.kindCount(EventStuck) > 0 {
		t.Errorf("%+v", tx.Status)
	}
}

// The age counts from the first attempt of the current nonce.
func TestMaxAge_Requeued_CountsFromNonce(t *testing.T) {
	t.Parallel()
	w, _, _ := requeuedWorld(t)
	w.view.Policy.ResubmitMaxAge = time.Hour
	w.view.Now = w.view.Now.Add(2 * time.Hour)
	w.setAccount(ahead)
	w.do(t, until[Prepare](t, w), Outcome{}, accepted)
	w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
	w.settle(t)
	if tx := w.view.Open[0]; tx.State != Tracking {
		t.Errorf("past its maximum age %s after its attempt: %+v", w.view.Now.Sub(tx.newest().At),
			tx.Status)
	}
}

// After its block is reorged out, a transaction is rebroadcast with no recorded responses.
func TestReorg_ClearsOutcomes(t *testing.T) {
	t.Parallel()
	w, b := sentWorld(t, 1)
	w.include(b.Attempt.Hash, true)
	w.settle(t)
	delete(w.included, b.Attempt.Hash)
	w.do(t, Decide(&w.view), Outcome{}, accepted)
	if tx := w.view.Open[0]; tx.Sub != Pending || tx.LastOutcome != "" || tx.SubmitAttempts != 0 {
		t.Errorf("%+v", tx.Status)
	}
	if _, ok := Decide(&w.view).(Broadcast); !ok {
		t.Errorf("%T", Decide(&w.view))
	}
}

// Nothing is broadcast while an attempt from before a REQUEUE is unknown.
func TestBroadcast_EarlierAttemptUnknown_Waits(t *testing.T) {
	t.Parallel()
	w, _, old := reallocated(t, false)
	w.unknown[old] = true
	if s, ok := Decide(&w.view).(Rest); !ok {
		t.Errorf("%#v", s)
	}
	delete(w.unknown, old)
	if _, ok := Decide(&w.view).(Broadcast); !ok {
		t.Errorf("%T", Decide(&w.view))
	}
}

// Confirmations are counted above the executed attempt.
func TestFinalizeRequeued_ReportsConfirmations(t *testing.T) {
	t.Parallel()
	w, id, old := requeuedWorld(t)
	w.view.Policy.ReportConfirmations = true
	w.include(old, true)
	w.settle(t)
	w.mineBlocks(t, int(guarded.Confirmations))
	if end := w.final[0]; len(end.Above) != int(guarded.Confirmations) ||
		len(w.reported[id]) != len(end.Above) {
		t.Errorf("above %v, reported %v", end.Above, w.reported[id])
	}
}

// The consumer of another nonce proves nothing about this one, and neither do receipts older than
// the account read.
func TestResolve_IgnoresAnswersForOtherCommands(t *testing.T) {
	t.Parallel()
	w := lostNonce(t)
	w.view.Commands = []Command{
		{ID: 9, Kind: CommandResolve, Action: ActionFail, Tx: w.view.Open[0].ID},
	}
	w.view.NonceUse = &NonceUse{CommandID: 8, By: &Consumer{Block: 3, TxHash: Hash{0xee}}}
	a := ahead
	a.CommandID = 9
	w.setAccount(a)
	if s, ok := Decide(&w.view).(FindConsumer); !ok {
		t.Errorf("%#v", s)
	}
	w.view.NonceUse = &NonceUse{CommandID: 9, By: &Consumer{Block: 3, TxHash: Hash{0xee}}}
	w.view.Head = w.view.Account.Head - 1
	if r, ok := Decide(&w.view).(Record); ok && len(r.Change.Commands) > 0 {
		t.Errorf("decided by receipts up to block %d, with an account of block %d: %+v",
			w.view.Head, w.view.Account.Head, r.Change.Commands)
	}
}

// A deadline ends the queue head only when its slot is free: not while another is in flight.
func TestDeadline_QueueHead_WaitsForSlot(t *testing.T) {
	t.Parallel()
	w, b := sentWorld(t, 2)
	w.view.Queue[0].Deadline = w.view.Now
	w.settle(t)
	if len(w.final) > 0 || len(w.view.Queue) != 1 {
		t.Fatalf("%+v", w.final)
	}
	w.include(b.Attempt.Hash, true)
	w.settle(t)
	if len(w.final) != 1 || w.final[0].Reason != ReasonDeadline {
		t.Errorf("%+v", w.final)
	}
}
