package engine

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/txn"
)

// guarded is a policy whose waits are short.
var guarded = txn.Policy{
	Confirmations: 3, ReleaseDepth: 1, ResubmitInterval: 100 * time.Millisecond, ResubmitMax: 1000,
	AuditDepth: 12, LagGrace: 300 * time.Millisecond,
}

// watched is a submitter on an in-memory chain whose key somebody else has as well.
type sharedKeyHarness struct {
	*harness
	chain *chaintest.Chain
	nodes int
	audit time.Duration
}

func newSharedKeyHarness(t *testing.T) *sharedKeyHarness {
	t.Helper()
	c := chaintest.New(chaintest.Options{})
	w := &sharedKeyHarness{harness: newLedger(t, 1, c.ID()), chain: c}
	w.policy = guarded
	w.chain.Fund(devchain.Address(0), *uint256.MustFromDecimal("1000000000000000000000"))
	return w
}

// node starts one more node.
func (w *sharedKeyHarness) node() *testNode {
	w.t.Helper()
	w.nodes++
	return w.startNode(fmt.Sprint("n", w.nodes), func(o *Options) {
		o.Chains[0].Chain = w.chain
		o.AuditInterval = w.audit
	})
}

// outsider is a transaction of the same key that was not made here, and pays well.
func (w *sharedKeyHarness) foreignTx(nonce uint64) *types.Transaction {
	w.t.Helper()
	id := new(big.Int).SetUint64(uint64(w.chain.ID()))
	tx, err := types.SignNewTx(
		devchain.Key(0),
		types.LatestSignerForChainID(id),
		&types.DynamicFeeTx{
			ChainID: id, Nonce: nonce, To: &txn.Address{0xbb}, Gas: 21_000,
			GasFeeCap: big.NewInt(100e9), GasTipCap: big.NewInt(50e9),
		},
	)
	if err != nil {
		w.t.Fatal(err)
	}
	return tx
}

func (w *sharedKeyHarness) inject(tx *types.Transaction) *types.Transaction {
	w.t.Helper()
	if err := w.chain.Inject(tx); err != nil {
		w.t.Fatal(err)
	}
	return tx
}

// confirmed sends one transaction and sees it final.
func (w *sharedKeyHarness) confirmOne(request string) {
	w.t.Helper()
	id := w.create(0, request, transfer())
	w.eventually("it is sent", w.is(id, txn.Pending))
	w.chain.Mine(1)
	w.chain.MineEmpty(int(w.policy.Confirmations))
	if tx := w.awaitFinal(id); tx.State != txn.Confirmed {
		w.t.Fatalf("%s %s", tx.State, tx.LastError)
	}
}

func (w *sharedKeyHarness) cursor() txn.Cursor {
	w.t.Helper()
	info, err := w.admin.Submitter(context.Background(), w.submitters[0])
	if err != nil {
		w.t.Fatal(err)
	}
	if info.Cursor == nil {
		return txn.Cursor{}
	}
	return *info.Cursor
}

// awaitProtected makes empty blocks until the submitter is protected.
func (w *sharedKeyHarness) awaitProtected(reason string) txn.Protected {
	w.t.Helper()
	var p txn.Protected
	w.eventually("it is protected", func() error {
		if got := w.cursor().Protected; got != nil {
			p = *got
			return nil
		}
		w.chain.MineEmpty(1)
		return errors.New("not yet")
	})
	if p.Reason != reason || p.Evidence == "" {
		w.t.Fatalf("%+v", p)
	}
	return p
}

// awaitCalls waits for more calls of a method.
func (w *sharedKeyHarness) awaitCalls(method chaintest.Method, more int32) {
	w.t.Helper()
	var calls atomic.Int32
	w.chain.Intercept(func(_ context.Context, call chaintest.Call) chaintest.Fault {
		if call.Method == method {
			calls.Add(1)
		}
		return chaintest.Fault{}
	})
	w.eventually(fmt.Sprintf("%d calls of %s", more, method), func() error {
		if calls.Load() < more {
			return fmt.Errorf("%d", calls.Load())
		}
		return nil
	})
}

