package chain

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/fencepost/fencepost/txn"
)

const (
	// blockFetchThreshold is how many of the hashes asked for must be in one block before its receipts are fetched as a whole: providers charge for such a call what ten
	// to twenty look-ups cost.
	blockFetchThreshold = 10
	// maxRecentBlocks is how many of the blocks read last are remembered. A tracker asks for receipts right after it has read the blocks.
	maxRecentBlocks = 16
)

// blockCache remembers which hashes are in the blocks that were read last. It only says where to look: what is found there is checked as ever.
type blockCache struct {
	mu     sync.Mutex
	blocks []txn.Block // oldest first
}

func (r *blockCache) add(b txn.Block) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.blocks {
		if r.blocks[i].Hash == b.Hash {
			return
		}
	}
	if len(r.blocks) == maxRecentBlocks {
		r.blocks = append(r.blocks[:0], r.blocks[1:]...)
	}
	r.blocks = append(r.blocks, b)
}

// blocksWith are the blocks with at least blockFetchThreshold of the hashes, the newest read first.
func (r *blockCache) blocksWith(hashes []txn.Hash) []txn.Block {
	if len(hashes) < blockFetchThreshold {
		return nil
	}
	wanted := make(map[txn.Hash]bool, len(hashes))
	for _, h := range hashes {
		wanted[h] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var blocksWith []txn.Block
	for i := len(r.blocks) - 1; i >= 0; i-- {
		n := 0
		for _, h := range r.blocks[i].Txs {
			if wanted[h] {
				n++
			}
		}
		if n >= blockFetchThreshold {
			blocksWith = append(blocksWith, r.blocks[i])
		}
	}
	return blocksWith
}

// fromBlocks finds receipts by whole blocks, where many of the hashes are in one. Whatever is not found so is left to the look-up by hash: only that can tell
// that there is none.
func (c *Client) fromBlocks(ctx context.Context, hashes []txn.Hash) map[txn.Hash]*txn.Receipt {
	found := map[txn.Hash]*txn.Receipt{}
	for _, b := range c.blockCache.blocksWith(hashes) {
		for _, r := range c.blockReceipts(ctx, b) {
			if fact, err := r.of(r.TxHash); err == nil && fact != nil && fact.BlockHash == b.Hash &&
				found[fact.TxHash] == nil {
				found[fact.TxHash] = fact
			}
		}
	}
	return found
}

// blockReceipts asks by the number, so that the answer is of the canonical block: a block that was left would go on answering to its hash. An endpoint without
// the method is asked once.
func (c *Client) blockReceipts(ctx context.Context, b txn.Block) []*receipt {
	var all []*receipt
	what := fmt.Sprintf("read the receipts of block %d", b.Number)
	err := c.read(ctx, what, func(ctx context.Context, e *endpoint, client *rpc.Client) error {
		if all = nil; e.byHashOnly.Load() {
			return nil
		}
		err := client.CallContext(ctx, &all, "eth_getBlockReceipts", hexutil.Uint64(b.Number))
		if refused := rpc.Error(nil); !errors.As(err, &refused) {
			return err
		}
		switch f := e.faultOf(err, nil); f.class {
		case txn.RateLimited, txn.Unavailable:
			return f
		}
		e.byHashOnly.Store(true)
		return nil
	})
	if err != nil {
		return nil
	}
	return all
}
