package chain

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/fencepost/fencepost/txn"
	"github.com/holiman/uint256"
)

// Fees of the oracle in these tests, in wei, by the formulas of Fjord and Isthmus.
func l1FeeOf(size uint64) uint64 { return max(100_000, 3_000*size) }

func operatorFeeOf(gas uint64) uint64 { return 700 + gas*2/1_000 }

// rollupNode is a node of an OP stack chain, with an account that has this balance.
func rollupNode(t *testing.T, balance uint64) *fakeNode {
	n := honestNode(t)
	n.set(func(n *fakeNode) {
		n.balance = (*hexutil.Big)(uint256.NewInt(balance).ToBig())
		n.call = func(data hexutil.Bytes) (hexutil.Bytes, error) {
			argument := binary.BigEndian.Uint64(data[28:])
			fee := map[uint32]func(uint64) uint64{
				selectorL1Bound: l1FeeOf, selectorOperator: operatorFeeOf,
			}[binary.BigEndian.Uint32(data)](argument)
			return common.LeftPadBytes(uint256.NewInt(fee).Bytes(), 32), nil
		}
	})
	return n
}

func opStack(o *Options) { o.Fees.L1Fee = OPStack }

// A draft on an OP stack chain needs funds for the L1 data fee and the operator fee, which are read
// once per head.
func TestQuote_OPStack_FundsForL1Fee(t *testing.T) {
	t.Parallel()
	draft := txn.Draft{Payload: txn.Payload{To: &txn.Address{1}, Data: make([]byte, 500)}}
	plain := dial(t, nil, rollupNode(t, 1e18).url())
	plain.mustHead(t)
	q, o := plain.Quote(t.Context(), draft)
	if o.Class != txn.Accepted || !q.L1Fee.IsZero() {
		t.Fatalf("without the setting: %+v, %+v", q, o)
	}
	gasOnly, _ := costOf(q, draft.Payload.Value)

	r := dial(t, opStack, rollupNode(t, 1e18).url())
	r.mustHead(t)
	q, o = r.Quote(t.Context(), draft)
	actual := l1FeeOf(500+110) + operatorFeeOf(q.GasLimit)
	if o.Class != txn.Accepted || q.L1Fee.LtUint64(actual) || !q.L1Fee.LtUint64(2*actual) {
		t.Errorf("%+v, %+v; want an L1 fee from %d to twice that", q, o, actual)
	}
	var need txn.Wei
	need.Add(&gasOnly, &q.L1Fee)
	for have, want := range map[uint64]txn.Class{
		gasOnly.Uint64(): txn.InsufficientFunds, need.Uint64() - 1: txn.InsufficientFunds,
		need.Uint64(): txn.Accepted,
	} {
		n := rollupNode(t, have)
		r := dial(t, opStack, n.url())
		r.mustHead(t)
		for range 3 { // also from cached prices
			if _, o := r.Quote(t.Context(), draft); o.Class != want ||
				want == txn.InsufficientFunds && !o.Want.Eq(&need) {
				t.Errorf("balance %d: %+v, want %s", have, o, want)
			}
		}
	}
}

func TestQuote_OPStack_ReadOncePerHead(t *testing.T) {
	t.Parallel()
	n := rollupNode(t, 1e18)
	r := dial(t, opStack, n.url())
	r.mustHead(t)
	draft := txn.Draft{From: txn.Address{9}, Payload: txn.Payload{To: &txn.Address{1}}}
	for i := range 6 {
		draft.From = txn.Address{byte(i % 2)}
		if _, o := r.Quote(t.Context(), draft); o.Class != txn.Accepted {
			t.Fatalf("%+v", o)
		}
	}
	// the first quote of each account queries everything at once
	if got := n.called("eth_call"); got > 2*4 {
		t.Errorf("%d calls of the oracle for 6 drafts on one head", got)
	}
}

// A chain without an operator fee has an L1 fee only; one without the contract is not quoted.
func TestQuote_OPStack_OracleFails(t *testing.T) {
	t.Parallel()
	reverts := func(hexutil.Bytes) (hexutil.Bytes, error) {
		return nil, coded{code: 3, msg: "execution reverted"}
	}
	fails := func(hexutil.Bytes) (hexutil.Bytes, error) { return nil, errors.New("no") }
	large := func(hexutil.Bytes) (hexutil.Bytes, error) { return make32(0xff), nil }
	for name, c := range map[string]struct {
		call func(data hexutil.Bytes) (hexutil.Bytes, error)
		want txn.Class
	}{
		"no operator fee": {func(data hexutil.Bytes) (hexutil.Bytes, error) {
			if binary.BigEndian.Uint32(data) == selectorOperator {
				return reverts(data)
			}
			return common.LeftPadBytes([]byte{200}, 32), nil
		}, txn.Accepted},
		"no such contract":   {nil, txn.Unavailable},
		"older than Fjord":   {reverts, txn.Unavailable},
		"fails":              {fails, txn.Unavailable},
		"a fee out of range": {large, txn.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := rollupNode(t, 1e18)
			n.set(func(n *fakeNode) { n.call = c.call })
			r := dial(t, opStack, n.url())
			r.mustHead(t)
			q, o := r.Quote(t.Context(), txn.Draft{Payload: txn.Payload{To: &txn.Address{1}}})
			if o.Class != c.want || o.Class == txn.Accepted && q.L1Fee.Uint64() != 200 {
				t.Errorf("%+v, %+v, want %s", q, o, c.want)
			}
			if o.Class != txn.Accepted && !strings.Contains(o.Detail, "L1 fee") {
				t.Errorf("the detail %q does not name the L1 fee", o.Detail)
			}
		})
	}
}

func make32(b byte) hexutil.Bytes {
	return hexutil.Bytes(strings.Repeat(string([]byte{b}), 32))
}
