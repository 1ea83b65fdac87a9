package txn

import "testing"

func TestAccountRead(t *testing.T) {
	t.Parallel()
	nonce, tx := Nonce(5), TxID{1}
	repeated := UsedNonce{Tx: tx, Head: 20, Reads: 1}
	for name, c := range map[string]struct {
		latest  Nonce
		command int64
		seen    uint64 // head of the view
		used    UsedNonce
		want    UsedNonce
		recheck bool
	}{
		"unused":           {5, 0, 10, repeated, UsedNonce{}, false},
		"used, first read": {6, 0, 10, UsedNonce{}, UsedNonce{tx, 21, 1}, true},
		"used, of another before": {6, 0, 10, UsedNonce{TxID{2}, 9, 3}, UsedNonce{tx, 21, 1},
			true},
		"used, receipts still older": {6, 0, 19, repeated, UsedNonce{tx, 20, 2}, true},
		"used, receipts are newer":   {6, 0, 20, repeated, repeated, false},
		"used, receipts remain older": {6, 0, 19, UsedNonce{tx, 20, 3}, UsedNonce{tx, 20, 3},
			false},
		"for a command": {6, 7, 10, UsedNonce{}, UsedNonce{}, false},
	} {
		v := &View{Head: c.seen, Suspicion: &Suspicion{}, Open: []Tx{{ID: tx,
			Status: Status{Nonce: &nonce, Doubted: true}}}}
		s := ReadAccount{Tx: &v.Open[0], CommandID: c.command}
		r := AccountRead(v, s, Account{Latest: c.latest, Head: 21}, c.used)
		if r.Used != c.want || r.Recheck != c.recheck || (r.Account == nil) != c.recheck ||
			r.Open[0].Doubted != c.recheck {
			t.Errorf("%s: %+v", name, r)
		}
		if r.Account != nil && r.Account.CommandID != c.command {
			t.Errorf("%s: %+v", name, r.Account)
		}
		if !v.Open[0].Doubted {
			t.Errorf("%s: the view is changed", name)
		}
	}
}
