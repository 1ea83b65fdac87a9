package txn

import (
	"testing"
	"time"
)

// What is in a block is not overdue.
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

// Its age is that of the first form for the nonce that it has.
func TestMaxAge_Requeued_CountsFromNonce(t *testing.T) {
	t.Parallel()
	w, _, _ := givenBack(t)
	w.view.Policy.ResubmitMaxAge = time.Hour
	w.view.Now = w.view.Now.Add(2 * time.Hour)
	w.look(ahead)
	w.do(t, until[Prepare](t, w), Outcome{}, accepted)
	w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
	w.settle(t)
	if tx := w.view.Open[0]; tx.State != Tracking {
		t.Errorf("overdue %s after its form was made: %+v", w.view.Now.Sub(tx.newest().At),
			tx.Status)
	}
}

// What left its block is handed over as one that nobody has answered about yet.
func TestReorg_ClearsOutcomes(t *testing.T) {
	t.Parallel()
	w, b := sent(t, 1)
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

// While a form of before a REQUEUE is in doubt nothing is handed over.
func TestBroadcast_EarlierAttemptUnknown_Waits(t *testing.T) {
	t.Parallel()
	w, _, old := takenAnew(t, false)
	w.unknown[old] = true
	if s, ok := Decide(&w.view).(Rest); !ok {
		t.Errorf("%#v", s)
	}
	delete(w.unknown, old)
	if _, ok := Decide(&w.view).(Broadcast); !ok {
		t.Errorf("%T", Decide(&w.view))
	}
}

// The blocks above are those of the form that ran.
func TestFinalizeRequeued_ReportsConfirmations(t *testing.T) {
	t.Parallel()
	w, id, old := givenBack(t)
	w.view.Policy.ReportConfirmations = true
	w.include(old, true)
	w.settle(t)
	w.blocks(t, int(guarded.Confirmations))
	if end := w.final[0]; len(end.Above) != int(guarded.Confirmations) ||
		len(w.told[id]) != len(end.Above) {
		t.Errorf("above %v, told %v", end.Above, w.told[id])
	}
}

// Who used another nonce proves nothing about this one, nor do receipts that are older than the
// look at the account.
func TestResolve_IgnoresAnswersForOtherCommands(t *testing.T) {
	t.Parallel()
	w := lost(t)
	w.view.Commands = []Command{
		{ID: 9, Kind: CommandResolve, Action: ActionFail, Tx: w.view.Open[0].ID},
	}
	w.view.NonceUse = &NonceUse{CommandID: 8, By: &Consumer{Block: 3, TxHash: Hash{0xee}}}
	a := ahead
	a.CommandID = 9
	w.look(a)
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

// The head of the queue ends by its deadline when its turn has come: as long as something is in
// flight it may not.
func TestDeadline_QueueHead_WaitsForSlot(t *testing.T) {
	t.Parallel()
	w, b := sent(t, 2)
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
