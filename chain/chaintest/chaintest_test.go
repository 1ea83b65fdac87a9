package chaintest

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/txn"
	"github.com/holiman/uint256"
	"pgregory.net/rapid"
)

var (
	shop   = txn.Address{0x50}
	closed = txn.Address{0xc1}
)

// fresh returns a chain with two contracts and funds for the first keys.
func fresh(o Options) *Chain {
	c := New(o)
	for i := range 3 {
		c.Fund(Address(i), *uint256.NewInt(1_000_000_000_000_000_000))
	}
	c.Register(shop, Counter)
	c.Register(closed, Reverter("closed"))
	return c
}

// signed is a call of a contract by the i-th key.
func (c *Chain) signed(t testing.TB, i int, nonce, feeGwei uint64, to txn.Address) txn.Signed {
	t.Helper()
	fee := new(big.Int).SetUint64(feeGwei * gwei)
	tx, err := types.SignNewTx(Key(i), c.signer, &types.DynamicFeeTx{
		ChainID:   c.signer.ChainID(),
		Nonce:     nonce,
		To:        &to,
		Gas:       100_000,
		GasFeeCap: fee,
		GasTipCap: new(big.Int).Div(fee, big.NewInt(2)),
	})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := tx.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return txn.Signed{Hash: tx.Hash(), Raw: raw}
}

func (c *Chain) mustSend(t testing.TB, signed txn.Signed, want txn.Class) {
	t.Helper()
	if o := c.Send(context.Background(), signed); o.Class != want {
		t.Fatalf("send: %+v, want %s", o, want)
	}
}

func receiptOf(t *testing.T, c *Chain, hash txn.Hash) *txn.Receipt {
	t.Helper()
	a := c.Receipts(t.Context(), []txn.Hash{hash})[0]
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	return a.Receipt
}

// faulty injects a fault into every call of the method.
func faulty(method Method, f Fault) func(context.Context, Call) Fault {
	return func(_ context.Context, call Call) Fault {
		if call.Method == method {
			return f
		}
		return Fault{}
	}
}

func TestSendFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault         Fault
		outcomeOf     txn.Class
		arrived, took bool
		pooled        bool
	}{
		"none":         {Fault{}, txn.Accepted, true, true, true},
		"unavailable":  {Unavailable(), txn.Unavailable, false, false, false},
		"request lost": {LoseRequest(), txn.Ambiguous, false, false, false},
		"reply lost":   {LoseReply(), txn.Ambiguous, true, true, true},
		"swallowed":    {Swallow(), txn.Accepted, false, false, false},
		"evicted":      {Evict(), txn.Accepted, true, true, false},
		"false nonce":  {FalseNonceTooLow(), txn.NonceTooLow, false, false, false},
		"words":        {Say("txpool is full"), txn.PoolFull, false, false, false},
		"words as a lie": {
			Fault{Reply: Say("nonce too low").Reply},
			txn.NonceTooLow,
			true,
			true,
			true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ch := fresh(Options{Now: func() time.Time { return time.Unix(5, 0) }})
			ch.Intercept(faulty(MethodSend, c.fault))
			signed := ch.signed(t, 0, 0, 10, shop)
			ch.mustSend(t, signed, c.outcomeOf)
			if pooled := len(ch.Pool()) == 1; pooled != c.pooled {
				t.Errorf("in the pool: %v, want %v", pooled, c.pooled)
			}
			got := ch.Received()
			if len(got) != 1 {
				t.Fatalf("%d received", len(got))
			}
			r := got[0]
			if r.Arrived != c.arrived || r.Accepted != c.took || r.Outcome.Class != c.outcomeOf ||
				r.Hash != signed.Hash || r.Sender != Address(0) || r.Nonce != 0 ||
				*r.Payload.To != shop || !r.At.Equal(time.Unix(5, 0)) ||
				string(r.Raw) != string(signed.Raw) ||
				r.Fees.Cap.Uint64() != 10*gwei {
				t.Errorf("recorded %+v", r)
			}
			// After any response, sending the same bytes again succeeds.
			ch.Intercept(nil)
			ch.Send(t.Context(), signed)
			ch.Mine(1)
			if receiptOf(t, ch, signed.Hash) == nil || ch.Stored(shop, Address(0).Hex()) != 1 {
				t.Error("not executed once")
			}
		})
	}
}

