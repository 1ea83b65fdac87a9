package devchain

import "github.com/ethereum/go-ethereum/common"

// mineLimit bounds the blocks of one call: the chain is closed to others meanwhile.
const mineLimit = 1000

// devAPI is the dev namespace of the RPC.
type devAPI struct{ chain *Chain }

// Mine is dev_mine(blocks): it makes blocks, at most 1000, and answers with the
// hash of the last.
func (a *devAPI) Mine(blocks *int) (common.Hash, error) {
	n := 1
	if blocks != nil {
		n = min(*blocks, mineLimit)
	}
	return a.chain.Mine(n)
}

// Reorg is dev_reorg(depth, fate); the fate is "keep" unless given.
func (a *devAPI) Reorg(depth int, fate *Fate) error {
	if fate == nil {
		return a.chain.Reorg(depth, Keep)
	}
	return a.chain.Reorg(depth, *fate)
}

// DropPending is dev_dropPending(hashes...): the pool forgets these transactions,
// or all when none are given.
func (a *devAPI) DropPending(txs *[]common.Hash) error {
	if txs == nil {
		return a.chain.DropPending()
	}
	return a.chain.DropPending(*txs...)
}
