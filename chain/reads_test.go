package chain

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/fencepost/fencepost/txn"
	"github.com/holiman/uint256"
	"pgregory.net/rapid"
)

func receiptOf(hash common.Hash) map[string]any {
	return map[string]any{
		"transactionHash": hash,
		"blockHash":       common.HexToHash("0xb1"),
		"blockNumber":     hexutil.Uint64(7),
		"status":          hexutil.Uint64(1),
		"gasUsed":         hexutil.Uint64(21000), "effectiveGasPrice": hexutil.Uint64(9),
	}
}

func TestReceipts(t *testing.T) {
	t.Parallel()
	h := func(i uint64) common.Hash { return common.BigToHash(new(big.Int).SetUint64(i)) }
	n := newNode(t)
	n.set(func(n *fakeNode) {
		n.receipt = func(hash common.Hash) (map[string]any, error) {
			r := receiptOf(hash)
			switch hash {
			case h(1):
			case h(2):
				return nil, nil
			case h(3):
				return nil, errors.New("transaction indexing is in progress")
			case h(4):
				r["status"] = hexutil.Uint64(0)
			case h(5):
				r["blockNumber"], r["blockHash"] = nil, nil
			case h(6):
				r["transactionHash"] = h(1)
			case h(7):
				delete(r, "status")
			}
			return r, nil
		}
	})
	r := dial(t, nil, n.url())
	got := r.Receipts(t.Context(), []txn.Hash{h(1), h(2), h(3), h(4), h(5), h(6), h(7)})
	for i, want := range []string{
		"found",
		"missing",
		"unavailable",
		"failed",
		"missing",
		"unavailable",
		"unavailable",
	} {
		a, is := got[i], "missing"
		switch {
		case errors.Is(a.Err, txn.ErrUnavailable):
			is = "unavailable"
		case a.Err != nil:
			is = a.Err.Error()
		case a.Receipt != nil && a.Receipt.Success:
			is = "found"
		case a.Receipt != nil:
			is = "failed"
		}
		if is != want || a.Hash != h(uint64(i+1)) {
			t.Errorf("receipt %d of %s is %s, want %s", i+1, a.Hash, is, want)
		}
	}
	want := txn.Receipt{
		TxHash:            h(1),
		BlockNumber:       7,
		BlockHash:         common.HexToHash("0xb1"),
		Success:           true,
		GasUsed:           21000,
		EffectiveGasPrice: *uint256.NewInt(9),
	}
	if *got[0].Receipt != want {
		t.Errorf("got %+v, want %+v", *got[0].Receipt, want)
	}
}

func TestReceipts_Batches(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.set(func(n *fakeNode) {
		n.receipt = func(hash common.Hash) (map[string]any, error) { return receiptOf(hash), nil }
	})
	r := dial(t, nil, n.url())
	r.mustHead(t)
	n.set(func(n *fakeNode) { n.requests = 0 })
	hashes := make([]txn.Hash, 250)
	for i := range hashes {
		hashes[i] = common.BigToHash(big.NewInt(int64(i + 1)))
	}
	for i, a := range r.Receipts(t.Context(), hashes) {
		if a.Err != nil || a.Hash != hashes[i] || a.Receipt == nil ||
			a.Receipt.TxHash != hashes[i] {
			t.Fatalf("answer %d: %+v", i, a)
		}
	}
	if n.requests != 3 {
		t.Errorf("%d requests for 250 hashes in batches of 100, want 3", n.requests)
	}
	if got := r.Receipts(t.Context(), nil); len(got) != 0 {
		t.Errorf("answers to no question: %v", got)
	}
}

func TestReceipts_Indexing_Unavailable(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.set(func(n *fakeNode) {
		n.receipt = func(common.Hash) (map[string]any, error) {
			return nil, errors.New("transaction indexing is in progress")
		}
	})
	r := dial(t, nil, n.url())
	for _, a := range r.Receipts(t.Context(), []txn.Hash{{1}, {2}}) {
		if !errors.Is(a.Err, txn.ErrUnavailable) || a.Receipt != nil {
			t.Errorf("%+v, want unavailable: it is no evidence that there is none", a)
		}
	}
	r.mustHead(t) // the endpoint is healthy
}

