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
	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// guarded is a policy with short waits.
var guarded = txn.Policy{
	Confirmations: 3, ReleaseDepth: 1, ResubmitInterval: 100 * time.Millisecond, ResubmitMax: 1000,
	AuditDepth: 12, LagGrace: 300 * time.Millisecond,
}

// sharedKeyHarness is a submitter on an in-memory chain whose key another program also uses.
type sharedKeyHarness struct {
	*harness
	chain *chaintest.Chain
	nodes int
	audit time.Duration
}

func newSharedKeyHarness(t *testing.T) *sharedKeyHarness {
	t.Helper()
	return newSharedKeyHarnessIn(t, dbtest.New(t))
}

func newSharedKeyHarnessIn(t *testing.T, db *dbtest.DB) *sharedKeyHarness {
	t.Helper()
	c := chaintest.New(chaintest.Options{})
	w := &sharedKeyHarness{harness: newLedgerIn(t, db, 1, c.ID()), chain: c}
	w.policy = guarded
	w.chain.Fund(devchain.Address(0), *uint256.MustFromDecimal("1000000000000000000000"))
	return w
}

// node starts another node.
func (w *sharedKeyHarness) node() *testNode {
	w.t.Helper()
	w.nodes++
	return w.startNode(fmt.Sprint("n", w.nodes), func(o *Options) {
		o.Chains[0].Chain = w.chain
		o.AuditInterval = w.audit
	})
}

// foreignTx is a transaction with the same key and high fees that Fencepost did not create.
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

// confirmOne makes one transaction final.
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

// awaitProtected mines empty blocks until the submitter is protected.
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

// TestKeyUsedElsewhere_BeforeAllocation_Protects uses the key elsewhere while nothing is in flight.
// No nonce is taken, and the evidence names the transaction.
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
				t.Errorf("wrong evidence: %s", p.Evidence)
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

// TestKeyUsedElsewhere_DuringAllocation_Protects uses the key elsewhere while a transaction is in
// flight. It keeps its nonce, reports the reason, and never counts as executed.
func TestKeyUsedElsewhere_DuringAllocation_Protects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		atSend  func(*sharedKeyHarness) // while our bytes are sent
		pending func(*sharedKeyHarness) // while the pool has them
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
			w.eventually("broadcast", func() error {
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

// checkNonceUsed awaits the protection and checks its evidence, the transaction and its
// rebroadcasts.
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
		w.t.Errorf("next nonce %d, want 2", next)
	}
	sent := len(w.chain.Received())
	w.eventually("it is still rebroadcast", func() error {
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

// TestProtected_Transaction_Tracked removes the foreign transaction by a reorg. Ours is included
// after all, and becomes final under the protection, which then ends: its evidence is refuted.
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
	err := w.chain.Reorg(int(w.chain.MineEmpty(1).Number-used.Number)+1, chaintest.Drop)
	if err != nil {
		t.Fatal(err)
	}
	if tx := w.finish(id); tx.State != txn.Confirmed {
		t.Errorf("%+v", tx.Status)
	}
	w.eventually("the protection ends", func() error {
		if p := w.cursor().Protected; p != nil {
			return fmt.Errorf("protected: %s", p.Reason)
		}
		return nil
	})
}

// TestKeyUsedElsewhere_IdleOwner_Protects uses the key elsewhere after our last transaction, while
// the owner still has the lease. The owner must read the account again.
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
		t.Errorf("the lease was reacquired: token %d, then %d", token, now)
	}
}

// TestSuspicion_Takeover_StillProtects stops the owner between its two account reads. The next
// owner starts with the first.
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
	w.eventually("the first account read", func() error {
		if tx, err := w.admin.Tx(context.Background(), id); err != nil ||
			tx.Reason != txn.ReasonNonceElsewhere {
			return fmt.Errorf("%s %v", tx.Reason, err)
		}
		return nil
	})
	n.stop()
	w.chain.MineEmpty(1)
	w.node()
	w.awaitCalls(chaintest.MethodAccount, 3) // repeated reads at one block
	if p := w.cursor().Protected; p != nil {
		t.Fatalf("protected after reads at one block: %s", p.Evidence)
	}
	w.awaitProtected(txn.ReasonNonceElsewhere)
}

