package txn

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// ahead is an account with each nonce below 1 used for good.
var ahead = Account{Latest: 1, Pending: 1, Settled: 1}

// requeuedWorld is a world whose first transaction lost nonce 0 and is queued again, with an
// earlier attempt. No protection is in force.
func requeuedWorld(t *testing.T) (w *world, id TxID, old Hash) {
	t.Helper()
	w = lostNonce(t)
	id, old = w.view.Open[0].ID, w.view.Open[0].newest().Hash
	for _, c := range []Command{{Kind: CommandResolve, Action: ActionRequeue, Tx: id},
		{Kind: CommandExitProtect, Action: ActionResume, Expect: 1}} {
		if got := w.runCommand(t, c, ahead); got != Applied {
			t.Fatalf("%s: %s", c.Kind, got)
		}
	}
	return w, id, old
}

// reallocated is requeuedWorld with nonce 1 taken, and optionally broadcast.
func reallocated(t *testing.T, broadcast bool) (w *world, id TxID, old Hash) {
	t.Helper()
	w, id, old = requeuedWorld(t)
	w.setAccount(ahead)
	w.do(t, until[Prepare](t, w), Outcome{}, accepted)
	if broadcast {
		w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
	}
	return w, id, old
}

func (w *world) mineBlocks(t fataler, n int) {
	t.Helper()
	for range n {
		w.head++
		w.settle(t)
	}
}

// A requeued transaction that was executed is final by that receipt. It is not sent again, and has
// its nonce again.
func TestRequeuedExecuted_FinalizedFromQueue(t *testing.T) {
	t.Parallel()
	for _, success := range []bool{true, false} {
		w, id, old := requeuedWorld(t)
		w.include(old, success)
		w.settle(t)
		tx := w.view.Queue[0]
		if p := protected(w); p == nil || p.Reason != ProtectExecutedAfterRequeue ||
			tx.State != Queued ||
			tx.Reason != ProtectExecutedAfterRequeue ||
			tx.LastError == "" {
			t.Fatalf("%+v %+v", p, tx.Status)
		}
		w.mineBlocks(t, int(guarded.Confirmations)-1)
		if len(w.final) > 0 {
			t.Fatalf("final before its block: %+v", w.final[0].Status)
		}
		// The decision holds, although the block is not final yet.
		if got := w.runCommand(t,
			Command{Kind: CommandExitProtect, Action: ActionResume, Expect: 2},
			ahead); got != Applied {
			t.Fatal(got)
		}
		if w.settle(t); protected(w) != nil || len(w.nonces) != 1 {
			t.Fatalf("%+v, nonces %v", protected(w), w.nonces)
		}
		w.mineBlocks(t, 1)
		want := map[bool]Status{true: {State: Confirmed, Executed: Success},
			false: {State: Failed, Executed: Reverted}}[success]
		end := w.final[0]
		if end.ID != id || end.State != want.State || end.Executed != want.Executed ||
			end.Reason != ProtectExecutedAfterRequeue ||
			*end.Nonce != 0 ||
			!end.Released ||
			end.Receipt.TxHash != old ||
			end.TxHash != old {
			t.Errorf("%+v", end.Status)
		}
		if len(w.gaps) > 0 {
			t.Errorf("nonce 0 is its own again, and there are gaps %v", w.gaps)
		}
	}
}

// A nonce taken since the requeue is filled by a cancel, accepted payload or not, before it is
// final.
func TestRequeuedExecuted_NonceFilled(t *testing.T) {
	t.Parallel()
	for _, broadcast := range []bool{true, false} {
		w, id, old := reallocated(t, broadcast)
		payload := w.view.Open[0].newest().Hash
		w.view.Policy.Stuck = true
		w.include(old, true)
		b := until[Broadcast](t, w)
		if p := protected(w); p == nil || p.Reason != ProtectExecutedAfterRequeue ||
			b.Attempt.Kind != Cancel ||
			b.Attempt.Nonce != 1 ||
			b.Tx.State != Stuck ||
			b.Tx.Reason != ProtectExecutedAfterRequeue {
			t.Fatalf("%+v, broadcasts %+v of %+v", p, b.Attempt, b.Tx.Status)
		}
		if got := w.runCommand(t,
			Command{Kind: CommandExitProtect, Action: ActionResume, Expect: 2},
			ahead); got != Applied {
			t.Fatal(got)
		}
		w.settle(t)
		w.view.Now = w.view.Now.Add(time.Hour) // due again
		w.mineBlocks(t, 3*int(guarded.Confirmations))
		if len(w.final) > 0 || protected(w) != nil {
			t.Fatalf("final before nonce 1 is used, or protected again: %+v",
				protected(w))
		}
		w.include(b.Attempt.Hash, true)
		w.mineBlocks(t, int(guarded.Confirmations))
		end := w.final[0]
		if end.ID != id || end.State != Confirmed || end.Executed != Success || *end.Nonce != 1 ||
			end.Receipt.TxHash != old ||
			end.Reason != ProtectExecutedAfterRequeue ||
			protected(w) != nil {
			t.Errorf("%+v %+v", end.Status, protected(w))
		}
		if len(w.policyAsked) > 0 {
			t.Error("a policy was asked after the decision")
		}
		if w.included[payload] != nil || !slices.Equal(w.gaps, []Nonce{0}) {
			t.Errorf("gaps %v", w.gaps)
		}
	}
}