// If every call of a batch fails, the endpoint is at fault, not the hashes.
func TestReceipts_EndpointFails_TriesNext(t *testing.T) {
	t.Parallel()
	a, b := newNode(t), newNode(t)
	a.set(func(n *fakeNode) {
		n.receipt = func(common.Hash) (map[string]any, error) {
			return nil, coded{code: -32000, msg: "missing trie node"}
		}
	})
	b.set(func(n *fakeNode) {
		n.receipt = func(hash common.Hash) (map[string]any, error) { return receiptOf(hash), nil }
	})
	r := dial(t, nil, a.url(), b.url())
	r.mustHead(t)
	for _, got := range r.Receipts(t.Context(), []txn.Hash{{1}, {2}}) {
		if got.Err != nil || got.Receipt == nil {
			t.Errorf("%+v", got)
		}
	}
}

func TestAccount_HeadGoesBack(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.set(func(n *fakeNode) {
		n.count = func(tag string) (hexutil.Uint64, error) {
			if tag == "latest" {
				n.set(func(n *fakeNode) { n.head -= 2 })
			}
			return 0, nil
		}
	})
	r := dial(t, nil, n.url())
	r.mustHead(t)
	n.set(func(n *fakeNode) { n.head = 9 })
	if a, err := r.Account(t.Context(), common.Address{1}, 1); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf(
			"%+v, %v; want unavailable: the settled nonce is of a block that is not deep enough", a,
			err)
	}
}

func TestAccount(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	moves := 0
	n.set(func(n *fakeNode) {
		n.balance = (*hexutil.Big)(big.NewInt(77))
		n.code = types.AddressToDelegation(common.Address{0xac})
		n.count = func(tag string) (hexutil.Uint64, error) {
			switch tag {
			case "latest":
				return 5, nil
			case "pending":
				return 6, nil
			}
			at, err := hexutil.DecodeUint64(tag)
			if moves > 0 { // the head moves during the read
				moves--
				n.set(func(n *fakeNode) { n.head++ })
			}
			return hexutil.Uint64(at), err
		}
	})
	r := dial(t, nil, n.url())
	r.mustHead(t)
	for _, c := range []struct {
		mined            uint64 // since the last read
		moves            int    // during the read
		settled, atBlock uint64
		head             uint64
	}{
		{0, 0, 3, 7, 10},
		{0, 0, 0, 10, 10},
		{0, 0, 100, 0, 10},
		{1, 0, 3, 8, 11},  // read again at the new head
		{1, 9, 3, 10, 14}, // the head keeps moving: from a deeper block, never from a shallower one
	} {
		moves = c.moves
		n.set(func(n *fakeNode) { n.head += c.mined })
		a, err := r.Account(t.Context(), common.Address{1}, c.settled)
		want := txn.Account{
			Source:    "endpoint 1",
			Latest:    5,
			Pending:   6,
			Settled:   txn.Nonce(c.atBlock),
			Head:      c.head,
			HeadHash:  n.hash(c.head),
			HasCode:   true,
			Delegate:  common.Address{0xac},
			BalanceAt: *uint256.NewInt(77),
		}
		if err != nil || a != want {
			t.Errorf("%+v: %+v, %v; want %+v", c, a, err, want)
		}
	}
}

func TestHeads(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	if dial(t, nil, n.url()).Heads(t.Context()) != nil {
		t.Error("HTTP alone cannot wake anybody")
	}
	r := dial(t, func(o *Options) { o.Timeout = 10 * time.Second }, n.url(), n.wsURL())
	ctx, cancel := context.WithCancel(t.Context())
	wake := r.Heads(ctx)
	awaitWake(t, wake) // on subscription
	n.heads <- struct{}{}
	awaitWake(t, wake)
	// The subscription breaks and is renewed.
	n.stop()
	awaitDropped(t, r.endpoints[1])
	n.listen(t)
	woken := make(chan struct{})
	go func() { // the delay uses the fake clock
		for {
			select {
			case <-woken:
				return
			default:
				if due, ok := r.clock.Next(); ok {
					r.clock.Advance(due.Sub(r.clock.Now()))
				}
			}
		}
	}()
	awaitWake(t, wake)
	close(woken)
	cancel()
	for range wake { // ends when it is closed
	}
}

