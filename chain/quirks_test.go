package chain

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/fencepost/fencepost/txn"
)

// An account is read from a provider that refuses the tag "pending", once that is no passing fault;
// the pool is not seen then.
func TestQuirk_PendingRefused_LatestUsed(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]error{
		"not supported": coded{code: -32602, msg: "unsupported block number pending"},
		"not available": coded{code: -32000, msg: "pending state is not available"},
		"not served":    coded{code: -32601, msg: "method not available for pending"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := batchNode(t)
			pendingFails := true
			n.set(func(n *fakeNode) {
				n.count = func(tag string) (hexutil.Uint64, error) {
					if tag == "pending" && pendingFails {
						return 0, refusal
					}
					if tag == "pending" {
						return 9, nil
					}
					return 7, nil
				}
			})
			r := dial(t, nil, n.url())
			r.mustHead(t)
			a, err := r.Account(t.Context(), txn.Address{1}, 2)
			if !errors.Is(err, txn.ErrUnavailable) {
				t.Errorf("after one failure: %+v, %v", a, err)
			}
			for range 3 {
				a, err := r.Account(t.Context(), txn.Address{1}, 2)
				if err != nil || a.Latest != 7 || a.Pending != 7 || a.Settled != 7 {
					t.Errorf("%+v, %v; want the newest count in place of the pending one", a, err)
				}
			}
			if d, err := r.Pooled(t.Context(), txn.Address{1}, 7, []txn.Hash{{1}}); err != nil ||
				d != txn.PossiblyLost {
				t.Errorf("pool: %v, %v", d, err)
			}
			if strings.Count(r.log.String(), "level=WARN") != 1 {
				t.Errorf("the log does not name the tag once:\n%s", r.log)
			}
			n.set(func(*fakeNode) { pendingFails = false })
			if a, err := r.Account(t.Context(), txn.Address{1}, 2); err != nil || a.Pending != 9 {
				t.Errorf("served again: %+v, %v", a, err)
			}
		})
	}
}

// A refusal of the tag that several calls meet together counts once, and a success between two
// refusals ends the count.
func TestQuirk_PendingRefused_PassingFaultNotCounted(t *testing.T) {
	t.Parallel()
	n := batchNode(t)
	var together sync.WaitGroup
	refuse := func(wait bool) {
		n.set(func(n *fakeNode) {
			n.count = func(tag string) (hexutil.Uint64, error) {
				if tag != "pending" {
					return 7, nil
				}
				if wait {
					together.Done()
					together.Wait()
				}
				return 0, coded{code: -32000, msg: "pending state is not available"}
			}
		})
	}
	serve := func() {
		count := func(string) (hexutil.Uint64, error) { return 7, nil }
		n.set(func(n *fakeNode) { n.count = count })
	}
	r := dial(t, nil, n.url())
	r.mustHead(t)
	together.Add(2)
	refuse(true)
	errs := make(chan error)
	for i := range 2 {
		go func() {
			_, err := r.Account(t.Context(), txn.Address{byte(i)}, 2)
			errs <- err
		}()
	}
	for range 2 {
		if err := <-errs; !errors.Is(err, txn.ErrUnavailable) {
			t.Errorf("refused together: error %v, want ErrUnavailable", err)
		}
	}
	serve()
	if _, err := r.Pooled(t.Context(), txn.Address{1}, 7, []txn.Hash{{1}}); err != nil {
		t.Fatal(err)
	}
	refuse(false)
	if _, err := r.Account(t.Context(), txn.Address{1}, 2); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("refused after a success: error %v, want ErrUnavailable", err)
	}
}

// Another endpoint that serves the tag is preferred to a view without the pool.
func TestQuirk_PendingRefused_OtherEndpointUsed(t *testing.T) {
	t.Parallel()
	a, b := batchNode(t), batchNode(t)
	a.set(func(n *fakeNode) {
		n.count = func(tag string) (hexutil.Uint64, error) {
			if tag == "pending" {
				return 0, coded{code: -32602, msg: "unsupported block number pending"}
			}
			return 7, nil
		}
	})
	b.set(func(n *fakeNode) { n.count = func(string) (hexutil.Uint64, error) { return 8, nil } })
	r := dial(t, nil, a.url(), b.url())
	r.mustHead(t)
	if got, err := r.Account(t.Context(), txn.Address{1}, 2); err != nil || got.Pending != 8 {
		t.Errorf("%+v, %v", got, err)
	}
}

// A node that writes quantities with leading zeros is used like any other.
func TestQuirk_LeadingZeros_Read(t *testing.T) {
	onTransports(t, func(t *testing.T, transport string) {
		n := batchNode(t)
		n.set(func(n *fakeNode) {
			n.baseFee = (*hexutil.Big)(common.Big256)
			n.receipt = func(hash common.Hash) (map[string]any, error) {
				return receiptOf(hash),
					nil
			}
			n.history = func() (map[string]any, error) {
				return map[string]any{"baseFeePerGas": []string{"0x10"},
					"reward": [][]string{{"0x5"}}}, nil
			}
		})
		short := regexp.MustCompile(`"0x([0-9a-f]{1,16})"`)
		n.answering(func(_, response []byte) []byte {
			return short.ReplaceAll(response, []byte(`"0x000$1"`))
		})
		r := dial(t, nil, transport+"://"+n.addr)
		useAllReads(t, r)
	})
}

