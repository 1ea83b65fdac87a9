package store

import (
	"testing"
	"time"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/txn"
)

// paid makes a final transaction that used gas at a price, with a fee of a rollup.
func (k *kit) paid(s *Store, l *Lease, intent Intent, nonce txn.Nonce, gas, price, fee uint64) {
	k.t.Helper()
	info, _, err := s.CreateTx(k.ctx, intent)
	k.must(err)
	tx := info.Tx
	taken := take(tx, nonce)
	k.done(s, l, taken)
	tx = after(tx, taken.Writes[0])
	sent := submitted(tx)
	k.done(s, l, txn.Change{Writes: []txn.Write{sent}})
	tx = after(tx, sent)
	in := included(tx, 100)
	r := in.Next.Receipt
	r.GasUsed, r.EffectiveGasPrice = gas, *uint256.NewInt(price)
	r.More = txn.ReceiptMore{Known: true, L1Fee: *uint256.NewInt(fee)}
	k.done(s, l, txn.Change{Writes: []txn.Write{in}})
	tx = after(tx, in)
	k.done(s, l, txn.Change{Writes: []txn.Write{confirmed(tx)}})
}

func TestCosts(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	for i, name := range []string{"alice", "bob"} {
		id, l := k.owned(s, name)
		for n := range 2 {
			k.paid(s, l, Intent{Submitter: id, RequestID: string(rune('a' + n)),
				Payload: payload("x"), Caller: "shop",
				Labels: map[string]string{"customer": string(rune('0' + n))},
			}, txn.Nonce(n), 100, uint64(i+1), uint64(n)<<40)
		}
		k.queue(s, id, "queued")
	}
	k.exec("UPDATE managed_tx SET terminal_at = '2026-01-02T23:59:59Z' WHERE nonce = 0")
	k.exec("UPDATE managed_tx SET terminal_at = '2026-01-03T00:00:00Z' WHERE nonce = 1")
	const fee = "1099511627776" // 1<<40
	for name, c := range map[string]struct {
		filter CostFilter
		want   []Cost
	}{
		"account": {CostFilter{By: CostByAccount}, []Cost{
			{31337, "alice", 2, 0, "200", "200", fee}, {31337, "bob", 2, 0, "200", "400", fee}}},
		"own account": {CostFilter{By: CostByAccount, Names: []string{"bob"}}, []Cost{
			{31337, "bob", 2, 0, "200", "400", fee}}},
		"caller": {CostFilter{By: CostByCaller}, []Cost{
			{31337, "shop", 4, 0, "400", "600", "2199023255552"}}},
		"label": {CostFilter{By: CostByLabel, LabelKey: "customer"}, []Cost{
			{31337, "0", 2, 0, "200", "300", "0"},
			{31337, "1", 2, 0, "200", "300", "2199023255552"}}},
		"day": {CostFilter{By: CostByDay}, []Cost{
			{31337, "2026-01-02", 2, 0, "200", "300", "0"},
			{31337, "2026-01-03", 2, 0, "200", "300", "2199023255552"}}},
		"one day": {CostFilter{By: CostByDay,
			Before: time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC)}, []Cost{
			{31337, "2026-01-02", 2, 0, "200", "300", "0"}}},
	} {
		t.Run(name, func(t *testing.T) {
			c.filter.From = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			if c.filter.Before.IsZero() {
				c.filter.Before = time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
			}
			c.filter.Limit = 100
			got, err := s.Costs(k.ctx, c.filter)
			k.must(err)
			if len(got) != len(c.want) {
				t.Fatalf("got %+v", got)
			}
			for i := range got {
				if got[i] != c.want[i] {
					t.Errorf("got %+v, want %+v", got[i], c.want[i])
				}
			}
		})
	}
}

func TestCommitments(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard())
	s := k.open("a")
	id, l := k.owned(s, "alice")
	none, _ := k.owned(s, "bob")
	k.paid(s, l, Intent{Submitter: id, RequestID: "a", Payload: payload("x")}, 0, 100, 3, 0)
	k.exec("UPDATE managed_tx SET value = 700, created_at = clock_timestamp() - INTERVAL '12 h'")
	tx := k.queue(s, id, "b")
	k.done(s, l, take(tx, 1)) // in flight
	k.queue(s, id, "c")
	k.queue(s, id, "d")
	k.exec("UPDATE managed_tx SET value = 11 WHERE nonce IS NULL")
	k.exec("UPDATE managed_tx SET value = 5 WHERE nonce = 1")
	got, err := s.Commitments(k.ctx, []txn.SubmitterID{id, none}, nil)
	k.must(err)
	a := attempt(tx, 1, 1)
	want := new(uint256.Int).Mul(uint256.NewInt(a.GasLimit), &a.Fees.Cap)
	want.AddUint64(want, 5+2*11+2*300)
	if c := got[id]; c.Committed != *want || c.PerDay.Uint64() < 1900 || c.PerDay.Uint64() > 2000 {
		t.Errorf("commitment %s, %s per day; want %s, and 1000 in half a day",
			c.Committed.Dec(), c.PerDay.Dec(), want.Dec())
	}
	if c := got[none]; !c.Committed.IsZero() || !c.PerDay.IsZero() {
		t.Errorf("an idle account has %+v", c)
	}
}