// The other attempt may still be included first: that is reported, and never as a clean success.
func TestRequeuedExecuted_Twice(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, after bool
		want          Executed
		says          string
	}{
		"both":          {true, true, Success, "TWICE"},
		"before, alone": {true, false, Success, "under nonce 0"},
		"after, alone":  {false, true, Success, ""},
		"both reverted": {false, false, Reverted, "reverted"},
	} {
		w, _, old := reallocated(t, true)
		own := w.view.Open[0].newest().Hash
		w.include(old, c.before)
		w.include(own, c.after)
		w.mineBlocks(t, int(guarded.Confirmations))
		if p := protected(w); p == nil || p.Reason != ProtectExecutedAfterRequeue {
			t.Errorf("%s: %+v", name, p)
		}
		// the event of the loss: an included transaction keeps its state
		if n := w.kindCount(EventStuck); n != 1 {
			t.Errorf("%s: STUCK %d times", name, n)
		}
		end := w.final[0]
		if end.Executed != c.want || !strings.Contains(end.LastError, c.says) ||
			(c.says == "") != (end.Reason == "") ||
			*end.Nonce != 1 {
			t.Errorf("%s: %+v", name, end.Status)
		}
	}
}

// Under another protection nothing is signed, and nothing that could run twice is broadcast.
func TestRequeuedExecuted_OtherProtection(t *testing.T) {
	t.Parallel()
	w, _, old := reallocated(t, false)
	if got := w.runCommand(t, Command{Kind: CommandProtect, Reason: "moving keys"},
		ahead); got != Applied {
		t.Fatal(got)
	}
	w.include(old, true)
	w.view.Now = w.view.Now.Add(time.Hour)
	w.view.Open[0].Turn = Turn{Claimed: true, Action: StuckRetry, KeepNewest: true}
	w.settle(t)
	if tx := w.view.Open[0]; tx.Turn != (Turn{}) || tx.State != Stuck ||
		tx.Reason != ProtectExecutedAfterRequeue ||
		len(tx.Attempts) != 2 ||
		tx.SubmitAttempts != 0 ||
		protected(w).ID != 2 {
		t.Fatalf("%+v, %d attempts, %+v", tx.Status, len(tx.Attempts), protected(w))
	}
	for _, c := range []Command{{Kind: CommandResolve, Action: ActionRetry, Tx: w.view.Open[0].ID},
		{Kind: CommandResolve, Action: ActionRequeue, Tx: w.view.Open[0].ID}} {
		if got := w.runCommand(t, c, ahead); !strings.HasPrefix(got, ResultRefused) {
			t.Errorf("%s: %s", c.Action, got)
		}
	}
	if got := w.runCommand(t, Command{Kind: CommandExitProtect, Action: ActionResume, Expect: 2},
		ahead); got != Applied {
		t.Fatal(got)
	}
	if got := w.runCommand(t, Command{Kind: CommandSpeedUp, Tx: w.view.Open[0].ID},
		ahead); got != Applied ||
		w.view.Open[0].newest().Kind != Cancel {
		t.Errorf("%s %+v", got, w.view.Open[0].newest())
	}
	if b := until[Broadcast](t, w); b.Attempt.Kind != Cancel {
		t.Errorf("%+v", b.Attempt)
	}
}

