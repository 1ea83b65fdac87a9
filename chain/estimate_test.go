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
		tooMuch = estimatesFail("gas limit exceeds block gas limit")
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
			31_500*price, true},
		"a node that counts": {
			txn.Payload{},
			"insufficient funds for transfer: have 7 want 5000000",
			value + 31_500*price,
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
