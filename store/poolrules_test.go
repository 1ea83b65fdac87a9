package store

import (
	"testing"
	"time"

	"github.com/fencepost/fencepost/txn"
)

// Pool rules are read by every owner of an account of the chain, with their age by the database's
// clock, and of no other chain.
func TestPoolRules(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id := k.submitter(s, "alice")
	l := k.lease(s, id)
	load := func(s *Store, l *Lease) txn.PoolRules {
		t.Helper()
		ledger, err := s.Load(k.ctx, l)
		k.must(err)
		return ledger.PoolRules
	}
	if r := load(s, l); r != (txn.PoolRules{}) {
		t.Fatalf("%+v before any refusal", r)
	}
	saved := txn.PoolRules{FeesAge: time.Hour}
	saved.MinPrice.SetAllOne()
	saved.MinTip.SetUint64(25e9)
	saved.GuessedTip.SetUint64(25e9)
	const chain = 31337 // of the submitter
	k.must(s.SavePoolRules(k.ctx, chain+1, txn.PoolRules{Typed: true}))
	k.must(s.SavePoolRules(k.ctx, chain, saved))
	got := load(s, l)
	if got.MinTip != saved.MinTip || got.MinPrice != saved.MinPrice ||
		got.GuessedTip != saved.GuessedTip || got.Typed || got.TypeAge != 0 ||
		got.FeesAge < time.Hour || got.FeesAge > time.Hour+time.Minute {
		t.Errorf("%+v, saved %+v", got, saved)
	}
	k.must(s.SavePoolRules(k.ctx, chain, txn.PoolRules{Typed: true, TypeAge: time.Minute}))
	k.must(s.SavePoolRules(k.ctx, chain, txn.PoolRules{Typed: true, TypeAge: time.Hour}))
	k.must(s.SavePoolRules(k.ctx, chain, txn.PoolRules{})) // of a node that does not know
	if got = load(s, l); !got.Typed || got.TypeAge < time.Minute || got.TypeAge > 2*time.Minute ||
		!got.MinTip.IsZero() {
		t.Errorf("%+v, of a type refused a minute ago", got)
	}
}
