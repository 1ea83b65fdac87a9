package chain

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/fencepost/fencepost/txn"
	"github.com/holiman/uint256"
	"pgregory.net/rapid"
)

func wei(n uint64) txn.Wei { return *uint256.NewInt(n) }

func TestOffer(t *testing.T) {
	t.Parallel()
	const gwei = 1_000_000_000
	ptr := func(n uint64) *txn.Wei { return uint256.NewInt(n) }
	london := Market{BaseFee: ptr(90 * gwei), NextBaseFee: ptr(100 * gwei), Tip: wei(2 * gwei)}
	old := Market{GasPrice: ptr(8 * gwei)}
	with := func(m Market, floor Floor) Market { m.Floor = floor; return m }
	for name, c := range map[string]struct {
		f         FeeOptions
		speed     txn.Speed
		limit     uint64
		m         Market
		limitFee  uint64 // of the offer, in gwei; 0: none
		tip       uint64
		wantWords string // of the rejection
	}{
		"base fee": {m: london, limitFee: 202, tip: 2},
		"own cap":  {m: london, limit: 150 * gwei, limitFee: 150, tip: 2},
		"own cap above the chain's": {
			f:        FeeOptions{MaxFee: wei(120 * gwei)},
			m:        london,
			limit:    150 * gwei,
			limitFee: 120,
			tip:      2,
		},
		"own cap below the base fee": {
			m:         london,
			limit:     99 * gwei,
			wantWords: "base fee of 100 gwei is above the cap of 99 gwei",
		},
		"own cap with room for a tip": {
			f:        FeeOptions{MinTip: wei(gwei)},
			m:        london,
			limit:    101 * gwei,
			limitFee: 101,
			tip:      2,
		},
		"own cap without room for a tip": {
			f:         FeeOptions{MinTip: wei(gwei)},
			m:         london,
			limit:     101*gwei - 1,
			wantWords: "101 gwei, is above the cap of 100.999999999 gwei",
		},
		"cap without room for a tip": {f: FeeOptions{MaxFee: wei(100*gwei +
			7)}, m: london, wantWords: "100.001 gwei, is above the cap of 100.000000007 gwei"},
		"least price": {
			f:        FeeOptions{MinPrice: wei(300 * gwei)},
			m:        london,
			limitFee: 300,
			tip:      2,
		},
		"least price above own cap": {
			f:         FeeOptions{MinPrice: wei(300 * gwei)},
			m:         london,
			limit:     250 * gwei,
			wantWords: "300 gwei is above the cap of 250 gwei",
		},
		"learned tip": {
			m:        with(london, Floor{Tip: wei(25 * gwei)}),
			limitFee: 225,
			tip:      25,
		},
		"learned tip below the usual": {
			m:        with(london, Floor{Tip: wei(gwei)}),
			limitFee: 202,
			tip:      2,
		},
		"learned tip above own cap": {
			m:         with(london, Floor{Tip: wei(125 * gwei)}),
			limit:     120 * gwei,
			wantWords: "125 gwei is above",
		},
		"learned price": {
			m:        with(london, Floor{Price: wei(500 * gwei)}),
			limitFee: 500,
			tip:      2,
		},
		"learned price above own cap": {
			m:         with(london, Floor{Price: wei(500 * gwei)}),
			limit:     400 * gwei,
			wantWords: "minimum fee",
		},
		"legacy":          {m: old, limitFee: 8, tip: 8},
		"legacy, slow":    {speed: txn.Slow, m: old, limitFee: 8, tip: 8},
		"legacy, fast":    {speed: txn.Fast, m: old, limitFee: 10, tip: 10},
		"legacy, own cap": {m: old, limit: 7 * gwei, limitFee: 7, tip: 7},
		"legacy, least price": {
			f:        FeeOptions{MinPrice: wei(9 * gwei)},
			m:        old,
			limitFee: 9,
			tip:      9,
		},
		"legacy, learned as tip": {
			m:        with(old, Floor{Tip: wei(9 * gwei)}),
			limitFee: 9,
			tip:      9,
		},
		"legacy, learned as price": {
			m:        with(old, Floor{Price: wei(9 * gwei)}),
			limitFee: 9,
			tip:      9,
		},
		"legacy, no price": {m: Market{}, wantWords: "no gas price"},
		"legacy, learned above own cap": {
			m:         with(old, Floor{Tip: wei(9 * gwei)}),
			limit:     8 * gwei,
			wantWords: "minimum fee",
		},
		"fixed": {
			f:        FeeOptions{FixedPrice: ptr(3 * gwei)},
			m:        london,
			speed:    txn.Fast,
			limitFee: 3,
			tip:      3,
		},
		"fixed, within own cap": {
			f:        FeeOptions{FixedPrice: ptr(3 * gwei)},
			m:        london,
			limit:    3 * gwei,
			limitFee: 3,
			tip:      3,
		},
		"fixed, above own cap": {
			f:         FeeOptions{FixedPrice: ptr(3 * gwei)},
			m:         london,
			limit:     2 * gwei,
			wantWords: "fixed price of 3 gwei is above the cap of 2 gwei",
		},
		"fixed stays fixed, come what may": {
			f:        FeeOptions{FixedPrice: ptr(3 * gwei)},
			m:        with(london, Floor{Tip: wei(25 * gwei)}),
			limitFee: 3,
			tip:      3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fees, o := c.f.Offer(c.speed, wei(c.limit), c.m)
			if c.wantWords != "" {
				capped := o.Class == txn.FeeCapBelowBaseFee
				if o.Class == txn.Accepted || !strings.Contains(o.Detail, c.wantWords) ||
					o.ChainCap != (capped && c.limit == 0) {
					t.Errorf("%+v, %+v; want a refusal with %q", fees, o, c.wantWords)
				}
				return
			}
			want := txn.Fees{
				Cap:    wei(c.limitFee * gwei),
				Tip:    wei(c.tip * gwei),
				Legacy: c.m.BaseFee == nil || c.f.FixedPrice != nil,
			}
			if o.Class != txn.Accepted || fees != want {
				t.Errorf("%+v, %+v; want %+v", fees, o, want)
			}
		})
	}
}

