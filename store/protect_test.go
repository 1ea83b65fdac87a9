package store

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/txn"
)

// protected is a submitter whose first transaction holds nonce 0 and whose cursor, at 1, is
// protected for the first time.
func (k *kit) protected(s *Store, name string) (id txn.SubmitterID, l *Lease, tx txn.Tx) {
	k.t.Helper()
	id, l = k.owned(s, name)
	tx = k.queue(s, id, "r1")
	c := take(tx, 0)
	k.done(s, l, c)
	tx = after(tx, c.Writes[0])
	k.done(
		s,
		l,
		txn.Change{
			Protect: &txn.Protection{
				Expect:   1,
				Reason:   txn.ReasonNonceElsewhere,
				Evidence: "seen twice",

				ChainNonce: new(txn.Nonce(2)),
			},
		},
	)
	return id, l, tx
}

func (k *kit) load(s *Store, l *Lease) Ledger {
	k.t.Helper()
	ledger, err := s.Load(k.ctx, l)
	k.must(err)
	return ledger
}

// chainNonce is the chain nonce of the protection in force; -1: unknown.
func (k *kit) chainNonce(s *Store, id txn.SubmitterID) int64 {
	k.t.Helper()
	info, err := s.Submitter(k.ctx, id)
	k.must(err)
	if info.Cursor.Protected == nil || info.Cursor.Protected.ChainNonce == nil {
		return -1
	}
	return int64(*info.Cursor.Protected.ChainNonce)
}

func (k *kit) gaps(s *Store, id txn.SubmitterID) (list [][2]txn.Nonce) {
	k.t.Helper()
	_, _, gaps, err := s.Waiting(k.ctx, id)
	k.must(err)
	for _, g := range gaps {
		list = append(list, [2]txn.Nonce{g.First, g.Last})
	}
	return list
}

// TestProtect_EachProtection_Counted: a decision names the protection that it is about, and a later
// one is another.
func TestProtect_EachProtection_Counted(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l, _ := k.protected(s, "alice")
	c := k.load(s, l).Cursor
	if seen := k.chainNonce(s, id); seen != 2 {
		t.Errorf("nonce on chain %d", seen)
	}
	if c.Protections != 1 || c.Protected == nil || c.Protected.ID != 1 ||
		c.Protected.Evidence != "seen twice" {
		t.Fatalf("cursor %+v %+v", c, c.Protected)
	}
	// The evidence of the one in force is not written over.
	k.want(
		k.commit(s, l,
			txn.Change{Protect: &txn.Protection{Expect: 1, Reason: "OTHER", Evidence: "x"}}),
		Conflict,
	)

	end := txn.Unprotection{ID: 1, Expect: 1, To: 1, Reason: "looked into"}
	for what, change := range map[string]func(*txn.Unprotection){
		"another protection": func(u *txn.Unprotection) { u.ID = 2 },
		"another cursor":     func(u *txn.Unprotection) { u.Expect, u.To = 2, 2 },
	} {
		wrong := end
		change(&wrong)
		t.Log(what)
		k.want(k.commit(s, l, txn.Change{Unprotect: &wrong}), Conflict)
	}
	k.done(s, l, txn.Change{Unprotect: &end})
	c = k.load(s, l).Cursor
	if c.Protected != nil || c.Protections != 1 || c.Next != 1 {
		t.Fatalf("after its end: %+v", c)
	}
	k.want(k.commit(s, l, txn.Change{Unprotect: &end}), Conflict) // none is in force
	k.done(s, l, txn.Change{Protect: &txn.Protection{Expect: 1, Reason: "AGAIN"}})
	if c = k.load(s, l).Cursor; c.Protected == nil || c.Protected.ID != 2 {
		t.Fatalf("the second one: %+v %+v", c, c.Protected)
	}
	if seen := k.chainNonce(s, id); seen != -1 {
		t.Errorf("the second one has the nonce on chain of the first: %d", seen)
	}
	k.want(k.commit(s, l, txn.Change{Unprotect: &end}), Conflict) // the first one's
}

