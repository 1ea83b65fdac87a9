package chain

import (
	"errors"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/fencepost/fencepost/txn"
)

// signedBytes are n transactions, as far as a fake node looks at them.
func signedBytes(n int) []txn.Signed {
	signed := make([]txn.Signed, n)
	for i := range signed {
		raw := []byte{2, byte(i)}
		signed[i] = txn.Signed{Hash: crypto.Keccak256Hash(raw), Raw: raw}
	}
	return signed
}

func TestSendInOrder_Accepted_OneRequest(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	var order []byte
	n.set(func(n *fakeNode) {
		n.send = func(raw hexutil.Bytes) (common.Hash, error) {
			order = append(order, raw[1])
			return crypto.Keccak256Hash(raw), nil
		}
	})
	r := dial(t, nil, n.url())
	r.mustHead(t)
	n.mu.Lock()
	before := n.requests
	n.mu.Unlock()
	for i, o := range r.SendInOrder(t.Context(), signedBytes(20)) {
		if o.Class != txn.Accepted {
			t.Errorf("transaction %d: %+v", i, o)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.requests != before+1 || len(order) != 20 {
		t.Errorf("%d requests, %d transactions", n.requests-before, len(order))
	}
	for i, no := range order {
		if int(no) != i {
			t.Fatalf("sent in the order %v", order)
		}
	}
}

// TestSendInOrder_OneRefused_OthersSent: each has its own outcome, as of Send.
func TestSendInOrder_OneRefused_OthersSent(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]txn.Class{
		"nonce too high: tx nonce 7, gapped nonce 5": txn.NonceGap,
		"already known":         txn.AlreadyKnown,
		"intrinsic gas too low": txn.Invalid,
	} {
		n := newNode(t)
		n.set(func(n *fakeNode) {
			n.send = func(raw hexutil.Bytes) (common.Hash, error) {
				if raw[1] == 2 {
					return common.Hash{}, errors.New(message)
				}
				return crypto.Keccak256Hash(raw), nil
			}
		})
		r := dial(t, nil, n.url())
		for i, o := range r.SendInOrder(t.Context(), signedBytes(5)) {
			if expect := map[bool]txn.Class{true: want, false: txn.Accepted}[i == 2]; o.Class !=
				expect {
				t.Errorf("%s: transaction %d: %+v, want %s", message, i, o, expect)
			}
		}
	}
}

// TestQuoteInOrder_Committed_FundsForAll: the balance must cover what is in flight, and the drafts
// before.
func TestQuoteInOrder_Committed_FundsForAll(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.set(func(n *fakeNode) {
		n.baseFee, n.balance = (*hexutil.Big)(big.NewInt(1000)), (*hexutil.Big)(big.NewInt(1e18))
	})
	r := dial(t, nil, n.url())
	r.mustHead(t)
	to := common.Address{1}
	draft := txn.Draft{From: common.Address{9}, Payload: txn.Payload{To: &to}}
	one := r.QuoteInOrder(t.Context(), []txn.Draft{draft})[0]
	if one.Outcome.Class != txn.Accepted {
		t.Fatalf("%+v", one)
	}
	cost := one.Quote.Cost(txn.Wei{})
	cost.Mul(&cost, new(txn.Wei).SetUint64(4)) // one in flight, and room for three
	n.set(func(n *fakeNode) { n.balance = (*hexutil.Big)(cost.ToBig()) })
	r = dial(t, nil, n.url())
	r.mustHead(t)
	draft.Committed = one.Quote.Cost(txn.Wei{})
	quoted := r.QuoteInOrder(t.Context(), []txn.Draft{draft, draft, draft, draft, draft})
	if len(quoted) != 4 || quoted[2].Outcome.Class != txn.Accepted ||
		quoted[3].Outcome.Class != txn.InsufficientFunds {
		t.Errorf("%+v", quoted)
	}
}

// TestQuote_PendingUnsupported_LearnedOnce: the fake node simulates on its newest block only.
func TestQuote_PendingUnsupported_LearnedOnce(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.set(func(n *fakeNode) {
		n.baseFee, n.balance = (*hexutil.Big)(big.NewInt(1000)), (*hexutil.Big)(big.NewInt(1e18))
	})
	r := dial(t, nil, n.url())
	r.mustHead(t)
	to := common.Address{1}
	draft := txn.Draft{From: common.Address{9}, Payload: txn.Payload{To: &to}, Pending: true}
	for i := range 3 {
		if _, o := r.Quote(t.Context(), draft); o.Class != txn.Accepted {
			t.Fatalf("quote %d: %+v", i, o)
		}
	}
	n.mu.Lock()
	before := n.requests
	n.mu.Unlock()
	if _, o := r.Quote(t.Context(), draft); o.Class != txn.Accepted {
		t.Fatalf("%+v", o)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.requests != before+1 {
		t.Errorf("a quote takes %d requests", n.requests-before)
	}
}
