package chaintest

import (
	"context"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/txn"
)

// BalancesAt reads the balances of accounts after the newest block, and its number.
func (c *Chain) BalancesAt(ctx context.Context, of []txn.Address) (block uint64,
	balances []uint256.Int, err error) {
	for i, address := range of {
		// one read each, so that the faults of account reads apply
		a, err := c.Account(ctx, address, 0)
		if err != nil {
			return 0, nil, err
		}
		if i == 0 || a.Head < block {
			block = a.Head
		}
		balances = append(balances, a.BalanceAt)
	}
	return block, balances, nil
}
