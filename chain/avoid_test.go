package chain

import (
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

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

// TestAccountElsewhere_HeadReadBefore_NotLagging: both endpoints always have the same head. The
// block that one of them reported a moment ago does not show that it lags.
func TestAccountElsewhere_HeadReadBefore_NotLagging(t *testing.T) {
	t.Parallel()
	first, second := newNode(t), newNode(t)
	client := dial(t, nil, first.url(), second.url())
	for head := uint64(10); head < 13; head++ {
		for _, n := range []*fakeNode{first, second} {
			n.set(func(n *fakeNode) { n.head = head })
		}
		client.mustHead(t)
		a, err := client.AccountElsewhere(t.Context(), txn.Address{1}, 1, "endpoint 1")
		if err != nil || a.Source != "endpoint 2" {
			t.Errorf("block %d: read from %s, %v", head, a.Source, err)
		}
		client.clock.Advance(probeAge / 2)
	}
}

// TestAccountElsewhere_EachAvoidsTheLast_AllServe: if one of three endpoints is wrong, two
// successive reads are of the others.
func TestAccountElsewhere_EachAvoidsTheLast_AllServe(t *testing.T) {
	t.Parallel()
	client := dial(t, nil, newNode(t).url(), newNode(t).url(), newNode(t).url())
	client.mustHead(t)
	a, err := client.Account(t.Context(), txn.Address{1}, 1)
	for _, want := range []string{"endpoint 1", "endpoint 2", "endpoint 3", "endpoint 1"} {
		if err != nil || a.Source != want {
			t.Fatalf("read from %q, %v; want %s", a.Source, err, want)
		}
		a, err = client.AccountElsewhere(t.Context(), txn.Address{1}, 1, a.Source)
	}
}

// TestAccountElsewhere_SecondEndpoint_Serves reads an account again from another endpoint, unless
// that lags or there is none. Other reads stay where they were.
func TestAccountElsewhere_SecondEndpoint_Serves(t *testing.T) {
	t.Parallel()
	const first, second = "endpoint 1", "endpoint 2"
	for name, c := range map[string]struct {
		heads []uint64
		want  string
	}{
		"as new":  {[]uint64{10, 10}, second},
		"lagging": {[]uint64{10, 9}, first},
		"down":    {[]uint64{10, 0}, first},
		"alone":   {[]uint64{10}, first},
	} {
		var urls []string
		for i, head := range c.heads {
			n := newNode(t)
			n.set(func(n *fakeNode) {
				n.head = head
				n.count = func(string) (hexutil.Uint64, error) { return hexutil.Uint64(i + 1), nil }
			})
			if urls = append(urls, n.url()); head == 0 {
				n.stop()
			}
		}
		client := dial(t, nil, urls...)
		if _, err := client.Head(t.Context()); err != nil {
			t.Fatal(err)
		}
		read := func(source, want string) {
			t.Helper()
			a, err := client.Account(t.Context(), txn.Address{1}, 1)
			if source != "" {
				a, err = client.AccountElsewhere(t.Context(), txn.Address{1}, 1, source)
			}
			nonce := txn.Nonce(1)
			if want == second {
				nonce = 2
			}
			if err != nil || a.Source != want || a.Settled != nonce {
				t.Errorf("%s: avoiding %q read %+v, %v; want %s", name, source, a, err, want)
			}
		}
		read("", first)
		read(first, c.want)
		read("", first)
		read(second, first)
	}
}
