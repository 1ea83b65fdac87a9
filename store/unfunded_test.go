package store

import (
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/txn"
)

// TestMigrate_WaitingForFunds_BecomesUnfunded migrates an older ledger: rows with an older form of
// this state stay equal to their newest event, and their owner moves them as usual. Migrating back
// writes an older form again.
func TestMigrate_WaitingForFunds_BecomesUnfunded(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard()) // which knows the newest schema alone
	s := k.open("a")
	id, lease := k.owned(s, "alice")
	head, signed := k.queue(s, id, "head"), k.queue(s, id, "signed")
	k.done(s, lease, take(signed, 0))
	signed = after(signed, take(signed, 0).Writes[0])
	wait := func(tx txn.Tx, sub txn.Sub) txn.Tx {
		t.Helper()
		w := move(tx, txn.EventDelayed, tx.State)
		w.Next.Sub = sub
		w.Next.Reason, w.Next.LastOutcome = txn.ReasonInsufficientFunds, txn.InsufficientFunds
		k.done(s, lease, txn.Change{Writes: []txn.Write{w}})
		return after(tx, w)
	}
	is := func(tx txn.Tx, sub txn.Sub) {
		t.Helper()
		if got := value[string](k, "SELECT sub_state || '/' || reason FROM managed_tx WHERE "+
			"tx_id = $1", tx.ID.String()); got != string(
			sub)+"/"+txn.ReasonInsufficientFunds {
			t.Errorf("%s: %s, want %s", tx.State, got, sub)
		}
	}
	step := func(down bool) {
		t.Helper()
		k.must(withProvider(k.ctx, k.db.URL, k.db.Schema, true,
			func(p *goose.Provider) (err error) {
				if _, err = p.DownTo(k.ctx, 10); !down && err == nil {
					_, err = p.Up(k.ctx)
				}
				return err
			}))
	}
	head, signed = wait(head, txn.BackingOff), wait(signed, txn.None)
	step(false)
	is(head, txn.BackingOff)
	is(signed, txn.None)
	head, signed = wait(head, txn.Unfunded), wait(signed, txn.Unfunded)
	is(head, txn.Unfunded)
	is(signed, txn.Unfunded)
	step(true)
	is(head, txn.BackingOff)
	is(signed, txn.None)
}

// TestUnfunded_OnlyOpenTransactions: never an included or final transaction, nor a head that waits
// for another condition.
func TestUnfunded_OnlyOpenTransactions(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, lease := k.owned(s, "alice")
	head, tx := k.queue(s, id, "head"), k.queue(s, id, "signed")
	k.done(s, lease, take(tx, 0))
	tx = after(tx, take(tx, 0).Writes[0])
	unfunded := func(w txn.Write, reason string) txn.Change {
		w.Next.Sub, w.Next.Reason = txn.Unfunded, reason
		return txn.Change{Writes: []txn.Write{w}}
	}
	for name, c := range map[string]txn.Change{
		"in a block": unfunded(included(tx, 9), ""),
		"final": unfunded(failed(head, txn.ReasonInsufficientFunds),
			txn.ReasonInsufficientFunds),
		"a head that waits for another": unfunded(move(head, txn.EventDelayed, txn.Queued),
			txn.ReasonChainUnavailable),
	} {
		if outcome, err := s.Commit(lease, c); outcome != Refused {
			t.Errorf("%s: %v %v", name, outcome, err)
		}
	}
	k.done(s, lease,
		unfunded(move(head, txn.EventDelayed, txn.Queued), txn.ReasonInsufficientFunds))
	k.done(s, lease,
		unfunded(move(tx, txn.EventDelayed, txn.Allocated), txn.ReasonInsufficientFunds))
}
