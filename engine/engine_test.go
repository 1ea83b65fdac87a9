package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ethereum/go-ethereum/ethclient"

	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/engine/track"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/dbtest/pgproxy"
	"github.com/fencepost/fencepost/txn"
)

func (r *harness) chainClient() *ethclient.Client {
	c := r.dev.Client()
	r.t.Cleanup(c.Close)
	return c
}

func TestTransaction_FullLifecycle(t *testing.T) {
	t.Parallel()
	r := newHarness(t, 1, blockPeriod)
	r.startNode("a", nil)
	id := r.create(0, "one", transfer())
	tx := r.awaitFinal(id)
	want := []txn.Kind{
		txn.EventQueued,
		txn.EventAllocated,
		txn.EventSubmitted,
		txn.EventIncluded,
		txn.EventConfirmed,
	}
	if got := r.events(id); tx.State != txn.Confirmed || tx.Executed != txn.Success ||
		!slices.Equal(got, want) {
		t.Fatalf("%s, executed %s, events %v", tx.State, tx.Executed, got)
	}
}

func TestSubmitters_Concurrent_QueueOrderKept(t *testing.T) {
	t.Parallel()
	const submitters, each = 5, 8
	r := newHarness(t, submitters, blockPeriod)
	r.startNode("a", nil)
	var ids []txn.TxID
	for i := range each {
		for s := range submitters {
			ids = append(ids, r.create(s, fmt.Sprint(i), transfer()))
		}
	}
	for _, id := range ids {
		if tx := r.awaitFinal(id); tx.State != txn.Confirmed {
			t.Fatalf("%s: %s", tx.State, tx.LastError)
		}
	}
	r.checkLedger()
}

// checkLedger verifies L4 and L8.
func (r *harness) checkLedger() {
	r.t.Helper()
	for what, query := range map[string]string{
		"nonces with gaps or duplicates": "SELECT count(*) FROM (SELECT nonce, row_number() OVER " +
			"(PARTITION BY submitter_id ORDER BY nonce) - 1 AS want FROM managed_tx WHERE nonce " +
			"IS NOT NULL) q WHERE nonce <> want",
		"nonces out of queue order": "SELECT count(*) FROM (SELECT nonce, lag(nonce) OVER " +
			"(PARTITION BY submitter_id ORDER BY queue_seq) AS before FROM managed_tx WHERE " +
			"nonce IS NOT NULL) q WHERE nonce <= before",
		"events with gaps": "SELECT count(*) FROM (SELECT t.version, (SELECT count(*) " +
			"FROM tx_event e WHERE e.tx_id = t.tx_id AND e.seq BETWEEN 1 AND t.version) AS kept " +
			"FROM managed_tx t) q WHERE kept <> version",
		"more than one attempt": "SELECT count(*) FROM (SELECT tx_id FROM tx_attempt GROUP " +
			"BY tx_id HAVING count(*) > 1) q",
		"receipt of an unknown attempt": "SELECT count(*) FROM managed_tx t WHERE " +
			"receipt_tx_hash " +
			"IS NOT NULL AND NOT EXISTS " +
			"(SELECT FROM tx_attempt a WHERE a.tx_id = t.tx_id AND a.tx_hash = t.receipt_tx_hash)",
	} {
		if n := r.number(query); n != 0 {
			r.t.Errorf("%s: %d", what, n)
		}
	}
}

// TestTransaction_CrashAtEveryPoint crashes a node at each boundary of peek, sign, commit, send;
// its lease has to expire. The successor must send the recorded bytes, and each transaction is
// executed once.
func TestTransaction_CrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	for _, point := range Points {
		if slices.Contains(replacing, point) {
			continue // see TestReplacement_CrashAtEveryPoint
		}
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			const each = 3
			r := newHarness(t, 1, blockPeriod)
			var ids []txn.TxID
			for i := range each {
				ids = append(ids, r.create(0, fmt.Sprint(i), transfer()))
			}
			r.crashAt(point)
			before := r.attempts()
			released := r.number("SELECT count(*) FROM submitter_lease WHERE released")
			if released != 0 {
				t.Error("the crashed node released its lease")
			}
			r.startNode("b", nil)
			for _, id := range ids {
				if tx := r.awaitFinal(id); tx.State != txn.Confirmed {
					t.Fatalf("%s: %s", tx.State, tx.LastError)
				}
			}
			after := r.attempts()
			for id, raw := range before {
				// the bytes of settled transactions are erased
				if now := after[id]; len(now) > 0 && !bytes.Equal(now, raw) {
					t.Errorf("the recorded bytes of %s changed", id)
				}
			}
			nonce, err := r.chainClient().NonceAt(t.Context(), devchain.Address(0), nil)
			if err != nil || nonce != each || len(after) != each {
				t.Errorf("%d transactions are on chain (%v) and %d attempts in the ledger, want %d",
					nonce, err, len(after), each)
			}
			r.checkLedger()
		})
	}
}

// crashAt runs a node until the actor passes a point for the second time, with the first
// transaction in flight, and then cuts it off from the database for good.
func (r *harness) crashAt(point Point) {
	r.t.Helper()
	proxy, err := pgproxy.Start(r.db.NodeURL)
	if err != nil {
		r.t.Fatal(err)
	}
	var passed atomic.Int32
	crashed := make(chan struct{})
	n := r.startNodeOn(r.openStore("a", proxy.URL()), func(o *Options) {
		o.Gate = func(_ context.Context, at Point, _ txn.SubmitterID) error {
			if at != point || passed.Add(1) != 2 {
				return nil
			}
			proxy.Refuse()
			proxy.CutAll()
			close(crashed)
			return errors.New("crash")
		}
	})
	<-crashed
	n.stop()
	if err := proxy.Close(); err != nil {
		r.t.Fatal(err)
	}
}