// TestProtect_SelfEndingProtection_GivesWay: a protection that needs no decision gives way to a
// different one that was requested, and to no other.
func TestProtect_SelfEndingProtection_GivesWay(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	_, l, _ := k.protected(s, "alice")
	k.done(s, l,
		txn.Change{Unprotect: &txn.Unprotection{ID: 1, Expect: 1, To: 1, Reason: "looked into"}})
	reorged := txn.Change{
		Protect: &txn.Protection{Expect: 1, Reason: txn.ReasonReorgedFinal, Evidence: "block 7"},
	}
	k.done(s, l, reorged)
	k.want(k.commit(s, l, reorged), Conflict)
	k.done(
		s,
		l,
		txn.Change{
			Protect: &txn.Protection{Expect: 1, Reason: txn.ProtectByOperator, Evidence: "stop"},
		},
	)
	if c := k.load(s, l).Cursor; c.Protected == nil || c.Protected.ID != 3 ||
		c.Protected.Reason != txn.ProtectByOperator ||
		c.Protected.Evidence != "stop" {
		t.Fatalf("%+v %+v", c, c.Protected)
	}
	k.want(
		k.commit(
			s,
			l,
			txn.Change{
				Unprotect: &txn.Unprotection{ID: 2, Expect: 1, To: 1, Reason: "all is final again"},
			},
		),
		Conflict,
	)
	k.want(k.commit(s, l, reorged), Conflict)
}

// TestProtect_LostNonce_GivesWay: a protection that its evidence may refute gives way to one that
// names it, for any reason but a reorg.
func TestProtect_LostNonce_GivesWay(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	_, l, _ := k.protected(s, "alice") // for a nonce used elsewhere
	guard := func(replaces int64, reason string) txn.Change {
		return txn.Change{Protect: &txn.Protection{Expect: 1, Replaces: replaces, Reason: reason,
			Evidence: "new"}}
	}
	k.want(k.commit(s, l, guard(0, txn.ProtectByOperator)), Conflict)
	k.want(k.commit(s, l, guard(1, txn.ReasonReorgedFinal)), Conflict)
	k.done(s, l, guard(1, txn.ReasonNonceElsewhere))
	k.want(k.commit(s, l, guard(1, txn.ProtectByOperator)), Conflict) // it has been replaced
	k.done(s, l, guard(2, txn.ProtectByOperator))
	k.want(k.commit(s, l, guard(3, txn.ReasonNonceElsewhere)), Conflict)
	if c := k.load(s, l).Cursor; c.Protected == nil || c.Protected.ID != 3 ||
		c.Protected.Reason != txn.ProtectByOperator {
		t.Errorf("%+v %+v", c, c.Protected)
	}
}

// TestProtect_LostCommits_TakesItsPlace: any protection gives way to one for lost commits that
// names it, which marks the queue. None takes the place of that one.
func TestProtect_LostCommits_TakesItsPlace(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l, _ := k.protected(s, "alice")
	guard := func(replaces int64, reason string) txn.Change {
		return txn.Change{Protect: &txn.Protection{Expect: 1, Replaces: replaces, Reason: reason,
			Evidence: "new"}}
	}
	k.done(s, l, guard(1, txn.ProtectByOperator))
	queued := k.queue2(s, id, "r2")
	for _, replaces := range []int64{0, 1, 3} {
		k.want(k.commit(s, l, guard(replaces, txn.ProtectRestored)), Conflict)
	}
	k.done(s, l, guard(2, txn.ProtectRestored))
	for _, reason := range []string{txn.ProtectRestored, txn.ProtectByOperator,
		txn.ReasonNonceElsewhere, txn.ReasonReorgedFinal} {
		k.want(k.commit(s, l, guard(3, reason)), Conflict)
	}
	if c := k.load(s, l).Cursor; c.Protected == nil || c.Protected.ID != 3 ||
		c.Protected.Reason != txn.ProtectRestored {
		t.Errorf("%+v %+v", c, c.Protected)
	}
	if tx, err := s.Tx(k.ctx, queued.ID); err != nil || !tx.Restored {
		t.Errorf("%+v, %v", tx, err)
	}
}

