package chaintest

import (
	"context"

	"github.com/fencepost/fencepost/txn"
)

// BalancesAt reads the balances and nonces of accounts after the newest block, and the hashes of
// blocks.
func (c *Chain) BalancesAt(ctx context.Context, of []txn.Address,
	blocks []uint64) (got txn.FundsRead, err error) {
	for i, address := range of {
		// one read each, so that the faults of account reads apply
		a, err := c.Account(ctx, address, 0)
		if err != nil {
			return txn.FundsRead{}, err
		}
		if i == 0 || a.Head < got.Block {
			got.Block = a.Head
		}
		got.Accounts = append(got.Accounts,
			txn.AccountFunds{Balance: a.BalanceAt, Nonce: a.Latest})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	got.Hashes = make([]txn.Hash, len(blocks))
	for i, number := range blocks {
		if number < uint64(len(c.blocks)) {
			got.Hashes[i] = c.blocks[number].Hash
		}
	}
	return got, nil
}
