package chain

import (
	"context"
	"fmt"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/chain/jsonrpc"
	"github.com/fencepost/fencepost/txn"
)

// Balances reads the balances of accounts, in wei, from one endpoint.
func (c *Client) Balances(ctx context.Context, of []txn.Address) ([]uint256.Int, error) {
	balances := make([]uint256.Int, len(of))
	what := fmt.Sprintf("read %d balances", len(of))
	err := c.read(ctx, what, func(ctx context.Context, e *endpoint, client *jsonrpc.Client) error {
		calls := make([]jsonrpc.Call, len(of))
		reported := make([]*bigQuantity, len(of))
		for i, address := range of {
			calls[i] = jsonrpc.Call{
				Method: "eth_getBalance", Args: []any{address, "latest"}, Result: &reported[i],
			}
		}
		if err := e.batch(ctx, client, calls); err != nil {
			return err
		}
		for i := range calls {
			if calls[i].Error != nil {
				return calls[i].Error
			}
			if reported[i] == nil {
				return fmt.Errorf("%w: no balance", errMalformed)
			}
			balances[i] = uint256.Int(*reported[i])
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return balances, nil
}