// The key was used elsewhere while nothing was in flight: nothing is taken, whoever took the
// number, and the operator is told who.
func TestKeyUsedElsewhere_BeforeAllocation_Protects(t *testing.T) {
	t.Parallel()
	for name, mined := range map[string]bool{"in the pool": false, "mined": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSharedKeyHarness(t)
			n := w.node()
			w.confirmOne("one")
			n.stop()
			other := w.inject(w.foreignTx(1))
			if mined {
				w.chain.Mine(1)
			}
			w.node()
			id := w.create(0, "two", transfer())
			p := w.awaitProtected(txn.ReasonNonceElsewhere)
			if strings.Contains(p.Evidence, other.Hash().Hex()) != mined {
				t.Errorf("the evidence names another transaction or none: %s", p.Evidence)
			}
			if p.ChainNonce == nil || *p.ChainNonce != 2 {
				t.Errorf("nonce on chain %v", p.ChainNonce)
			}
			w.chain.MineEmpty(5)
			w.awaitCalls(chaintest.MethodHead, 5)
			if tx, err := w.admin.Tx(t.Context(), id); err != nil || tx.State != txn.Queued ||
				tx.Nonce != nil || w.cursor().Next != 1 {
				t.Errorf("%+v %v, cursor %+v", tx.Status, err, w.cursor())
			}
		})
	}
}

// The key is used elsewhere while one of ours is on its way. Ours keeps its number, tells what
// happened, and is never called executed.
func TestKeyUsedElsewhere_DuringAllocation_Protects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		atSend  func(*sharedKeyHarness) // when our bytes are on their way to the pool
		pending func(*sharedKeyHarness) // when the pool has them
	}{
		"mined before ours": {atSend: func(w *sharedKeyHarness) {
			w.inject(w.foreignTx(1))
			w.chain.Mine(1)
		}},
		"in the pool before ours": {
			atSend:  func(w *sharedKeyHarness) { w.inject(w.foreignTx(1)) },
			pending: func(w *sharedKeyHarness) { w.chain.Mine(1) },
		},
		"replaces ours in the pool": {pending: func(w *sharedKeyHarness) {
			w.inject(w.foreignTx(1))
			w.chain.Mine(1)
		}},
		"several ahead": {pending: func(w *sharedKeyHarness) {
			for nonce := range uint64(3) {
				w.inject(w.foreignTx(1 + nonce))
			}
			w.chain.Mine(1)
		}},
		"several ahead, ours evicted": {pending: func(w *sharedKeyHarness) {
			w.chain.ForgetPool()
			for nonce := range uint64(3) {
				w.inject(w.foreignTx(1 + nonce))
				w.chain.Mine(1)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSharedKeyHarness(t)
			w.node()
			w.confirmOne("one")
			var once atomic.Bool
			w.chain.Intercept(func(_ context.Context, call chaintest.Call) chaintest.Fault {
				if call.Method == chaintest.MethodSend && c.atSend != nil &&
					once.CompareAndSwap(false, true) {
					c.atSend(w)
				}
				return chaintest.Fault{}
			})
			id := w.create(0, "two", transfer())
			w.eventually("handed over", func() error {
				if len(w.chain.Received()) < 2 {
					return errors.New("not yet")
				}
				return nil
			})
			if c.pending != nil {
				c.pending(w)
			}
			w.checkNonceUsed(id, w.foreignTx(1).Hash())
		})
	}
}

