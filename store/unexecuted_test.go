package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost/txn"
)

// unexecuted are the ways to end a transaction without a nonce that need no owner.
var unexecuted = map[string]func(k *kit, s *Store, tx txn.Tx) error{
	"cancelled": func(k *kit, s *Store, tx txn.Tx) error {
		_, err := s.CancelQueued(k.ctx, tx.ID)
		return err
	},
	"denied": func(k *kit, s *Store, tx txn.Tx) error {
		return s.DecideApproval(k.ctx, &tx, Decision{Caller: "desk"})
	},
	"not approved in time": func(k *kit, s *Store, tx txn.Tx) error {
		k.exec("UPDATE tx_approval SET expires_at = clock_timestamp() WHERE tx_id = $1",
			tx.ID.String())
		_, err := s.ExpireApprovals(k.ctx)
		return err
	},
}

// TestFailedOver_EndsWithoutOwner_Unknown: commits that a fail-over lost may have executed what is
// queued, until the account is compared with the chain.
func TestFailedOver_EndsWithoutOwner_Unknown(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id := k.submitter(s, "alice")
	for i, lost := range []bool{false, true, false} {
		k.exec("UPDATE submitter s SET timeline = l.timeline FROM ledger l")
		before := map[string]txn.Tx{}
		for name := range unexecuted {
			before[name] = k.awaiting(s, id, fmt.Sprint(name, " ", i))
		}
		if lost {
			k.exec("UPDATE ledger SET timeline = timeline + 1")
		}
		for name, end := range unexecuted {
			k.must(end(k, s, before[name]))
			got, err := s.Tx(k.ctx, before[name].ID)
			k.must(err)
			unknown := got.Executed == txn.Unknown && got.Reason == txn.ReasonRestored &&
				strings.Contains(got.LastError, "may have executed") && got.Restored
			if !got.State.Final() || unknown != lost ||
				!lost && (got.Executed != txn.No || got.Restored) {
				t.Errorf("%s, lost %v: %+v", name, lost, got.Status)
			}
		}
	}
	k.lawful(s, id)
}

// TestFailedOver_Approved_Unmarked: an approval ends nothing.
func TestFailedOver_Approved_Unmarked(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	tx := k.awaiting(s, k.submitter(s, "alice"), "one")
	k.exec("UPDATE ledger SET timeline = timeline + 1")
	k.must(s.DecideApproval(k.ctx, &tx, Decision{Approved: true, Caller: "desk"}))
	if got, err := s.Tx(k.ctx, tx.ID); err != nil || got.State != txn.Queued || got.Restored {
		t.Errorf("%+v, %v", got.Tx, err)
	}
}

// TestFailedOver_OwnerEndsUnexecuted_Conflict: an owner that has not noticed the fail-over reads
// the ledger again.
func TestFailedOver_OwnerEndsUnexecuted_Conflict(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l := k.owned(s, "alice")
	tx := k.queue(s, id, "one")
	if l := k.load(s, l); l.FailedOver || l.MayHaveLost {
		t.Errorf("before: %+v", l)
	}
	k.exec("UPDATE ledger SET timeline = timeline + 1")
	end := failed(tx, txn.ReasonDeadline)
	k.want(k.commit(s, l, txn.Change{Writes: []txn.Write{end}}), Conflict)
	if l := k.load(s, l); !l.FailedOver || !l.MayHaveLost {
		t.Errorf("after: %+v", l)
	}
	end.Next.Executed, end.Next.Reason = txn.Unknown, txn.ReasonRestored
	k.done(s, l, txn.Change{Writes: []txn.Write{end}})
	if got, err := s.Tx(k.ctx, tx.ID); err != nil || !got.Restored || got.Executed != txn.Unknown {
		t.Errorf("%+v, %v", got.Tx, err)
	}
	k.lawful(s, id)
}

// TestFailedOver_OlderProgram_Refused: no statement ends a transaction as not executed.
func TestFailedOver_OlderProgram_Refused(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	tx := k.queue(s, k.submitter(s, "alice"), "one")
	k.exec("UPDATE ledger SET timeline = timeline + 1")
	_, err := k.session().Exec(k.ctx, `UPDATE managed_tx
		SET state = 'CANCELLED', executed = 'NO', version = version + 1, cancel_requested = TRUE,
		    reason = 'CANCELLED', terminal_at = clock_timestamp()
		WHERE tx_id = $1`, tx.ID.String())
	if err == nil || !strings.Contains(err.Error(), "may have been executed") {
		t.Error(err)
	}
}

// TestMove_CancelledBeforeCompared_AsInOldLedger: a move alone loses nothing.
func TestMove_CancelledBeforeCompared_AsInOldLedger(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before string
		want   txn.Executed
	}{
		"compared":         {"SELECT", txn.No},
		"failed over":      {"UPDATE submitter SET timeline = timeline - 1", txn.Unknown},
		"moved before":     {"UPDATE submitter SET timeline = -timeline", txn.No},
		"lost before that": {"UPDATE submitter SET timeline = 1 - timeline", txn.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newMoveKit(t)
			id, l := k.grown()
			tx := k.queuedTx(id)
			k.old.exec(c.before)
			k.next.exec("UPDATE ledger SET timeline = timeline + 7, moves_timeline = timeline + 7")
			_, err := k.prepare("alice").Run(k.ctx, time.Millisecond, k.owner(l))
			k.must(err)
			if !value[bool](k.next, "SELECT s.timeline <> l.timeline FROM submitter s, ledger l "+
				"WHERE s.submitter_id = $1", id) {
				t.Error("it counts as compared")
			}
			if done, err := k.us.CancelQueued(k.ctx, tx); err != nil || !done {
				t.Fatal(done, err)
			}
			if got, err := k.us.Tx(k.ctx, tx); err != nil || got.Executed != c.want {
				t.Errorf("%+v, %v", got.Status, err)
			}
		})
	}
}
