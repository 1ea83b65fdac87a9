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
	block, got, err := c.BalancesAt(t.Context(), []txn.Address{{1}, {2}})
	if err != nil || block != head.Number || len(got) != 2 || got[1].Uint64() != 42 {
		t.Errorf("block %d, balances %v, %v; want block %d, 42 twice", block, got, err,
			head.Number)
	}
}