// lost awaits PROTECT because of a transaction's nonce, and checks what it says and what goes on.
func (w *sharedKeyHarness) checkNonceUsed(id txn.TxID, by txn.Hash) {
	w.t.Helper()
	p := w.awaitProtected(txn.ReasonNonceElsewhere)
	if !strings.Contains(p.Evidence, by.Hex()) || !strings.Contains(p.Evidence, id.String()) {
		w.t.Errorf("the evidence names neither %s nor %s: %s", by, id, p.Evidence)
	}
	tx, err := w.admin.Tx(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	if tx.State != txn.Stuck || tx.Reason != txn.ReasonNonceElsewhere ||
		tx.Executed != txn.Unknown || tx.Nonce == nil || *tx.Nonce != 1 || tx.Receipt != nil {
		w.t.Errorf("%+v", tx.Status)
	}
	if next := w.cursor().Next; next != 2 {
		w.t.Errorf("the cursor stands at %d", next)
	}
	sent := len(w.chain.Received())
	w.eventually("it is still handed over", func() error {
		if len(w.chain.Received()) < sent+2 {
			return errors.New("not yet")
		}
		return nil
	})
	for _, r := range w.chain.Received()[sent:] {
		if r.Hash != tx.TxHash {
			w.t.Errorf("other bytes were sent: nonce %d", r.Nonce)
		}
	}
	w.awaitCalls(chaintest.MethodReceipts, 2)
	if kinds := w.events(id); slices.Contains(kinds, txn.EventIncluded) ||
		slices.Contains(kinds, txn.EventConfirmed) {
		w.t.Errorf("events %v", kinds)
	}
}

// What was used elsewhere is undone by the chain, and ours gets in after all: it is followed to its
// end under protection.
func TestProtected_Transaction_Tracked(t *testing.T) {
	t.Parallel()
	w := newSharedKeyHarness(t)
	w.node()
	w.confirmOne("one")
	id := w.create(0, "two", transfer())
	w.eventually("it is sent", w.is(id, txn.Pending))
	w.inject(w.foreignTx(1))
	used := w.chain.Mine(1)
	w.awaitProtected(txn.ReasonNonceElsewhere)
	if err := w.chain.Reorg(int(w.chain.MineEmpty(1).Number-used.Number)+1, chaintest.Drop); err != nil {
		t.Fatal(err)
	}
	if tx := w.finish(id); tx.State != txn.Confirmed || w.cursor().Protected == nil {
		t.Errorf("%+v, cursor %+v", tx.Status, w.cursor())
	}
}

// After our last transaction the key is used elsewhere, and the owner still has the lease: it must
// not rest on what it saw before.
func TestKeyUsedElsewhere_IdleOwner_Protects(t *testing.T) {
	t.Parallel()
	w := newSharedKeyHarness(t)
	w.node()
	w.confirmOne("one")
	token := w.number("SELECT fencing_token FROM submitter_lease")
	w.inject(w.foreignTx(1))
	w.chain.Mine(1)
	rested := time.Now().Add(rereadAfter + 500*time.Millisecond)
	w.eventually("it has rested", func() error {
		if time.Now().Before(rested) {
			return errors.New("not long enough")
		}
		return nil
	})
	id := w.create(0, "two", transfer())
	w.awaitProtected(txn.ReasonNonceElsewhere)
	if tx, err := w.admin.Tx(t.Context(), id); err != nil || tx.Nonce != nil {
		t.Errorf("a nonce was taken: %+v, %v", tx.Status, err)
	}
	if now := w.number("SELECT fencing_token FROM submitter_lease"); now != token {
		t.Errorf("the lease was taken anew: %d, %d", token, now)
	}
}

// The owner ends between its first look and its second. The next one has seen nothing yet.
func TestSuspicion_Takeover_StillProtects(t *testing.T) {
	t.Parallel()
	w := newSharedKeyHarness(t)
	n := w.node()
	w.confirmOne("one")
	n.stop()
	w.inject(w.foreignTx(1))
	w.chain.Mine(1)
	n = w.node()
	id := w.create(0, "two", transfer())
	w.eventually("the first look", func() error {
		if tx, err := w.admin.Tx(context.Background(), id); err != nil ||
			tx.Reason != txn.ReasonNonceElsewhere {
			return fmt.Errorf("%s %v", tx.Reason, err)
		}
		return nil
	})
	n.stop()
	w.chain.MineEmpty(1)
	w.node()
	w.awaitCalls(chaintest.MethodAccount, 3) // as often as it likes, at one block
	if p := w.cursor().Protected; p != nil {
		t.Fatalf("protected after looks at one block: %s", p.Evidence)
	}
	w.awaitProtected(txn.ReasonNonceElsewhere)
}

// Nothing but somebody else's use of the key protects: no endpoint that lags, is old or jumps,
// whatever it is asked, through takeovers and reorgs of our own.
func TestLagNeverProtects(t *testing.T) {
	t.Parallel()
	reads := []chaintest.Method{
		chaintest.MethodHead, chaintest.MethodBlockByHash, chaintest.MethodBlockByNumber,
		chaintest.MethodReceipts, chaintest.MethodAccount, chaintest.MethodConsumer,
	}
	lagging := func(blocks uint64, methods ...chaintest.Method) func(chaintest.Call,
		int) chaintest.Fault {
		return func(call chaintest.Call, _ int) chaintest.Fault {
			if slices.Contains(methods, call.Method) {
				return chaintest.Lag(blocks)
			}
			return chaintest.Fault{}
		}
	}
	faults := map[string]func(call chaintest.Call, n int) chaintest.Fault{
		"an old endpoint": lagging(6, reads...),
		"a flapping endpoint": func(call chaintest.Call, n int) chaintest.Fault {
			return lagging(uint64(n%3)*4, reads...)(call, n)
		},
		"an endpoint that goes away": func(call chaintest.Call, n int) chaintest.Fault {
			return chaintest.Fault{Down: n%5 == 0}
		},
		"nonce too low, says the pool": func(call chaintest.Call, n int) chaintest.Fault {
			if call.Method == chaintest.MethodSend && n%4 != 0 {
				return chaintest.FalseNonceTooLow()
			}
			return chaintest.Fault{}
		},
		"none": func(chaintest.Call, int) chaintest.Fault { return chaintest.Fault{} },
	}
	const far = 30 // blocks: at one in 20 ms that is twice the grace for a chain that is behind
	faults["a very old endpoint"] = lagging(far, reads...)
	for _, m := range reads {
		faults["late "+string(m)] = lagging(5, m)
		faults["very late "+string(m)] = lagging(far, m)
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSharedKeyHarness(t)
			w.audit = 1 // as often as it may
			ctx, cancel := context.WithCancel(t.Context())
			mined := make(chan struct{})
			go func() {
				defer close(mined)
				_ = w.chain.Run(ctx, clock.Real{}, blockPeriod)
			}()
			defer func() { cancel(); <-mined }()
			n := w.node()
			w.awaitFinal(w.create(0, "first", transfer()))
			var calls atomic.Int32
			w.chain.Intercept(
				func(_ context.Context, call chaintest.Call) chaintest.Fault {
					return fault(call, int(calls.Add(1)))
				})
			for i := range 4 {
				id := w.create(0, fmt.Sprint(i), transfer())
				switch i {
				case 1: // a takeover while it is on its way
					n.stop()
					n = w.node()
				case 2: // a reorg of our own
					w.eventually("it is on its way", func() error {
						if tx, err := w.admin.Tx(context.Background(), id); err != nil ||
							tx.Nonce == nil {
							return errors.New("not yet")
						}
						return nil
					})
					if err := w.chain.Reorg(2, chaintest.Drop); err != nil {
						t.Fatal(err)
					}
				case 3:
					n.stop()
					w.node()
				}
				if tx := w.awaitFinal(id); tx.State != txn.Confirmed {
					t.Errorf("%s %s %s", tx.State, tx.Reason, tx.LastError)
				}
				if p := w.cursor().Protected; p != nil {
					t.Fatalf("protected: %s %s", p.Reason, p.Evidence)
				}
			}
			w.checkLedger()
		})
	}
}

