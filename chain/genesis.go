package chain

import (
	"context"
	"fmt"
	"slices"

	"github.com/fencepost/fencepost/chain/jsonrpc"
	"github.com/fencepost/fencepost/txn"
)

// batch makes reads in as few requests as the endpoint takes, like [jsonrpc.Client.Batch]. Each
// request also reads the genesis block, unless the endpoint takes no batches: a proxy may pass the
// requests of one connection to nodes of different chains. If it is the wrong one, no response
// counts. Quotes do without it: they depend on the newest block only, and fees are limited by their
// caps.
func (e *endpoint) batch(ctx context.Context, client *jsonrpc.Client, calls []jsonrpc.Call) error {
	for len(calls) > 0 && e.maxBatch() > 1 && !e.unproven.Load() {
		n := min(len(calls), e.maxBatch()-1)
		var genesis *header
		proven := append(slices.Clone(calls[:n]), genesisCall(&genesis))
		if err := client.Batch(ctx, proven); err != nil {
			return err
		}
		copy(calls, proven[:n])
		if err := proven[n].Error; err != nil && batchError(proven[:n]) == nil {
			return err
		}
		if f := e.checkGenesis(genesis); f != nil {
			return f
		}
		calls = calls[n:]
	}
	if len(calls) == 0 {
		return nil
	}
	return client.Batch(ctx, calls)
}

func genesisCall(result **header) jsonrpc.Call {
	return jsonrpc.Call{
		Method: "eth_getBlockByNumber", Args: []any{"0x0", false}, Result: result,
	}
}

// checkGenesis compares a genesis block with the block of the chain, unless there is none.
func (e *endpoint) checkGenesis(got *header) *fault {
	if got == nil || got.Hash == (txn.Hash{}) {
		return nil
	}
	want := e.pin.hold(got.Hash)
	if want == got.Hash {
		return nil
	}
	return &fault{class: txn.WrongChain, cause: ErrWrongGenesis, detail: fmt.Sprintf(
		"block 0 is %s, expected %s: chain reset, or another network with the same chain_id",
		got.Hash, want)}
}
