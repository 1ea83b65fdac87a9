package chain

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/fencepost/fencepost/txn"
)

// limitBatches makes the node refuse batches of more calls, in the way of refuse.
func (n *fakeNode) limitBatches(limit int, refuse http.HandlerFunc) {
	n.set(func(n *fakeNode) {
		n.intercept = func(w http.ResponseWriter, r *http.Request) bool {
			body := readBody(r)
			var calls []json.RawMessage
			isBatch := json.Unmarshal([]byte(body), &calls) == nil
			if !isBatch || len(calls) <= limit && limit > 1 {
				return false
			}
			refuse(w, r)
			return true
		}
	})
}

// refusals of a batch, as different servers send them.
var batchRefusals = map[string]http.HandlerFunc{
	"error of the first call": func(w http.ResponseWriter, r *http.Request) {
		var calls []struct{ ID json.RawMessage }
		_ = json.Unmarshal([]byte(readBody(r)), &calls)
		fmt.Fprintf(w, `[{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":`+
			`"batch too large"}}]`, calls[0].ID)
	},
	"error without id": func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32005,"message":`+
			`"Batched requests are not supported by this server"}}`)
	},
	"HTTP status": func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "Request Entity Too Large", http.StatusRequestEntityTooLarge)
	},
}

// useAll makes every kind of call that is sent in batches.
func useAll(t *testing.T, r *harness) {
	t.Helper()
	if err := r.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.mustHead(t)
	if _, err := r.Account(t.Context(), txn.Address{1}, 2); err != nil {
		t.Error(err)
	}
	draft := txn.Draft{Payload: txn.Payload{To: &txn.Address{2}}}
	if _, o := r.Quote(t.Context(), draft); o.Class != txn.Accepted {
		t.Errorf("quote: %+v", o)
	}
	for _, a := range r.Receipts(t.Context(), []txn.Hash{{1}, {2}, {3}, {4}, {5}, {6}, {7}}) {
		if a.Err != nil {
			t.Error(a.Err)
		}
	}
	attempts := []txn.Hash{{1}, {2}, {3}, {4}}
	if _, err := r.Pooled(t.Context(), txn.Address{1}, 0, attempts); err != nil {
		t.Error(err)
	}
	if _, err := r.Consumer(t.Context(), txn.Address{1}, 0); err != nil {
		t.Error(err)
	}
	for i, o := range sendAll(t.Context(), r.Client, manySigned(20)) {
		if o.Class != txn.Accepted {
			t.Errorf("send %d: %+v", i, o)
		}
	}
}

func batchNode(t *testing.T) *fakeNode {
	t.Helper()
	n := newNode(t)
	n.set(func(n *fakeNode) {
		n.send = takeAll
		n.gasPrice = (*hexutil.Big)(hexutil.MustDecodeBig("0x3b9aca00"))
		n.balance = (*hexutil.Big)(hexutil.MustDecodeBig("0xde0b6b3a7640000"))
		n.count = func(string) (hexutil.Uint64, error) { return 1, nil }
	})
	return n
}

// With the endpoint's limit configured, no request is refused.
func TestBatches_ConfiguredLimit_Kept(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			t.Parallel()
			n := batchNode(t)
			n.limitBatches(limit, func(w http.ResponseWriter, r *http.Request) {
				t.Errorf("a batch above the limit: %s", readBody(r))
				http.Error(w, "", http.StatusInternalServerError)
			})
			useAll(t, dial(t, func(o *Options) { o.BatchLimit = limit }, n.url()))
		})
	}
}

// An endpoint that takes fewer calls than configured is used with fewer; the log and the status
// show why.
func TestBatches_RefusedSize_SmallerSent(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 2, 5} {
		for name, refuse := range batchRefusals {
			t.Run(fmt.Sprint(limit, " ", name), func(t *testing.T) {
				t.Parallel()
				n := batchNode(t)
				n.limitBatches(limit, refuse)
				r := dial(t, nil, n.url())
				useAll(t, r)
				if limit == 5 { // only many receipts or sends exceed it
					r.Receipts(t.Context(), []txn.Hash{{1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}})
				}
				status := r.Status()[0]
				if status.Batch > limit || status.BatchReason == "" || !status.Healthy {
					t.Errorf("status %+v, want a limit of at most %d with its reason", status,
						limit)
				}
				if !strings.Contains(r.log.String(), "rpc_batch_limit") {
					t.Errorf("the log does not name the setting:\n%s", r.log)
				}
				r.clock.Advance(batchRetry)
				if status := r.Status()[0]; status.Batch != defaultBatchLimit {
					t.Errorf("status %+v, want the configured limit tried again", status)
				}
			})
		}
	}
}
