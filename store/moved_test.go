package store

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/fencepost/fencepost/txn"
)

// unseal makes the old ledger as it was before the move, as a backup of it restores it.
func (k *moveKit) unseal() {
	k.t.Helper()
	k.old.exec("ALTER TABLE submitter DISABLE TRIGGER tombstone_is_final")
	k.old.exec("ALTER TABLE submitter_lease DISABLE TRIGGER lease_is_here")
	k.old.exec("UPDATE submitter SET moved_to = NULL, move_id = NULL, status = 'ACTIVE'")
	k.old.exec("UPDATE submitter_lease SET moved_to = NULL")
	k.old.exec("ALTER TABLE submitter ENABLE TRIGGER tombstone_is_final")
	k.old.exec("ALTER TABLE submitter_lease ENABLE TRIGGER lease_is_here")
}

// TestMove_OldLedgerRestored_NotRevived: a backup from before the move has no tombstone. The
// directory gives it one, at a recovery and at the start of a node.
func TestMove_OldLedgerRestored_NotRevived(t *testing.T) {
	t.Parallel()
	k := newMoveKit(t)
	id, l := k.old.owned(k.eu, "alice")
	waits := k.old.queue(k.eu, id, "waits")
	_, err := k.prepare("alice").Run(k.ctx, time.Millisecond, k.owner(l))
	k.must(err)

	k.unseal()
	if sealed, err := k.eu.SealMoved(k.ctx); err != nil || len(sealed) != 1 {
		t.Fatalf("at the start of a node: %v %v", sealed, err)
	}
	k.refusesAll(id, l, waits.ID)
	if sealed, err := k.eu.SealMoved(k.ctx); err != nil || len(sealed) != 0 {
		t.Errorf("a second time: %v %v", sealed, err)
	}
	if sealed, err := k.us.SealMoved(k.ctx); err != nil || len(sealed) != 0 {
		t.Errorf("in the new ledger: %v %v", sealed, err)
	}

	k.unseal()
	for name, recovered := range map[string]func(*Store) error{
		"recover": func(s *Store) error { _, err := s.Recover(k.ctx); return err },
		"moved":   func(s *Store) error { _, err := s.Move(k.ctx); return err },
	} {
		alone := k.old.open("recover", k.old.asOwner, func(c *Config) { c.Adopts = true })
		if err := recovered(alone); !errors.Is(err, ErrDirectory) {
			t.Errorf("%s without the directory: %v", name, err)
		}
		k.must(recovered(k.from))
		k.refusesAll(id, l, waits.ID)
		k.unseal()
	}
	if _, err := k.us.Tx(k.ctx, waits.ID); err != nil {
		t.Errorf("the new ledger: %v", err)
	}
}

// TestSealMoved_DirectoryTablesInLedger_AsksConfigured: the directory was dumped and restored into
// another database. Its old tables, in the database of a ledger, no longer count.
func TestSealMoved_DirectoryTablesInLedger_AsksConfigured(t *testing.T) {
	t.Parallel()
	k := newMoveKit(t)
	k.old.exec("INSERT INTO directory_ledger (no, name, ledger_id) " +
		"SELECT l.directory_no, 'eu1', l.ledger_id FROM ledger l")
	alice, l := k.old.owned(k.eu, "alice")
	k.moves(k.prepare("alice"), l)
	k.unseal()
	k.old.exec("UPDATE ledger SET timeline = timeline + 1")
	sealed, err := k.eu.SealMoved(k.ctx)
	if err != nil || len(sealed) != 1 {
		t.Errorf("sealed %v %v", sealed, err)
	}
	if here, there := k.oneLedger(alice, "at the end"); here != nil || there == nil {
		t.Errorf("lease in the old ledger %t, in the new one %t", here != nil, there != nil)
	}
}

// TestMove_Recovered_LedgersContinue: a recovery of a ledger that accounts left and reached keeps
// its sequences, and leaves tombstones alone.
func TestMove_Recovered_LedgersContinue(t *testing.T) {
	t.Parallel()
	k := newMoveKit(t)
	id, l := k.old.owned(k.eu, "alice")
	waits := k.old.queue(k.eu, id, "waits")
	_, err := k.prepare("alice").Run(k.ctx, time.Millisecond, k.owner(l))
	k.must(err)
	_, err = k.from.Recover(k.ctx)
	k.must(err)
	k.refusesAll(id, l, waits.ID)
	_, err = k.to.Recover(k.ctx)
	k.must(err)
	mine := k.next.lease(k.us, id)
	if at := k.next.load(k.us, mine).Cursor.Protected; at == nil ||
		at.Reason != txn.ProtectRestored {
		t.Errorf("protection %+v", at)
	}
	for s, first := range map[*Store]txn.SubmitterID{k.eu: 2, k.us: 1 << numberBits} {
		r := registration("bob", 7)
		r.Name, r.Address[1] = r.Name+string(rune('a'+first%26)), byte(first)
		if bob, _, err := s.Register(k.ctx, r); err != nil || bob.ID < first {
			t.Errorf("%s: number %d, %v", r.Name, bob.ID, err)
		}
	}
	for i, name := range []string{"eu1", "us1"} {
		if _, err := k.join(i+1, name); err != nil {
			t.Errorf("join again: %v", err)
		}
	}
}