func TestReceived_InvalidBytes_Kept(t *testing.T) {
	t.Parallel()
	c := fresh(Options{})
	c.mustSend(t, txn.Signed{Hash: txn.Hash{1}, Raw: []byte{0xff}}, txn.Invalid)
	good := c.signed(t, 0, 0, 10, shop)
	c.mustSend(t, txn.Signed{Hash: txn.Hash{2}, Raw: good.Raw}, txn.Ambiguous)
	got := c.Received()
	if len(got) != 2 || got[0].Hash != (txn.Hash{1}) || got[0].Accepted ||
		got[1].Hash != good.Hash ||
		got[1].Accepted ||
		len(c.Pool()) != 0 {
		t.Errorf("%+v, pool %v", got, c.Pool())
	}
}

func TestReadFaults(t *testing.T) {
	t.Parallel()
	c := fresh(Options{})
	signed := c.signed(t, 0, 0, 10, shop)
	c.mustSend(t, signed, txn.Accepted)
	c.Mine(3)
	ctx := t.Context()
	c.Intercept(func(context.Context, Call) Fault { return Lag(3) })
	head, err := c.Head(ctx)
	if err != nil || head.Number != 0 {
		t.Errorf("head %+v, %v", head, err)
	}
	if b, _ := c.BlockByNumber(ctx, 1); b != nil {
		t.Errorf("block 1 is there: %+v", b)
	}
	if a := c.Receipts(ctx, []txn.Hash{signed.Hash})[0]; a.Receipt != nil || a.Err != nil {
		t.Errorf("receipt %+v", a)
	}
	if a, err := c.Account(ctx, Address(0), 0); err != nil || a.Latest != 0 || a.Head != 0 {
		t.Errorf("account %+v, %v", a, err)
	}
	c.Intercept(func(context.Context, Call) Fault { return Unavailable() })
	if _, err := c.Head(ctx); !errors.Is(err, txn.ErrUnavailable) {
		t.Error(err)
	}
	if _, err := c.BlockByHash(ctx, head.Hash); !errors.Is(err, txn.ErrUnavailable) {
		t.Error(err)
	}
	if _, err := c.BlockByNumber(ctx, 0); !errors.Is(err, txn.ErrUnavailable) {
		t.Error(err)
	}
	if a := c.Receipts(ctx, []txn.Hash{signed.Hash})[0]; !errors.Is(a.Err, txn.ErrUnavailable) {
		t.Error(a.Err)
	}
	if _, err := c.Account(ctx, Address(0), 0); !errors.Is(err, txn.ErrUnavailable) {
		t.Error(err)
	}
	if _, o := c.Quote(ctx, txn.Draft{From: Address(0)}); o.Class != txn.Unavailable {
		t.Error(o)
	}
}

// An interceptor may change the chain during a call.
func TestIntercept_MayChangeChain(t *testing.T) {
	t.Parallel()
	c := fresh(Options{})
	c.Intercept(func(_ context.Context, call Call) Fault {
		if call.Method == MethodReceipts {
			c.Intercept(nil)
			c.Mine(2)
		}
		return Fault{}
	})
	c.Receipts(t.Context(), nil)
	if head, err := c.Head(t.Context()); err != nil || head.Number != 2 {
		t.Errorf("head %d, %v", head.Number, err)
	}
}

func TestQuoteFaults(t *testing.T) {
	t.Parallel()
	c := fresh(Options{})
	draft := txn.Draft{From: Address(0), Payload: txn.Payload{To: &closed}}
	if _, o := c.Quote(t.Context(), draft); o.Class != txn.ExecutionReverted ||
		o.Detail != "execution reverted: closed" {
		t.Errorf("%+v", o)
	}
	draft.Payload.To = &shop
	q, o := c.Quote(t.Context(), draft)
	if o.Class != txn.Accepted || q.GasLimit != (txGas+callGas)*12/10 {
		t.Errorf("%+v, %+v", q, o)
	}
	if c.Stored(shop, Address(0).Hex()) != 0 {
		t.Error("an estimate left something behind")
	}
	draft.Payload.GasLimit = txGas
	if _, o := c.Quote(t.Context(), draft); o.Class != txn.Invalid {
		t.Errorf("with too little gas: %+v", o)
	}
	c.Intercept(faulty(MethodQuote, Say("execution reverted: not today")))
	if _, o := c.Quote(t.Context(), draft); o.Class != txn.ExecutionReverted {
		t.Errorf("%+v", o)
	}
}

func TestTrustedGasLimits(t *testing.T) {
	t.Parallel()
	c := fresh(Options{TrustGasLimits: true})
	draft := txn.Draft{From: Address(0), Payload: txn.Payload{To: &closed}}
	for gas, want := range map[uint64]txn.Class{
		0:         txn.ExecutionReverted,
		txGas:     txn.Accepted,
		txGas - 1: txn.Invalid,
	} {
		draft.Payload.GasLimit = gas
		if q, o := c.Quote(t.Context(), draft); o.Class != want ||
			o.Class == txn.Accepted && q.GasLimit != gas {
			t.Errorf("with a gas limit of %d: %+v, %+v", gas, q, o)
		}
	}
}

