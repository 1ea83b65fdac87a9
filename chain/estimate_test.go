package chain

import (
	"net/http"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/fencepost/fencepost/txn"
)

// One endpoint whose estimates are broken keeps nobody waiting, and gives up nothing alone.
func TestEstimateFailsOver(t *testing.T) {
	t.Parallel()
	says := func(msg string) reply {
		return func(n *fakeNode) {
			n.set(func(n *fakeNode) {
				n.estimate = func(map[string]any) (hexutil.Uint64, error) { return 0, coded{code: -32000, msg: msg} }
			})
		}
	}
	down := func(n *fakeNode) { n.answerHTTP(http.StatusBadGateway, nil, "") }
	works := func(*fakeNode) {}
	var (
		crashed = says("the method handler crashed")
		invalid = says("json: cannot unmarshal: invalid sender")
		tooMuch = says("gas limit exceeds block gas limit")
		poor    = says("insufficient funds for transfer")
		reverts = says("execution reverted")
		limited = says("rate limited")
	)
	for name, c := range map[string]struct {
		endpoints []reply
		want      txn.Class
		asked     []int // estimates
	}{
		"broken, then well":             {[]reply{crashed, works}, txn.Accepted, []int{1, 1}},
		"broken, then no funds":         {[]reply{crashed, poor}, txn.InsufficientFunds, []int{1, 1}},
		"broken, then reverts":          {[]reply{crashed, reverts}, txn.ExecutionReverted, []int{1, 1}},
		"broken everywhere":             {[]reply{crashed, crashed}, txn.Ambiguous, []int{1, 1}},
		"broken, alone":                 {[]reply{crashed}, txn.Ambiguous, []int{1}},
		"broken, then down":             {[]reply{crashed, down}, txn.Ambiguous, []int{1, 0}},
		"invalid, alone":                {[]reply{tooMuch}, txn.Invalid, []int{1}},
		"invalid here, well there":      {[]reply{invalid, works}, txn.Accepted, []int{1, 1}},
		"invalid here, no funds there":  {[]reply{invalid, poor}, txn.InsufficientFunds, []int{1, 1}},
		"invalid twice is enough":       {[]reply{tooMuch, tooMuch, works}, txn.Invalid, []int{1, 1, 0}},
		"invalid, and nobody else":      {[]reply{tooMuch, limited, down}, txn.Invalid, []int{1, 1, 0}},
		"invalid, then broken":          {[]reply{tooMuch, crashed}, txn.Ambiguous, []int{1, 1}},
		"broken, then invalid":          {[]reply{crashed, tooMuch}, txn.Ambiguous, []int{1, 1}},
		"broken, then invalid twice":    {[]reply{crashed, tooMuch, tooMuch}, txn.Invalid, []int{1, 1, 1}},
		"invalid, broken, then invalid": {[]reply{tooMuch, crashed, tooMuch}, txn.Invalid, []int{1, 1, 1}},
		"no funds, settled at once":     {[]reply{poor, works}, txn.InsufficientFunds, []int{1, 0}},
		"reverts, settled at once":      {[]reply{reverts, works}, txn.ExecutionReverted, []int{1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes, urls := make([]*fakeNode, len(c.endpoints)), make([]string, len(c.endpoints))
			for i, behave := range c.endpoints {
				nodes[i] = newNode(t)
				nodes[i].set(func(n *fakeNode) {
					n.gasPrice, n.baseFee, n.balance = (*hexutil.Big)(common.Big1), (*hexutil.Big)(common.Big1), (*hexutil.Big)(hexutil.MustDecodeBig("0xffffffffffffff"))
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
