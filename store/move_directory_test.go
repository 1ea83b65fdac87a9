package store

import (
	"testing"
	"time"

	"github.com/fencepost/fencepost/txn"
)

// begun makes the directory as it was when the move had begun, as a backup of it restores it.
func (k *moveKit) begun() {
	k.t.Helper()
	k.exec("UPDATE directory_move SET step = 'BEGUN', token = NULL, to_epoch = NULL")
	k.exec("UPDATE directory_account a SET no = m.from_no FROM directory_move m " +
		"WHERE m.name = a.name")
}

// noMove makes the directory as it was before the move.
func (k *moveKit) noMove() {
	k.t.Helper()
	k.begun()
	k.exec("DELETE FROM directory_move")
}

// neverJoined makes the old ledger as it was before it joined, as a backup of it restores it.
func (k *moveKit) neverJoined() {
	k.t.Helper()
	k.old.exec("UPDATE submitter SET directory_no = NULL")
	k.old.exec("UPDATE ledger SET directory_no = NULL, ledger_name = NULL")
}

// TestDirectory_RestoredWithOldLedger_JoinIsNoAnswer: both the directory and the old ledger are
// restored to before the tombstone. A ledger that joins again gives no lease before the directory
// has answered, which is once the others have joined again.
func TestDirectory_RestoredWithOldLedger_JoinIsNoAnswer(t *testing.T) {
	t.Parallel()
	for name, backup := range map[string]func(*moveKit){
		"begun":   (*moveKit).begun,
		"no move": (*moveKit).noMove,
		"no move, old ledger never joined": func(k *moveKit) {
			k.noMove()
			k.neverJoined()
		},
		"no move, old ledger never joined, recovered": func(k *moveKit) {
			k.noMove()
			k.neverJoined()
			alone := k.old.open("recover", k.old.asOwner, func(c *Config) { c.Adopts = true })
			_, err := alone.Recover(k.ctx)
			k.must(err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newMoveKit(t)
			alice, l := k.old.owned(k.eu, "alice")
			k.moves(k.prepare("alice"), l)
			k.unseal()
			k.old.exec("UPDATE ledger SET timeline = timeline + 1")
			backup(k)
			for i, name := range []string{"eu1", "us1"} {
				if _, err := k.join(i+1, name); err != nil {
					t.Errorf("join %s again: %v", name, err)
				}
				if got, err := k.eu.AcquireOne(k.ctx, alice); err != nil || got != nil {
					t.Errorf("after %s joined, the old ledger gave a lease: %v %v", name, got,
						err)
				}
			}
			sealed, err := k.eu.SealMoved(k.ctx)
			if err != nil || len(sealed) != 1 {
				t.Errorf("sealed %v %v", sealed, err)
			}
			if here, there := k.oneLedger(alice, "at the end"); here != nil || there == nil {
				t.Errorf("lease in the old ledger %t, in the new one %t", here != nil,
					there != nil)
			}
		})
	}
}

// TestMove_OlderThanJoin_NotRevived: the old ledger is restored to before it joined the directory,
// which knows it.
func TestMove_OlderThanJoin_NotRevived(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(*moveKit) error{
		"node start": func(k *moveKit) error { _, err := k.eu.SealMoved(k.ctx); return err },
		"recover":    func(k *moveKit) error { _, err := k.from.Recover(k.ctx); return err },
		"moved":      func(k *moveKit) error { _, err := k.from.Move(k.ctx); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newMoveKit(t)
			id, l := k.old.owned(k.eu, "alice")
			waits := k.old.queue(k.eu, id, "waits")
			_, err := k.prepare("alice").Run(k.ctx, time.Millisecond, k.owner(l))
			k.must(err)
			k.unseal()
			k.neverJoined()
			k.must(again(k))
			k.refusesAll(id, l, waits.ID)
			if _, err := k.join(1, "eu1"); err != nil {
				t.Errorf("join again: %v", err)
			}
			if here, there := k.oneLedger(id, name); here != nil || there == nil {
				t.Errorf("lease in the old ledger %t, in the new one %t", here != nil,
					there != nil)
			}
			if bob, _, err := k.eu.Register(k.ctx, registration("bob", 7)); err != nil ||
				bob.ID <= txn.SubmitterID(id) {
				t.Errorf("a new account: %d %v", bob.ID, err)
			}
		})
	}
}

// TestLease_NotJoined_WaitsForDirectory: a ledger that has not joined may have been restored to
// before it did. With a directory, it gives no lease and extends none before that has answered.
func TestLease_NotJoined_WaitsForDirectory(t *testing.T) {
	t.Parallel()
	d := newDirectoryKit(t, 2)
	_, err := d.join(0, "eu1")
	d.must(err)
	early := d.ledgers[1].open("a")
	bob, mine := d.ledgers[1].owned(early, "bob") // no directory is configured
	d.ledgers[1].exec("UPDATE ledger SET timeline = timeline + 1")
	us := d.node(1)
	if l, err := us.AcquireOne(d.ctx, bob); err != nil || l != nil {
		t.Errorf("a lease before the answer: %v %v", l, err)
	}
	if all, err := us.Acquire(d.ctx, []txn.SubmitterID{bob}); err != nil || len(all) > 0 {
		t.Errorf("leases before the answer: %v %v", all, err)
	}
	if left, err := us.Renew(d.ctx, []*Lease{mine}); err != nil || len(left) > 0 {
		t.Errorf("extended %v before the answer: %v", left, err)
	}
	if must, err := us.MustAskMoved(d.ctx); err != nil || !must {
		t.Errorf("must ask: %t %v", must, err)
	}
	if sealed, err := us.SealMoved(d.ctx); err != nil || len(sealed) > 0 {
		t.Errorf("sealed %v %v", sealed, err)
	}
	if l, err := us.AcquireOne(d.ctx, bob); err != nil || l == nil {
		t.Errorf("no lease after the answer: %v", err)
	}
	if must, err := us.MustAskMoved(d.ctx); err != nil || must {
		t.Errorf("must ask after the answer: %t %v", must, err)
	}
}

// TestDirectory_FirstJoin_NodesContinue: a ledger that has lost nothing joins while its nodes run,
// which have no directory configured. They keep their leases.
func TestDirectory_FirstJoin_NodesContinue(t *testing.T) {
	t.Parallel()
	d := newDirectoryKit(t, 2)
	s := d.ledgers[1].open("a")
	id, mine := d.ledgers[1].owned(s, "alice")
	_, err := d.join(1, "eu1")
	d.must(err)
	if left, err := s.Renew(d.ctx, []*Lease{mine}); err != nil || len(left) != 1 {
		t.Errorf("extended %v: %v", left, err)
	}
	if l, err := s.AcquireOne(d.ctx, id); err != nil || l == nil {
		t.Errorf("no lease: %v", err)
	}
}