// awaitDropped waits until no caller can get the broken connection.
func awaitDropped(t *testing.T, e *endpoint) {
	t.Helper()
	giveUp := time.After(20 * time.Second)
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for {
		e.mu.Lock()
		dropped := e.client == nil
		e.mu.Unlock()
		if dropped {
			return
		}
		select {
		case <-look.C:
		case <-giveUp:
			t.Fatal("a broken connection is kept")
		}
	}
}

func awaitWake(t *testing.T, wake <-chan struct{}) {
	t.Helper()
	select {
	case <-wake:
	case <-time.After(20 * time.Second):
		t.Fatal("not woken")
	}
}

func TestQuote(t *testing.T) {
	t.Parallel()
	to := common.HexToAddress("0xb0b")
	draft := txn.Draft{
		From:    common.HexToAddress("0xa11ce"),
		Payload: txn.Payload{To: &to, Value: *uint256.NewInt(5), Data: []byte{1, 2}},
	}
	rich := func(n *fakeNode) { n.balance = (*hexutil.Big)(new(big.Int).Lsh(big.NewInt(1), 200)) }
	london := func(n *fakeNode) {
		rich(n)
		n.baseFee = (*hexutil.Big)(big.NewInt(900))
		n.history = func() (map[string]any, error) {
			return map[string]any{
				"baseFeePerGas": []hexutil.Uint64{800, 900, 1000},
				"reward":        [][]hexutil.Uint64{{3_000_000}, {0}, {2_000_000}},
			}, nil
		}
	}
	legacy := func(n *fakeNode) {
		rich(n)
		n.gasPrice = (*hexutil.Big)(big.NewInt(7_000_000_000))
	}
	refuse := func(c coded) func(*fakeNode) {
		return func(n *fakeNode) {
			london(n)
			n.estimate = func(map[string]any) (hexutil.Uint64, error) { return 0, c }
		}
	}
	dynamic := func(limit, tip uint64) txn.Fees {
		return txn.Fees{Cap: *uint256.NewInt(limit), Tip: *uint256.NewInt(tip)}
	}
	flat := func(price uint64) txn.Fees {
		return txn.Fees{Cap: *uint256.NewInt(price), Tip: *uint256.NewInt(price), Legacy: true}
	}
	for name, c := range map[string]struct {
		node    func(*fakeNode)
		options func(*Options)
		draft   func(*txn.Draft)
		class   txn.Class
		gas     uint64
		fees    txn.Fees
		detail  string
	}{
		"base fee": {node: london, class: txn.Accepted, gas: 25200, fees: dynamic(2*1000+
			3_000_000, 3_000_000)},
		"no fee history": {
			node:  func(n *fakeNode) { london(n); n.history = nil },
			class: txn.Accepted,
			gas:   25200,
			fees:  dynamic(2*(900+112)+1_000_000, 1_000_000),
		},
		"tip floor": {
			node:    london,
			options: func(o *Options) { o.Fees.MinTip.SetUint64(5_000_000) },
			class:   txn.Accepted,
			gas:     25200,
			fees:    dynamic(2000+5_000_000, 5_000_000),
		},
		"fee cap": {
			node:    london,
			options: func(o *Options) { o.Fees.MaxFee.SetUint64(2_000_000) },
			class:   txn.Accepted,
			gas:     25200,
			fees:    dynamic(2_000_000, 2_000_000),
		},
		"cap below base": {
			node:    london,
			options: func(o *Options) { o.Fees.MaxFee.SetUint64(999); o.Fees.MinTip.SetUint64(1) },
			class:   txn.FeeCapBelowBaseFee,
			detail:  "0.000001 gwei",
		},
		"legacy": {
			node:  legacy,
			class: txn.Accepted,
			gas:   25200,
			fees:  flat(7_000_000_000),
		},
		"legacy cap": {
			node:    legacy,
			options: func(o *Options) { o.Fees.MaxFee.SetUint64(6_000_000_000) },
			class:   txn.Accepted,
			gas:     25200,
			fees:    flat(6_000_000_000),
		},
		"legacy no price": {node: rich, class: txn.Unavailable, detail: "gas price"},
		"fixed price": {
			node:    london,
			options: func(o *Options) { o.Fees.FixedPrice = uint256.NewInt(0) },
			class:   txn.Accepted,
			gas:     25200,
			fees:    flat(0),
		},
		"own gas limit": {
			node:  london,
			draft: func(d *txn.Draft) { d.Payload.GasLimit = 60000 },
			class: txn.Accepted,
			gas:   60000,
			fees:  dynamic(2000+3_000_000, 3_000_000),
		},
		"margin within the block": {node: func(n *fakeNode) {
			london(n)
			n.estimate = func(map[string]any) (hexutil.Uint64, error) { return 29_000_000, nil }
		}, class: txn.Accepted, gas: 30_000_000, fees: dynamic(2000+3_000_000, 3_000_000)},
		"margin within a transaction": {node: func(n *fakeNode) {
			london(n)
			n.estimate = func(map[string]any) (hexutil.Uint64, error) { return 16_000_000, nil }
		}, class: txn.Accepted, gas: maxTxGas, fees: dynamic(2000+3_000_000, 3_000_000)},
		"poor": {
			node:   func(n *fakeNode) { london(n); n.balance = (*hexutil.Big)(big.NewInt(1)) },
			class:  txn.InsufficientFunds,
			detail: "balance 1 wei",
		},
		"revert": {
			node:   refuse(coded{code: 3, msg: "execution reverted: nope"}),
			class:  txn.ExecutionReverted,
			detail: "execution reverted: nope",
		},
		"revert text about nonces": {
			node:   refuse(coded{code: 3, msg: "execution reverted: nonce too low"}),
			class:  txn.ExecutionReverted,
			detail: "nonce too low",
		},
		"no funds by the node": {
			node:   refuse(coded{code: -32000, msg: "insufficient funds for transfer"}),
			class:  txn.InsufficientFunds,
			detail: "insufficient",
		},
		"too much gas": {
			node:   refuse(coded{code: -32000, msg: "gas required exceeds allowance (30000000)"}),
			class:  txn.Ambiguous,
			detail: "allowance",
		},
		"nonce talk": {
			node:   refuse(coded{code: -32000, msg: "nonce too low"}),
			class:  txn.Ambiguous,
			detail: "nonce",
		},
		"rate limited": {
			node:   refuse(coded{code: -32005, msg: "rate limited, try again in 3s"}),
			class:  txn.RateLimited,
			detail: "rate limited",
		},
		"node is syncing": {
			node:   refuse(coded{code: -32000, msg: "node is syncing"}),
			class:  txn.Unavailable,
			detail: "syncing",
		},
		"unknown words": {
			node:   refuse(coded{code: -32000, msg: "no idea"}),
			class:  txn.Ambiguous,
			detail: "no idea",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.set(c.node)
			r := dial(t, c.options, n.url())
			d := draft
			if c.draft != nil {
				c.draft(&d)
			}
			q, o := r.Quote(t.Context(), d)
			if o.Class != c.class || !strings.Contains(o.Detail, c.detail) {
				t.Fatalf("%+v, want %s about %q", o, c.class, c.detail)
			}
			if want := (txn.Quote{GasLimit: c.gas, Fees: c.fees}); q != want {
				t.Errorf("got %+v, want %+v", q, want)
			}
		})
	}
}

