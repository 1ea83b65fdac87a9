package chain

import (
	"context"
	"fmt"

	"github.com/fencepost/fencepost/chain/jsonrpc"
	"github.com/fencepost/fencepost/txn"
)

// pooled is the part that is read of a known transaction. The block is null while it waits in the
// pool.
type pooled struct {
	Hash  txn.Hash  `json:"hash"`
	Block *txn.Hash `json:"blockHash"`
}

// Pooled looks for the attempts of one nonce in the pool of the current endpoint.
func (c *Client) Pooled(ctx context.Context, address txn.Address, nonce txn.Nonce,
	hashes []txn.Hash) (txn.Diagnosis, error) {
	var found txn.Diagnosis
	what := fmt.Sprintf("look for nonce %d of %s in the pool", nonce, address.Hex())
	err := c.read(ctx, what, func(ctx context.Context, e *endpoint, client *jsonrpc.Client) error {
		var (
			latest, next quantity
			known        = make([]*pooled, len(hashes))
		)
		elems := []jsonrpc.Call{
			{Method: "eth_getTransactionCount", Args: []any{address, "latest"}, Result: &latest},
			{Method: "eth_getTransactionCount", Args: []any{address, "pending"}, Result: &next},
		}
		for i, hash := range hashes {
			elems = append(
				elems,
				jsonrpc.Call{
					Method: "eth_getTransactionByHash",
					Args:   []any{hash},
					Result: &known[i],
				},
			)
		}
		before := e.pendingFailures.Load()
		if err := e.batch(ctx, client, elems); err != nil {
			return err
		}
		if e.lacksPending(elems[1].Error, before) {
			elems[1].Error, next = nil, latest
		}
		var err error
		found, err = diagnose(nonce, txn.Nonce(latest), txn.Nonce(next), elems, known)
		return err
	})
	if err != nil {
		return txn.Undiagnosed, err
	}
	return found, nil
}

// diagnose evaluates the responses: the two counts, then one for each attempt. If any attempt could
// not be read, the result cannot be that none is there.
func diagnose(nonce, latest, next txn.Nonce, elems []jsonrpc.Call,
	known []*pooled) (txn.Diagnosis, error) {
	for i := range 2 {
		if elems[i].Error != nil {
			return txn.Undiagnosed, elems[i].Error
		}
	}
	if latest > nonce {
		return txn.NonceConsumed, nil
	}
	var unclear error
	for i, tx := range known {
		switch {
		case elems[i+2].Error != nil:
			unclear = elems[i+2].Error
		case tx != nil && tx.Block != nil && *tx.Block != (txn.Hash{}):
			return txn.NonceConsumed, nil // a block arrived meanwhile
		case tx != nil:
			return txn.InPool, nil
		}
	}
	switch {
	case unclear != nil:
		return txn.Undiagnosed, unclear
	case next > nonce:
		return txn.PossiblyReplaced, nil
	}
	return txn.PossiblyLost, nil
}