// TestAlign_Gap_RecordedOnce: the cursor skips numbers by an operator's decision alone, and each is
// written down.
func TestAlign_Gap_RecordedOnce(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l, tx := k.protected(s, "alice")
	second := k.queue2(s, id, "r2")
	align := txn.Change{
		Unprotect: &txn.Unprotection{ID: 1, Expect: 1, To: 4, Reason: "three payouts by hand"},
	}
	k.done(s, l, align)
	k.want(k.commit(s, l, align), Conflict)
	if got := k.gaps(s, id); !reflect.DeepEqual(got, [][2]txn.Nonce{{1, 3}}) {
		t.Fatalf("gaps %v", got)
	}
	_, _, gaps, err := s.Waiting(k.ctx, id)
	k.must(err)
	if gaps[0].Reason != "three payouts by hand" || gaps[0].Tx != nil || gaps[0].At.IsZero() {
		t.Fatalf("gap %+v", gaps[0])
	}
	for _, skipped := range []txn.Nonce{1, 2, 3} {
		k.want(k.commit(s, l, take(second, skipped)), Conflict)
	}
	released := included(tx, 9) // a TRACKING one frees the slot
	k.done(s, l, txn.Change{Writes: []txn.Write{released}})
	k.done(s, l, take(second, 4))
	if c := k.load(s, l).Cursor; c.Next != 5 || c.LastBlock != 0 {
		t.Fatalf("cursor %+v", c)
	}
	k.lawful(s, id)
}

// queue2 queues past a protection, as a caller did whose transaction came before it.
func (k *kit) queue2(s *Store, id txn.SubmitterID, request string) txn.Tx {
	k.t.Helper()
	k.exec("ALTER TABLE submitter_nonce_cursor DISABLE TRIGGER USER")
	k.exec(
		"UPDATE submitter_nonce_cursor SET protect_reason = NULL, protect_at = NULL WHERE "+
			"submitter_id = $1",
		id)
	tx := k.queue(s, id, request)
	k.exec(
		"UPDATE submitter_nonce_cursor SET protect_reason = 'X', protect_at = clock_timestamp() "+
			"WHERE submitter_id = $1",
		id)
	k.exec("ALTER TABLE submitter_nonce_cursor ENABLE TRIGGER USER")
	return tx
}

// lawful has the auditor find nothing.
func (k *kit) lawful(s *Store, id txn.SubmitterID) {
	k.t.Helper()
	found, _, err := s.AuditWhole(k.ctx, id)
	k.must(err)
	if len(found) > 0 {
		k.t.Fatalf("the audit finds %+v", found)
	}
}

// TestLastBlock reads the block of the transaction before the cursor.
func TestLastBlock(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l := k.owned(s, "alice")
	for n, block := range []uint64{17, 23} {
		tx := k.queue(s, id, strings.Repeat("r", n+1))
		for _, write := range []func(txn.Tx) txn.Change{
			func(tx txn.Tx) txn.Change { return take(tx, txn.Nonce(n)) },
			func(tx txn.Tx) txn.Change {
				return txn.Change{Writes: []txn.Write{included(tx,
					block)}}
			},
			func(tx txn.Tx) txn.Change { return txn.Change{Writes: []txn.Write{confirmed(tx)}} },
		} {
			c := write(tx)
			k.done(s, l, c)
			tx = after(tx, c.Writes[0])
		}
		if c := k.load(s, l).Cursor; c.LastBlock != block {
			t.Fatalf("after nonce %d: %+v, want block %d", n, c, block)
		}
	}
	k.exec("UPDATE managed_tx SET requeued = 1 WHERE submitter_id = $1 AND nonce = 1", int32(id))
	if c := k.load(s, l).Cursor; c.LastBlock != 0 {
		t.Errorf(
			"it was requeued, and may be final under another nonce: %+v", c)
	}
}

// requeued is the write that gives a STUCK transaction back to the queue.
func requeued(tx txn.Tx) txn.Write {
	w := move(tx, txn.EventRequeued, txn.Queued)
	w.Next.Nonce, w.Next.Receipt = nil, nil
	w.Next.Slot, w.Next.SubmitAttempts = 0, 0
	w.Next.Released = false
	w.Next.TxHash = txn.Hash{}
	w.Next.Sub = txn.None
	w.Next.Reason, w.Next.LastError = "", ""
	w.Next.Requeued++
	return w
}