func TestSend_BaseFeeAboveCap(t *testing.T) {
	t.Parallel()
	c := fresh(Options{})
	cheap := c.signed(t, 0, 0, 2, shop)
	c.mustSend(t, cheap, txn.Accepted)
	c.SetBaseFee(*uint256.NewInt(3 * gwei))
	c.Mine(2)
	if receiptOf(t, c, cheap.Hash) != nil || len(c.Pool()) != 1 {
		t.Error("included below the base fee, or forgotten")
	}
	c.SetBaseFee(*uint256.NewInt(gwei))
	c.Mine(1)
	r := receiptOf(t, c, cheap.Hash)
	if r == nil || r.EffectiveGasPrice.Uint64() != 2*gwei {
		t.Errorf("receipt %+v", r)
	}
	strict := fresh(Options{StrictFeeCap: true, BaseFee: *uint256.NewInt(3 * gwei)})
	strict.mustSend(t, strict.signed(t, 0, 0, 2, shop), txn.FeeCapBelowBaseFee)
}

func TestPoolEvictionAndLimits(t *testing.T) {
	t.Parallel()
	c := fresh(Options{PoolLimit: 2, FullRefuses: true})
	a, b := c.signed(t, 0, 0, 10, shop), c.signed(t, 1, 0, 20, shop)
	c.mustSend(t, a, txn.Accepted)
	c.mustSend(t, b, txn.Accepted)
	c.mustSend(t, c.signed(t, 2, 0, 30, shop), txn.PoolFull)
	c.mustSend(t, c.signed(t, 0, 0, 12, shop), txn.Accepted) // a replacement needs no room
	if !c.Evict(b.Hash) || c.Evict(b.Hash) {
		t.Error("evicted not exactly once")
	}
	c.ForgetPool()
	if len(c.Pool()) != 0 {
		t.Error("the pool remembers")
	}
	c.mustSend(t, a, txn.Accepted)
}

// A full pool of go-ethereum drops its cheapest transaction for a better one, without notice.
func TestPool_Full_DropsCheapest(t *testing.T) {
	t.Parallel()
	c := fresh(Options{PoolLimit: 2})
	a, b := c.signed(t, 0, 0, 10, shop), c.signed(t, 1, 0, 20, shop)
	c.mustSend(t, a, txn.Accepted)
	c.mustSend(t, b, txn.Accepted)
	c.mustSend(t, c.signed(t, 2, 0, 10, shop), txn.Underpriced)
	c.mustSend(t, c.signed(t, 2, 1, 30, shop),
		txn.PoolFull) // non-runnable transactions do not evict runnable ones
	dear := c.signed(t, 2, 0, 30, shop)
	c.mustSend(t, dear, txn.Accepted)
	if got := c.Pool(); len(got) != 2 || slices.Contains(got, a.Hash) {
		t.Errorf("the pool has %v", got)
	}
	c.SetMinTip(*uint256.NewInt(12 * gwei)) // tips are half of the fees here
	if got := c.Pool(); len(got) != 1 || got[0] != dear.Hash {
		t.Errorf("with a floor of 12 gwei the pool has %v", got)
	}
}

func TestForeignUse(t *testing.T) {
	t.Parallel()
	c := fresh(Options{})
	signed := c.signed(t, 0, 0, 10, shop)
	tx, err := decode(signed)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Inject(tx); err != nil {
		t.Fatal(err)
	}
	if err := c.Inject(tx); err == nil {
		t.Error("injected twice")
	}
	c.Mine(1)
	if len(c.Received()) != 0 || len(c.Included()) != 1 || c.Included()[0].Sender != Address(0) {
		t.Errorf("received %v, included %v", c.Received(), c.Included())
	}
	c.mustSend(t, c.signed(t, 0, 0, 20, shop), txn.NonceTooLow)
}

func TestAutoMineAndRun(t *testing.T) {
	t.Parallel()
	c := fresh(Options{AutoMine: true})
	signed := c.signed(t, 0, 0, 10, shop)
	c.mustSend(t, signed, txn.Accepted)
	if receiptOf(t, c, signed.Hash) == nil {
		t.Error("not mined at once")
	}
	by := clock.NewFake(time.Unix(0, 0))
	ctx, cancel := context.WithCancel(t.Context())
	wake := c.Heads(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx, by, time.Second) }()
	for range 3 {
		for _, ok := by.Next(); !ok; _, ok = by.Next() { // until it waits for its next block
		}
		by.Advance(time.Second)
		<-wake
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if head, _ := c.Head(t.Context()); head.Number != 4 {
		t.Errorf("head %d, want 1 by the transaction and 3 by time", head.Number)
	}
	for range wake {
	}
}

