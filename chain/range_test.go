package chain

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/fencepost/fencepost/txn"
)

func TestFeeQuantity(t *testing.T) {
	t.Parallel()
	most := `"0x` + strings.Repeat("f", 32) + `"`
	for text, ok := range map[string]bool{
		`"0x0"`: true, most: true, `"0x1` + strings.Repeat("0", 32) + `"`: false,
		`"0x1` + strings.Repeat("0", 64) + `"`: false, `"0xg"`: false,
	} {
		var q feeQuantity
		if err := json.Unmarshal([]byte(text), &q); (err == nil) != ok {
			t.Errorf("%s: error %v", text, err)
		}
	}
}

// honestNode is a node with all that a quote and a receipt need.
func honestNode(t *testing.T) *fakeNode {
	n := batchNode(t)
	n.set(func(n *fakeNode) {
		n.baseFee = (*hexutil.Big)(common.Big1)
		n.gasPrice = (*hexutil.Big)(common.Big2)
		n.balance = (*hexutil.Big)(hexutil.MustDecodeBig("0xffffffffffffff"))
		n.receipt = func(hash common.Hash) (map[string]any, error) { return receiptOf(hash), nil }
		n.history = func() (map[string]any, error) {
			return map[string]any{"baseFeePerGas": []string{"0x10"},
				"reward": [][]string{{"0x5"}}}, nil
		}
	})
	return n
}

// A number out of range is a fault of the endpoint that reports it: the next one is asked, and no
// transaction or account is judged by it.
func TestQuirk_NumberOutOfRange_OtherEndpointAsked(t *testing.T) {
	t.Parallel()
	const (
		count = `"0x8000000000000000"`
		fee   = `"0x100000000000000000000000000000000"`
		price = `"effectiveGasPrice":`
	)
	balance := `"result":"0x1` + strings.Repeat("0", 64) + `"`
	receipt := func(ctx context.Context, r *harness) error {
		return r.Receipts(ctx, []txn.Hash{{1}})[0].Err
	}
	account := func(ctx context.Context, r *harness) error {
		_, err := r.Account(ctx, txn.Address{1}, 2)
		return err
	}
	quote := func(ctx context.Context, r *harness) error {
		_, o := r.Quote(ctx, txn.Draft{Payload: txn.Payload{To: &txn.Address{1}}})
		if o.Class == txn.Unavailable {
			return errors.Join(errors.New(o.Detail), txn.ErrUnavailable)
		}
		if o.Class != txn.Accepted {
			return errors.New(string(o.Class) + " " + o.Detail)
		}
		return nil
	}
	head := func(ctx context.Context, r *harness) error {
		_, err := r.Head(ctx)
		return err
	}
	for name, c := range map[string]struct {
		field, value string
		read         func(context.Context, *harness) error
	}{
		"gas used":             {`"gasUsed":"[^"]*"`, `"gasUsed":` + count, receipt},
		"price of a receipt":   {price + `"[^"]*"`, price + fee, receipt},
		"block of a receipt":   {`"blockNumber":"[^"]*"`, `"blockNumber":` + count, receipt},
		"status":               {`"status":"[^"]*"`, `"status":"0x2"`, receipt},
		"another receipt":      {`"transactionHash":"0x0`, `"transactionHash":"0xf`, receipt},
		"number of a head":     {`"number":"[^"]*"`, `"number":` + count, head},
		"time of a head":       {`"timestamp":"[^"]*"`, `"timestamp":` + count, head},
		"base fee":             {`"baseFeePerGas":"[^"]*"`, `"baseFeePerGas":` + fee, quote},
		"base fees of blocks":  {`"baseFeePerGas":\["[^"]*"`, `"baseFeePerGas":[` + fee, quote},
		"tips of blocks":       {`"reward":\[\["[^"]*"`, `"reward":[[` + fee, quote},
		"gas price":            {`"result":"0x2"`, `"result":` + fee, quote},
		"gas of a draft":       {`"result":"0x5208"`, `"result":` + count, quote},
		"balance of a sender":  {`"result":"0xffffffffffffff"`, balance, quote},
		"nonces of an account": {`"result":"0x7"`, `"result":` + count, account},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lying, honest := honestNode(t), honestNode(t)
			for _, n := range []*fakeNode{lying, honest} {
				n.set(func(n *fakeNode) {
					n.count = func(string) (hexutil.Uint64, error) { return 7, nil }
				})
			}
			r := dial(t, nil, lying.url(), honest.url())
			r.mustHead(t)
			field, lies := regexp.MustCompile(c.field), false
			lying.answering(func(_, response []byte) []byte {
				lies = lies || field.Match(response)
				return field.ReplaceAllLiteral(response, []byte(c.value))
			})
			if err := c.read(t.Context(), r); err != nil {
				t.Errorf("with an honest endpoint: %v", err)
			}
			if e := r.endpoints[0]; !lies || !e.isUnhealthy() {
				t.Errorf("asked %v, counts as unhealthy %v", lies, e.isUnhealthy())
			}
			alone := dial(t, nil, lying.url())
			_, _ = alone.Head(t.Context())
			if err := c.read(t.Context(), alone); !errors.Is(err, txn.ErrUnavailable) {
				t.Errorf("alone: error %v, want ErrUnavailable", err)
			}
		})
	}
}

// One unusable receipt in a batch leaves the others usable, and WebSockets open.
func TestReceipts_OneOutOfRange_OthersRead(t *testing.T) {
	onTransports(t, func(t *testing.T, transport string) {
		n := honestNode(t)
		n.set(func(n *fakeNode) {
			n.receipt = func(hash common.Hash) (map[string]any, error) {
				r := receiptOf(hash)
				if hash == (common.Hash{2}) {
					r["gasUsed"] = "0x8000000000000000"
				}
				return r, nil
			}
		})
		r := dial(t, nil, transport+"://"+n.addr)
		r.mustHead(t)
		dials := r.endpoints[0].dials.Load()
		for range 3 {
			for i, a := range r.Receipts(t.Context(), []txn.Hash{{1}, {2}, {3}}) {
				if bad := i == 1; errors.Is(a.Err, txn.ErrUnavailable) != bad ||
					(a.Receipt == nil) != bad {
					t.Errorf("receipt %d: %+v", i+1, a)
				}
			}
		}
		if got := r.endpoints[0].dials.Load(); got != dials {
			t.Errorf("%d connections, want %d", got, dials)
		}
	})
}

// A node without a receipt does not refute one that another node cannot show.
func TestReceipts_UnusableThenNone_NotAbsent(t *testing.T) {
	t.Parallel()
	for name, field := range map[string]string{"no status": "status", "bad gas": "gasUsed"} {
		has, lacks := honestNode(t), honestNode(t)
		has.set(func(n *fakeNode) {
			n.receipt = func(hash common.Hash) (map[string]any, error) {
				r := receiptOf(hash)
				if r[field] = "0x8000000000000000"; field == "status" {
					delete(r, field)
				}
				return r, nil
			}
		})
		lacks.set(func(n *fakeNode) { n.receipt = nil })
		r := dial(t, nil, has.url(), lacks.url())
		r.mustHead(t)
		if a := r.Receipts(t.Context(), []txn.Hash{{1}})[0]; a.Err == nil || a.Receipt != nil {
			t.Errorf("%s: %+v, want an error", name, a)
		}
		if lacks.called("eth_getTransactionReceipt") != 1 {
			t.Errorf("%s: the other endpoint was not asked", name)
		}
	}
}