// TestLagNeverProtects verifies that only a foreign use of the key protects, not an endpoint that
// lags, flaps or jumps, through takeovers and our own reorgs.
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
		"an endpoint that fails": func(call chaintest.Call, n int) chaintest.Fault {
			return chaintest.Fault{Down: n%5 == 0}
		},
		"false nonce too low": func(call chaintest.Call, n int) chaintest.Fault {
			if call.Method == chaintest.MethodSend && n%4 != 0 {
				return chaintest.FalseNonceTooLow()
			}
			return chaintest.Fault{}
		},
		"none": func(chaintest.Call, int) chaintest.Fault { return chaintest.Fault{} },
	}
	const far = 30 // blocks of 20 ms: twice LagGrace
	faults["a very old endpoint"] = lagging(far, reads...)
	for _, m := range reads {
		faults["late "+string(m)] = lagging(5, m)
		faults["very late "+string(m)] = lagging(far, m)
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSharedKeyHarness(t)
			w.audit = 1 // continuously
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
				case 1: // a takeover while it is in flight
					n.stop()
					n = w.node()
				case 2: // our own reorg
					w.eventually("it is in flight", func() error {
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

// TestSuspicion_LateReceipt_NoProtection never returns the receipt of an included transaction to
// the successor. The chain names the transaction that used the nonce: ours.
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
	w.eventually("the user of the nonce is read", func() error {
		if asked.Load() == 0 {
			w.chain.MineEmpty(1)
			return errors.New("not yet")
		}
		return nil
	})
	w.chain.MineEmpty(3)
	settled, sent := asked.Load(), len(w.chain.Received())
	w.eventually("its receipt is read", func() error {
		if looks.Load() < 50 {
			return fmt.Errorf("%d times", looks.Load())
		}
		return nil
	})
	if got := len(w.chain.Received()); got > sent+1 ||
		asked.Load() > settled+1 { // one of each may have been in progress
		t.Errorf("%d more broadcasts, and %d more reads of the user of the nonce", got-sent,
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

// blindChain is a chain whose only endpoint can hide that transactions are in blocks: from its
// blocks, its receipts, and the search for the user of a nonce.
type blindChain struct {
	*chaintest.Chain
	blind *atomic.Bool
}

func (c blindChain) Head(ctx context.Context) (txn.Block, error) {
	b, err := c.Chain.Head(ctx)
	if c.blind.Load() {
		b.Txs = nil
	}
	return b, err
}

func (c blindChain) BlockByHash(ctx context.Context, hash txn.Hash) (*txn.Block, error) {
	b, err := c.Chain.BlockByHash(ctx, hash)
	if b != nil && c.blind.Load() {
		hidden := *b
		hidden.Txs = nil
		b = &hidden
	}
	return b, err
}

func (c blindChain) Receipts(ctx context.Context, hashes []txn.Hash) []txn.ReceiptResult {
	all := c.Chain.Receipts(ctx, hashes)
	if c.blind.Load() {
		for i := range all {
			all[i].Receipt = nil
		}
	}
	return all
}

func (c blindChain) Consumer(ctx context.Context, address txn.Address,
	nonce txn.Nonce) (*txn.Consumer, error) {
	if c.blind.Load() {
		return nil, nil
	}
	return c.Chain.Consumer(ctx, address, nonce)
}

// TestQuirk_UsedNonceIsOurs_ProtectionLifted protects a submitter because an endpoint hides its
// transaction. Once the transaction is final after all, the evidence is refuted and the protection
// ends with a recorded decision, unless an operator has resolved a transaction on that evidence, or
// another protection was requested meanwhile.
func TestQuirk_UsedNonceIsOurs_ProtectionLifted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		takeover bool // before the transaction is seen
		fails    bool // an operator fails it
		protects bool // an operator protects as well
		audits   bool // the auditor requests a protection as well
	}{
		"the same owner":        {},
		"after a takeover":      {takeover: true},
		"resolved by operator":  {takeover: true, fails: true},
		"protected by operator": {protects: true},
		"violation found":       {audits: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSharedKeyHarness(t)
			w.audit = NoAudit
			var blind atomic.Bool
			start := func(name string) *testNode {
				return w.startNode(name, func(o *Options) {
					o.Chains[0].Chain = blindChain{w.chain, &blind}
					o.AuditInterval = NoAudit
				})
			}
			n := start("a")
			w.confirmOne("zero")
			blind.Store(true)
			id := w.create(0, "one", transfer())
			behind := w.create(0, "two", transfer())
			w.eventually("sent", w.is(id, txn.Pending))
			w.chain.Mine(1)
			p := w.awaitProtected(txn.ReasonNonceElsewhere)
			if c.fails {
				w.chain.MineEmpty(int(w.policy.AuditDepth))
				if got := w.resolve(txn.ActionFailUnproven, id); got != txn.Applied {
					t.Fatal(got)
				}
			}
			if c.protects {
				w.want(w.decide(store.Ask{Kind: txn.CommandProtect}), txn.Applied)
			}
			if c.audits {
				u, err := newAuditor(n.engine)
				if err != nil {
					t.Fatal(err)
				}
				owner, _ := u.next()
				if !u.protect(t.Context(), owner, store.Ask{Kind: txn.CommandProtect,
					Action: txn.ProtectByAudit, Reason: "a violation"}) {
					t.Error("the auditor requests no protection")
				}
				w.eventually("the auditor's protection", func() error {
					if now := w.cursor().Protected; now == nil || now.ID == p.ID {
						return fmt.Errorf("%+v", now)
					}
					return nil
				})
			}
			if c.takeover {
				n.stop()
				start("b")
			}
			blind.Store(false)
			if c.protects || c.audits {
				w.finish(id)
				w.chain.MineEmpty(int(w.policy.Confirmations) + 2)
				// A command is decided after the changes seen before it.
				w.want(w.decide(store.Ask{Kind: txn.CommandProtect}), txn.ResultAlreadyProtected)
				if now := w.cursor().Protected; now == nil || now.ID != p.ID+1 {
					t.Errorf("%+v", now)
				}
				return
			}
			if c.fails {
				w.eventually("the outcome is revoked", func() error {
					w.chain.MineEmpty(1)
					tx, err := w.admin.Tx(t.Context(), id)
					if err == nil && tx.State != txn.Confirmed {
						err = fmt.Errorf("%s %s", tx.State, tx.Reason)
					}
					return err
				})
				if now := w.cursor().Protected; now == nil || now.ID != p.ID {
					t.Errorf("%+v", now)
				}
				return
			}
			w.eventually("the next one is final", func() error {
				w.chain.Mine(1)
				tx, err := w.admin.Tx(t.Context(), behind)
				if err == nil && tx.State != txn.Confirmed {
					first, _ := w.admin.Tx(t.Context(), id)
					err = fmt.Errorf("%s %s; %s %s %s", tx.State, tx.Reason, first.State,
						first.Sub, first.Reason)
				}
				return err
			})
			if tx := w.awaitFinal(id); tx.State != txn.Confirmed {
				t.Errorf("%s %s", tx.State, tx.Reason)
			}
			commands, err := w.admin.Commands(t.Context(), w.submitters[0], 0, 10)
			if err != nil || len(commands) != 2 || commands[0].Kind != txn.CommandExitProtect ||
				commands[0].Action != txn.ActionAutomatic || commands[0].Expect != p.ID ||
				!strings.Contains(commands[0].Reason, id.String()) {
				t.Errorf("%+v %v", commands, err)
			}
		})
	}
}