func TestAccounts_Setters(t *testing.T) {
	t.Parallel()
	c := fresh(Options{})
	c.Delegate(Address(0), shop)
	c.Drain(Address(0))
	if a, err := c.Account(t.Context(), Address(0), 0); err != nil || !a.HasCode ||
		a.Delegate != shop || !a.BalanceAt.IsZero() {
		t.Errorf("%+v, %v", a, err)
	}
	c.mustSend(t, c.signed(t, 0, 0, 10, shop), txn.InsufficientFunds)
	if _, err := c.BlockByHash(t.Context(), c.Genesis()); err != nil {
		t.Error(err)
	}
	for _, depth := range []int{0, -1, 1, 5} {
		if err := c.Reorg(depth, Keep); err == nil {
			t.Errorf("a reorg of %d blocks above the genesis alone", depth)
		}
	}
}

// Equal calls give equal chains, independent of map order.
func TestDeterminism(t *testing.T) {
	t.Parallel()
	play := func() string {
		c := fresh(Options{GasLimit: 250_000}) // room for two
		for nonce := range uint64(4) {
			for i := range 3 {
				c.Send(t.Context(), c.signed(t, i, nonce, 10, shop))
			}
			c.Mine(1)
		}
		if err := c.Reorg(2, Return); err != nil {
			t.Fatal(err)
		}
		c.Mine(3)
		return fmt.Sprint(c.Included(), c.Pool(), c.head().Hash)
	}
	first := play()
	for range 5 {
		if again := play(); again != first {
			t.Fatalf("%s\nand then\n%s", first, again)
		}
	}
}

// After any sequence of blocks and reorgs, the state is that of the canonical transactions.
func TestState_Reorg_Reverted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		c := fresh(Options{})
		next := [3]uint64{}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			switch rapid.IntRange(0, 4).Draw(rt, "step") {
			case 0, 1:
				i := rapid.IntRange(0, 2).Draw(rt, "key")
				to := rapid.SampledFrom([]txn.Address{shop, closed, {9}}).Draw(rt, "to")
				c.Send(context.Background(), c.signed(t, i, next[i], 10, to))
				next[i]++
			case 2:
				c.Mine(rapid.IntRange(1, 3).Draw(rt, "blocks"))
			case 3:
				depth := rapid.IntRange(1, 3).Draw(rt, "depth")
				disposition := rapid.SampledFrom([]Disposition{Keep, Return, Drop}).Draw(rt,
					"disposition")
				if int(c.head().Number) >= depth {
					if err := c.Reorg(depth, disposition); err != nil {
						rt.Fatal(err)
					}
				}
			case 4:
				if c.head().Number > 0 {
					if err := c.Rollback(
						1,
						rapid.SampledFrom([]Disposition{Return, Drop}).Draw(rt, "disposition"),
					); err != nil {
						rt.Fatal(err)
					}
				}
			}
		}
		var used, counted [3]uint64
		var paid [3]txn.Wei
		for _, in := range c.Included() {
			for i := range 3 {
				if in.Sender != Address(i) {
					continue
				}
				if uint64(in.Nonce) != used[i] {
					rt.Fatalf("nonce %d of key %d after %d", in.Nonce, i, used[i])
				}
				used[i]++
				if in.Receipt.Success != (*in.Payload.To != closed) {
					rt.Fatalf("%+v", in)
				}
				if *in.Payload.To == shop {
					counted[i]++
				}
				var fee txn.Wei
				fee.Mul(&in.Receipt.EffectiveGasPrice, uint256.NewInt(in.Receipt.GasUsed))
				paid[i].Add(&paid[i], &fee)
			}
		}
		for i := range 3 {
			a, err := c.Account(context.Background(), Address(i), 0)
			if err != nil {
				rt.Fatal(err)
			}
			var balance txn.Wei
			balance.Sub(uint256.NewInt(1_000_000_000_000_000_000), &paid[i])
			if uint64(a.Latest) != used[i] || c.Stored(shop, Address(i).Hex()) != counted[i] ||
				a.BalanceAt != balance {
				rt.Fatalf("key %d: %+v, counted %d; the chain has nonce %d, count %d, balance %s",
					i, a, c.Stored(shop, Address(i).Hex()), used[i], counted[i], balance.Dec())
			}
		}
	})
}
