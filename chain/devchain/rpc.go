package devchain

import "github.com/ethereum/go-ethereum/common"

// mineLimit limits the blocks of one call, which locks the chain.
const mineLimit = 1000

// devAPI is the dev namespace of the RPC.
type devAPI struct{ chain *Chain }

// Mine is dev_mine(blocks): it makes up to 1000 blocks and returns the hash of the last.
func (a *devAPI) Mine(blocks *int) (common.Hash, error) {
	n := 1
	if blocks != nil {
		n = min(*blocks, mineLimit)
	}
	return a.chain.Mine(n)
}

// Reorg is dev_reorg(depth, disposition); the default disposition is "keep".
func (a *devAPI) Reorg(depth int, disposition *Disposition) error {
	if disposition == nil {
		return a.chain.Reorg(depth, Keep)
	}
	return a.chain.Reorg(depth, *disposition)
}

// DropPending is dev_dropPending(hashes...): it drops these transactions from the pool, or all if
// none is given.
func (a *devAPI) DropPending(txs *[]common.Hash) error {
	if txs == nil {
		return a.chain.DropPending()
	}
	return a.chain.DropPending(*txs...)
}