// TestRequeue: the number is written down as lost, the transaction is at its place in the queue
// again and may take another one, and its attempts count on.
func TestRequeue(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l := k.owned(s, "alice")
	tx, later := k.queue(s, id, "r1"), k.queue(s, id, "r2")
	c := take(tx, 0)
	k.done(s, l, c)
	tx = after(tx, c.Writes[0])
	stuck := move(tx, txn.EventStuck, txn.Stuck)
	stuck.Next.Reason, stuck.Next.LastError = txn.ReasonNonceElsewhere, "used by 0xabc"
	k.done(s, l, txn.Change{Writes: []txn.Write{stuck}})
	tx = after(tx, stuck)

	back := requeued(tx)
	k.done(s, l, txn.Change{Writes: []txn.Write{back}})
	k.want(k.commit(s, l, txn.Change{Writes: []txn.Write{back}}), Conflict)
	tx = after(tx, back)
	_, head, gaps, err := s.Waiting(k.ctx, id)
	k.must(err)
	if len(gaps) != 1 || gaps[0].First != 0 || gaps[0].Last != 0 || gaps[0].Tx == nil ||
		*gaps[0].Tx != tx.ID ||
		gaps[0].Reason != txn.ReasonNonceElsewhere {
		t.Fatalf("gaps %+v", gaps)
	}
	if head == nil || head.ID != tx.ID || head.Requeued != 1 || head.Nonce != nil {
		t.Fatalf("the head of the queue is %+v, and not the one that came back before %s", head,
			later.ID)
	}
	boxes, err := s.Inboxes(k.ctx, []txn.SubmitterID{id}, 1)
	k.must(err)
	if got := boxes[id].Queue[0]; !reflect.DeepEqual(got.Status, tx.Status) {
		t.Fatalf("read back %+v, want %+v", got.Status, tx.Status)
	}
	k.lawful(s, id)

	k.want(k.commit(s, l, take(tx, 0)), Conflict) // that number is gone
	again := take(tx, 1)
	again.Writes[0].Attempt = attempt(tx, 1, 2)
	again.Writes[0].Next.TxHash = again.Writes[0].Attempt.Hash
	k.done(s, l, again)
	tx = after(tx, again.Writes[0])
	ledger := k.load(s, l)
	if got := ledger.Open[0]; got.ID != tx.ID || got.Requeued != 1 || len(got.Attempts) != 2 ||
		got.Attempts[0].Nonce != 0 ||
		got.Attempts[1].No != 2 {
		t.Fatalf("loaded %+v", got)
	}
	attempts, err := s.SignedAttempts(k.ctx, l, tx.ID)
	k.must(err)
	if len(attempts) != 2 || !slices.Equal(attempts[0].Raw, tx.Attempts[0].Raw) ||
		attempts[1].Nonce != 1 {
		t.Fatalf("attempts %+v", attempts)
	}
	if _, err := s.SignedAttempts(k.ctx, &Lease{submitter: id + 1}, tx.ID); err == nil {
		t.Fatal("another submitter's lease reads signed bytes")
	}
	k.lawful(s, id)
}