// An owner that finds the execution late, with its block final, still emits the event first.
func TestRequeuedExecuted_EventFirst(t *testing.T) {
	t.Parallel()
	for name, queued := range map[string]bool{"queued": true, "in a block": false} {
		w, _, old := requeuedWorld(t)
		if !queued {
			w, _, old = reallocated(t, true)
			w.include(w.view.Open[0].newest().Hash, true)
			w.settle(t)
		}
		w.include(old, true)
		w.head += 2 * guarded.Confirmations
		w.settle(t)
		if p := protected(w); p == nil || p.Reason != ProtectExecutedAfterRequeue ||
			len(w.final) != 1 {
			t.Errorf("%s: %+v, %d final", name, p, len(w.final))
		}
	}
}

// An automatic protection accepts no operator decision: another one replaces it.
func TestRequeuedExecuted_Resolve(t *testing.T) {
	t.Parallel()
	w, _, old := requeuedWorld(t)
	cursor := *w.view.Cursor
	cursor.Protections, cursor.Protected = 2, &Protected{
		ID:       2,
		Reason:   ReasonReorgedFinal,
		Evidence: "blocks left",
	}
	w.view.Cursor = &cursor
	w.view.Open = []Tx{
		{
			ID: TxID{2},
			Status: Status{
				State:    Tracking,
				Sub:      Included,
				Reason:   ReasonReorgedFinal,
				Nonce:    new(Nonce),
				Released: true,
			},
		},
	} // keeps the protection in force
	w.include(old, true)
	w.do(t, Decide(&w.view), Outcome{}, accepted)
	if p := protected(w); p == nil || p.ID != 3 || p.Reason != ProtectExecutedAfterRequeue {
		t.Errorf("%+v", p)
	}
}

// One attempt is final; while another is not, or is unknown, no outcome is reported.
func TestRequeuedExecuted_UnknownAttempt_Waits(t *testing.T) {
	t.Parallel()
	w, _, old := reallocated(t, true)
	own := w.view.Open[0].newest().Hash
	w.unknown[old] = true
	if got := w.runCommand(t, Command{Kind: CommandSpeedUp, Tx: w.view.Open[0].ID},
		ahead); !strings.HasPrefix(got, ResultRefused) {
		t.Errorf("an attempt is unknown, and another was signed: %s", got)
	}
	w.include(own, true)
	w.mineBlocks(t, int(guarded.Confirmations))
	if len(w.final) > 0 {
		t.Fatalf("an attempt is unknown: %+v", w.final[0].Status)
	}
	delete(w.unknown, old)
	w.include(old, true)
	w.settle(t)
	if len(w.final) > 0 {
		t.Fatalf("an attempt is not final: %+v", w.final[0].Status)
	}
	w.mineBlocks(t, int(guarded.Confirmations))
	if len(w.final) != 1 {
		t.Fatal("it does not end")
	}

	w, _, old = requeuedWorld(t)
	second := Attempt{No: 2, Kind: Original, Nonce: 0, Hash: Hash{0xcd}}
	w.view.Queue[0].Attempts = append(w.view.Queue[0].Attempts, second)
	w.include(old, false)
	w.settle(t)
	w.unknown[second.Hash] = true
	w.mineBlocks(t, int(guarded.Confirmations))
	if len(w.final) > 0 {
		t.Fatalf("an attempt is unknown: %+v", w.final[0].Status)
	}
	delete(w.unknown, second.Hash)
	w.include(second.Hash, true) // it succeeded, which counts
	w.mineBlocks(t, int(guarded.Confirmations))
	if end := w.final[0]; end.State != Confirmed || end.TxHash != second.Hash {
		t.Errorf("%+v", end.Status)
	}
}

// The chain undoes the execution after the cancel was signed: nothing was executed, and the final
// reason explains why.
func TestRequeuedExecuted_Reorged(t *testing.T) {
	t.Parallel()
	w, _, old := reallocated(t, true)
	w.include(old, true)
	b := until[Broadcast](t, w)
	w.do(t, b, Outcome{Class: Accepted}, accepted)
	delete(w.included, old)
	w.include(b.Attempt.Hash, true)
	w.mineBlocks(t, int(guarded.Confirmations))
	if end := w.final[0]; end.State != Cancelled || end.Executed != No ||
		end.Reason != ProtectExecutedAfterRequeue {
		t.Errorf("%+v", end.Status)
	}
}

