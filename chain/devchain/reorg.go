package devchain

import (
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
)

// Disposition is the effect of a reorg on the transactions of the removed blocks.
type Disposition string

// Dispositions of transactions in a reorg.
const (
	// Keep includes them again at the same heights.
	Keep Disposition = "keep"
	// Return puts them back into the pool. The new blocks are empty; later ones include them.
	Return Disposition = "return"
	// Drop removes them, from the pool too.
	Drop Disposition = "drop"
)

// Reorg replaces the newest depth blocks by depth+1 others in one step. Other transactions stay in
// the pool.
func (c *Chain) Reorg(depth int, disposition Disposition) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.reorg(depth, disposition); err != nil {
		return fmt.Errorf("devchain: reorg of %d blocks: %w", depth, err)
	}
	return nil
}

func (c *Chain) reorg(depth int, disposition Disposition) error {
	if disposition != Keep && disposition != Return && disposition != Drop {
		return fmt.Errorf("unknown disposition %q; use %q, %q or %q", disposition, Keep, Return,
			Drop)
	}
	removed, err := c.newest(depth)
	if err != nil {
		return err
	}
	bc := c.eth.BlockChain()
	tip := bc.GetBlockByHash(removed[0].ParentHash())
	for _, old := range removed {
		txs := old.Transactions()
		if disposition != Keep {
			txs = nil
		}
		if tip, err = c.build(tip.Header(), txs, len(txs) == 0); err != nil {
			return err
		}
	}
	if tip, err = c.build(tip.Header(), nil, true); err != nil {
		return err
	}
	if err := c.choose(tip); err != nil {
		return err
	}
	if disposition == Drop {
		return c.drop(hashes(removed))
	}
	return c.syncPool()
}

// newest returns the newest depth blocks, oldest first.
func (c *Chain) newest(depth int) ([]*types.Block, error) {
	if c.closed {
		return nil, errClosed
	}
	bc := c.eth.BlockChain()
	head, final := bc.CurrentBlock().Number.Uint64(), bc.CurrentFinalBlock().Number.Uint64()
	if depth < 1 || uint64(depth) > head-final {
		return nil, fmt.Errorf(
			"head is block %d, block %d is final: the depth must be 1 to %d", head, final,
			head-final)
	}
	var list []*types.Block
	for n := head - uint64(depth) + 1; n <= head; n++ {
		list = append(list, bc.GetBlockByNumber(n))
	}
	return list, nil
}

func hashes(blocks []*types.Block) map[common.Hash]bool {
	set := map[common.Hash]bool{}
	for _, b := range blocks {
		for _, tx := range b.Transactions() {
			set[tx.Hash()] = true
		}
	}
	return set
}