func TestQuoteArguments(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	var args map[string]any
	n.set(func(n *fakeNode) {
		n.estimate = func(a map[string]any) (hexutil.Uint64, error) { args = a; return 21000, nil }
		n.gasPrice, n.balance = (*hexutil.Big)(big.NewInt(1)), (*hexutil.Big)(big.NewInt(1_000_000))
	})
	r := dial(t, nil, n.url())
	to := common.HexToAddress("0xb0b")
	if _, o := r.Quote(
		t.Context(),
		txn.Draft{
			From: common.HexToAddress("0xa1"),
			Payload: txn.Payload{
				To:       &to,
				Value:    *uint256.NewInt(5),
				Data:     []byte{1, 2},
				GasLimit: 30000,
			},
		},
	); o.Class != txn.Accepted {
		t.Fatal(o)
	}
	if got, want := fmt.Sprint(args), fmt.Sprint(map[string]any{
		"from":  strings.ToLower(common.HexToAddress("0xa1").Hex()),
		"to":    strings.ToLower(to.Hex()),
		"value": "0x5",
		"data":  "0x0102",
		"gas":   "0x7530",
	}); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, o := r.Quote(
		t.Context(),
		txn.Draft{Payload: txn.Payload{Data: []byte{1}}},
	); o.Class != txn.Accepted {
		t.Fatal(o)
	}
	if _, named := args["to"]; named {
		t.Errorf("a creation names a recipient: %v", args)
	}
}