// The caller's own gas limit is used unchanged if a pool accepts it. Otherwise it is rejected
// before a nonce is allocated.
func TestOwnGasLimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		gas, estimate uint64
		ok            bool
	}{
		"as estimated":                            {50_000, 50_000, true},
		"within the error of an estimate":         {49_500, 50_000, true},
		"too little to run":                       {48_000, 50_000, false},
		"a plain transfer":                        {21_000, 21_000, true},
		"one less than any transaction takes":     {20_999, 21_000, false},
		"the same, below an inexact estimate":     {20_999, 21_200, false},
		"on a chain where transactions are cheap": {9_999, 10_000, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := Market{
				BaseFee:  new(wei(1)),
				Balance:  wei(1 << 60),
				Estimate: c.estimate,
				BlockGas: 30_000_000,
			}
			q, o := FeeOptions{}.Quote(txn.Draft{Payload: txn.Payload{GasLimit: c.gas}}, m, 1.2)
			if c.ok != (o.Class == txn.Accepted) || c.ok && q.GasLimit != c.gas ||
				!c.ok && o.Class != txn.Invalid {
				t.Errorf("%+v, %+v", q, o)
			}
		})
	}
}

// For any market, floors and caps, an offer is within both, or there is none.
func TestOffer_CapsAndFloors(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		amount := func(name string) txn.Wei { return wei(rapid.Uint64Range(0, 100).Draw(t, name)) }
		f := FeeOptions{MinTip: wei(1), MinPrice: amount("least price"), MaxFee: amount("cap")}
		m := Market{
			Tip:   amount("tip"),
			Floor: Floor{Tip: amount("tip floor"), Price: amount("price floor")},
		}
		price := amount("market")
		if m.GasPrice = &price; rapid.Bool().Draw(t, "base fee") {
			m.BaseFee = &price
			m.NextBaseFee = &price
			m.GasPrice = nil
		}
		limit := amount("own cap")
		fees, o := f.Offer(rapid.SampledFrom(txn.Speeds).Draw(t, "speed"), limit, m)
		if o.Class != txn.Accepted {
			if f.MaxFee.IsZero() && limit.IsZero() {
				t.Fatalf("nothing is offered although there is no cap: %+v", o)
			}
			return
		}
		for what, bad := range map[string]bool{
			"above the chain's cap": !f.MaxFee.IsZero() && fees.Cap.Gt(&f.MaxFee),
			"above its own cap":     !limit.IsZero() && fees.Cap.Gt(&limit),
			"below the least price": fees.Cap.Lt(&f.MinPrice) || fees.Cap.Lt(&m.Floor.Price),
			"below the tip floor":   fees.Tip.Lt(&m.Floor.Tip),
			"more tip than cap":     fees.Tip.Gt(&fees.Cap),
			"below the base fee":    m.BaseFee != nil && fees.Cap.Lt(&price),
			"no tip but in name":    m.BaseFee != nil && fees.Cap == price,
		} {
			if bad {
				t.Fatalf("%+v is %s", fees, what)
			}
		}
	})
}

