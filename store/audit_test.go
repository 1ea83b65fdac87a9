package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/txn"
)

// lived makes a ledger that has seen much: four nonces of final transactions, a gap of an
// operator's, a transaction that was requeued and sent again, one in flight, and two in the queue,
// one of them cancelled.
func (k *kit) lived(s *Store) (txn.SubmitterID, *Lease) {
	k.t.Helper()
	id, l := k.owned(s, "alice")
	step := func(tx txn.Tx, c txn.Change) txn.Tx {
		k.t.Helper()
		k.done(s, l, c)
		for _, w := range c.Writes {
			if w.Tx == tx.ID {
				tx = after(tx, w)
			}
		}
		return tx
	}
	one := func(w txn.Write) txn.Change { return txn.Change{Writes: []txn.Write{w}} }
	for n := range txn.Nonce(4) {
		tx := k.queue(s, id, fmt.Sprint("final ", n))
		tx = step(tx, take(tx, n))
		tx = step(tx, one(submitted(tx)))
		tx = step(tx, one(included(tx, 10+uint64(n))))
		step(tx, one(confirmed(tx)))
	}
	last := k.queue(s, id, "last")
	back := k.queue(s, id, "back")
	gone := k.queue(s, id, "gone")
	k.queue(s, id, "waits")
	step(last, txn.Change{Protect: &txn.Protection{Expect: 4, Reason: txn.ReasonNonceElsewhere}})
	step(last, txn.Change{Unprotect: &txn.Unprotection{ID: 1, Expect: 4, To: 6, Reason: "by hand"}})
	back = step(back, take(back, 6))
	back = step(back, one(move(back, txn.EventStuck, txn.Stuck)))
	back = step(back, one(requeued(back)))
	k.lapse(id)
	l = k.lease(k.open("successor"), id)
	l = k.leaseFrom(s, id)
	again := take(back, 7)
	again.Writes[0].Attempt = attempt(back, 7, 2)
	again.Writes[0].Next.TxHash = again.Writes[0].Attempt.Hash
	back = step(back, again)
	step(back, one(submitted(back)))
	if cancelled, err := s.CancelQueued(k.ctx, gone.ID); err != nil || !cancelled {
		k.t.Fatalf("cancelled %v, %v", cancelled, err)
	}
	return id, l
}

func stuck(tx txn.Tx) txn.Write { return move(tx, txn.EventStuck, txn.Stuck) }

// leaseFrom takes a lease that another node holds.
func (k *kit) leaseFrom(s *Store, id txn.SubmitterID) *Lease {
	k.t.Helper()
	k.lapse(id)
	return k.lease(s, id)
}

// TestAudit finds nothing in a ledger that has lived normally, and finds each law that is broken in
// it.
func TestAudit(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard())
	s := k.open("a")
	id, _ := k.lived(s)
	for _, from := range []txn.Nonce{0, 3, 5, 8, 4711} {
		found, next, err := s.Audit(k.ctx, id, from)
		if len(found) > 0 || next != 8 || err != nil {
			t.Fatalf("from %d: %+v, cursor %d, %v", from, found, next, err)
		}
	}
	if found, next, err := s.AuditWhole(k.ctx, id); len(found) > 0 || next != 8 || err != nil {
		t.Fatalf("the whole: %+v, cursor %d, %v", found, next, err)
	}
	if _, _, err := s.Audit(k.ctx, 4711, 0); !errors.Is(err, ErrSubmitterNotFound) {
		t.Fatalf("unknown submitter: %v", err)
	}
	if found, next, err := s.Audit(k.ctx, k.submitter(s, "new"), 0); len(found) > 0 || next != 0 ||
		err != nil {
		t.Fatalf("a submitter without a cursor: %+v %d %v", found, next, err)
	}
}

