package chain

import (
	"context"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/fencepost/fencepost/chain/jsonrpc"
	"github.com/fencepost/fencepost/txn"
)

// accountTries limits how often the account is read again because the head moved meanwhile.
const accountTries = 3

// Account reads an account in one batch from one endpoint.
//
// The block of the settled nonce depends on the head, and the head is in the same batch. So the
// block is derived from the last known head, and the batch is repeated if the head moved. If the
// chain is too fast for that, the settled nonce is from a slightly deeper block, which errs toward
// "not settled".
func (c *Client) Account(ctx context.Context, address txn.Address,
	settled uint64) (txn.Account, error) {
	return account(ctx, c.read, address, settled)
}

// AccountElsewhere reads an account as Account does, from another endpoint than the Source of an
// earlier read if one has seen as much of the chain: the same endpoint may repeat its mistake.
func (c *Client) AccountElsewhere(ctx context.Context, address txn.Address, settled uint64,
	source string) (txn.Account, error) {
	read := func(ctx context.Context, what string, fn readFunc) error {
		return c.readElsewhere(ctx, what, source, fn)
	}
	return account(ctx, read, address, settled)
}

func account(ctx context.Context, read func(context.Context, string, readFunc) error,
	address txn.Address, settled uint64) (txn.Account, error) {
	what := "read account " + address.Hex()
	var view txn.Account
	var noState bool
	err := read(ctx, what, func(ctx context.Context, e *endpoint, client *jsonrpc.Client) error {
		known, _, _ := e.view()
		var depth int64
		for range accountTries {
			at := known - min(settled, known)
			var err error
			var old *stateError
			if view, err = e.accountAt(ctx, client, address, at); errors.As(err, &old) {
				noState = noState || e.faultOf(old.err, nil).class != txn.RateLimited
				return old.err
			}
			if err != nil {
				return err
			}
			view.Source = e.label
			e.recordHead(view.Head)
			known = view.Head
			if depth = int64(view.Head-min(settled, view.Head)) - int64(at); depth == 0 {
				return nil
			}
		}
		if depth < 0 {
			return fmt.Errorf("%w: the head went back during the read", errMalformed)
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

// stateError is a node's refusal to return older state of an account after it returned the newest.
type stateError struct{ err error }

func (e *stateError) Error() string { return e.err.Error() }

// accountAt sends one batch, with the settled nonce as of block at.
func (e *endpoint) accountAt(ctx context.Context, client *jsonrpc.Client, address txn.Address,
	at uint64) (txn.Account, error) {
	var (
		head                     *header
		latest, pending, settled quantity
		code                     hexutil.Bytes
		balance                  bigQuantity
	)
	elems := []jsonrpc.Call{
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
	if err := e.readCounts(ctx, client, elems, 2); err != nil {
		var refused *jsonrpc.Error
		if errors.As(elems[len(elems)-1].Error, &refused) &&
			error(refused) == err { // it is the last element, so all others succeeded
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
	if elems[2].Error != nil {
		pending = latest
	}
	delegate, _ := types.ParseDelegation(code)
	return txn.Account{
		Latest: txn.Nonce(latest), Pending: txn.Nonce(pending), Settled: txn.Nonce(settled),
		Head: block.Number, HeadHash: block.Hash, HasCode: len(code) > 0, Delegate: delegate,
		BalanceAt: txn.Wei(balance),
	}, nil
}

// minPendingFailures is how many reads in a row must fail at the tag "pending" before an account is
// read without it: a single one may be a passing fault, and another endpoint may serve the tag.
const minPendingFailures = 2

// readCounts sends a batch in which only the element at the index pending, a transaction count, may
// fail, and only if the endpoint does not serve that tag. The newest count stands in for it then;
// transactions in the pool are not seen.
func (e *endpoint) readCounts(ctx context.Context, client *jsonrpc.Client, elems []jsonrpc.Call,
	pending int) error {
	before := e.pendingFailures.Load()
	if err := e.batch(ctx, client, elems); err != nil {
		return err
	}
	for i := range elems {
		lacks := i == pending && e.lacksPending(elems[i].Error, before)
		if elems[i].Error != nil && !lacks {
			return elems[i].Error
		}
	}
	return nil
}

// lacksPending records the result of a call with the tag, and reports whether the endpoint refuses
// it for the last of several times in a row. before is pendingFailures at the start of the call:
// calls that fail together count once.
func (e *endpoint) lacksPending(err error, before int64) bool {
	if err == nil {
		e.pendingFailures.Store(0)
		return false
	}
	f := e.faultOf(err, nil)
	if !f.answered || f.class == txn.RateLimited {
		return false
	}
	failures := before + 1
	if !e.pendingFailures.CompareAndSwap(before, failures) {
		return before >= minPendingFailures
	}
	if failures == minPendingFailures {
		e.o.Logger.Warn("RPC endpoint does not serve the tag pending; latest used instead",
			"chain", e.o.Name, "endpoint", e.label, "reason", f.detail)
	}
	return failures >= minPendingFailures
}