// The successor asks for the receipt of what has long been in a block, and is told for ever that
// there is none. The chain says who used the nonce: it was ours.
func TestSuspicion_LateReceipt_NoProtection(t *testing.T) {
	t.Parallel()
	w := newSharedKeyHarness(t)
	n := w.node()
	w.confirmOne("one")
	id := w.create(0, "two", transfer())
	w.eventually("it is sent", w.is(id, txn.Pending))
	n.stop()
	w.chain.Mine(1)
	w.chain.MineEmpty(10)
	var late atomic.Bool
	var asked, looks atomic.Int32
	late.Store(true)
	w.chain.Intercept(func(_ context.Context, call chaintest.Call) chaintest.Fault {
		switch {
		case call.Method == chaintest.MethodConsumer:
			asked.Add(1)
		case call.Method == chaintest.MethodReceipts && late.Load():
			if asked.Load() > 0 {
				looks.Add(1)
			}
			return chaintest.Lag(1 << 20)
		}
		return chaintest.Fault{}
	})
	w.node()
	w.eventually("who used the nonce is asked", func() error {
		if asked.Load() == 0 {
			w.chain.MineEmpty(1)
			return errors.New("not yet")
		}
		return nil
	})
	w.chain.MineEmpty(3)
	settled, sent := asked.Load(), len(w.chain.Received())
	w.eventually("its receipt is asked for", func() error {
		if looks.Load() < 50 {
			return fmt.Errorf("%d times", looks.Load())
		}
		return nil
	})
	if got := len(w.chain.Received()); got > sent+1 ||
		asked.Load() > settled+1 { // one of each may have been under way
		t.Errorf("handed over %d times more, and asked %d times more who used its nonce", got-sent,
			asked.Load()-settled)
	}
	if p := w.cursor().Protected; p != nil {
		t.Fatalf("protected: %s", p.Evidence)
	}
	late.Store(false)
	if tx := w.awaitFinal(id); tx.State != txn.Confirmed || w.cursor().Protected != nil {
		t.Errorf("%+v", tx.Status)
	}
}
