package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// mirror compares the memory of an owner with the ledger after each commit, in the goroutine of the
// owner.
type mirror struct {
	t        *testing.T
	e        *Engine
	compared atomic.Int32
	reload   func(*actor) bool // reports whether to drop the memory now, as after a conflict
}

func (m *mirror) gate(ctx context.Context, at Point, id txn.SubmitterID) error {
	if at != AfterRecord && at != AfterAllocate && at != AfterRecordSend && at != BeforeStep {
		return nil
	}
	m.e.router.mu.Lock()
	a := m.e.router.actors[id]
	m.e.router.mu.Unlock()
	switch {
	case a == nil || !a.loaded:
	case at == BeforeStep:
		if m.reload != nil && m.reload(a) {
			a.loaded = false
		}
	default:
		// the owner itself retries a failed load
		if ledger, err := m.e.Store.Load(ctx, a.lease); err == nil {
			m.compare(a, ledger)
		}
	}
	return nil
}

func (m *mirror) compare(a *actor, ledger store.Ledger) {
	m.compared.Add(1)
	memory, truth := *a.ledger.Cursor, *ledger.Cursor
	for _, c := range []*txn.Cursor{&memory, &truth} {
		if c.Protected != nil {
			p := *c.Protected
			p.At, c.Protected = time.Time{}, &p
			p.Tx = txn.TxID{} // not read with the cursor
		}
	}
	if !reflect.DeepEqual(memory, truth) {
		m.t.Errorf("the cursor in memory is %+v, in the ledger %+v", memory, truth)
	}
	show := func(txs []txn.Tx) (lines []string) {
		for _, tx := range txs {
			tx.RefusedAt, tx.RefusedSince = 0, time.Time{} // not stored
			tx.Doubted, tx.Unsent = false, false
			lines = append(
				lines,
				fmt.Sprintf("%s %d %s %s %d %d %v %+v %q %d attempts", tx.ID, *tx.Nonce, tx.State,
					tx.Sub, tx.Version, tx.Requeued, tx.Released, tx.Receipt, tx.Reason,
					len(tx.Attempts)),
			)
		}
		return lines
	}
	if got, want := show(a.ledger.Open), show(ledger.Open); !slices.Equal(got, want) {
		m.t.Errorf("in flight by memory:\n%q\nby the ledger:\n%q", got, want)
	}
}

// mirrored starts a node whose memory is compared.
func (w *sharedKeyHarness) mirrored(m *mirror) *testNode {
	w.t.Helper()
	m.t = w.t
	n := w.startNode(fmt.Sprint("m", w.nodes), func(o *Options) {
		o.Chains[0].Chain = w.chain
		o.Gate = func(ctx context.Context, at Point, id txn.SubmitterID) error {
			return m.gate(ctx, at, id)
		}
	})
	m.e = n.engine
	return n
}

// TestActor_Memory_MatchesLedger takes a submitter through a reorg, a protection and its decisions,
// and compares memory and ledger after each commit.
func TestActor_Memory_MatchesLedger(t *testing.T) {
	t.Parallel()
	w := newSharedKeyHarness(t)
	m := &mirror{}
	w.mirrored(m)
	w.confirmOne("one")
	id := w.create(0, "two", transfer())
	w.eventually("it is sent", w.is(id, txn.Pending))
	in := w.chain.Mine(1)
	w.eventually("it is included", w.is(id, txn.Included))
	err := w.chain.Reorg(int(w.chain.MineEmpty(1).Number-in.Number)+1, chaintest.Drop)
	if err != nil {
		t.Fatal(err)
	}
	w.eventually("the reorg is reported", w.is(id, txn.Pending))
	w.chain.ForgetPool()
	w.inject(w.foreignTx(1))
	w.inject(w.foreignTx(2))
	w.chain.Mine(1)
	w.awaitProtected(txn.ReasonNonceElsewhere)
	w.chain.MineEmpty(int(w.policy.AuditDepth))
	w.want(w.resolve(txn.ActionRequeue, id), txn.Applied)
	w.want(w.exit(txn.ActionAlign), txn.Applied)
	behind := w.create(0, "three", transfer())
	w.finish(id)
	w.finish(behind)
	w.want(w.decide(store.Ask{Kind: txn.CommandProtect}), txn.Applied)
	if got := m.compared.Load(); got < 15 {
		t.Errorf("only %d comparisons", got)
	}
}

