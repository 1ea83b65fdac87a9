package chain

import (
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/fencepost/fencepost/txn"
	"github.com/holiman/uint256"
)

var floorStart = time.Unix(1_700_000_000, 0)

func priced(class txn.Class, limit, tip uint64) txn.FeeRequest {
	return txn.FeeRequest{Refused: class, Newest: txn.Fees{Cap: wei(limit), Tip: wei(tip)}}
}

// A refusal without a number raises the floor to the node's suggestion, or doubles the tip.
func TestFloors_Guess(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		r     txn.FeeRequest
		m     Market
		known Floor
		limit uint64
		want  uint64 // the guess
	}{
		"suggested": {priced(txn.Underpriced, 100, 10), Market{TipHint: wei(50)}, Floor{}, 500,
			50},
		"suggested too little": {priced(txn.Underpriced, 100, 10), Market{TipHint: wei(10)},
			Floor{}, 500, 20},
		"not suggested": {priced(txn.Underpriced, 100, 10), Market{}, Floor{}, 500, 20},
		"capped":        {priced(txn.Underpriced, 100, 80), Market{}, Floor{}, 100, 100},
		"suggested above it": {priced(txn.Underpriced, 100, 80), Market{TipHint: wei(900)},
			Floor{}, 100, 100},
		"no cap, suggested": {priced(txn.Underpriced, 100, 10), Market{TipHint: wei(50)},
			Floor{}, 0, 50},
		"no cap": {priced(txn.Underpriced, 100, 10), Market{}, Floor{}, 0, 0},
		"stated tip": {priced(txn.Underpriced, 100, 10), Market{}, Floor{Tip: wei(30)},
			500, 0},
		"stated price": {priced(txn.Underpriced, 100, 10), Market{},
			Floor{Price: wei(300)}, 500, 0},
		"guessed before": {priced(txn.Underpriced, 100, 10), Market{}, Floor{Guess: wei(40)},
			500, 40},
		"guessed too little": {priced(txn.Underpriced, 100, 40), Market{}, Floor{Guess: wei(40)},
			500, 80},
		"for the base fee": {priced(txn.FeeCapBelowBaseFee, 100, 10), Market{}, Floor{}, 500,
			0},
		"not refused": {priced("", 100, 10), Market{}, Floor{}, 500, 0},
		"gas price, no 1559": {priced(txn.Underpriced, 10, 10),
			Market{GasPrice: uint256.NewInt(70)}, Floor{}, 500, 70},
		"free, and not wanted": {priced(txn.Underpriced, 0, 0), Market{}, Floor{}, 500, 0},
	} {
		f := Floors{floor: c.known, at: floorStart}
		if c.m.GasPrice == nil {
			c.m.BaseFee = new(txn.Wei)
		}
		f.Guess(floorStart, c.r, &c.m, wei(c.limit))
		if got := f.At(floorStart); got.Guess != wei(c.want) || got != c.m.Floor {
			t.Errorf("%s: %+v, for the market %+v", name, got, c.m.Floor)
		}
	}
}

// A type other than legacy that no node took is not tried again for a day.
func TestFloors_LearnType(t *testing.T) {
	t.Parallel()
	no := txn.Outcome{Class: txn.TypeNotSupported}
	var f Floors
	f.LearnType(floorStart, offered(t, 400, 401), no) // a legacy transaction
	f.LearnType(floorStart, offered(t, 400, 100), txn.Outcome{Class: txn.Invalid})
	f.LearnType(floorStart, txn.Signed{Raw: []byte{1}}, no)
	if f.At(floorStart).LegacyOnly {
		t.Fatal("learned from another response")
	}
	f.LearnType(floorStart, offered(t, 400, 100), no)
	for d, want := range map[time.Duration]bool{0: true, typeHold - 1: true, typeHold: false} {
		if got := f.At(floorStart.Add(d)).LegacyOnly; got != want {
			t.Errorf("after %s: %t", d, got)
		}
	}
}

