package txn

import (
	"testing"
	"time"
)

// reorgAfterFinality removes the blocks of these final attempts.
func (w *world) reorgAfterFinality(t *testing.T, attempts ...Hash) {
	t.Helper()
	tx := w.final[0]
	w.final = nil
	w.setAudited(tx)
	w.view.Canonical = func(uint64) (Hash, bool) { return Hash{0xff}, true }
	for _, h := range attempts {
		delete(w.included, h)
	}
	w.do(t, Decide(&w.view), Outcome{}, accepted)
	w.view.Canonical = nil
	if got := w.view.Open[0]; got.State != Stuck || got.Reason != ReasonReorgedFinal ||
		got.TxHash != tx.TxHash {
		t.Fatalf("%+v", got.Status)
	}
}

// A payload was final although a cancel was signed. However often the chain flaps, this attempt is
// rebroadcast until it is final again: its cancel would end in an outcome never reported (H22). An
// operator's RETRY does not change that.
func TestReorgedFinal_FlappingChain_KeepsAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(1, policy)
	b := until[Broadcast](t, w)
	w.do(t, b, Outcome{Class: Accepted}, accepted)
	w.view.Commands = []Command{{ID: 1, Kind: CommandCancel, Tx: b.Tx.ID}}
	c := until[Broadcast](t, w)
	w.do(t, c, Outcome{Class: Accepted}, accepted)
	w.include(b.Attempt.Hash, true)
	w.mineBlocks(t, 4)
	end := w.final[0]
	if c.Attempt.Kind != Cancel || end.State != Confirmed || end.Reason != ReasonCancelLost {
		t.Fatalf("%s %+v", c.Attempt.Kind, end.Status)
	}
	w.reorgAfterFinality(t, b.Attempt.Hash)
	if got := w.runCommand(t, Command{Kind: CommandResolve, Action: ActionRetry, Tx: end.ID},
		Account{}); got != Applied {
		t.Fatal(got)
	}
	for range 3 {
		w.view.Now = w.view.Now.Add(time.Hour)
		again := until[Broadcast](t, w)
		if again.Attempt.Hash != b.Attempt.Hash {
			t.Fatalf("%s is broadcast: %+v", again.Attempt.Kind, again.Tx.Status)
		}
		w.do(t, again, Outcome{Class: Accepted}, accepted)
		w.include(b.Attempt.Hash, true)
		w.settle(t)
		if tx := w.view.Open[0]; tx.Sub != Included || tx.Reason != ReasonReorgedFinal {
			t.Fatalf("%+v", tx.Status)
		}
		delete(w.included, b.Attempt.Hash) // another reorg before it is final
		w.head++
		w.settle(t)
		if tx := w.view.Open[0]; tx.Sub != Pending || tx.Reason != ReasonReorgedFinal ||
			protected(w) == nil {
			t.Fatalf("%+v %+v", tx.Status, protected(w))
		}
	}
	w.include(b.Attempt.Hash, true)
	w.mineBlocks(t, 4)
	if got := w.final[0]; got.State != end.State || got.Reason != end.Reason ||
		got.LastError != end.LastError ||
		protected(w) != nil {
		t.Errorf("%+v %+v", got.Status, protected(w))
	}
}

// After a reorg a foreign transaction uses the nonce of a final one. The loss is found under the
// automatic protection and replaces it by one that only a decision ends, also when the transaction
// is failed first (L10).
func TestReorgedFinal_NonceUsedElsewhere(t *testing.T) {
	t.Parallel()
	for name, found := range map[string]bool{"found first": true, "failed first": false} {
		w := newWorld(1, guarded)
		w.finishAll(t)
		w.reorgAfterFinality(t, w.final[0].TxHash)
		w.elsewhere, w.consumer = 1, &Consumer{Block: 50, TxHash: Hash{0xee}}
		for range 40 {
			if !found {
				break
			}
			w.head++
			w.view.Head = w.head
			w.view.Now = w.view.Now.Add(time.Minute)
			w.do(t, Decide(&w.view), Outcome{Class: NonceTooLow}, accepted)
		}
		if tx := w.view.Open[0]; found &&
			(tx.State != Stuck || tx.Reason != ReasonNonceElsewhere ||
				protected(w).Reason != ReasonNonceElsewhere) {
			t.Fatalf("%s: %+v %+v", name, tx.Status, protected(w))
		}
		if got := w.runCommand(t, Command{Kind: CommandResolve, Action: ActionFail,
			Tx: w.view.Open[0].ID}, ahead); got != Applied {
			t.Fatalf("%s: %s", name, got)
		}
		w.mineBlocks(t, 5)
		if p := protected(w); p == nil || p.Reason != ReasonNonceElsewhere ||
			w.final[0].Executed != No {
			t.Errorf("%s: %+v %+v", name, p, w.final[0].Status)
		}
	}
}

// finalAfterRequeue is a world whose transaction became final by an attempt with a nonce that it
// had given up, and its other nonce is filled. Both blocks are gone since.
func finalAfterRequeue(t *testing.T) (w *world, ran, filled Hash) {
	t.Helper()
	w, _, ran = reallocated(t, true)
	w.include(ran, true)
	b := until[Broadcast](t, w)
	w.do(t, b, Outcome{Class: Accepted}, accepted)
	w.include(b.Attempt.Hash, true)
	w.mineBlocks(t, 2*int(guarded.Confirmations))
	if end := w.final[0]; end.State != Confirmed || end.Reason != ProtectExecutedAfterRequeue ||
		end.TxHash != ran ||
		b.Attempt.Kind != Cancel {
		t.Fatalf("%s %+v", b.Attempt.Kind, end.Status)
	}
	w.reorgAfterFinality(t, ran, b.Attempt.Hash)
	return w, ran, b.Attempt.Hash
}