func TestQuote_Speed_UsesPercentile(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.set(func(n *fakeNode) {
		n.baseFee = (*hexutil.Big)(big.NewInt(1000))
		n.history = func() (map[string]any, error) {
			return map[string]any{
				"baseFeePerGas": []hexutil.Uint64{1000, 1000},
				"reward":        [][]hexutil.Uint64{{5_000_000}},
			}, nil
		}
		n.balance = (*hexutil.Big)(new(big.Int).Lsh(big.NewInt(1), 100))
	})
	for _, c := range []struct {
		o    FeeOptions
		want []float64 // slow, standard, fast
	}{
		{FeeOptions{}, []float64{25, 50, 75}},
		{FeeOptions{Percentile: 10}, []float64{10, 10, 75}},
		{FeeOptions{Percentile: 90}, []float64{25, 90, 90}},
		{FeeOptions{SlowPercentile: 1, Percentile: 2, FastPercentile: 3}, []float64{1, 2, 3}},
	} {
		r := dial(t, func(o *Options) { o.Fees = c.o }, n.url())
		for i, speed := range []txn.Speed{txn.Slow, txn.Standard, txn.Fast} {
			fees, o := r.Fees(t.Context(), txn.FeeRequest{Speed: speed})
			if o.Class != txn.Accepted || fees.Tip != wei(5_000_000) ||
				fees.Cap != wei(5_002_000) ||
				!slices.Equal(n.asked, c.want[i:i+1]) {
				t.Errorf("fees at %q: %+v, %+v, asked for %v, want %v", speed, fees, o, n.asked,
					c.want[i])
			}
			if _, o := r.Quote(
				t.Context(),
				txn.Draft{
					From:    txn.Address{byte(i + 1)}, // nothing is cached of it
					Speed:   speed,
					Payload: txn.Payload{To: &txn.Address{}},
				},
			); o.Class != txn.Accepted ||
				!slices.Equal(n.asked, c.want[i:i+1]) {
				t.Errorf("quote at %q: %+v, asked for %v, want %v", speed, o, n.asked, c.want[i])
			}
		}
	}
	if n.called("eth_getBalance") != n.called("eth_estimateGas") ||
		n.called("eth_feeHistory") != 2*n.called("eth_estimateGas") {
		t.Error("fees alone ask for an account, or simulate")
	}
}

