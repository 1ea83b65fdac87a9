package chaintest

import (
	"errors"
	"testing"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/fencepost/fencepost/chain"
	"github.com/fencepost/fencepost/txn"
	"github.com/holiman/uint256"
)

func gweis(n uint64) txn.Wei { return *uint256.NewInt(n * gwei) }

// After one rejection below the floor, quotes are high enough to be accepted, up to the configured
// cap. Drafts that cannot pay that much are rejected before sending.
func TestFloor_Learned(t *testing.T) {
	t.Parallel()
	c := fresh(
		Options{MinTip: gweis(25), BaseFee: gweis(1), Fees: chain.FeeOptions{MaxFee: gweis(100)}})
	draft := txn.Draft{From: Address(0), Payload: txn.Payload{To: &shop}}
	offer := func() txn.Fees {
		t.Helper()
		q, o := c.Quote(t.Context(), draft)
		if o.Class != txn.Accepted {
			t.Fatalf("quote: %+v", o)
		}
		return q.Fees
	}
	if fees := offer(); !fees.Tip.Lt(&c.o.MinTip) {
		t.Fatalf("%+v before a node reported its floor", fees)
	}
	c.mustSend(t, c.priced(t, 0, 0, offer()), txn.Underpriced)
	fees := offer()
	if fees.Tip != gweis(25) {
		t.Errorf("%+v after a node reported its floor", fees)
	}
	c.mustSend(t, c.priced(t, 0, 0, fees), txn.Accepted)
	draft.MaxFee = gweis(24)
	if q, o := c.Quote(t.Context(), draft); o.Class != txn.FeeCapBelowBaseFee {
		t.Errorf("quote %+v, %+v within a cap that no node takes", q, o)
	}
	if f, o := c.Fees(t.Context(),
		txn.FeeRequest{Speed: txn.Fast, Limit: gweis(24)}); o.Class != txn.FeeCapBelowBaseFee {
		t.Errorf("fees %+v, %+v within a cap that no node takes", f, o)
	}
	c.SetMinTip(gweis(1000)) // above the configured cap
	c.mustSend(t, c.priced(t, 1, 0, fees), txn.Underpriced)
	if f, o := c.Fees(t.Context(), txn.FeeRequest{Limit: gweis(100)}); o.Class != txn.Accepted ||
		f.Cap != gweis(100) ||
		f.Tip != gweis(100) {
		t.Errorf("fees %+v, %+v; want the cap and no more", f, o)
	}
}

