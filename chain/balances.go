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

// maxAhead is how many blocks above the newest head that counts a balance may be.
const maxAhead = 256

// BalancesAt reads the newest block of an endpoint, the balances (in wei) and nonces of accounts
// after that block, and the hashes of some blocks. The newest block is read first and named in the
// reads: an endpoint of several nodes cannot return the balances of an older one.
func (c *Client) BalancesAt(ctx context.Context, of []txn.Address,
	blocks []uint64) (got txn.FundsRead, err error) {
	what := fmt.Sprintf("read %d balances of one block", len(of))
	err = c.read(ctx, what, func(ctx context.Context, e *endpoint, client *jsonrpc.Client) error {
		var head quantity
		if err := client.Call(ctx, &head, "eth_blockNumber"); err != nil {
			return err
		}
		if known := c.highest(); known > 0 && uint64(head) > known+maxAhead {
			return fmt.Errorf("%w: block %d, and the newest one is %d", errMalformed, head, known)
		}
		var err error
		got, err = e.funds(ctx, client, uint64(head), of, blocks)
		return err
	})
	return got, err
}

func (e *endpoint) funds(ctx context.Context, client *jsonrpc.Client, at uint64, of []txn.Address,
	blocks []uint64) (got txn.FundsRead, err error) {
	balances := make([]*bigQuantity, len(of))
	nonces := make([]*quantity, len(of))
	headers := make([]*header, len(blocks))
	var calls []jsonrpc.Call
	for i, address := range of {
		args := []any{address, hexutil.Uint64(at)}
		calls = append(calls,
			jsonrpc.Call{Method: "eth_getBalance", Args: args, Result: &balances[i]},
			jsonrpc.Call{Method: "eth_getTransactionCount", Args: args, Result: &nonces[i]})
	}
	for i, number := range blocks {
		calls = append(calls, jsonrpc.Call{Method: "eth_getBlockByNumber",
			Args: []any{hexutil.Uint64(number), false}, Result: &headers[i]})
	}
	if err := e.batch(ctx, client, calls); err != nil {
		return got, err
	}
	for i := range calls {
		if calls[i].Error != nil {
			return got, calls[i].Error
		}
	}
	got = txn.FundsRead{Block: at, Accounts: make([]txn.AccountFunds, len(of)),
		Hashes: make([]txn.Hash, len(blocks))}
	for i := range of {
		if balances[i] == nil || nonces[i] == nil {
			return got, fmt.Errorf("%w: no balance or nonce", errMalformed)
		}
		got.Accounts[i] = txn.AccountFunds{Balance: uint256.Int(*balances[i]),
			Nonce: txn.Nonce(*nonces[i])}
	}
	for i, h := range headers {
		if h != nil && h.Number != nil && uint64(*h.Number) == blocks[i] {
			got.Hashes[i] = h.Hash
		}
	}
	return got, nil
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