func TestNewest_SameNonce(t *testing.T) {
	t.Parallel()
	tx := Tx{Attempts: []Attempt{{No: 1, Nonce: 4}, {No: 2, Nonce: 7}}}
	for nonce, no := range map[Nonce]int{4: 1, 7: 2} {
		if tx.Nonce = &nonce; tx.newest().No != no {
			t.Errorf("nonce %d: %+v", nonce, tx.newest())
		}
	}
}

// A second loss protects it already, and the attempt from before the first REQUEUE is included. No
// decision can report it as not executed.
func TestResolve_RequeuedExecuted(t *testing.T) {
	t.Parallel()
	old := Attempt{No: 1, Kind: Original, Nonce: 77, Hash: Hash{0xab}, Raw: []byte{1}}
	used := Account{Latest: 90, Pending: 90, Settled: 90}
	for name, c := range map[string]struct {
		action  Action
		success bool
		blocks  uint64
		account Account
		want    State // STUCK: refused
	}{
		"fail":            {ActionFail, true, 3, used, Confirmed},
		"fail, reverted":  {ActionFail, false, 3, used, Failed},
		"fail, not final": {ActionFail, true, 2, used, Stuck},
		"fail, not used": {ActionFail, true, 3,
			Account{Latest: 77, Pending: 77, Settled: 77}, Stuck},
		"fail unproven":    {ActionFailUnproven, true, 3, used, Confirmed},
		"requeue":          {ActionRequeue, true, 30, used, Stuck},
		"requeue unproven": {ActionRequeueUnproven, true, 30, used, Stuck},
	} {
		w := lostNonce(t)
		tx := &w.view.Open[0]
		id := tx.ID
		tx.Attempts, tx.Requeued = append([]Attempt{old}, tx.Attempts...), 1
		w.include(old.Hash, c.success)
		w.head += c.blocks
		if w.settle(t); w.view.Open[0].Reason != ReasonNonceElsewhere {
			t.Errorf("%s: reason of the wait is %s", name, w.view.Open[0].Reason)
		}
		got := w.runCommand(t, Command{Kind: CommandResolve, Action: c.action, Tx: id}, c.account)
		if (got == Applied) != (c.want != Stuck) {
			t.Errorf("%s: %s", name, got)
			continue
		}
		if c.want == Stuck {
			continue
		}
		end := w.final[0]
		if end.State != c.want || end.Receipt.TxHash != old.Hash ||
			end.Reason != ProtectExecutedAfterRequeue ||
			*end.Nonce != 0 ||
			(end.Executed == Success) != c.success {
			t.Errorf("%s: %+v", name, end.Status)
		}
	}
	// An unknown attempt delays the decision.
	w := lostNonce(t)
	w.view.Open[0].Attempts, w.view.Open[0].Requeued = append(
		[]Attempt{old},
		w.view.Open[0].Attempts...), 1
	w.unknown[old.Hash] = true
	w.view.Commands = []Command{
		{ID: 5, Kind: CommandResolve, Action: ActionFail, Tx: w.view.Open[0].ID},
	}
	used.CommandID = 5
	w.setAccount(used)
	if step, ok := Decide(&w.view).(Rest); !ok {
		t.Errorf("%#v while an attempt is unknown", step)
	}
}

// A cancel of a requeued transaction is pending until all its attempts are proven not executed.
func TestCancel_Requeued(t *testing.T) {
	t.Parallel()
	cancelling := func() (*world, TxID, Hash) {
		w, id, old := requeuedWorld(t)
		w.view.Submitter.Status = Paused // final in the queue despite the pause
		if got := w.runCommand(t, Command{Kind: CommandCancel, Tx: id}, ahead); got != Applied ||
			!w.view.Queue[0].CancelRequested {
			t.Fatalf("%s %+v", got, w.view.Queue[0].Status)
		}
		return w, id, old
	}
	w, id, _ := cancelling()
	if look, ok := Decide(&w.view).(ReadAccount); !ok || look.Tx.ID != id ||
		look.Depth != guarded.Confirmations {
		t.Fatalf("%#v", Decide(&w.view))
	}
	w.settle(t)
	if end := w.final[0]; end.State != Cancelled || end.Executed != No ||
		end.Reason != ReasonCancelled ||
		end.Nonce != nil {
		t.Errorf("%+v", end.Status)
	}

	w, _, old := cancelling()
	w.unknown[old] = true
	if w.settle(t); len(w.final) > 0 {
		t.Errorf("one attempt is unknown: %+v", w.final[0].Status)
	}
	delete(w.unknown, old)
	w.include(old, true)
	w.settle(t)
	w.mineBlocks(t, int(guarded.Confirmations))
	if end := w.final[0]; end.State != Confirmed || end.Executed != Success {
		t.Errorf("it ran: %+v", end.Status)
	}

	w, _, _ = cancelling() // the chain no longer shows its old nonce as used
	w.elsewhere = 0
	w.view.Cursor.Next = 0 // used by onChain
	w.settle(t)
	if tx := w.view.Queue[0]; len(w.final) > 0 || tx.Reason != ReasonChainBehind ||
		!tx.Due.After(w.view.Now) {
		t.Errorf("its bytes may still run: %+v", tx.Status)
	}
	w.elsewhere = 1
	w.view.Now = w.view.Queue[0].Due
	if w.settle(t); w.final[0].State != Cancelled {
		t.Errorf("%+v", w.final[0].Status)
	}
}