func TestFees(t *testing.T) {
	t.Parallel()
	london := func(n *fakeNode) { n.baseFee = (*hexutil.Big)(big.NewInt(1000)) }
	price := func(wei int64) func(*fakeNode) {
		return func(n *fakeNode) { n.gasPrice = (*hexutil.Big)(big.NewInt(wei)) }
	}
	for name, c := range map[string]struct {
		node  []func(*fakeNode)
		limit uint64
		class txn.Class
		cap   uint64
		tip   uint64
	}{
		"legacy": {[]func(*fakeNode){price(7)}, 0, txn.Accepted, 7, 7},
		"own cap": {
			[]func(*fakeNode){london},
			1_002_000,
			txn.Accepted,
			1_002_000,
			1_000_000,
		},
		"own cap, just enough": {
			[]func(*fakeNode){london},
			1_001_125,
			txn.Accepted,
			1_001_125,
			1_000_000,
		},
		"own cap without a tip": {
			[]func(*fakeNode){london},
			1_001_124,
			txn.FeeCapBelowBaseFee,
			0,
			0,
		},
		"own cap below": {[]func(*fakeNode){london}, 1_100, txn.FeeCapBelowBaseFee, 0, 0},
		"without a history": {
			[]func(*fakeNode){london, price(3_001_000)},
			0,
			txn.Accepted,
			2250 + 3_000_000,
			3_000_000,
		},
		"a price below the base": {[]func(*fakeNode){london, price(3)}, 0, txn.Accepted, 2250 +
			1_000_000, 1_000_000},
		"no price": {nil, 0, txn.Unavailable, 0, 0},
		"the history comes later": {[]func(*fakeNode){london, func(n *fakeNode) {
			n.history = func() (map[string]any, error) {
				return nil, coded{code: -32005, msg: "rate limited, try again in 3s"}
			}
		}}, 0, txn.RateLimited, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.set(func(n *fakeNode) {
				for _, change := range c.node {
					change(n)
				}
			})
			// the cap for new transactions does not apply to replacements
			client := dial(t, func(o *Options) { o.Fees.MaxFee = wei(1_000_000) }, n.url())
			fees, o := client.Fees(t.Context(), txn.FeeRequest{Limit: wei(c.limit)})
			if o.Class != c.class || fees.Cap != wei(c.cap) || fees.Tip != wei(c.tip) {
				t.Errorf("%+v, %+v; want %s, cap %d, tip %d", fees, o, c.class, c.cap, c.tip)
			}
			if o.Class == txn.RateLimited && o.RetryAfter != 3*time.Second {
				t.Errorf("%+v lost the provider's hint", o)
			}
		})
	}
	n := newNode(t)
	n.stop()
	if fees, o := dial(t, nil, n.url()).Fees(
		t.Context(),
		txn.FeeRequest{},
	); o.Class != txn.Unavailable {
		t.Errorf("of a node that is down: %+v, %+v", fees, o)
	}
	n.listen(t)
}

var learnerKey, _ = crypto.ToECDSA(crypto.Keccak256([]byte("learner")))

// offered is a signed transaction with these fees; legacy if the tip is above the cap.
func offered(t *testing.T, limit, tip int64) txn.Signed {
	t.Helper()
	var data types.TxData = &types.DynamicFeeTx{
		ChainID:   big.NewInt(int64(testChain)),
		To:        &common.Address{},
		Gas:       21000,
		GasFeeCap: big.NewInt(limit),
		GasTipCap: big.NewInt(tip),
	}
	if tip > limit {
		data = &types.LegacyTx{To: &common.Address{}, Gas: 21000, GasPrice: big.NewInt(limit)}
	}
	tx, err := types.SignNewTx(learnerKey,
		types.LatestSignerForChainID(big.NewInt(int64(testChain))), data)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := tx.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return txn.Signed{Hash: tx.Hash(), Raw: raw}
}

// asks is a rejection with the required fees; zero: not stated.
func asks(fee, tip uint64) txn.Outcome {
	o := txn.Outcome{Class: txn.Underpriced}
	if fee > 0 {
		o.FeeNeeded = uint256.NewInt(fee)
	}
	if tip > 0 {
		o.TipNeeded = uint256.NewInt(tip)
	}
	return o
}