// priced is a call of the shop by the i-th key at these fees.
func (c *Chain) priced(t *testing.T, i int, nonce uint64, fees txn.Fees) txn.Signed {
	t.Helper()
	tx, err := types.SignNewTx(Key(i), c.signer, &types.DynamicFeeTx{
		ChainID:   c.signer.ChainID(),
		Nonce:     nonce,
		To:        &shop,
		Gas:       100_000,
		GasFeeCap: fees.Cap.ToBig(),
		GasTipCap: fees.Tip.ToBig(),
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

func TestMarket_Speeds(t *testing.T) {
	t.Parallel()
	c := fresh(
		Options{
			Tips: map[txn.Speed]txn.Wei{
				txn.Slow:     gweis(1),
				txn.Standard: gweis(2),
				txn.Fast:     gweis(3),
			},
		},
	)
	tip := func(speed txn.Speed) txn.Wei {
		t.Helper()
		q, o := c.Quote(t.Context(),
			txn.Draft{From: Address(0), Payload: txn.Payload{To: &shop}, Speed: speed})
		fees, same := c.Fees(t.Context(), txn.FeeRequest{Speed: speed})
		if o.Class != txn.Accepted || same.Class != txn.Accepted || fees != q.Fees {
			t.Fatalf("quote %+v, %+v; fees %+v, %+v", q, o, fees, same)
		}
		return fees.Tip
	}
	for i, speed := range []txn.Speed{txn.Slow, txn.Standard, txn.Fast} {
		if got := tip(speed); got != gweis(uint64(i+1)) {
			t.Errorf("%q takes a tip of %s", speed, got.Dec())
		}
	}
	c.SetTips(map[txn.Speed]txn.Wei{txn.Slow: gweis(7)})
	if got := tip(txn.Slow); got != gweis(7) {
		t.Errorf("after the market moved: %s", got.Dec())
	}
}

func TestTags(t *testing.T) {
	t.Parallel()
	c := fresh(Options{SafeDepth: 2, FinalDepth: 4})
	tagged := func(tag string) *txn.Block {
		t.Helper()
		b, err := c.Tagged(t.Context(), tag)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	c.Mine(3)
	if b := tagged(chain.Safe); b == nil || b.Number != 1 {
		t.Errorf("safe at height 3: %+v", b)
	}
	if b := tagged(chain.Finalized); b != nil {
		t.Errorf("finalized at height 3: %+v", b)
	}
	c.SetTags(3, 1)
	if s, f := tagged(chain.Safe), tagged(chain.Finalized); s.Number != 3 || f.Number != 1 {
		t.Errorf("by hand: safe %+v, finalized %+v", s, f)
	}
	c.Mine(5)
	c.SetTags(100, 6)
	if s, f := tagged(chain.Safe), tagged(chain.Finalized); s.Number != 8 || f.Number != 6 {
		t.Errorf("above the head: safe %+v, finalized %+v", s, f)
	}
	c.Intercept(faulty(MethodTagged, Lag(4)))
	if s, f := tagged(chain.Safe), tagged(chain.Finalized); s.Number != 4 || f.Number != 4 {
		t.Errorf("of a node that lags: safe %+v, finalized %+v", s, f)
	}
	c.Intercept(faulty(MethodTagged, Unavailable()))
	if b, err := c.Tagged(t.Context(), chain.Safe); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("of a node that is down: %+v, %v", b, err)
	}
}

func TestPooled_Diagnosis(t *testing.T) {
	t.Parallel()
	c := fresh(Options{})
	ours, other := c.signed(t, 0, 0, 10, shop), c.signed(t, 0, 0, 20, shop)
	is := func(want txn.Diagnosis) {
		t.Helper()
		if got, err := c.Pooled(
			t.Context(),
			Address(0),
			0,
			[]txn.Hash{{4, 0, 4}, ours.Hash},
		); err != nil ||
			got != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	is(txn.PossiblyLost)
	c.mustSend(t, ours, txn.Accepted)
	is(txn.InPool)
	c.mustSend(t, other, txn.Accepted) // replaces it
	is(txn.PossiblyReplaced)
	c.ForgetPool()
	is(txn.PossiblyLost)
	c.mustSend(t, other, txn.Accepted)
	c.Mine(1)
	is(txn.NonceConsumed)
	c.Intercept(faulty(MethodPooled, Lag(1)))
	is(txn.PossiblyLost)
	c.Intercept(faulty(MethodPooled, Unavailable()))
	if got, err := c.Pooled(t.Context(), Address(0), 0, nil); got != txn.Undiagnosed ||
		!errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("of a node that is down: %q, %v", got, err)
	}
	c.Intercept(faulty(MethodFees, Fault{Reply: &txn.Outcome{Class: txn.RateLimited}}))
	if f, o := c.Fees(t.Context(), txn.FeeRequest{}); o.Class != txn.RateLimited {
		t.Errorf("fees %+v, %+v", f, o)
	}
}

// authorize signs an authorization of the i-th key, sent by the j-th.
func (c *Chain) authorize(t *testing.T, i, j int, nonce, authNonce uint64,
	to txn.Address) txn.Signed {
	t.Helper()
	id := *uint256.NewInt(uint64(c.o.ChainID))
	auth, err := types.SignSetCode(Key(i),
		types.SetCodeAuthorization{ChainID: id, Address: to, Nonce: authNonce})
	if err != nil {
		t.Fatal(err)
	}
	tx, err := types.SignNewTx(Key(j), c.signer, &types.SetCodeTx{
		ChainID:   &id,
		Nonce:     nonce,
		To:        shop,
		Gas:       200_000,
		GasFeeCap: uint256.NewInt(10 * gwei),
		GasTipCap: uint256.NewInt(gwei),
		AuthList:  []types.SetCodeAuthorization{auth},
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

func TestDelegation(t *testing.T) {
	t.Parallel()
	c := fresh(Options{})
	view := func() txn.Account {
		t.Helper()
		a, err := c.Account(t.Context(), Address(0), 0)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	c.mustSend(t, c.authorize(t, 0, 1, 0, 5, shop),
		txn.Accepted) // with a nonce that the account does not have
	c.Mine(1)
	if a := view(); a.HasCode || a.Latest != 0 {
		t.Errorf("by an authorization that does not hold: %+v", a)
	}
	c.mustSend(t, c.authorize(t, 0, 1, 1, 0, shop), txn.Accepted)
	c.Mine(1)
	if a := view(); !a.HasCode || a.Latest != 1 {
		t.Errorf("by an authorization: %+v", a)
	}
	// Accounts with code may have one transaction in the pool, which can be replaced.
	c.mustSend(t, c.signed(t, 0, 2, 10, shop), txn.NonceGap)
	c.mustSend(t, c.signed(t, 0, 1, 10, shop), txn.Accepted)
	c.mustSend(t, c.signed(t, 0, 2, 10, shop), txn.PoolFull)
	c.mustSend(t, c.signed(t, 0, 1, 20, shop), txn.Accepted)
	if err := c.Reorg(1, Drop); err != nil {
		t.Fatal(err)
	}
	c.ForgetPool()
	if a := view(); a.HasCode || a.Latest != 0 {
		t.Errorf("after the block was left: %+v", a)
	}
	c.mustSend(t, c.authorize(t, 0, 1, 1, 0, shop), txn.Accepted)
	c.Mine(1)
	c.mustSend(t, c.authorize(t, 0, 1, 2, 1, txn.Address{}), txn.Accepted)
	c.Mine(1)
	if a := view(); a.HasCode || a.Latest != 2 {
		t.Errorf("taken back: %+v", a)
	}
}