func TestDynamicFees(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		amount := func(name string) txn.Wei {
			var b [32]byte
			copy(b[rapid.SampledFrom([]int{0, 16, 24, 28}).Draw(t, name+" offset"):],
				rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, name))
			return *new(uint256.Int).SetBytes32(b[:])
		}
		f := FeeOptions{MinTip: amount("floor"), MaxFee: amount("cap")}
		if !f.MaxFee.IsZero() && f.MinTip.Gt(&f.MaxFee) {
			f.MinTip = f.MaxFee // rejected by Dial
		}
		base, tip := amount("base"), amount("tip")
		fees, ok := f.DynamicFees(base, tip)
		if !ok {
			room := new(txn.Wei).Sub(&f.MaxFee, &base)
			if f.MaxFee.IsZero() || !f.MaxFee.Lt(&base) && !room.Lt(&f.MinTip) {
				t.Fatal("refused although the cap covers the base fee and the least tip")
			}
			return
		}
		if room := new(txn.Wei).Sub(&fees.Cap, &base); room.Lt(&f.MinTip) &&
			fees.Cap != *new(txn.Wei).SetAllOne() {
			t.Fatal("the cap leaves less than the least tip")
		}
		switch {
		case fees.Tip.Gt(&fees.Cap):
			t.Fatal("the tip is above the cap")
		case fees.Cap.Lt(&base):
			t.Fatal("the cap is below the base fee")
		case !f.MaxFee.IsZero() && fees.Cap.Gt(&f.MaxFee):
			t.Fatal("the cap is above the configured one")
		case fees.Tip.Lt(&f.MinTip) && fees.Tip.Lt(&fees.Cap):
			t.Fatal("the tip is below its floor although there is room")
		case fees.Legacy:
			t.Fatal("legacy")
		}
	})
}

func TestGasLimit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		estimate := rapid.Uint64Range(0, 1<<40).Draw(t, "estimate")
		block := rapid.Uint64Range(0, 1<<40).Draw(t, "block")
		margin := rapid.Float64Range(1, maxGasMargin).Draw(t, "margin")
		got := gasLimit(estimate, block, margin)
		if got < estimate ||
			got > estimate && (block > 0 && got > block || estimate <= maxTxGas && got > maxTxGas) {
			t.Fatalf("%d of an estimate of %d in a block of %d", got, estimate, block)
		}
	})
}

// A pruned node reports missing state, unlike an unreachable one. Another endpoint may have the
// state.
func TestAccount_PrunedState_NoState(t *testing.T) {
	t.Parallel()
	const head, kept = 1000, 128
	n, archive := newNode(t), newNode(t)
	words, newest := "missing trie node 1234 (path ) state 0x12 is not available, not found", error(
		nil)
	n.set(func(n *fakeNode) {
		n.head = head
		n.count = func(tag string) (hexutil.Uint64, error) {
			if at, err := hexutil.DecodeUint64(tag); err == nil && at+kept < head {
				return 0, errors.New(words)
			}
			return 5, newest
		}
	})
	archive.set(func(n *fakeNode) {
		n.head = head
		n.count = func(string) (hexutil.Uint64, error) { return 5, nil }
	})
	r := dial(t, nil, n.url())
	r.mustHead(t)
	if a, err := r.Account(t.Context(), common.Address{1}, 64); err != nil || a.Settled != 5 {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := r.Account(t.Context(), common.Address{1}, 256); !errors.Is(err, txn.ErrNoState) ||
		!errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("a state that is gone: %v", err)
	}
	words = "too many requests, rate limit reached"
	if _, err := r.Account(t.Context(), common.Address{1}, 256); errors.Is(err, txn.ErrNoState) ||
		!errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("no more calls for now: %v", err)
	}
	words, newest = "missing trie node", errors.New("header not found")
	if _, err := dial(t, nil, n.url()).Account(t.Context(), common.Address{1}, 256); errors.Is(err,
		txn.ErrNoState) ||
		!errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("no latest block: %v", err)
	}
	newest = nil
	both := dial(t, nil, n.url(), archive.url())
	both.mustHead(t)
	if a, err := both.Account(t.Context(), common.Address{1}, 256); err != nil || a.Settled != 5 {
		t.Errorf("with an archive: %+v, %v", a, err)
	}
}
