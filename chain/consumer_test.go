package chain

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/fencepost/fencepost/txn"
)

// history is a node whose account used its i-th nonce in block uses[i]. States below pruned are
// missing.
type history struct {
	head   uint64
	uses   []uint64
	pruned uint64
	words  string // of the error for a pruned state
}

var spender = txn.Address{0x5e}

func (h history) on(n *fakeNode) {
	n.head = h.head
	n.count = func(tag string) (hexutil.Uint64, error) {
		at, err := hexutil.DecodeUint64(tag)
		if err != nil {
			return 0, err
		}
		if at < h.pruned {
			return 0, errors.New(h.words)
		}
		count := hexutil.Uint64(0)
		for _, use := range h.uses {
			if use <= at {
				count++
			}
		}
		return count, nil
	}
	n.full = func(number uint64) map[string]any {
		b := n.block(number)
		txs := []map[string]any{
			{"hash": common.Hash{1}, "from": txn.Address{1}, "nonce": hexutil.Uint64(0)},
		}
		for nonce, use := range h.uses {
			if use == number {
				txs = append(
					txs,
					map[string]any{
						"hash":  useHash(nonce),
						"from":  spender,
						"nonce": hexutil.Uint64(nonce),
					},
				)
			}
		}
		b["transactions"] = txs
		return b
	}
}

func useHash(nonce int) common.Hash { return common.Hash{0x0e, byte(nonce)} }

func TestConsumer(t *testing.T) {
	t.Parallel()
	const trie = "missing trie node d0c1"
	for name, c := range map[string]struct {
		history
		nonce int
		block uint64 // 0: not found
	}{
		"in the newest block": {history{head: 100, uses: []uint64{100}}, 0, 100},
		"in block 1":          {history{head: 100, uses: []uint64{1, 2}}, 0, 1},
		"some blocks ago": {
			history{head: 10_000, uses: []uint64{5, 9_000, 9_001}},
			1,
			9_000,
		},
		"several in a block": {
			history{head: 10_000, uses: []uint64{9_000, 9_000, 9_000}},
			1,
			9_000,
		},
		"not used": {history{head: 100, uses: []uint64{5}}, 1, 0},
		"at the end of the reach": {
			history{head: 10_000, uses: []uint64{10_000 - consumerReach + 1}},
			0,
			10_000 - consumerReach + 1,
		},
		"below the reach": {
			history{head: 10_000, uses: []uint64{10_000 - consumerReach}},
			0,
			0,
		},
		"on a chain with one block":     {history{head: 0, uses: nil}, 0, 0},
		"the node still has that state": {history{10_000, []uint64{9_990}, 9_900, trie}, 0, 9_990},
		"just above what is pruned":     {history{10_000, []uint64{9_901}, 9_900, trie}, 0, 9_901},
		"at what is pruned":             {history{10_000, []uint64{9_900}, 9_900, trie}, 0, 0},
		"below what is pruned":          {history{10_000, []uint64{5}, 9_900, trie}, 0, 0},
		"archives cost extra": {
			history{
				10_000,
				[]uint64{9_990},
				9_900,
				"project ID does not have access to archive state",
			},
			0,
			9_990,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.set(c.on)
			r := dial(t, nil, n.url())
			got, err := r.Consumer(t.Context(), spender, txn.Nonce(c.nonce))
			if err != nil {
				t.Fatal(err)
			}
			var want *txn.Consumer
			if c.block > 0 {
				want = &txn.Consumer{
					Block:     c.block,
					BlockHash: n.hash(c.block),
					TxHash:    useHash(c.nonce),
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if asked := n.called("eth_getTransactionCount"); asked > 2*13+1 {
				t.Errorf("asked %d times", asked)
			}
		})
	}
}

func TestConsumer_NonceUsedWithoutTransaction(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.set(func(n *fakeNode) {
		history{head: 100, uses: []uint64{50}}.on(n)
		n.full = func(number uint64) map[string]any { return n.block(number) }
	})
	got, err := dial(t, nil, n.url()).Consumer(t.Context(), spender, 0)
	if err != nil || got == nil || *got != (txn.Consumer{Block: 50, BlockHash: n.hash(50)}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestConsumer_ReadFails(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*fakeNode){
		"the state of the head is not served": func(n *fakeNode) {
			history{100, []uint64{50}, 1000, "missing trie node"}.on(n)
		},
		"a request limit on the way": func(n *fakeNode) {
			history{10_000, []uint64{9_990}, 9_900, "rate limit exceeded"}.on(n)
		},
		"the block is another": func(n *fakeNode) {
			history{head: 100, uses: []uint64{50}}.on(n)
			n.full = func(number uint64) map[string]any { return n.block(number + 1) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.set(change)
			if got, err := dial(t, nil, n.url()).Consumer(t.Context(), spender, 0); !errors.Is(err,
				txn.ErrUnavailable) {
				t.Errorf("got %+v, %v; want unavailable", got, err)
			}
		})
	}
	n := newNode(t)
	n.set(func(n *fakeNode) {
		history{head: 100, uses: []uint64{50}}.on(n)
		n.full = func(uint64) map[string]any { return nil }
	})
	if got, err := dial(t, nil, n.url()).Consumer(t.Context(), spender, 0); got != nil ||
		err != nil {
		t.Errorf("got %+v, %v for a block that left the chain", got, err)
	}
}
