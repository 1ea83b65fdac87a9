package engine

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/internal/dbtest/pgproxy"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// TestLoad_ConcurrentWrites_OneSnapshot delays a load while a successor finalizes the transaction:
// the loader must not see a transaction without its attempts.
func TestLoad_ConcurrentWrites_OneSnapshot(t *testing.T) {
	t.Parallel()
	r := newHarness(t, 1, 0, dbtest.WithoutGuard())
	n := r.startNode("a", nil)
	id := r.create(0, "one", transfer())
	r.eventually("sent", r.is(id, txn.Pending))
	n.stop()
	proxy, err := pgproxy.Start(r.db.NodeURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	loader, ctx := r.openStore("loader", proxy.URL()), t.Context()
	lease, err := loader.AcquireOne(ctx, r.submitters[0])
	if err != nil || lease == nil {
		t.Fatal(err)
	}
	between := proxy.On(
		func(m pgproxy.Message) bool {
			return m.Type == 'B' && strings.Contains(m.SQL, "name: OpenAttempts ")
		},
		pgproxy.HoldBefore) // the server sees the data as of the Bind
	loaded := make(chan store.Ledger, 1)
	go func() {
		l, err := loader.Load(ctx, lease)
		if err != nil {
			t.Error(err)
		}
		loaded <- l
	}()
	r.eventually("the load is between OpenTxs and OpenAttempts", func() error {
		select {
		case <-between.Fired():
			return nil
		default:
			return context.DeadlineExceeded
		}
	})
	// The successor finalizes the transaction.
	if _, err := r.db.Pool.Exec(ctx, "UPDATE managed_tx SET state = 'CONFIRMED', sub_state = '', "+
		"executed = 'SUCCESS', version = version + 1, released_at = now(), terminal_at = now() "+
		"WHERE tx_id = $1", id.String()); err != nil {
		t.Fatal(err)
	}
	between.Release()
	l := <-loaded
	if len(l.Open) == 1 && len(l.Open[0].Attempts) == 0 {
		defer func() {
			t.Fatalf("an open transaction without attempts was loaded; Decide: "+
				"panic: %v", recover())
		}()
		txn.Decide(
			&txn.View{
				Now:       time.Now().Add(time.Hour),
				Policy:    testPolicy,
				Submitter: l.Submitter,
				Cursor:    l.Cursor,
				Open:      l.Open,
				Inclusion: func(txn.Hash) txn.Inclusion { return txn.Inclusion{} },
			},
		)
	}
}

// TestPrepare_EveryNodeRejects_NoNonce sends payloads that pass validation and are rejected by
// every pool, and a valid one behind them.
func TestPrepare_EveryNodeRejects_NoNonce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*txn.Payload)
		reason string
	}{
		"too large": {func(p *txn.Payload) {
			p.Data = make([]byte, 128<<10)
		}, txn.ReasonInvalid},
		"more gas than a block": {func(p *txn.Payload) { p.GasLimit = 100_000_000 },
			txn.ReasonInvalid},
		"more gas than a transaction may use": {func(p *txn.Payload) { p.GasLimit = 20_000_000 },
			txn.ReasonGasCap},
		"the largest gas limit": {func(p *txn.Payload) { p.GasLimit = 1<<63 - 1 },
			txn.ReasonInvalid},
		"too little gas": {func(p *txn.Payload) { p.GasLimit = 100 },
			txn.ReasonInvalid},
		"invalid opcode": {func(p *txn.Payload) {
			p.To, p.Data = nil, []byte{0xfe}
		}, txn.ReasonPrepareReverted},
		"stack underflow": {func(p *txn.Payload) {
			p.To, p.Data = nil, []byte{0x50}
		}, txn.ReasonPrepareReverted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newHarness(t, 1, blockPeriod)
			r.startNode("a", nil)
			p := transfer()
			c.change(&p)
			bad, good := r.create(0, "bad", p), r.create(0, "good", transfer())
			if tx := r.awaitFinal(good); tx.State != txn.Confirmed || *tx.Nonce != 0 {
				t.Errorf("the next one: %s, nonce %d", tx.State, *tx.Nonce)
			}
			if tx := r.awaitFinal(bad); tx.State != txn.Failed || tx.Executed != txn.No ||
				tx.Nonce != nil || tx.Reason != c.reason {
				t.Errorf("%s %s %s: %s", tx.State, tx.Executed, tx.Reason, tx.LastError)
			}
		})
	}
}
