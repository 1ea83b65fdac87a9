package e2e

import (
	"context"
	"sync"

	"github.com/ethereum/go-ethereum/common"
)

// executions is an index of the calls on chain, as a client or an operator can build it: how often
// each was executed. The value of a call tells it from the others of its sender.
type executions struct {
	chain    *testChain
	contract common.Address

	mu    sync.Mutex
	next  uint64 // block
	mined map[execution]map[common.Hash]bool
}

type execution struct {
	from  common.Address
	value string // decimal
}

func newExecutions(c *testChain, contract common.Address) *executions {
	return &executions{chain: c, contract: contract, mined: map[execution]map[common.Hash]bool{}}
}

// of returns how often a call was executed, up to the newest block.
func (x *executions) of(e execution) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	head, err := x.chain.BlockNumber(context.Background())
	if err != nil {
		return 0, err
	}
	for ; x.next <= head; x.next++ {
		list, err := x.chain.transactions(x.next)
		if err != nil {
			return 0, err
		}
		for _, tx := range list {
			if tx.To == nil || *tx.To != x.contract {
				continue
			}
			found := execution{tx.From, tx.Value.ToInt().String()}
			if x.mined[found] == nil {
				x.mined[found] = map[common.Hash]bool{}
			}
			x.mined[found][tx.Hash] = true
		}
	}
	if x.next > head+1 { // a restarted chain lost blocks: read them again
		x.next = head + 1
	}
	return len(x.mined[e]), nil
}