// TestAudit_BrokenLaw_Reported plants rows that no statement of the store writes.
func TestAudit_BrokenLaw_Reported(t *testing.T) {
	t.Parallel()
	const nonce = "(SELECT tx_id FROM managed_tx WHERE nonce = %d)"
	tx := func(n int) string { return fmt.Sprintf(nonce, n) }
	for _, c := range []struct {
		what, sql, law, check string // check: the key below the law, with * for the transaction
		// an audit from here does not see it any more; 0: every audit does
		from txn.Nonce
	}{
		{"a hole", "UPDATE managed_tx SET nonce = 100 WHERE nonce = 1; DELETE FROM tx_attempt " +
			"WHERE nonce = 1; UPDATE managed_tx SET nonce = NULL, state = 'CANCELLED', executed " +
			"= 'NO' WHERE nonce = 100",
			"L4", "nonce_gap/*/1/1", 2},
		{"a gap that is taken out", "DELETE FROM nonce_gap WHERE first_nonce = 4", "L4",
			"nonce_gap/*/4/5", 6},
		{"a number used twice", "INSERT INTO nonce_gap VALUES (1, 2, 2, NULL, 'x', 1)", "L4",
			"nonce_reused/*/2/0", 3},
		{"a cursor that lags", "UPDATE submitter_nonce_cursor SET next_nonce = 7", "L4",
			"cursor_behind/*/7/7", 0},
		{"a cursor that runs ahead", "UPDATE submitter_nonce_cursor SET next_nonce = 9", "L4",
			"cursor_ahead/*/9/8/8", 0},
		{"no cursor", "DELETE FROM submitter_nonce_cursor", "L4", "no_cursor/*", 0},
		{"two in flight", "UPDATE managed_tx SET state = 'TRACKING', executed = 'UNKNOWN', " +
			"released_at = NULL, terminal_at = NULL, slot = 1 WHERE nonce = 3", "L5",
			"in_flight/*/2/1", 0},
		{"a cursor of a token to come", "UPDATE submitter_nonce_cursor SET fencing_token = 99",
			"L1", "cursor_token/*/99/3", 0},
		{"a protection that was not counted", "UPDATE submitter_nonce_cursor SET protections = " +
			"0, protect_reason = 'x', protect_at = 'epoch'", "L10", "protection_count/*", 0},
		{"an event lost", "DELETE FROM tx_event WHERE seq = 3 AND tx_id = " + tx(2), "L8",
			"event_numbers/*/5/4/1/5", 3},
		{"the first event lost", "DELETE FROM tx_event WHERE seq = 1 AND tx_id = " + tx(2), "L8",
			"event_numbers/*/5/4/2/5", 3},
		{"no move event", "UPDATE managed_tx SET version = 6, state = 'STUCK', executed = " +
			"'UNKNOWN', terminal_at = NULL WHERE nonce = 2", "L8",
			"last_event/*/STUCK/UNKNOWN/CONFIRMED/SUCCESS", 3},
		{"another end", "UPDATE managed_tx SET state = 'FAILED_FINAL', executed = 'REVERTED' " +
			"WHERE nonce = 2", "L8", "last_event/*/FAILED_FINAL/REVERTED/CONFIRMED/SUCCESS", 3},
		{"a late write", "UPDATE tx_event SET fencing_token = 1 WHERE kind = 'SUBMITTED' AND " +
			"tx_id = " + tx(7), "L2", "event_token_falls/*/1", 0},
		{"an event of a token to come", "UPDATE tx_event SET fencing_token = 99 WHERE seq = 5 " +
			"AND tx_id = " + tx(2), "L1", "event_token/*/99/3", 3},
		{"a row of a token to come", "UPDATE managed_tx SET fencing_token = 99 WHERE nonce = 2",
			"L1", "event_token/*/99/3", 3},
		{"an attempt of a token to come", "UPDATE tx_attempt SET fencing_token = 99 WHERE " +
			"nonce = 2", "L1", "attempt_token/*/99/3", 3},
		{"nothing recorded", "DELETE FROM tx_attempt WHERE nonce = 2", "L3", "no_attempt/*/2", 3},
		{"recorded for another number", "UPDATE tx_attempt SET nonce = 4711 WHERE nonce = 2", "L4",
			"attempt_nonce/*/1", 3},
		{"a stranger's receipt", "UPDATE managed_tx SET receipt_tx_hash = decode(repeat('ee', " +
			"32), 'hex') WHERE nonce = 2", "L6", "receipt_hash/*", 3},
		{"a stranger's hash", "UPDATE managed_tx SET tx_hash = decode(repeat('ee', 32), 'hex') " +
			"WHERE nonce = 2", "L3", "tx_hash/*", 3},
		{"a requeue that was not counted", "UPDATE managed_tx SET requeued = 0 WHERE nonce = 7",
			"L10", "requeue_events/*/1/0", 0},
		{"a nonce given up unrecorded", "UPDATE nonce_gap SET tx_id = NULL WHERE first_nonce = 6",
			"L10", "requeue_gaps/*/1/0", 0},
		{"no first event", "DELETE FROM tx_event WHERE tx_id = (SELECT tx_id FROM " +
			"managed_tx WHERE request_id = 'waits')", "L8", "event_numbers/*/1/0/0/0", 0},
		{"no cancel event", "DELETE FROM tx_event WHERE seq = 2 AND tx_id = " +
			"(SELECT tx_id FROM managed_tx WHERE request_id = 'gone')", "L8",
			"event_numbers/*/2/1/1/1", 8},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			k := newKit(t, dbtest.WithoutGuard())
			s := k.open("a")
			id, _ := k.lived(s)
			k.exec("ALTER TABLE managed_tx DISABLE TRIGGER USER")
			k.exec("ALTER TABLE tx_attempt DISABLE TRIGGER USER")
			k.exec("ALTER TABLE nonce_gap DISABLE TRIGGER USER")
			k.exec("ALTER TABLE submitter_nonce_cursor DISABLE TRIGGER USER")
			for sql := range strings.SplitSeq(c.sql, "; ") {
				k.exec(sql)
			}
			found, _, err := s.AuditWhole(k.ctx, id)
			k.must(err)
			if !violates(found, c.law+"/"+c.check) {
				t.Errorf("the audit finds %v, want %s/%s", found, c.law, c.check)
			}
			found, _, err = s.Audit(k.ctx, id, c.from)
			k.must(err)
			if c.from > 0 && len(found) > 0 {
				t.Errorf("from %d the audit finds %+v", c.from, found)
			}
		})
	}
}