// What one process learned another knows, as old as it is there.
func TestFloors_Recall(t *testing.T) {
	t.Parallel()
	var a, b Floors
	a.Learn(floorStart, offered(t, 600, 100), asks(0, 500), txn.Wei{})
	a.LearnType(floorStart, offered(t, 400, 100), txn.Outcome{Class: txn.TypeNotSupported})
	later := floorStart.Add(floorHold * 3 / 2)
	if r := (&Floors{}).Rules(later); r != (txn.PoolRules{}) {
		t.Errorf("%+v of nothing learned", r)
	}
	b.Recall(later, a.Rules(later), txn.Wei{})
	for _, d := range []time.Duration{0, floorHold / 2, floorHold, typeHold} {
		if mine, theirs := a.At(later.Add(d)), b.At(later.Add(d)); mine != theirs {
			t.Errorf("after %s: %+v, and recalled %+v", d, mine, theirs)
		}
	}
	b.Learn(later, offered(t, 600, 600), asks(800, 0), txn.Wei{})
	b.Recall(later, a.Rules(later), txn.Wei{})
	if got := b.At(later); got.Tip != wei(250) || got.Price != wei(800) || !got.LegacyOnly {
		t.Errorf("both: %+v", got)
	}
	b.Recall(later, txn.PoolRules{MinTip: wei(100), FeesAge: time.Hour}, txn.Wei{})
	if got := b.At(later); got.Tip != wei(250) || got.Price != wei(800) || !got.LegacyOnly {
		t.Errorf("after less than known: %+v", got)
	}
	var c Floors
	c.Recall(floorStart, a.Rules(floorStart), wei(300))
	if got := c.At(floorStart); got.Tip != wei(300) {
		t.Errorf("under a lower cap: %+v", got)
	}
}

// On a chain with base fees whose nodes take legacy transactions only, the price covers the next
// two base fees and the tip, and stays within the cap.
func TestOffer_LegacyOnly(t *testing.T) {
	t.Parallel()
	m := Market{BaseFee: uint256.NewInt(800), NextBaseFee: uint256.NewInt(800), Tip: wei(50),
		Floor: Floor{LegacyOnly: true}}
	for name, c := range map[string]struct {
		price, limit, floor, guess uint64
		speed                      txn.Speed
		want                       uint64 // 0: none
	}{
		"base fees and tip":       {want: 950},
		"gas price":               {price: 1000, want: 1000},
		"faster":                  {price: 1000, speed: txn.Fast, want: 1250},
		"lower gas price":         {price: 100, want: 950},
		"capped":                  {limit: 900, want: 900},
		"floor":                   {floor: 500, want: 1400},
		"guess":                   {guess: 500, want: 1400},
		"guess, capped":           {guess: 500, limit: 1000, want: 1000},
		"cap below the base fee":  {limit: 700},
		"no room for minimum tip": {limit: 801},
	} {
		market := m
		if c.price > 0 {
			market.GasPrice = uint256.NewInt(c.price)
		}
		market.Floor.Tip, market.Floor.Guess = wei(c.floor), wei(c.guess)
		f := FeeOptions{MinTip: wei(10)}
		fees, o := f.Offer(c.speed, wei(c.limit), market)
		want := txn.Fees{Cap: wei(c.want), Tip: wei(c.want), Legacy: true}
		if (o.Class == txn.Accepted) != (c.want > 0) || c.want > 0 && fees != want {
			t.Errorf("%s: %+v %+v", name, fees, o)
		}
	}
	m.Floor.LegacyOnly = false
	r := txn.FeeRequest{Refused: txn.TypeNotSupported, Limit: wei(5000)}
	if fees, _ := (FeeOptions{MinTip: wei(10)}).Reoffer(r, m); !fees.Legacy {
		t.Errorf("for a refused type: %+v", fees)
	}
}

