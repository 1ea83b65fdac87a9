package chain

import (
	"bytes"
	"errors"
	"net/http"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/fencepost/fencepost/txn"
)

// TestSendInOrder_FewRequests: lowest nonce first, and each transaction has its own outcome.
func TestSendInOrder_FewRequests(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	all := manySigned(100)
	var got [][]byte
	n.set(func(n *fakeNode) {
		n.send = func(raw hexutil.Bytes) (common.Hash, error) {
			if bytes.Equal(raw, all[30].Raw) {
				return common.Hash{}, errors.New("insufficient funds for gas * price + value")
			}
			got = append(got, raw)
			return takeAll(raw)
		}
	})
	c := dial(t, func(o *Options) { o.BatchLimit = 50 }, n.url()).Client
	if o := c.Send(t.Context(), manySigned(101)[100]); o.Class != txn.Accepted {
		t.Fatalf("%+v", o)
	}
	n.set(func(n *fakeNode) { n.requests, got = 0, nil })
	outcomes := c.SendInOrder(t.Context(), all)
	if len(outcomes) != len(all) {
		t.Fatalf("%d outcomes", len(outcomes))
	}
	for i, o := range outcomes {
		if want := i != 30; (o.Class == txn.Accepted) != want {
			t.Errorf("transaction %d: %+v", i, o)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.requests > 4 {
		t.Errorf("%d requests", n.requests)
	}
	for i, raw := range got {
		if i >= 30 {
			i++ // refused
		}
		if !bytes.Equal(raw, all[i].Raw) {
			t.Fatalf("broadcast %d is another transaction", i)
		}
	}
}

// TestSendInOrder_BatchCut_Ambiguous: the node may have accepted all, so a later refusal of one of
// them is not certain.
func TestSendInOrder_BatchCut_Ambiguous(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.set(func(n *fakeNode) { n.send = takeAll })
	r := dial(t, nil, n.url())
	if o := r.Send(t.Context(), manySigned(9)[8]); o.Class != txn.Accepted {
		t.Fatalf("%+v", o)
	}
	n.set(func(n *fakeNode) {
		n.intercept = func(w http.ResponseWriter, r *http.Request) bool {
			if !isBatch(r) {
				return false
			}
			if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_ = conn.Close()
			}
			return true
		}
		n.send = func(hexutil.Bytes) (common.Hash, error) {
			return common.Hash{}, errors.New("intrinsic gas too low")
		}
	})
	for i, o := range r.SendInOrder(t.Context(), manySigned(8)) {
		if o.Class != txn.Ambiguous {
			t.Errorf("transaction %d: %+v", i, o)
		}
	}
}