func violates(found []Violation, key string) bool {
	for _, v := range found {
		of := "-"
		if v.Tx != nil {
			of = v.Tx.String()
		}
		if v.Key() == strings.Replace(key, "*", of, 1) {
			return true
		}
	}
	return false
}

// TestDuplicateRequests_IndexBroken_Found lets a request id in twice, as an index that was built in
// another order of the language does.
func TestDuplicateRequests_IndexBroken_Found(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, other := k.submitter(s, "alice"), k.submitter(s, "bob")
	first := k.queue(s, id, "r1")
	k.queue(s, other, "r1") // of another account
	second := k.queue(s, id, "r2")
	k.exec("ALTER TABLE managed_tx DROP CONSTRAINT managed_tx_request")
	// The index still distinguishes them; the rows do not.
	k.exec("CREATE UNIQUE INDEX managed_tx_request ON managed_tx (submitter_id, request_id) " +
		"WHERE request_id <> 'r1' OR submitter_id <> 1")
	k.exec("ALTER TABLE managed_tx DISABLE TRIGGER USER")
	k.exec("UPDATE managed_tx SET request_id = 'r1' WHERE tx_id = $1", uuid.UUID(second.ID))
	found, err := s.DuplicateRequests(k.ctx)
	k.must(err)
	if len(found) != 1 || len(found[id]) != 1 {
		t.Fatalf("found %+v", found)
	}
	v := found[id][0]
	if v.Law != "L7" || *v.Tx != second.ID || v.Values[0] != "r1" ||
		v.Values[2] != uuid.UUID(first.ID) {
		t.Errorf("found %+v", v)
	}
}

// TestCollationChange_OtherVersion_Reported needs its own server: the version is of the database.
func TestCollationChange_OtherVersion_Reported(t *testing.T) {
	t.Parallel()
	k := privateKit(t, startServer(t, "", nil).URL("postgres"))
	_, err := Migrate(k.ctx, k.db.URL, k.db.Schema)
	k.must(err)
	if value[int](k, "SELECT current_setting('server_version_num')::INT") < 150000 {
		return // an older server records none
	}
	s := k.open("a")
	if change, err := s.CollationChange(k.ctx); change != "" || err != nil {
		t.Errorf("of a new database: %q, %v", change, err)
	}
	k.exec("UPDATE pg_database SET datcollversion = '1' WHERE datname = current_database()")
	if change, err := s.CollationChange(k.ctx); change == "" || err != nil {
		t.Errorf("after a change: %q, %v", change, err)
	}
}

// TestAudit_OwnerAtWork_NoViolation: an owner at work, and takeovers, are no violations.
func TestAudit_OwnerAtWork_NoViolation(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l := k.owned(s, "alice")
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			found, _, err := s.Audit(k.ctx, id, txn.Nonce(max(0, n%20-5)))
			if err != nil || len(found) > 0 {
				t.Errorf("the audit finds %+v, %v", found, err)
				return
			}
		}
	}()
	for n := range txn.Nonce(15) {
		tx := k.queue(s, id, fmt.Sprint("r", n))
		for _, write := range []func(txn.Tx) txn.Change{
			func(tx txn.Tx) txn.Change { return take(tx, n) },
			func(tx txn.Tx) txn.Change {
				return txn.Change{Writes: []txn.Write{included(tx, uint64(n))}}
			},
			func(tx txn.Tx) txn.Change { return txn.Change{Writes: []txn.Write{confirmed(tx)}} },
		} {
			c := write(tx)
			k.done(s, l, c)
			tx = after(tx, c.Writes[0])
			l = k.lease(s, id)
		}
	}
	close(stop)
	<-ended
}

