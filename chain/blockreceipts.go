package chain

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/fencepost/fencepost/chain/jsonrpc"
	"github.com/fencepost/fencepost/txn"
)

const (
	// blockFetchThreshold is how many of the requested hashes must be in one block to fetch all
	// receipts of the block: providers charge ten to twenty single calls for it.
	blockFetchThreshold = 10
	// maxRecentBlocks is the capacity of a blockCache. A tracker asks for receipts right after it
	// read the blocks.
	maxRecentBlocks = 16
)

// blockCache remembers the hashes in recently read blocks. It is only a hint where to look;
// receipts found through it are checked as usual.
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

// blocksWith returns the blocks with at least blockFetchThreshold of the hashes, the newest read
// first.
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

// fromBlocks reads receipts by block if many of the hashes are in one block. Hashes not found this
// way are left to the lookup by hash, which alone can show that there is no receipt.
func (c *Client) fromBlocks(ctx context.Context, hashes []txn.Hash) map[txn.Hash]*txn.Receipt {
	found := map[txn.Hash]*txn.Receipt{}
	for _, b := range c.blockCache.blocksWith(hashes) {
		for _, r := range c.blockReceipts(ctx, b, hashes) {
			if fact, err := r.of(r.TxHash); err == nil && fact != nil && fact.BlockHash == b.Hash &&
				found[fact.TxHash] == nil {
				found[fact.TxHash] = fact
			}
		}
	}
	return found
}

// blockReceipts queries by number, so that the response is from the canonical chain: nodes still
// return an abandoned block by its hash. An endpoint without the method, or with larger responses
// than are read, is asked only once.
func (c *Client) blockReceipts(ctx context.Context, b txn.Block, hashes []txn.Hash) []receipt {
	var found wantedReceipts
	what := fmt.Sprintf("read receipts of block %d", b.Number)
	err := c.read(ctx, what, func(ctx context.Context, e *endpoint, client *jsonrpc.Client) error {
		found = newWantedReceipts(hashes)
		if e.byHashOnly.Load() {
			return nil
		}
		err := client.Call(ctx, &found, "eth_getBlockReceipts", hexutil.Uint64(b.Number))
		if tooLarge := (*jsonrpc.TooLargeError)(nil); errors.As(err, &tooLarge) {
			e.byHashOnly.Store(true)
			return nil
		}
		if refused := (*jsonrpc.Error)(nil); !errors.As(err, &refused) {
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
	return found.list
}

// wantedReceipts keeps the receipts of some transactions from the list of a block.
type wantedReceipts struct {
	hashes map[txn.Hash]bool
	list   []receipt
}

func newWantedReceipts(hashes []txn.Hash) wantedReceipts {
	w := wantedReceipts{hashes: make(map[txn.Hash]bool, len(hashes))}
	for _, h := range hashes {
		w.hashes[h] = true
	}
	return w
}

// UnmarshalJSON reads the list.
func (w *wantedReceipts) UnmarshalJSON(raw []byte) error {
	return eachElement(raw, func(r *receipt) {
		if w.hashes[r.TxHash] {
			w.list = append(w.list, *r)
		}
	})
}