// TestGap_NonceOfTransaction_Refused: the database itself refuses a gap that is none.
func TestGap_NonceOfTransaction_Refused(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l, _ := k.protected(s, "alice")
	k.done(s, l, txn.Change{Unprotect: &txn.Unprotection{ID: 1, Expect: 1, To: 5, Reason: "x"}})
	for _, c := range []struct {
		what        string
		first, last int
		word        string
	}{
		{"a number that a transaction has", 0, 0, "a transaction has one"},
		{"the cursor's", 5, 5, "not below its cursor"},
		{"a recorded one", 2, 3, "recorded as a gap already"},
		{"one around a recorded one", 0, 9, "not below its cursor"},
	} {
		_, err := k.db.Pool.Exec(k.ctx,
			"INSERT INTO nonce_gap (submitter_id, first_nonce, last_nonce, reason, "+
				"fencing_token) VALUES ($1, $2, $3, 'x', 1)",
			id, c.first, c.last)
		if !containsText(err, c.word) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	_, err := k.db.Pool.Exec(k.ctx, "UPDATE submitter_nonce_cursor SET next_nonce = 4")
	if !containsText(err, "must not fall") {
		t.Errorf("the cursor falls: %v", err)
	}
}

// TestRequeue_InGroup: each change of a group has its own gap, and one that conflicts has none.
func TestRequeue_InGroup(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	f := newFleet(k, k.open("a"), 5)
	changes := make([]txn.Change, len(f.txs))
	for i, tx := range f.txs {
		c := take(tx, 0)
		k.done(f.s, f.leases[i], c)
		tx = after(tx, c.Writes[0])
		stuck := move(tx, txn.EventStuck, txn.Stuck)
		k.done(f.s, f.leases[i], txn.Change{Writes: []txn.Write{stuck}})
		changes[i] = txn.Change{Writes: []txn.Write{requeued(after(tx, stuck))}}
	}
	stale := move(k.queue(f.s, f.ids[3], "beside"), txn.EventFailed,
		txn.Failed) // another part of the change prevents it
	stale.Version, stale.Next.Version = 2, 3
	stale.Next.Executed = txn.No
	changes[3].Writes = append(changes[3].Writes, stale)
	answers := f.together(changes)
	for i, id := range f.ids {
		f.want(answers[i].Outcome, allBut(3, Conflict)(i))
		want := map[bool]int{true: 0, false: 1}[i == 3]
		if got := len(k.gaps(f.s, id)); got != want {
			t.Errorf("submitter %d: %d gaps, want %d", id, got, want)
		}
		k.lawful(f.s, id)
	}
}

// TestCheckChange_Unlawful_NotSent: a change that breaks a law on its own never reaches the
// database.
func TestCheckChange_Unlawful_NotSent(t *testing.T) {
	t.Parallel()
	nonce := txn.Nonce(3)
	tx := txn.Tx{ID: txn.TxID{}, Status: txn.Status{State: txn.Stuck, Version: 4, Nonce: &nonce}}
	keeps := requeued(tx)
	keeps.Next.Nonce = &nonce
	loses := move(tx, txn.EventFailed, txn.Failed)
	loses.Next.Nonce = nil
	for name, c := range map[string]txn.Change{
		"a requeue that keeps its nonce": {Writes: []txn.Write{keeps}},
		"a failure that loses its nonce": {Writes: []txn.Write{loses}},
		"an end that goes back": {Unprotect: &txn.Unprotection{ID: 1, Expect: 4,
			To: 3}},
		"an end of no protection": {Unprotect: &txn.Unprotection{Expect: 4, To: 4}},
		"an end beyond all numbers": {Unprotect: &txn.Unprotection{ID: 1, Expect: 4,
			To: 1 << 63}},
		"an end and a start of a protection": {Unprotect: &txn.Unprotection{ID: 1},
			Protect: &txn.Protection{Reason: "x"}},
		"an end that takes a nonce": {Unprotect: &txn.Unprotection{ID: 1},
			Take: &txn.Take{}},
	} {
		if err := checkChange(tx.ID.Submitter(), c); err == nil {
			t.Errorf("%s is let through", name)
		}
	}
}

// TestAddCommand_ProtectTwice_OneCommand: who asks for a protection that is asked for already gets
// the same command, and the pending one keeps nonces from being taken.
func TestAddCommand_ProtectTwice_OneCommand(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l := k.owned(s, "alice")
	tx := k.queue(s, id, "r1")
	ask := Ask{
		Kind:     txn.CommandProtect,
		Action:   txn.ProtectByAudit,
		Reason:   strings.Repeat("ä", maxReason+5),
		Operator: "auditor",
	}
	first, err := s.AddCommand(k.ctx, id, ask)
	k.must(err)
	second, err := s.AddCommand(k.ctx, id, ask)
	k.must(err)
	if first != second {
		t.Fatalf("two commands, %d and %d", first, second)
	}
	k.want(k.commit(s, l, take(tx, 0)), Conflict)
	boxes, err := s.Inboxes(k.ctx, []txn.SubmitterID{id}, 1)
	k.must(err)
	if got := boxes[id].Commands; len(got) != 1 || got[0].Action != txn.ProtectByAudit ||
		got[0].Operator != "auditor" ||
		len([]rune(got[0].Reason)) != maxReason {
		t.Fatalf("commands %+v", got)
	}
	k.done(s, l, txn.Change{Commands: []txn.CommandResult{{ID: first, Result: txn.Applied}}})
	if third, err := s.AddCommand(k.ctx, id, ask); err != nil || third == first {
		t.Fatalf("after the first was applied: %d, %v", third, err)
	}

	exit, err := s.AddCommand(
		k.ctx,
		id,
		Ask{
			Kind:     txn.CommandExitProtect,
			Action:   txn.ActionAlign,
			Expect:   7,
			Reason:   "ok",
			Operator: "me",
		},
	)
	k.must(err)
	resolve, err := s.AddCommand(k.ctx, id,
		Ask{Kind: txn.CommandResolve, Tx: &tx.ID, Action: txn.ActionFail})
	k.must(err)
	list, err := s.Commands(k.ctx, id, 0, 2)
	k.must(err)
	if len(list) != 2 || list[0].ID != resolve || list[0].Tx != tx.ID || list[1].ID != exit ||
		list[1].Expect != 7 ||
		list[1].Action != txn.ActionAlign ||
		!list[1].AppliedAt.IsZero() {
		t.Fatalf("newest first: %+v", list)
	}
	list, err = s.Commands(k.ctx, id, exit, 10)
	k.must(err)
	if len(list) != 2 || list[1].ID != first || list[1].Result != txn.Applied ||
		list[1].AppliedAt.IsZero() ||
		list[1].CreatedAt.IsZero() {
		t.Fatalf("the page behind: %+v", list)
	}
	if _, err := s.AddCommand(k.ctx, id, Ask{Kind: txn.CommandResolve}); err == nil ||
		errors.Is(err, ErrUnavailable) {
		t.Fatalf("a RESOLVE of no transaction: %v", err)
	}
}

// TestWaitingAndQueueCounts reads why a submitter waits, and counts.
func TestWaitingAndQueueCounts(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l := k.owned(s, "alice")
	blocking, head, gaps, err := s.Waiting(k.ctx, id)
	if blocking != nil || head != nil || gaps != nil || err != nil {
		t.Fatalf("nothing to wait for: %v %v %v %v", blocking, head, gaps, err)
	}
	tx, queued := k.queue(s, id, "r1"), k.queue(s, id, "r2")
	c := take(tx, 0)
	k.done(s, l, c)
	tx = after(tx, c.Writes[0])
	stuck := move(tx, txn.EventStuck, txn.Stuck)
	k.done(s, l, txn.Change{Writes: []txn.Write{stuck}})
	tx = after(tx, stuck)
	if blocking, head, _, err = s.Waiting(k.ctx, id); err != nil || blocking == nil ||
		blocking.ID != tx.ID ||
		head == nil ||
		head.ID != queued.ID {
		t.Fatalf("%+v %+v %v", blocking, head, err)
	}
	other := k.submitter(s, "bob")
	k.exec("UPDATE submitter SET status = 'PAUSED' WHERE name = 'bob'")
	k.exec(
		"UPDATE managed_tx SET created_at = clock_timestamp() - INTERVAL '1 hour', fencing_token "+
			"= 1 WHERE tx_id = $1",
		queued.ID)
	k.done(s, l, txn.Change{Protect: &txn.Protection{Expect: 1, Reason: "X"}})
	got, err := s.QueueCounts(k.ctx, []txn.SubmitterID{id, other})
	k.must(err)
	if age := got.OldestQueued; age.Hours() < 1 || age.Hours() > 1.1 {
		t.Errorf("the oldest waits for %v", age)
	}
	got.OldestQueued = 0
	want := QueueCounts{Queued: 1, InFlight: 1, Stuck: 1, Protected: 1, Paused: 1, Owned: 1}
	if got != want {
		t.Fatalf("counts %+v, want %+v", got, want)
	}
	for _, poor := range []txn.Tx{queued, tx} { // whether it waits for its nonce, or has one
		w := txn.Write{Tx: poor.ID, Version: poor.Version, From: poor.State, Next: poor.Status}
		w.Next.Sub, w.Next.Reason = txn.Unfunded, txn.ReasonInsufficientFunds
		k.done(s, l, txn.Change{Writes: []txn.Write{w}})
		if got, err = s.QueueCounts(k.ctx, []txn.SubmitterID{id, other}); err != nil ||
			got.Unfunded != 1 {
			t.Fatalf("%s without funds: %+v, %v", poor.State, got, err)
		}
		k.done(
			s,
			l,
			txn.Change{
				Writes: []txn.Write{
					{Tx: poor.ID, Version: poor.Version, From: poor.State, Next: poor.Status},
				},
			},
		)
	}
	k.must(s.Release(k.ctx, []*Lease{l}))
	if got, err = s.QueueCounts(k.ctx, nil); err != nil || got != (QueueCounts{Protected: 1}) {
		t.Fatalf(
			"a node that owns nobody does not tell who is protected and owned by nobody: %+v, %v",
			got, err)
	}
	l = k.lease(s, id)

	w := included(tx, 9)
	k.done(s, l, txn.Change{Writes: []txn.Write{w}})
	if blocking, _, _, err = s.Waiting(k.ctx, id); err != nil || blocking != nil {
		t.Fatalf("what is in a block holds nobody up: %+v %v", blocking, err)
	}
}