// A requeued transaction that is not proven unexecuted is neither final by a deadline or maximum
// wait nor sent again.
func TestRequeued_Unproven_NotFinalized(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(*world){
		"deadline": func(w *world) { w.view.Queue[0].Deadline = w.view.Now.Add(-time.Second) },
		"prepare limit": func(w *world) {
			w.view.Policy.PrepareMaxAge, w.view.Queue[0].WaitingSince = time.Second,
				w.view.Now.Add(-time.Hour)
		},
		"nothing": func(*world) {},
	} {
		for _, settled := range []Nonce{0, 1} {
			w, _, old := requeuedWorld(t)
			before(w)
			w.unknown[old] = true
			if _, ok := Decide(&w.view).(Rest); !ok {
				t.Errorf("%s: %#v while an attempt is unknown", name, Decide(&w.view))
			}
			delete(w.unknown, old)
			w.view.Account = nil
			w.apply(t, AccountReadFailed(&w.view, ReadAccount{Tx: &w.view.Queue[0]}, "down"))
			if len(w.final) > 0 {
				t.Errorf("%s: final without an account read", name)
				continue
			}
			w.view.Queue[0].Due = w.view.Now
			w.setAccount(Account{Latest: 1, Pending: 1, Settled: settled})
			if early := w.view; settled > 0 {
				early.Head = w.head - guarded.Confirmations - 1
				if r, ok := Decide(&early).(Record); !ok ||
					r.Change.Writes[0].Next.Reason != ReasonChainBehind {
					t.Errorf("%s: %#v while the receipts are not known up to there", name,
						Decide(&early))
				}
			}
			w.do(t, Decide(&w.view), Outcome{Class: Accepted},
				Preparation{Outcome: Outcome{Class: Unavailable}})
			sure := settled > 0
			if ended := len(w.final) > 0; ended != (sure && name != "nothing") {
				t.Errorf("%s, settled %d: final %v", name, settled, ended)
			}
			if !sure && w.view.Queue[0].Reason != ReasonChainBehind {
				t.Errorf("%s: %+v", name, w.view.Queue[0].Status)
			}
		}
	}
}

// It has its nonce again, and then its block is reorged out: it is final as FAILED, and not
// requeued again.
func TestRequeue_ReusedNonce_Refused(t *testing.T) {
	t.Parallel()
	w, id, old := requeuedWorld(t)
	w.include(old, true)
	w.settle(t)
	w.mineBlocks(t, int(guarded.Confirmations))
	end := w.final[0]
	w.view.Open = nil
	w.setAudited(end)
	w.view.Canonical = func(uint64) (Hash, bool) { return Hash{0xff}, true }
	delete(w.included, old)
	w.do(t, Decide(&w.view), Outcome{}, accepted)
	if tx := w.view.Open[0]; tx.State != Stuck || tx.Reason != ReasonReorgedFinal ||
		*tx.Nonce != 0 {
		t.Fatalf("%+v", tx.Status)
	}
	if got := w.runCommand(t, Command{Kind: CommandResolve, Action: ActionRequeue, Tx: id},
		ahead); !strings.HasPrefix(got, ResultRefused) {
		t.Error(got)
	}
	if got := w.runCommand(t, Command{Kind: CommandResolve, Action: ActionFail, Tx: id},
		ahead); got != Applied ||
		w.final[1].Executed != No {
		t.Errorf("%s", got)
	}
}