// The attempt that was final is rebroadcast, and once its nonce is used, the cancel of the other.
func TestReorgedFinal_Requeued_BothNoncesFilled(t *testing.T) {
	t.Parallel()
	w, ran, filled := finalAfterRequeue(t)
	for i, want := range []Hash{ran, ran, filled, ran, filled, ran} {
		answer := NonceTooLow
		if b := until[Broadcast](t, w); b.Attempt.Hash != want {
			t.Fatalf("broadcast %d is of %s of nonce %d", i, b.Attempt.Kind, b.Attempt.Nonce)
		}
		if i == 0 || want == filled {
			answer = AlreadyKnown
		}
		w.do(t, until[Broadcast](t, w), Outcome{Class: answer}, accepted)
		w.view.Now = w.view.Now.Add(time.Hour)
	}
}

// The chain has undone the earlier execution for good. The final reason is not a deadline, because
// there was none.
func TestReorgedFinal_Requeued_Reorged(t *testing.T) {
	t.Parallel()
	w, _, filled := finalAfterRequeue(t)
	w.include(filled, true)
	w.elsewhere = 2 // a foreign transaction has its first nonce again
	w.mineBlocks(t, 2*int(guarded.Confirmations))
	if got := w.final[0]; got.State != Cancelled || got.Executed != No ||
		got.Reason != ProtectExecutedAfterRequeue ||
		got.LastError == "" {
		t.Errorf("%+v", got.Status)
	}
}

// The final reason after a reorg is the reason of the cancel, as far as it is known.
func TestReorgedFinal_CancelReason(t *testing.T) {
	t.Parallel()
	late := Terms{CancelLate: true}
	for name, c := range map[string]struct {
		tx   Tx
		want string
	}{
		"command": {Tx{Status: Status{CancelRequested: true,
			Reason: ReasonReorgedFinal}}, ReasonCancelled},
		"its deadline": {Tx{Terms: late}, ReasonDeadline},
		"deadline, reorged": {Tx{Terms: late, Status: Status{Reason: ReasonReorgedFinal}},
			ReasonDeadline},
		"it ran before": {Tx{Status: Status{Reason: ProtectExecutedAfterRequeue},
			Terms: late}, ProtectExecutedAfterRequeue},
		"executed, reorged": {Tx{Status: Status{Reason: ReasonReorgedFinal, Requeued: 1}},
			ProtectExecutedAfterRequeue},
		"reopened": {Tx{Status: Status{Reason: ProtectExecutedAfterFinal}},
			ProtectExecutedAfterFinal},
		"reopened, reorged": {Tx{Status: Status{Reason: ReasonReorgedFinal}},
			ProtectExecutedAfterFinal},
	} {
		if got, _ := c.tx.whyCancelled(); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A released transaction is reorged out together with a final one, and is to be cancelled, by
// command or by a deadline that passed while it was included. The protection forbids the cancel but
// does not wait for it: it ends when the final one is final again, and the cancel follows.
func TestReorgedFinal_HeldTransaction_ProtectionEnds(t *testing.T) {
	t.Parallel()
	for name, give := range map[string]func(*world, *Tx){
		"command": func(_ *world, tx *Tx) { tx.CancelRequested = true },
		"its deadline": func(w *world, tx *Tx) {
			tx.Terms.CancelLate, tx.Deadline = true,
				w.view.Now
		},
	} {
		w := newWorld(2, policy)
		first := until[Broadcast](t, w)
		w.do(t, first, Outcome{Class: Accepted}, accepted)
		w.include(first.Attempt.Hash, true)
		second := until[Broadcast](t, w)
		w.do(t, second, Outcome{Class: Accepted}, accepted)
		w.head += policy.Confirmations - 1
		w.include(second.Attempt.Hash, true)
		w.settle(t)
		if len(w.final) != 1 || len(w.view.Open) != 1 || !w.view.Open[0].Released {
			t.Fatalf("%s: %+v", name, w.view.Open)
		}
		give(w, &w.view.Open[0])
		delete(w.included, second.Attempt.Hash)
		w.do(t, Decide(&w.view), Outcome{}, accepted) // the reorg of its block is reported
		w.reorgAfterFinality(t, first.Attempt.Hash)
		b := until[Broadcast](t, w)
		w.do(t, b, Outcome{Class: Accepted}, accepted)
		w.include(b.Attempt.Hash, true)
		w.settle(t)
		if b.Attempt.Hash != first.Attempt.Hash || protected(w) == nil ||
			len(w.view.Open[1].Attempts) > 1 {
			t.Fatalf("%s: %+v %+v", name, b, w.view.Open)
		}
		w.finishAll(t)
		if protected(w) != nil || len(w.final) != 2 || w.final[0].State != Confirmed ||
			w.final[1].State != Cancelled {
			t.Errorf("%s: %+v, final %d, open %+v", name, protected(w), len(w.final), w.view.Open)
		}
	}
}