// TestNonceUse_LedgerReloaded_Discarded: another owner may have acted since it was found.
func TestNonceUse_LedgerReloaded_Discarded(t *testing.T) {
	t.Parallel()
	w := newSharedKeyHarness(t)
	var reloads, kept atomic.Int32
	w.mirrored(&mirror{reload: func(a *actor) bool {
		n := reloads.Load()
		if n > 0 && a.nonceUse != nil {
			kept.Add(1)
		}
		if n == 3 {
			return false
		}
		a.nonceUse = &txn.NonceUse{}
		return reloads.Add(1) > 0
	}})
	w.confirmOne("one")
	if reloads.Load() != 3 || kept.Load() > 0 {
		t.Errorf("%d reloads, kept %d times", reloads.Load(), kept.Load())
	}
}

// TestRequeue_LedgerReloaded_StillConfirmed makes the owner read its ledger again while a requeued
// transaction waits.
func TestRequeue_LedgerReloaded_StillConfirmed(t *testing.T) {
	t.Parallel()
	w := newSharedKeyHarness(t)
	var reloads atomic.Int32
	m := &mirror{reload: func(a *actor) bool {
		waits := len(a.inbox.Queue) > 0 && len(a.inbox.Queue[0].Attempts) > 0
		return waits && reloads.Add(1) <= 3
	}}
	w.mirrored(m)
	w.confirmOne("one")
	id := w.create(0, "two", transfer())
	w.eventually("it is sent", w.is(id, txn.Pending))
	w.inject(w.foreignTx(1))
	w.chain.Mine(1)
	w.awaitProtected(txn.ReasonNonceElsewhere)
	w.chain.MineEmpty(int(w.policy.AuditDepth))
	w.want(w.resolve(txn.ActionRequeue, id), txn.Applied)
	w.want(w.exit(txn.ActionResume), txn.Applied)
	if tx := w.finish(id); tx.State != txn.Confirmed || reloads.Load() < 3 {
		t.Errorf("%+v after %d reloads", tx.Status, reloads.Load())
	}
}

// TestFail_ViewBehindAccount_WaitsForNextBlock submits a decision that needs receipts as new as the
// account read, while the view of the chain is one block older. Only the next block can wake the
// owner.
func TestFail_ViewBehindAccount_WaitsForNextBlock(t *testing.T) {
	t.Parallel()
	w := newSharedKeyHarness(t)
	w.policy.ResubmitInterval = time.Hour
	n := w.startNode("a", func(o *Options) {
		o.Chains[0].Chain = w.chain
		o.PollInterval = time.Hour
	})
	create := func(request string) txn.TxID {
		t.Helper()
		tx, _, err := n.store.CreateTx(t.Context(),
			// wakes the owner
			store.Intent{Submitter: w.submitters[0], RequestID: request, Payload: transfer()})
		if err != nil {
			t.Fatal(err)
		}
		return tx.ID
	}
	first := create("one")
	w.eventually("it is sent", w.is(first, txn.Pending))
	w.chain.Mine(1)
	w.chain.MineEmpty(3)
	w.awaitFinal(first)
	var once sync.Once
	var mode atomic.Int32
	var receipts atomic.Int32
	w.chain.Intercept(func(_ context.Context, call chaintest.Call) chaintest.Fault {
		switch {
		case call.Method == chaintest.MethodSend && mode.Load() == 0:
			once.Do(func() { w.inject(w.foreignTx(1)); w.chain.Mine(1) })
		case call.Method == chaintest.MethodSend:
			return chaintest.Swallow() // the next rebroadcast is an hour away
		case call.Method == chaintest.MethodReceipts:
			receipts.Add(1)
		case call.Method == chaintest.MethodHead && mode.Load() == 2:
			return chaintest.Lag(1)
		}
		return chaintest.Fault{}
	})
	id := create("two")
	w.awaitProtected(txn.ReasonNonceElsewhere)
	mode.Store(1)
	w.eventually("it rests", func() error {
		var due bool
		err := w.db.Pool.QueryRow(context.Background(),
			"SELECT due_at > now() + interval '1 minute' FROM managed_tx WHERE tx_id = $1",
			id.String()).Scan(
			&due,
		)
		if err == nil && !due {
			err = errors.New("not yet")
		}
		return err
	})
	mode.Store(2)
	w.chain.MineEmpty(1)
	before := receipts.Load()
	command, err := n.store.AddCommand(t.Context(), w.submitters[0],
		store.Ask{Kind: txn.CommandResolve, Action: txn.ActionFail, Tx: &id})
	if err != nil {
		t.Fatal(err)
	}
	w.eventually("the receipts are read again", func() error {
		if receipts.Load() == before {
			return errors.New("not yet")
		}
		return nil
	})
	if result, done, err := w.admin.CommandResult(t.Context(), w.submitters[0], command); done ||
		err != nil {
		t.Fatalf("%s %v before the view reached the block of the account", result, err)
	}
	w.chain.MineEmpty(1)
	if tx := w.awaitFinal(id); tx.State != txn.Failed {
		t.Errorf("%+v", tx.Status)
	}
}

