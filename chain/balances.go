package chain

import (
	"context"
	"fmt"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/chain/jsonrpc"
	"github.com/fencepost/fencepost/txn"
)

// Balances reads the balances of accounts, in wei, from one endpoint.
func (c *Client) Balances(ctx context.Context, of []txn.Address) (balances []uint256.Int,
	err error) {
	what := fmt.Sprintf("read %d balances", len(of))
	err = c.read(ctx, what, func(ctx context.Context, e *endpoint, client *jsonrpc.Client) error {
		balances, err = e.balances(ctx, client, of, "latest")
		return err
	})
	return balances, err
}

// BalancesAt reads the newest block of an endpoint and the balances of accounts after that block,
// in wei. The block is read first and named in the reads: an endpoint of several nodes cannot
// return the balances of an older one.
func (c *Client) BalancesAt(ctx context.Context, of []txn.Address) (block uint64,
	balances []uint256.Int, err error) {
	what := fmt.Sprintf("read %d balances of one block", len(of))
	err = c.read(ctx, what, func(ctx context.Context, e *endpoint, client *jsonrpc.Client) error {
		var head quantity
		if err := client.Call(ctx, &head, "eth_blockNumber"); err != nil {
			return err
		}
		block = uint64(head)
		balances, err = e.balances(ctx, client, of, hexutil.Uint64(block))
		return err
	})
	return block, balances, err
}

func (e *endpoint) balances(ctx context.Context, client *jsonrpc.Client, of []txn.Address,
	at any) ([]uint256.Int, error) {
	balances := make([]uint256.Int, len(of))
	calls := make([]jsonrpc.Call, len(of))
	reported := make([]*bigQuantity, len(of))
	for i, address := range of {
		calls[i] = jsonrpc.Call{
			Method: "eth_getBalance", Args: []any{address, at}, Result: &reported[i],
		}
	}
	if err := e.batch(ctx, client, calls); err != nil {
		return nil, err
	}
	for i := range calls {
		if calls[i].Error != nil {
			return nil, calls[i].Error
		}
		if reported[i] == nil {
			return nil, fmt.Errorf("%w: no balance", errMalformed)
		}
		balances[i] = uint256.Int(*reported[i])
	}
	return balances, nil
}
