package audit

import (
	"slices"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// TestNew compares records with keys by key, and records of older releases by text.
func TestNew(t *testing.T) {
	t.Parallel()
	tx, other := txn.TxID{1}, txn.TxID{2}
	events := func(of txn.TxID, counted int64) store.Violation {
		return store.Violation{
			Law: "L8", Check: "event_numbers", Tx: &of, What: "words of today",
			Values: []any{int64(5), counted, int64(1), int64(5)},
		}
	}
	const former = "L8: transaction 01000000-0000-0000-0000-000000000000: " +
		"it has version 5 and 4 events, numbered 1 to 5"
	if !strings.HasPrefix(former, "L8: transaction "+tx.String()) {
		t.Fatal(tx.String())
	}
	found := []store.Violation{events(tx, 4), events(tx, 3), events(other, 4)}
	for name, c := range map[string]struct {
		past []store.PastProtection
		want []store.Violation
	}{
		"no protection": {nil, found},
		"its key": {[]store.PastProtection{{Violations: []string{found[0].Key()}}},
			found[1:]},
		"several keys": {[]store.PastProtection{{Violations: []string{"L4/x/-", found[2].Key()}},
			{Violations: []string{found[1].Key()}}}, found[:1]},
		"other keys, but its words": {[]store.PastProtection{
			{Evidence: former, Violations: []string{"L4/no_cursor/-"}}}, found},
		"no keys, its former words": {[]store.PastProtection{{Evidence: former}}, found[1:]},
		"no keys, its former words among others": {[]store.PastProtection{
			{Evidence: "L4: nonces are in use, and there is no cursor; " + former +
				"; and 3 more"}},
			found[1:]},
		"no keys, other words": {[]store.PastProtection{{Evidence: Describe(found[0])}}, found},
	} {
		got := New(found, c.past)
		if !slices.EqualFunc(got, c.want,
			func(a, b store.Violation) bool { return a.Key() == b.Key() }) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	v := store.Violation{Law: "L4", Check: "no_cursor", What: "there is no cursor"}
	if got := Describe(v); got != "L4: there is no cursor" {
		t.Error(got)
	}
	v.Tx = &txn.TxID{1}
	if got := Describe(v); got != "L4: transaction "+v.Tx.String()+": there is no cursor" {
		t.Error(got)
	}
}

// TestAccountWatch needs two reads at different blocks, and no fewer.
func TestAccountWatch(t *testing.T) {
	t.Parallel()
	at := func(head uint64, latest, pending txn.Nonce) *txn.Account {
		return &txn.Account{Head: head, Latest: latest, Pending: pending}
	}
	for name, c := range map[string]struct {
		reads []*txn.Account
		next  []txn.Nonce // the cursor's, after each read
		found bool        // by the last
	}{
		"mined": {[]*txn.Account{at(1, 6, 6), at(2, 6, 6)}, []txn.Nonce{5, 5},
			true},
		"in the pool": {[]*txn.Account{at(1, 5, 6), at(2, 5, 6)}, []txn.Nonce{5, 5},
			true},
		"ours": {[]*txn.Account{at(1, 5, 5), at(2, 5, 5)}, []txn.Nonce{5, 5},
			false},
		"ours, in flight": {[]*txn.Account{at(1, 4, 5), at(2, 4, 5)}, []txn.Nonce{5, 5},
			false},
		"one read": {[]*txn.Account{at(1, 6, 6)}, []txn.Nonce{5}, false},
		"at one block": {[]*txn.Account{at(1, 6, 6), at(1, 6, 6)}, []txn.Nonce{5, 5},
			false},
		"at an older block": {[]*txn.Account{at(2, 6, 6), at(1, 6, 6)}, []txn.Nonce{5, 5},
			false},
		"taken back in between": {[]*txn.Account{at(1, 6, 6), at(2, 5, 5), at(3, 6, 6)},
			[]txn.Nonce{5, 5, 5}, false},
		"no answer in between": {[]*txn.Account{at(1, 6, 6), nil, at(3, 6, 6)},
			[]txn.Nonce{5, 5, 5}, true},
		"the cursor has moved on": {[]*txn.Account{at(1, 6, 6), at(2, 6, 6)}, []txn.Nonce{5, 6},
			false},
	} {
		var w AccountWatch
		var ahead *Ahead
		for i, account := range c.reads {
			ahead = w.Ahead(account, c.next[i])
		}
		if (ahead != nil) != c.found {
			t.Errorf("%s: %+v", name, ahead)
		}
	}
}
