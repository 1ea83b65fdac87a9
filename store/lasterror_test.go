package store

import (
	"testing"

	"github.com/fencepost/fencepost/txn"
)

// TestLastErrorBase reads back the recorded base, and derives the base of a row that an older
// release wrote.
func TestLastErrorBase(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l := k.owned(s, "alice")
	tx := k.queue(s, id, "1")
	w := txn.Write{Tx: tx.ID, Version: tx.Version, From: tx.State, Next: tx.Status}
	w.Next.LastError, w.Next.LastErrorBase = "a; since then b; since then c", "a; since then b"
	k.done(s, l, txn.Change{Writes: []txn.Write{w}})
	if got, err := s.Tx(k.ctx, tx.ID); err != nil || got.LastErrorBase != w.Next.LastErrorBase ||
		got.LastError != w.Next.LastError {
		t.Errorf("%q, base %q, %v", got.LastError, got.LastErrorBase, err)
	}
	// An older release has no column for the base.
	w.Next.LastError, w.Next.LastErrorBase = "x; since then y", ""
	k.done(s, l, txn.Change{Writes: []txn.Write{w}})
	if got, err := s.Tx(k.ctx, tx.ID); err != nil || got.LastErrorBase != "x" {
		t.Errorf("base %q, %v", got.LastErrorBase, err)
	}
}
