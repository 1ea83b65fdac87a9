package chain

import (
	"context"
	"errors"
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
func (c *Client) Account(ctx context.Context, address txn.Address,
	settled uint64) (txn.Account, error) {
	what := "read account " + address.Hex()
	var view txn.Account
	var noState bool
	err := c.read(ctx, what, func(ctx context.Context, e *endpoint, client *rpc.Client) error {
		known, _, _ := e.view()
		var depth int64
		for range accountTries {
			at := known - min(settled, known)
			var err error
			var old *stateError
			if view, err = accountAt(ctx, client, address, at); errors.As(err, &old) {
				noState = noState || e.faultOf(old.err, nil).class != txn.RateLimited
				return old.err
			}
			if err != nil {
				return err
			}
			e.recordHead(view.Head)
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
	switch {
	case err != nil && noState:
		return txn.Account{}, fmt.Errorf("%w: %w", txn.ErrNoState, err)
	case err != nil:
		return txn.Account{}, err
	}
	return view, nil
}

// stateError is a node's refusal to tell the older state of an account, when it has told the newest.
type stateError struct{ err error }

func (e *stateError) Error() string { return e.err.Error() }

// accountAt is one batch, with the settled nonce as of the block numbered at.
func accountAt(ctx context.Context, client *rpc.Client, address txn.Address,
	at uint64) (txn.Account, error) {
	var (
		head                     *header
		latest, pending, settled hexutil.Uint64
		code                     hexutil.Bytes
		balance                  hexutil.Big
	)
	elems := []rpc.BatchElem{
		{Method: "eth_getBlockByNumber", Args: []any{"latest", false}, Result: &head},
		{Method: "eth_getTransactionCount", Args: []any{address, "latest"}, Result: &latest},
		{Method: "eth_getTransactionCount", Args: []any{address, "pending"}, Result: &pending},
		{Method: "eth_getCode", Args: []any{address, "latest"}, Result: &code},
		{Method: "eth_getBalance", Args: []any{address, "latest"}, Result: &balance},
		{
			Method: "eth_getTransactionCount",
			Args:   []any{address, hexutil.Uint64(at)},
			Result: &settled,
		},
	}
	if err := batch(ctx, client, elems); err != nil {
		var refused rpc.Error
		if errors.As(elems[len(elems)-1].Error, &refused) &&
			error(refused) == err { // it comes last, so all else was told
			return txn.Account{}, &stateError{err}
		}
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