// TestFinalTxs reads final transactions by nonce, with all hashes that can have been on chain.
func TestFinalTxs(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, _ := k.lived(s)
	list, err := s.FinalTxs(k.ctx, id, 1, 2)
	k.must(err)
	if len(list) != 2 || list[0].Nonce != 1 || list[1].Nonce != 2 {
		t.Fatalf("%+v", list)
	}
	got := list[0]
	if got.State != txn.Confirmed || got.Executed != txn.Success || got.Receipt == nil ||
		got.Receipt.BlockNumber != 11 ||
		len(got.Attempts) != 1 ||
		got.Attempts[0] != (AttemptHash{Kind: txn.Original, Nonce: 1, Hash: got.Receipt.TxHash}) {
		t.Fatalf("%+v", got)
	}
	if list, err = s.FinalTxs(k.ctx, id, 4, 10); err != nil || len(list) != 0 {
		t.Fatalf("a transaction in flight is listed: %+v, %v", list, err)
	}
}

// TestRequeuedTxs reads transactions that gave up their nonce and have no other, queued or
// cancelled, with their attempts.
func TestRequeuedTxs(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l := k.lived(s)
	none := func(after txn.TxID) {
		t.Helper()
		if list, err := s.RequeuedTxs(k.ctx, id, after, 10); err != nil || len(list) != 0 {
			t.Fatalf("%+v, %v", list, err)
		}
	}
	none(txn.TxID{}) // one was requeued, and has another nonce
	back := k.load(s, l).Open[0]
	for _, write := range []func(txn.Tx) txn.Write{stuck, requeued} {
		w := write(back)
		k.done(s, l, txn.Change{Writes: []txn.Write{w}})
		back = after(back, w)
	}
	for _, state := range []txn.State{txn.Queued, txn.Cancelled} {
		list, err := s.RequeuedTxs(k.ctx, id, txn.TxID{}, 10)
		k.must(err)
		if len(list) != 1 || list[0].ID != back.ID || list[0].State != state ||
			len(list[0].Attempts) != 2 ||
			list[0].Attempts[0].Nonce != 6 ||
			list[0].Attempts[1].Nonce != 7 {
			t.Fatalf("%s: %+v", state, list)
		}
		none(back.ID)
		if done, err := s.CancelQueued(k.ctx, back.ID); err != nil || done {
			t.Fatalf("a requeued transaction was cancelled as not executed: %t, %v", done, err)
		}
		if state == txn.Queued {
			w := move(back, txn.EventCancelled, txn.Cancelled)
			w.Next.Executed = txn.No
			k.done(s, l, txn.Change{Writes: []txn.Write{w}})
		}
	}
}

// TestRestored_MayHaveExecuted: a requeued transaction that was executed before becomes final with
// that receipt. It has its old nonce again, or keeps the one taken since. Either way each nonce is
// used once, and a reorg of its block is still detected.
func TestRestored_MayHaveExecuted(t *testing.T) {
	t.Parallel()
	for name, filled := range map[string]bool{"from the queue": false, "with another nonce": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			s := k.open("a")
			id, l := k.lived(s)
			tx := k.load(s, l).Open[0]
			ran := tx.Attempts[0]
			if !filled {
				ran = tx.Attempts[1]
				for _, write := range []func(txn.Tx) txn.Write{stuck, requeued} {
					w := write(tx)
					k.done(s, l, txn.Change{Writes: []txn.Write{w}})
					tx = after(tx, w)
				}
			}
			w := move(tx, txn.EventConfirmed, txn.Confirmed)
			w.Next.Sub = txn.None
			w.Next.Executed = txn.Success
			w.Next.Released = true
			w.Next.Reason = txn.ProtectExecutedAfterRequeue
			w.Next.TxHash = ran.Hash
			w.Next.Receipt = &txn.Receipt{
				TxHash:      ran.Hash,
				BlockNumber: 13,
				BlockHash:   hashOf(13),
				Success:     true,
				GasUsed:     21000,
			}
			if !filled {
				w.Next.Nonce = &ran.Nonce
			}
			k.done(s, l, txn.Change{Writes: []txn.Write{w}})
			if found, _, err := s.AuditWhole(k.ctx, id); err != nil || len(found) > 0 {
				t.Errorf("%+v, %v", found, err)
			}
			finals, err := s.RecentFinals(k.ctx, l, 8, 1)
			if k.must(err); len(finals) == 0 || finals[0].ID != tx.ID || *finals[0].Nonce != 7 {
				t.Errorf("%+v", finals)
			}
			_, _, gaps, err := s.Waiting(k.ctx, id)
			if k.must(err); len(gaps) != 2 ||
				gaps[1].First != 6 { // 4 to 5 by an operator, 6 by the transaction; but not 7
				t.Errorf("gaps %+v", gaps)
			}
		})
	}
}
