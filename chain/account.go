package chain

import (
	"context"
	"fmt"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/fencepost/fencepost/txn"
	"github.com/holiman/uint256"
)

// accountTries bounds how often a view is taken again because the head moved while it was taken.
const accountTries = 3

// Account looks at an account in one batch to one endpoint.
//
// The settled nonce is asked for at a block number that follows from the head, and the head comes with the batch. So the number is worked out from the last
// known head, and the view is taken again when the head had moved. A chain that moves faster than that yields a settled nonce from a little deeper, which
// errs on the side of "not settled".
func (c *Client) Account(ctx context.Context, address txn.Address, settled uint64) (txn.Account, error) {
	what := "read account " + address.Hex()
	var view txn.Account
	err := c.read(ctx, what, func(ctx context.Context, e *endpoint, client *rpc.Client) error {
		known, _, _ := e.view()
		var depth int64
		for range accountTries {
			at := known - min(settled, known)
			var err error
			if view, err = accountAt(ctx, client, address, at); err != nil {
				return err
			}
			e.sawHead(view.Head)
			known = view.Head
			if depth = int64(view.Head-min(settled, view.Head)) - int64(at); depth == 0 {
				return nil
			}
		}
		if depth < 0 {
			return fmt.Errorf("%w: the chain goes back while it is read", errMalformed)
		}
		return nil
	})
	if err != nil {
		return txn.Account{}, err
	}
	return view, nil
}

// accountAt is one batch, with the settled nonce as of the block numbered at.
func accountAt(ctx context.Context, client *rpc.Client, address txn.Address, at uint64) (txn.Account, error) {
	var (
		head                     *header
		latest, pending, settled hexutil.Uint64
		code                     hexutil.Bytes
		balance                  hexutil.Big
	)
	err := batch(ctx, client, []rpc.BatchElem{
		{Method: "eth_getBlockByNumber", Args: []any{"latest", false}, Result: &head},
		{Method: "eth_getTransactionCount", Args: []any{address, "latest"}, Result: &latest},
		{Method: "eth_getTransactionCount", Args: []any{address, "pending"}, Result: &pending},
		{Method: "eth_getTransactionCount", Args: []any{address, hexutil.Uint64(at)}, Result: &settled},
		{Method: "eth_getCode", Args: []any{address, "latest"}, Result: &code},
		{Method: "eth_getBalance", Args: []any{address, "latest"}, Result: &balance},
	})
	if err != nil {
		return txn.Account{}, err
	}
	if head == nil {
		return txn.Account{}, fmt.Errorf("%w: no newest block", errMalformed)
	}
	block, err := head.block()
	if err != nil {
		return txn.Account{}, err
	}
	funds, overflow := uint256.FromBig(balance.ToInt())
	if overflow {
		return txn.Account{}, fmt.Errorf("%w: a balance above 2^256-1", errMalformed)
	}
	return txn.Account{
		Latest: txn.Nonce(latest), Pending: txn.Nonce(pending), Settled: txn.Nonce(settled),
		Head: block.Number, HeadHash: block.Hash, HasCode: len(code) > 0, BalanceAt: *funds,
	}, nil
}
