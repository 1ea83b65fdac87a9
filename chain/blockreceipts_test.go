package chain

import (
	"errors"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/fencepost/fencepost/txn"
)

// crowd puts hashes into block 10 of a node that serves receipts by hash, and by block if byBlock.
func crowd(n *fakeNode, hashes []txn.Hash, byBlock bool) {
	receipt := func(hash common.Hash) map[string]any {
		r := receiptOf(hash)
		r["blockNumber"], r["blockHash"] = hexutil.Uint64(10), n.hash(10)
		return r
	}
	n.txs = map[uint64][]common.Hash{10: hashes}
	n.receipt = func(hash common.Hash) (map[string]any, error) { return receipt(hash), nil }
	if !byBlock {
		return
	}
	n.inBlock = func(number uint64) ([]map[string]any, error) {
		if number != 10 {
			return nil, nil
		}
		all := []map[string]any{receiptOf(common.Hash{0xff})} // of other senders
		for _, h := range hashes {
			all = append(all, receipt(h))
		}
		return all, nil
	}
}

func someHashes(n int) []txn.Hash {
	hashes := make([]txn.Hash, n)
	for i := range hashes {
		hashes[i] = common.Hash{byte(i + 1)}
	}
	return hashes
}

func TestReceiptsByBlock(t *testing.T) {
	t.Parallel()
	hashes := someHashes(blockFetchThreshold)
	for name, c := range map[string]struct {
		ask            int
		change         func(*fakeNode)
		blocks, single int // calls
	}{
		"many of a block":  {blockFetchThreshold, nil, 1, 0},
		"a few of a block": {blockFetchThreshold - 1, nil, 0, blockFetchThreshold - 1},
		"no such method": {
			blockFetchThreshold,
			func(n *fakeNode) { n.inBlock = nil },
			1,
			blockFetchThreshold,
		},
		"the block is another by now": {blockFetchThreshold, func(n *fakeNode) {
			n.inBlock = func(uint64) ([]map[string]any, error) {
				return []map[string]any{receiptOf(hashes[0])}, nil
			}
		}, 1, blockFetchThreshold},
		"one is missing": {blockFetchThreshold, func(n *fakeNode) {
			whole := n.inBlock
			n.inBlock = func(number uint64) ([]map[string]any, error) {
				all, err := whole(number)
				return all[:len(all)-1], err
			}
		}, 1, 1},
		"no answer at all": {blockFetchThreshold, func(n *fakeNode) {
			n.inBlock = func(uint64) ([]map[string]any, error) { return nil, nil }
		}, 1, blockFetchThreshold},
		"indexing": {blockFetchThreshold, func(n *fakeNode) {
			n.inBlock = func(uint64) ([]map[string]any, error) {
				return nil, errors.New("transaction indexing is in progress")
			}
		}, 1, blockFetchThreshold},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.set(func(n *fakeNode) {
				crowd(n, hashes, true)
				if c.change != nil {
					c.change(n)
				}
			})
			r := dial(t, nil, n.url())
			r.mustHead(t) // which has block 10
			for i, a := range r.Receipts(t.Context(), hashes[:c.ask]) {
				if a.Err != nil || a.Receipt == nil || a.Hash != hashes[i] ||
					a.Receipt.TxHash != hashes[i] ||
					a.Receipt.BlockHash != n.hash(10) {
					t.Fatalf("answer %d: %+v", i, a)
				}
			}
			if blocks, single := n.called("eth_getBlockReceipts"), n.called(
				"eth_getTransactionReceipt",
			); blocks != c.blocks ||
				single != c.single {
				t.Errorf("%d calls by block and %d by hash, want %d and %d", blocks, single,
					c.blocks, c.single)
			}
		})
	}
}

func TestReceiptsByBlock_Unsupported_AskedOnce(t *testing.T) {
	t.Parallel()
	hashes := someHashes(blockFetchThreshold)
	n := newNode(t)
	n.set(func(n *fakeNode) { crowd(n, hashes, false) })
	r := dial(t, nil, n.url())
	r.mustHead(t)
	for range 3 {
		if a := r.Receipts(t.Context(), hashes); a[0].Receipt == nil {
			t.Fatalf("%+v", a)
		}
	}
	if asked := n.called("eth_getBlockReceipts"); asked != 1 {
		t.Errorf("asked %d times for what it does not have", asked)
	}
}

func TestBlockCache_Bounded(t *testing.T) {
	t.Parallel()
	var r blockCache
	hashes := someHashes(blockFetchThreshold)
	r.add(txn.Block{Number: 1, Hash: txn.Hash{1}, Txs: hashes})
	for i := range maxRecentBlocks - 1 {
		r.add(txn.Block{Number: uint64(i + 2), Hash: txn.Hash{2, byte(i)}})
		r.add(txn.Block{Number: uint64(i + 2), Hash: txn.Hash{2, byte(i)}}) // read twice
	}
	if got := r.blocksWith(hashes); len(got) != 1 || got[0].Number != 1 ||
		len(r.blocks) != maxRecentBlocks {
		t.Fatalf("%d of %d blocks", len(got), len(r.blocks))
	}
	r.add(txn.Block{Number: 99, Hash: txn.Hash{99}})
	if got := r.blocksWith(hashes); len(got) != 0 || len(r.blocks) != maxRecentBlocks {
		t.Errorf("%d of %d blocks", len(got), len(r.blocks))
	}
}
