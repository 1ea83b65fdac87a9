package chain

import (
	"math/big"
	"net/http"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/fencepost/fencepost/txn"
	"github.com/holiman/uint256"
)

// estimatesFail makes estimates fail with this message.
func estimatesFail(msg string) reply {
	return func(n *fakeNode) {
		n.set(func(n *fakeNode) {
			n.estimate = func(map[string]any) (hexutil.Uint64, error) {
				return 0, coded{code: -32000, msg: msg}
			}
		})
	}
}

// One endpoint with broken estimates delays no caller, and cannot give up a draft alone.
func TestEstimate_EndpointFails_TriesNext(t *testing.T) {
	t.Parallel()
	down := func(n *fakeNode) { n.answerHTTP(http.StatusBadGateway, nil, "") }
	works := func(*fakeNode) {}
	var (
		crashed = estimatesFail("the method handler crashed")
		invalid = estimatesFail("json: cannot unmarshal: invalid sender")
		tooMuch = estimatesFail("max initcode size exceeded")
		poor    = estimatesFail("insufficient funds for transfer")
		reverts = estimatesFail("execution reverted")
		limited = estimatesFail("rate limited")
	)
	for name, c := range map[string]struct {
		endpoints []reply
		want      txn.Class
		asked     []int // estimates
	}{
		"broken, then well": {[]reply{crashed, works}, txn.Accepted, []int{1, 1}},
		"broken, then no funds": {
			[]reply{crashed, poor},
			txn.InsufficientFunds,
			[]int{1, 1},
		},
		"broken, then reverts": {
			[]reply{crashed, reverts},
			txn.ExecutionReverted,
			[]int{1, 1},
		},
		"broken everywhere":        {[]reply{crashed, crashed}, txn.Ambiguous, []int{1, 1}},
		"broken, alone":            {[]reply{crashed}, txn.Ambiguous, []int{1}},
		"broken, then down":        {[]reply{crashed, down}, txn.Ambiguous, []int{1, 0}},
		"invalid, alone":           {[]reply{tooMuch}, txn.Invalid, []int{1}},
		"invalid here, well there": {[]reply{invalid, works}, txn.Accepted, []int{1, 1}},
		"invalid here, no funds there": {
			[]reply{invalid, poor},
			txn.InsufficientFunds,
			[]int{1, 1},
		},
		"invalid twice is enough": {
			[]reply{tooMuch, tooMuch, works},
			txn.Invalid,
			[]int{1, 1, 0},
		},
		"invalid, and nobody else": {
			[]reply{tooMuch, limited, down},
			txn.Invalid,
			[]int{1, 1, 0},
		},
		"invalid, then broken": {[]reply{tooMuch, crashed}, txn.Ambiguous, []int{1, 1}},
		"broken, then invalid": {[]reply{crashed, tooMuch}, txn.Ambiguous, []int{1, 1}},
		"broken, then invalid twice": {
			[]reply{crashed, tooMuch, tooMuch},
			txn.Invalid,
			[]int{1, 1, 1},
		},
		"invalid, broken, then invalid": {
			[]reply{tooMuch, crashed, tooMuch},
			txn.Invalid,
			[]int{1, 1, 1},
		},
		"no funds, settled at once": {[]reply{poor, works}, txn.InsufficientFunds, []int{1, 0}},
		"reverts, settled at once":  {[]reply{reverts, works}, txn.ExecutionReverted, []int{1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes, urls := make([]*fakeNode, len(c.endpoints)), make([]string, len(c.endpoints))
			for i, behave := range c.endpoints {
				nodes[i] = newNode(t)
				nodes[i].set(func(n *fakeNode) {
					n.gasPrice = (*hexutil.Big)(common.Big1)
					n.baseFee = (*hexutil.Big)(common.Big1)
					n.balance = (*hexutil.Big)(hexutil.MustDecodeBig("0xffffffffffffff"))
				})
				behave(nodes[i])
				urls[i] = nodes[i].url()
			}
			r := dial(t, nil, urls...)
			r.mustHead(t)
			_, o := r.Quote(t.Context(), txn.Draft{Payload: txn.Payload{To: &txn.Address{1}}})
			if o.Class != c.want {
				t.Errorf("%+v, want %s", o, c.want)
			}
			for i, n := range nodes {
				if got := n.called("eth_estimateGas"); got != c.asked[i] {
					t.Errorf("endpoint %d was asked %d times, want %d", i+1, got, c.asked[i])
				}
			}
		})
	}
}