// The node's suggestion is queried for the replacement of a refused attempt, and at no other time.
func TestFees_Refused_QueriesSuggestion(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.set(func(n *fakeNode) {
		n.baseFee = (*hexutil.Big)(big.NewInt(1000))
		n.tipHint = (*hexutil.Big)(big.NewInt(30_000_000))
		n.balance = (*hexutil.Big)(big.NewInt(1e18))
		n.send = func(hexutil.Bytes) (common.Hash, error) {
			return common.Hash{}, coded{code: -32000, msg: "transaction underpriced"}
		}
	})
	r := dial(t, func(o *Options) { o.Fees.MaxFee = wei(100_000_000) }, n.url())
	draft := txn.Draft{Payload: txn.Payload{To: &txn.Address{}}}
	if q, o := r.Quote(t.Context(), draft); o.Class != txn.Accepted ||
		q.Fees.Tip != wei(1_000_000) {
		t.Fatalf("%+v %+v", q, o)
	}
	if o := r.Send(t.Context(), offered(t, 1_002_000, 1_000_000)); o.Class != txn.Underpriced {
		t.Fatalf("%+v", o)
	}
	if _, o := r.Fees(t.Context(), txn.FeeRequest{}); o.Class != txn.Accepted {
		t.Fatalf("%+v", o)
	}
	if calls := n.called("eth_maxPriorityFeePerGas"); calls != 0 {
		t.Errorf("queried %d times", calls)
	}
	fees, o := r.Fees(t.Context(), priced(txn.Underpriced, 1_002_000, 1_000_000))
	if o.Class != txn.Accepted || fees.Tip != wei(30_000_000) ||
		n.called("eth_maxPriorityFeePerGas") != 1 {
		t.Errorf("%+v %+v", fees, o)
	}
	if q, o := r.Quote(t.Context(), draft); o.Class != txn.Accepted ||
		q.Fees.Tip != wei(30_000_000) {
		t.Errorf("the next quote: %+v %+v", q, o)
	}
	if calls := n.called("eth_maxPriorityFeePerGas"); calls != 1 {
		t.Errorf("queried %d times", calls)
	}
}

// A type counts as refused only if no endpoint takes it.
func TestSend_TypeRefusedByOne_Kept(t *testing.T) {
	t.Parallel()
	legacy, other := newNode(t), newNode(t)
	legacy.set(func(n *fakeNode) {
		n.baseFee = (*hexutil.Big)(big.NewInt(1000))
		n.send = func(hexutil.Bytes) (common.Hash, error) {
			return common.Hash{}, coded{code: -32000, msg: "only legacy transactions are supported"}
		}
	})
	other.set(func(n *fakeNode) {
		n.baseFee = (*hexutil.Big)(big.NewInt(1000))
		n.send = func(raw hexutil.Bytes) (common.Hash, error) {
			return crypto.Keccak256Hash(raw), nil
		}
	})
	r := dial(t, nil, legacy.url(), other.url())
	if o := r.Send(t.Context(), offered(t, 1_002_000, 1_000_000)); o.Class != txn.Accepted ||
		r.PoolRules().Typed {
		t.Fatalf("%+v %+v", o, r.PoolRules())
	}
	r = dial(t, nil, legacy.url())
	o := r.Send(t.Context(), offered(t, 1_002_000, 1_000_000))
	if o.Class != txn.TypeNotSupported || !r.PoolRules().Typed {
		t.Fatalf("%+v %+v", o, r.PoolRules())
	}
	fees, o := r.Fees(t.Context(), txn.FeeRequest{})
	if o.Class != txn.Accepted || !fees.Legacy {
		t.Errorf("%+v %+v", fees, o)
	}
	again := dial(t, nil, legacy.url())
	again.RecallPoolRules(r.PoolRules())
	if fees, o = again.Fees(t.Context(), txn.FeeRequest{}); !fees.Legacy {
		t.Errorf("after a restart: %+v %+v", fees, o)
	}
}

// TestFloors_ManyAccounts_GuessDoubledSlowly refuses an attempt of another account every 100 ms for
// ten seconds, as a full pool does.
func TestFloors_ManyAccounts_GuessDoubledSlowly(t *testing.T) {
	t.Parallel()
	f, tip := new(Floors), wei(10)
	for after := time.Duration(0); after < 10*time.Second; after += 100 * time.Millisecond {
		now := floorStart.Add(after)
		m := Market{BaseFee: new(txn.Wei)}
		f.Guess(now, priced(txn.Underpriced, 1_000_000, tip.Uint64()), &m, wei(1_000_000))
		tip = larger(tip, f.At(now).Guess)
	}
	if most := wei(160); tip.Gt(&most) {
		t.Errorf("a tip of 10 became %s", tip.Dec())
	}
	if got := f.At(floorStart.Add(10*time.Second + 4*guessHold)).Guess; got.Gt(&tip) ||
		got.Uint64() > 10 {
		t.Errorf("the guess is %s after 40 minutes", got.Dec())
	}
}