func TestFloorsLearn(t *testing.T) {
	t.Parallel()
	another := asks(0, 500)
	another.Class = txn.ReplacementUnderpriced
	for name, c := range map[string]struct {
		signed txn.Signed
		o      txn.Outcome
		limit  uint64
		want   Floor
	}{
		"a tip": {
			offered(t, 400, 100),
			asks(0, 500),
			0,
			Floor{Tip: wei(500)},
		},
		"a price": {
			offered(t, 400, 100),
			asks(500, 0),
			0,
			Floor{Price: wei(500)},
		},
		"both": {
			offered(t, 400, 100),
			asks(500, 300),
			0,
			Floor{Price: wei(500), Tip: wei(300)},
		},
		"both, and one is kept": {
			offered(t, 600, 100),
			asks(500, 300),
			0,
			Floor{Tip: wei(300)},
		},
		"the tip, for the cap is enough": {
			offered(t, 600, 100),
			asks(500, 0),
			0,
			Floor{Tip: wei(500)},
		},
		"a gas price": {
			offered(t, 400, 401),
			asks(500, 0),
			0,
			Floor{Price: wei(500)},
		},
		"the tip of a gas price": {
			offered(t, 400, 401),
			asks(0, 500),
			0,
			Floor{Tip: wei(500)},
		},
		"no more than the cap": {
			offered(t, 400, 100),
			asks(0, 500),
			450,
			Floor{Tip: wei(450)},
		},
		"no higher price than the cap": {
			offered(t, 400, 100),
			asks(500, 0),
			450,
			Floor{Price: wei(450)},
		},
		"what was offered was enough": {offered(t, 600, 500), asks(0, 500), 0, Floor{}},
		"no number":                   {offered(t, 400, 100), asks(0, 0), 0, Floor{}},
		"another class":               {offered(t, 400, 100), another, 0, Floor{}},
		"bytes that are none":         {txn.Signed{Raw: []byte{1}}, asks(0, 500), 0, Floor{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var f Floors
			now := time.Unix(1_700_000_000, 0)
			f.Learn(now, c.signed, c.o, wei(c.limit))
			if got := f.At(now); got != c.want {
				t.Errorf("learned %v, want %v", got, c.want)
			}
		})
	}
}

func TestFloorsFade(t *testing.T) {
	t.Parallel()
	var f Floors
	begin := time.Unix(1_700_000_000, 0)
	f.Learn(begin, offered(t, 600, 100), asks(0, 500), txn.Wei{})
	f.Learn(begin.Add(floorHold/2), offered(t, 600, 600), asks(800, 0), txn.Wei{})
	at := func(d time.Duration) string {
		held := f.At(begin.Add(floorHold / 2).Add(d))
		return held.Tip.Dec() + " " + held.Price.Dec()
	}
	for d, want := range map[time.Duration]string{
		0:               "500 800",
		floorHold - 1:   "500 800",
		floorHold:       "250 400",
		3 * floorHold:   "62 100",
		300 * floorHold: "0 0",
		1 << 62:         "0 0",
		-floorHold:      "500 800",
	} {
		if got := at(d); got != want {
			t.Errorf("after %v: %s, want %s", d, got, want)
		}
	}
	f.Learn(begin.Add(3*floorHold/2), offered(t, 600, 100), asks(0, 500), txn.Wei{})
	if got := at(2*floorHold - 1); got != "500 400" {
		t.Errorf("not forgotten: %s", got)
	}
}

// A node's minimum tip causes one rejection. Later quotes and fees respect it, within the
// configured cap.
func TestClient_Underpriced_LearnsFloor(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.set(func(n *fakeNode) {
		n.baseFee = (*hexutil.Big)(big.NewInt(1000))
		n.send = func(raw hexutil.Bytes) (common.Hash, error) {
			return common.Hash{}, coded{
				code: -32000,
				msg: fmt.Sprintf("transaction underpriced: gas tip cap %d, minimum needed %d", 100,
					30_000_000),
			}
		}
	})
	r := dial(t, func(o *Options) { o.Fees.MaxFee = wei(20_000_000) }, n.url())
	before, _ := r.Fees(t.Context(), txn.FeeRequest{Limit: wei(20_000_000)})
	if o := r.Send(t.Context(), offered(t, 10_000, 100)); o.Class != txn.Underpriced {
		t.Fatalf("%+v", o)
	}
	fees, o := r.Fees(t.Context(), txn.FeeRequest{Limit: wei(20_000_000)})
	if o.Class != txn.Accepted || before.Tip != wei(1_000_000) || fees.Tip != wei(20_000_000) ||
		fees.Cap != wei(20_000_000) {
		t.Errorf("before %+v, after %+v, %+v", before, fees, o)
	}
	r.clock.Advance(2 * floorHold)
	if fees, _ := r.Fees(t.Context(),
		txn.FeeRequest{Limit: wei(20_000_000)}); fees.Tip != wei(5_000_000) {
		t.Errorf("after a while %+v", fees)
	}
}