// TestAccountRead_StateChanged_Discarded verifies that an account read on an abandoned branch, or
// before a decision, is not evidence afterwards.
func TestAccountRead_StateChanged_Discarded(t *testing.T) {
	t.Parallel()
	nonce := txn.Nonce(3)
	id, err := txn.NewTxID(time.Unix(1, 0), 1)
	if err != nil {
		t.Fatal(err)
	}
	tx := txn.Tx{
		ID: id,
		Status: txn.Status{
			State:   txn.Tracking,
			Sub:     txn.Included,
			Version: 4,
			Nonce:   &nonce,
			Receipt: &txn.Receipt{BlockNumber: 9},
		},
	}
	write := func(kind txn.Kind, change func(*txn.Status)) txn.Change {
		next := tx.Status
		next.Version++
		change(&next)
		return txn.Change{
			Writes: []txn.Write{
				{Tx: tx.ID, Version: tx.Version, From: tx.State, Kind: kind, Next: next},
			},
		}
	}
	for name, c := range map[string]struct {
		change txn.Change
		kept   bool
	}{
		"a reorg": {write(txn.EventReorged,
			func(s *txn.Status) { s.Sub, s.Receipt = txn.Pending, nil }), false},
		"a decision": {txn.Change{Unprotect: &txn.Unprotection{ID: 1, Expect: 4, To: 4}}, false},
		// of a transaction believed lost
		"an inclusion": {write(txn.EventIncluded,
			func(s *txn.Status) { s.Receipt = &txn.Receipt{BlockNumber: 10} }), false},
		"a rebroadcast": {write(txn.EventResubmitted, func(*txn.Status) {}), true},
	} {
		c0 := chaintest.New(chaintest.Options{})
		a := &actor{
			e:     newRouterHarness(t, 0).e,
			lease: &store.Lease{},
			track: newTracker(c0, guarded, clock.Real{}),
			log:   slog.New(slog.DiscardHandler),
		}
		a.ledger = store.Ledger{
			Cursor: &txn.Cursor{Next: 4, Protections: 1, Protected: &txn.Protected{ID: 1}},
			Open:   []txn.Tx{tx},
		}
		a.account, a.suspicion = &txn.Account{}, &txn.Suspicion{}
		a.nonceUse = &txn.NonceUse{}
		a.apply(&txn.View{Now: time.Unix(2, 0), Cursor: a.ledger.Cursor}, &c.change)
		if a.account != nil != c.kept || a.suspicion != nil != c.kept ||
			a.nonceUse != nil != c.kept {
			t.Errorf("after %s: account %v, suspicion %v, nonce use %v", name, a.account,
				a.suspicion, a.nonceUse)
		}
	}
}