// attempts returns the recorded bytes by transaction.
func (r *harness) attempts() map[string][]byte {
	r.t.Helper()
	rows, err := r.db.Pool.Query(context.Background(), "SELECT tx_id::TEXT, raw_tx FROM tx_attempt")
	if err != nil {
		r.t.Fatal(err)
	}
	defer rows.Close()
	all := map[string][]byte{}
	for rows.Next() {
		var id string
		var raw []byte
		if err := rows.Scan(&id, &raw); err != nil {
			r.t.Fatal(err)
		}
		all[id] = raw
	}
	return all
}

func TestStop_Leases_ReleasedAtOnce(t *testing.T) {
	t.Parallel()
	r := newHarness(t, 3, blockPeriod)
	n := r.startNode("a", nil)
	for s := range 3 {
		r.create(s, "one", transfer())
	}
	r.eventually("all are owned", func() error {
		if live := r.number("SELECT count(*) FROM submitter_lease WHERE expires_at > " +
			"clock_timestamp()"); live != 3 {
			return fmt.Errorf("%d are", live)
		}
		return nil
	})
	n.stop()
	if live := r.number("SELECT count(*) FROM submitter_lease WHERE expires_at > " +
		"clock_timestamp() OR NOT released"); live != 0 {
		t.Errorf("%d leases are still held", live)
	}
}

func TestIdle_SubmitterReleased_AcquiredForNewWork(t *testing.T) {
	t.Parallel()
	r := newHarness(t, 1, blockPeriod)
	r.startNode("a", func(o *Options) { o.IdleAfter = 1 })
	r.awaitFinal(r.create(0, "one", transfer()))
	r.eventually("the lease is released", func() error {
		if held := r.number("SELECT count(*) FROM submitter_lease WHERE NOT released"); held != 0 {
			return errors.New("held")
		}
		return nil
	})
	r.awaitFinal(r.create(0, "two", transfer()))
	r.checkLedger()
}

func TestReorg_BeforeFinality_ConfirmedAgain(t *testing.T) {
	t.Parallel()
	for name, transactions := range map[string]devchain.Disposition{
		"transactions return": devchain.Return,
		"transactions vanish": devchain.Drop,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newHarness(t, 1, 0)
			r.policy.Confirmations = 30
			r.startNode("a", nil)
			a, b := r.create(0, "a", transfer()), r.create(0, "b", transfer())
			r.minePendingUntil("the second is included",
				func() bool { return r.sub(b) == txn.Included })
			if err := r.dev.Reorg(r.devBlocksFrom(b), transactions); err != nil {
				t.Fatal(err)
			}
			r.eventually("the reorg is reported", func() error {
				if !slices.Contains(r.events(b), txn.EventReorged) {
					return errors.New("not yet")
				}
				return nil
			})
			r.mineUntil("both are final", func() bool { return r.sub(a) == "" && r.sub(b) == "" })
			r.checkLedger()
			for _, id := range []txn.TxID{a, b} {
				if tx := r.awaitFinal(id); tx.State != txn.Confirmed {
					t.Errorf("%s", tx.State)
				}
			}
		})
	}
}

// devBlocksFrom returns the number of blocks from the block of a transaction to the head.
func (r *harness) devBlocksFrom(id txn.TxID) int {
	r.t.Helper()
	tx, err := r.admin.Tx(r.t.Context(), id)
	if err != nil || tx.Receipt == nil {
		r.t.Fatal("no receipt", err)
	}
	head, err := r.chainClient().BlockNumber(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return int(head-tx.Receipt.BlockNumber) + 1
}

// minePendingUntil mines a block whenever a transaction is pending, and no others, so that nothing
// gets deeper than necessary.
func (r *harness) minePendingUntil(what string, condition func() bool) {
	r.t.Helper()
	chain := r.chainClient()
	r.mineUntil(what, func() bool {
		pending := uint(0)
		for pending == 0 && !condition() {
			var err error
			if pending, err = chain.PendingTransactionCount(context.Background()); err != nil {
				r.t.Fatal(err)
			}
		}
		return condition()
	})
}

// mineUntil mines one block at a time until a condition holds.
func (r *harness) mineUntil(what string, condition func() bool) {
	r.t.Helper()
	r.eventually(what, func() error {
		if condition() {
			return nil
		}
		if _, err := r.dev.Mine(1); err != nil {
			return err
		}
		return errors.New("not yet")
	})
}

func (r *harness) sub(id txn.TxID) txn.Sub {
	r.t.Helper()
	tx, err := r.admin.Tx(context.Background(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	return tx.Sub
}

// TestPanic_OneSubmitter_OthersProceed makes the owner of one submitter panic; another on the same
// node must proceed.
func TestPanic_OneSubmitter_OthersProceed(t *testing.T) {
	t.Parallel()
	r := newHarness(t, 2, blockPeriod)
	bad := r.submitters[0]
	panicked := make(chan struct{})
	var once sync.Once
	r.startNode("a", func(o *Options) {
		o.Logger = slog.New(slog.DiscardHandler)
		o.Gate = func(_ context.Context, _ Point, id txn.SubmitterID) error {
			if id == bad {
				defer once.Do(func() { close(panicked) })
				panic("a defect")
			}
			return nil
		}
	})
	r.create(0, "poison", transfer())
	<-panicked
	if tx := r.awaitFinal(r.create(1, "harmless", transfer())); tx.State != txn.Confirmed {
		t.Errorf("%s: %s", tx.State, tx.LastError)
	}
}

func newTracker(c track.Chain, p txn.Policy, now clock.Clock) *track.Tracker {
	return track.New(track.Options{
		Chain: c, Policy: p, Clock: now, Logger: slog.New(slog.DiscardHandler),
	})
}
