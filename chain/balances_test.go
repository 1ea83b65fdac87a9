package chain

import (
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/fencepost/fencepost/txn"
)

func TestBalances_ReadsAllInOneRequest(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.set(func(n *fakeNode) { n.balance = (*hexutil.Big)(hexutil.MustDecodeBig("0x2a")) })
	c := dial(t, nil, n.url())
	if _, err := c.Head(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := c.Balances(t.Context(), []txn.Address{{1}, {2}})
	if err != nil || len(got) != 2 || got[0].Uint64() != 42 || got[1].Uint64() != 42 {
		t.Errorf("balances %v, %v; want 42 twice", got, err)
	}
	if calls := n.called("eth_getBalance"); calls != 2 {
		t.Errorf("%d calls, want 2", calls)
	}
}

// TestBalancesAt_NamesTheBlock: an endpoint of several nodes must not mix their blocks.
func TestBalancesAt_NamesTheBlock(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.set(func(n *fakeNode) { n.balance = (*hexutil.Big)(hexutil.MustDecodeBig("0x2a")) })
	c := dial(t, nil, n.url())
	head, err := c.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n.set(func(n *fakeNode) {
		n.count = func(tag string) (hexutil.Uint64, error) {
			if tag != hexutil.EncodeUint64(head.Number) {
				t.Errorf("nonces of block %s", tag)
			}
			return 7, nil
		}
	})
	got, err := c.BalancesAt(t.Context(), []txn.Address{{1}, {2}}, []uint64{head.Number, 99})
	if err != nil || got.Block != head.Number || len(got.Accounts) != 2 ||
		got.Accounts[1].Balance.Uint64() != 42 || got.Accounts[1].Nonce != 7 ||
		got.Hashes[0] != head.Hash || got.Hashes[1] != (txn.Hash{}) {
		t.Errorf("%+v, %v; want block %d, 42 and 7 twice, one hash", got, err, head.Number)
	}
	n.set(func(n *fakeNode) { n.head += 1_000_000 })
	if got, err := c.BalancesAt(t.Context(), []txn.Address{{1}}, nil); err == nil {
		t.Errorf("a balance of block %d, far above the head, counts", got.Block)
	}
}