// TestMove_LedgerRestoredMeanwhile_Protected: transactions may be missing from the rows that
// arrive, so the account is stopped as after a recovery.
func TestMove_LedgerRestoredMeanwhile_Protected(t *testing.T) {
	t.Parallel()
	for name, restore := range map[string]func(*moveKit){
		"old ledger": func(k *moveKit) {
			k.unseal()
			_, err := k.from.SealMoved(k.ctx)
			k.must(err)
		},
		"new ledger": func(k *moveKit) {
			_, err := k.to.Recover(k.ctx)
			k.must(err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newMoveKit(t)
			id, l := k.old.owned(k.eu, "alice")
			k.old.queue(k.eu, id, "waits")
			m := k.prepare("alice")
			m.at = func(where string) error {
				if where == "before copy" {
					return errStopped
				}
				return nil
			}
			_, err := m.Run(k.ctx, time.Millisecond, k.owner(l))
			if !errors.Is(err, errStopped) {
				t.Fatal(err)
			}
			restore(k)
			moved, err := k.prepare("alice").Run(k.ctx, time.Millisecond, k.owner(l))
			if err != nil || !moved.Protected {
				t.Fatalf("%+v %v", moved, err)
			}
			here := k.next.load(k.us, k.next.lease(k.us, id))
			if here.Cursor.Protected == nil || here.Submitter.Status != txn.Paused {
				t.Errorf("cursor %+v, status %s", here.Cursor, here.Submitter.Status)
			}
		})
	}
}

// TestMove_RunningCreate_TombstoneWaits: a create that found the account here is part of the move,
// however late it commits.
func TestMove_RunningCreate_TombstoneWaits(t *testing.T) {
	t.Parallel()
	k := newMoveKit(t)
	id, l := k.old.owned(k.eu, "alice")
	m := k.prepare("alice")
	committed := make(chan error, 1)
	m.at = func(where string) error {
		if where == "before pause" && committed != nil {
			running := k.old.begin(id, "late")
			ended := committed
			committed = nil
			go func() {
				defer func() { ended <- running.Commit(k.ctx) }()
				k.old.waiting(k.from, "taker")
			}()
			t.Cleanup(func() { k.must(<-ended) })
		}
		return nil
	}
	moved, err := m.Run(k.ctx, time.Millisecond, k.owner(l))
	if err != nil || moved.Transactions != 1 {
		t.Fatalf("%+v %v", moved, err)
	}
	if tx, err := k.us.TxByRequest(k.ctx, id, "late"); err != nil || tx.State != txn.Queued {
		t.Errorf("%+v %v", tx.Status, err)
	}
}

// TestMove_Watchers_EachEventOnce: the feeds of the two ledgers have each event of an account once.
func TestMove_Watchers_EachEventOnce(t *testing.T) {
	t.Parallel()
	k := newMoveKit(t)
	before, after := k.old.follow(k.eu, 3), k.next.follow(k.us, 3)
	id, l := k.grown()
	_, err := k.prepare("alice").Run(k.ctx, time.Millisecond, k.owner(l))
	k.must(err)
	lease := k.next.lease(k.us, id)
	heads, err := k.us.Inboxes(k.ctx, []txn.SubmitterID{id}, 1)
	k.must(err)
	head := heads[id].Queue[0]
	k.next.done(k.us, lease, take(head, 8))
	k.next.queue(k.us, id, "fresh")
	before.read()
	after.read()
	before.once()
	next := map[txn.TxID]int64{}
	for _, e := range slices.Concat(before.seen, after.seen) {
		if next[e.Tx]++; e.Seq != next[e.Tx] {
			t.Errorf("event %d of %s came when %d was due", e.Seq, e.Tx, next[e.Tx])
		}
	}
	all := value[int](k.next, "SELECT count(*) FROM tx_event")
	if n := len(before.seen) + len(after.seen); n != all {
		t.Errorf("%d events were seen, the new ledger has %d", n, all)
	}
	history, err := k.us.EventsOfTx(k.ctx, head.ID, 0, 100)
	k.must(err)
	if len(history) != int(head.Version)+1 {
		t.Errorf("the new ledger has %d events of %s", len(history), head.ID)
	}
}
