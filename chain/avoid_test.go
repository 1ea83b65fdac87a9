package chain

import (
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"github.com/fencepost/fencepost/txn"
)

// TestAvoidCurrent_Receipts_ReadElsewhere reads a receipt that only the second endpoint has. A
// lagging second endpoint is not used.
func TestAvoidCurrent_Receipts_ReadElsewhere(t *testing.T) {
	t.Parallel()
	hash := common.HexToHash("0x01")
	for name, c := range map[string]struct {
		head  uint64 // of the second endpoint
		found bool
	}{
		"as new":  {10, true},
		"lagging": {9, false},
	} {
		first, second := newNode(t), newNode(t)
		first.set(func(n *fakeNode) {
			n.head = 10
			n.receipt = func(common.Hash) (map[string]any, error) { return nil, nil }
		})
		second.set(func(n *fakeNode) {
			n.head = c.head
			n.receipt = func(h common.Hash) (map[string]any, error) { return receiptOf(h), nil }
		})
		client := dial(t, nil, first.url(), second.url())
		for _, avoid := range []bool{false, true} {
			if avoid {
				client.AvoidCurrent()
			}
			if _, err := client.Head(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := client.Receipts(t.Context(), []txn.Hash{hash})[0]
			if want := avoid && c.found; got.Err != nil || (got.Receipt != nil) != want {
				t.Errorf("%s, avoided %t: %+v", name, avoid, got)
			}
		}
	}
}