// The estimate only covers the value. The reported shortage must also cover gas, so that funding it
// once is enough.
func TestEstimate_ValueAboveBalance_IncludesGas(t *testing.T) {
	t.Parallel()
	const (
		price = 1000
		value = 5_000_000
		have  = 7
	)
	for name, c := range map[string]struct {
		payload txn.Payload
		words   string
		want    uint64
		atLeast bool
	}{
		"a transfer": {txn.Payload{}, "insufficient funds for transfer", value +
			21_000*price, true},
		"a node that counts": {
			txn.Payload{},
			"insufficient funds for transfer: have 7 want 5000000",
			value + 21_000*price,
			true,
		},
		"a node that has more": {
			txn.Payload{},
			"insufficient funds for transfer: have 7 want 900000000",
			900_000_000,
			true,
		},
		"with data": {
			txn.Payload{Data: []byte{0, 1}},
			"insufficient funds for transfer",
			value + 31_530*price,
			true,
		},
		"a limit of its own": {
			txn.Payload{GasLimit: 40_000},
			"insufficient funds for transfer",
			value + 40_000*price,
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.set(func(n *fakeNode) {
				n.baseFee = nil
				n.gasPrice, n.balance = (*hexutil.Big)(big.NewInt(price)), (*hexutil.Big)(
					big.NewInt(have))
			})
			estimatesFail(c.words)(n)
			r := dial(t, func(o *Options) { o.GasMargin = 1.5 }, n.url())
			r.mustHead(t)
			c.payload.To, c.payload.Value = &txn.Address{1}, *uint256.NewInt(value)
			_, o := r.Quote(t.Context(), txn.Draft{Payload: c.payload})
			if o.Class != txn.InsufficientFunds || o.Have == nil || o.Want == nil ||
				o.Short == nil {
				t.Fatalf("%+v", o)
			}
			if o.Have.Uint64() != have || o.Want.Uint64() != c.want ||
				o.Short.Uint64() != c.want-have ||
				o.AtLeast != c.atLeast {
				t.Errorf("has %s, wants %s (want %d), short of %s, at least: %v", o.Have.Dec(),
					o.Want.Dec(), c.want, o.Short.Dec(), o.AtLeast)
			}
		})
	}
}

// An estimate that fails for want of gas judges a draft only by a gas limit of its own, and only if
// the node estimates more without that limit.
func TestQuirk_EstimateLacksGas_NotFinal(t *testing.T) {
	t.Parallel()
	const floor = "insufficient gas for floor data gas cost: gas 21000, minimum needed 40000"
	for name, c := range map[string]struct {
		own, needs, most uint64 // needs 0: every estimate fails
		want             txn.Class
		ourCap           bool
		asked            int
	}{
		"no limit":               {0, 0, 0, txn.Ambiguous, false, 1},
		"a limit, nothing known": {50_000, 0, 0, txn.Ambiguous, false, 2},
		"a sufficient limit":     {50_000, 40_000, 0, txn.Ambiguous, false, 2},
		"a limit that is too low": {
			30_000, 40_000, 0, txn.Invalid, false, 2,
		},
		"a limit that is a little too low": {
			39_999, 40_000, 0, txn.Invalid, false, 2,
		},
		"a limit below the minimum of any chain": {
			20_000, 0, 0, txn.Invalid, false, 1,
		},
		"a limit above the block's": {
			40_000_000, 40_000, 0, txn.Invalid, false, 2,
		},
		"a limit above the configured maximum": {
			50_000, 40_000, 45_000, txn.Invalid, true, 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.set(func(n *fakeNode) {
				n.baseFee = (*hexutil.Big)(common.Big1)
				n.balance = (*hexutil.Big)(hexutil.MustDecodeBig("0xffffffffffffff"))
				n.estimate = func(args map[string]any) (hexutil.Uint64, error) {
					if args["gas"] == nil && c.needs > 0 {
						return hexutil.Uint64(c.needs), nil
					}
					return 0, coded{code: -32000, msg: floor}
				}
			})
			r := dial(t, func(o *Options) { o.Fees.MaxGas = c.most }, n.url())
			r.mustHead(t)
			_, o := r.Quote(t.Context(), txn.Draft{
				Payload: txn.Payload{To: &txn.Address{1}, GasLimit: c.own},
			})
			if o.Class != c.want || o.GasCap != c.ourCap {
				t.Errorf("%+v, want %s", o, c.want)
			}
			if got := n.called("eth_estimateGas"); got != c.asked {
				t.Errorf("%d estimates, want %d", got, c.asked)
			}
		})
	}
}

// A transfer to an account without code gets exactly the gas that it needs; anything else gets the
// margin.
func TestQuote_PlainTransfer_ExactGas(t *testing.T) {
	t.Parallel()
	for estimate, want := range map[hexutil.Uint64]uint64{
		21_000: 21_000, 21_001: 25_202, 20_000: 21_000, 40_000: 48_000,
	} {
		n := newNode(t)
		n.set(func(n *fakeNode) {
			n.baseFee = (*hexutil.Big)(common.Big1)
			n.balance = (*hexutil.Big)(hexutil.MustDecodeBig("0xffffffffffffff"))
			n.estimate = func(map[string]any) (hexutil.Uint64, error) { return estimate, nil }
		})
		r := dial(t, nil, n.url())
		r.mustHead(t)
		for range 2 { // the second from the cache
			q, o := r.Quote(t.Context(), txn.Draft{Payload: txn.Payload{To: &txn.Address{1}}})
			if o.Class != txn.Accepted || q.GasLimit != want {
				t.Errorf("estimate %d: gas limit %d, want %d (%+v)", estimate, q.GasLimit, want, o)
			}
		}
	}
}