func TestQuantity(t *testing.T) {
	t.Parallel()
	big256 := strings.Repeat("f", 64)
	for text, want := range map[string]string{
		`"0x0"`: "0", `"0x"`: "0", `"0x00"`: "0", `"0x01"`: "1", `"0xFf"`: "255",
		`"0x000000000000000000ff"`: "255", `"0x7fffffffffffffff"`: "9223372036854775807",
		`"0x8000000000000000"`: "", `"0x10000000000000000"`: "",
		`"ff"`: "", `""`: "", `7`: "", `"0xg"`: "", `"-0x1"`: "",
		`"0x-1"`: "", `"0x+1"`: "", `"0x_1"`: "",
	} {
		var got quantity
		if err := json.Unmarshal([]byte(text), &got); (err == nil) != (want != "") ||
			err == nil && json.Number(want) != json.Number(uintText(got)) {
			t.Errorf("%s: %d, %v, want %q", text, got, err, want)
		}
		var all bigQuantity
		err := json.Unmarshal([]byte(text), &all)
		if large := map[string]string{
			`"0x8000000000000000"`:  "9223372036854775808",
			`"0x10000000000000000"`: "18446744073709551616",
		}[text]; large != "" {
			want = large
		}
		if (err == nil) != (want != "") || err == nil && all.ToInt().String() != want {
			t.Errorf("big %s: %v, %v, want %q", text, all.ToInt(), err, want)
		}
	}
	var all bigQuantity
	if err := json.Unmarshal([]byte(`"0x00`+big256+`"`), &all); err != nil {
		t.Error(err)
	}
	if json.Unmarshal([]byte(`"0x1`+big256+`"`), &all) == nil {
		t.Error("a number above 256 bits is accepted")
	}
}

func uintText(q quantity) string {
	text, _ := json.Marshal(uint64(q))
	return string(text)
}

// useAllReads makes every kind of read and a quote.
func useAllReads(t *testing.T, r *harness) {
	t.Helper()
	r.mustHead(t)
	if b, err := r.BlockByNumber(t.Context(), 3); err != nil || b == nil || b.Number != 3 {
		t.Errorf("block: %+v, %v", b, err)
	}
	if _, err := r.Account(t.Context(), txn.Address{1}, 2); err != nil {
		t.Error(err)
	}
	if a := r.Receipts(t.Context(), []txn.Hash{{1}})[0]; a.Err != nil || a.Receipt == nil ||
		!a.Receipt.Success {
		t.Errorf("receipt: %+v", a)
	}
	draft := txn.Draft{Payload: txn.Payload{To: &txn.Address{2}}}
	if q, o := r.Quote(t.Context(), draft); o.Class != txn.Accepted || q.GasLimit < 21_000 {
		t.Errorf("quote: %+v, %+v", q, o)
	}
	if _, o := r.Fees(t.Context(), txn.FeeRequest{}); o.Class != txn.Accepted {
		t.Errorf("fees: %+v", o)
	}
}

// prune makes the node answer queries for block 0 with null, or with an error.
func (n *fakeNode) prune(refusal string) {
	n.set(func(n *fakeNode) { n.genesis = common.Hash{} })
	if refusal == "" {
		return
	}
	n.answering(func(_, response []byte) []byte {
		var calls []json.RawMessage
		if json.Unmarshal(response, &calls) != nil {
			return response
		}
		for i := range calls {
			if !bytes.Contains(calls[i], []byte(`"number":"0x0"`)) {
				continue
			}
			var call struct{ ID json.RawMessage }
			_ = json.Unmarshal(calls[i], &call)
			calls[i] = json.RawMessage(`{"jsonrpc":"2.0","id":` + string(call.ID) +
				`,"error":{"code":4444,"message":"` + refusal + `"}}`)
		}
		response, _ = json.Marshal(calls)
		return response
	})
}

// A node without block 0 serves a chain whose genesis is configured, or known from another
// endpoint. Without either, the error names the setting.
func TestQuirk_NoGenesisBlock_ConfiguredUsed(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]string{
		"null": "", "pruned": "pruned history unavailable", "not found": "block not found",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			genesis := n.genesis
			n.prune(refusal)
			r := dial(t, nil, n.url())
			if err := r.Verify(t.Context()); !errors.Is(err, txn.ErrUnavailable) ||
				errors.Is(err, ErrWrongGenesis) {
				t.Errorf("without a genesis: %v", err)
			}
			r = dial(t, func(o *Options) { o.Genesis = genesis }, n.url())
			if err := r.Verify(t.Context()); err != nil {
				t.Errorf("with the genesis configured: %v", err)
			}
			if r.mustHead(t); !strings.Contains(r.log.String(), "block 0") {
				t.Errorf("the log does not name the missing block:\n%s", r.log)
			}
			full := newNode(t)
			r = dial(t, nil, full.url(), n.url())
			r.mustHead(t)
			full.answerHTTP(http.StatusBadGateway, nil, "")
			r.mustHead(t)
			n.set(func(n *fakeNode) { n.chainID = 5 })
			r = dial(t, func(o *Options) { o.Genesis = genesis }, n.url())
			if err := r.Verify(t.Context()); !errors.Is(err, ErrWrongChain) {
				t.Errorf("another chain: %v", err)
			}
		})
	}
}
