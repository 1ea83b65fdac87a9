package chain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/fencepost/fencepost/chain/outcome"
	"github.com/fencepost/fencepost/txn"
)

// manySigned returns n transactions for a node that accepts anything.
func manySigned(n int) []txn.Signed {
	all := make([]txn.Signed, n)
	for i := range all {
		raw := fmt.Appendf(nil, "transaction %d", i)
		all[i] = txn.Signed{Raw: raw, Hash: crypto.Keccak256Hash(raw)}
	}
	return all
}

// sendAll sends all concurrently.
func sendAll(ctx context.Context, c *Client, all []txn.Signed) []txn.Outcome {
	outcomes := make([]txn.Outcome, len(all))
	var wg sync.WaitGroup
	for i, signed := range all {
		wg.Go(func() { outcomes[i] = c.Send(ctx, signed) })
	}
	wg.Wait()
	return outcomes
}

func takeAll(raw hexutil.Bytes) (common.Hash, error) { return crypto.Keccak256Hash(raw), nil }

// isBatch reports whether a request is a batch, and leaves it readable.
func isBatch(r *http.Request) bool {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return bytes.HasPrefix(body, []byte("[")) &&
		bytes.Contains(body, []byte("eth_sendRawTransaction"))
}

// Concurrent sends share a few requests, and each gets its own outcome.
func TestOutbox_ConcurrentSends_ShareRequests(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	all := manySigned(300)
	n.set(func(n *fakeNode) {
		n.send = func(raw hexutil.Bytes) (common.Hash, error) {
			switch {
			case bytes.Equal(raw, all[100].Raw):
				return common.Hash{}, errors.New("insufficient funds for gas * price + value")
			case bytes.Equal(raw, all[200].Raw):
				return common.HexToHash("0xbad"), nil
			}
			return takeAll(raw)
		}
	})
	c := dial(t, func(o *Options) { o.BatchLimit = 50 }, n.url()).Client
	// connected and verified
	if o := c.Send(t.Context(), manySigned(301)[300]); o.Class != txn.Accepted {
		t.Fatalf("%+v", o)
	}
	n.set(func(n *fakeNode) { n.requests = 0 })
	want := map[int]txn.Class{100: txn.InsufficientFunds, 200: txn.Ambiguous}
	for i, o := range sendAll(t.Context(), c, all) {
		if w := want[i]; o.Class != w && (w != "" || o.Class != txn.Accepted) {
			t.Errorf("transaction %d: %+v", i, o)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.requests > 60 {
		t.Errorf("%d requests for 300 transactions in batches of 50", n.requests)
	}
}

// An endpoint without batches gets each transaction alone, for any response to a batch. Bytes
// that it may have accepted are never reported as unprocessed.
func TestOutbox_UnansweredBatch_SendsAlone(t *testing.T) {
	t.Parallel()
	for name, response := range map[string]func(w http.ResponseWriter){
		"refused as one": func(w http.ResponseWriter) {
			fmt.Fprint(
				w,
				`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid `+
					`transaction batch"}}`,
			)
		},
		"refused in a batch": func(w http.ResponseWriter) {
			fmt.Fprint(
				w,
				`[{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"batch too large"}}]`,
			)
		},
		"bad request": func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadRequest) },
		"too large": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		},
		// the server behind it may have accepted them
		"gateway timeout": func(w http.ResponseWriter) { w.WriteHeader(http.StatusGatewayTimeout) },
		"others answered": func(w http.ResponseWriter) {
			fmt.Fprint(w, `[{"jsonrpc":"2.0","id":987654321,"result":"0x00"}]`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.set(func(n *fakeNode) {
				n.send = takeAll
				n.intercept = func(w http.ResponseWriter, r *http.Request) bool {
					if !isBatch(r) {
						return false
					}
					w.Header().Set("Content-Type", "application/json")
					response(w)
					return true
				}
			})
			r := dial(t, nil, n.url())
			ails := strings.HasPrefix(name, "gateway") ||
				// it backs off, and transactions sent meanwhile are unprocessed
				name == "refused as one"
			for i, o := range sendAll(t.Context(), r.Client, manySigned(100)) {
				if o.Class != txn.Accepted &&
					(!ails || o.Class != txn.Ambiguous &&
						outcome.RankOf(o.Class) != outcome.RankUnprocessed) {
					t.Errorf("transaction %d: %+v", i, o)
				}
			}
			r.clock.Advance(lastBackoff) // it is tried again, and batches are paused
			for i, o := range sendAll(t.Context(), r.Client, manySigned(100)) {
				if o.Class != txn.Accepted {
					t.Errorf("transaction %d, once more: %+v", i, o)
				}
			}
		})
	}
}

// An owner that leaves before its turn has sent nothing, and delays no other.
func TestOutbox_OwnerLeaves_OthersUnaffected(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	held, begun := make(chan struct{}), make(chan struct{}, maxConcurrentSends)
	var holds atomic.Int64
	n.set(func(n *fakeNode) {
		n.send = func(raw hexutil.Bytes) (common.Hash, error) {
			if holds.Add(1) <= maxConcurrentSends {
				begun <- struct{}{}
				<-held
			}
			return takeAll(raw)
		}
	})
	c := dial(t, nil, n.url()).Client
	all := manySigned(maxConcurrentSends + 2)
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, signed := range all[:maxConcurrentSends] {
		wg.Go(func() {
			if o := c.Send(context.WithoutCancel(t.Context()), signed); o.Class != txn.Accepted {
				t.Errorf("%+v", o)
			}
		})
	}
	for range maxConcurrentSends {
		<-begun
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if o := c.Send(ctx, all[maxConcurrentSends]); o.Class != txn.Unavailable {
		t.Errorf("a transaction whose owner left: %+v", o)
	}
	close(held)
	if o := c.Send(t.Context(), all[maxConcurrentSends+1]); o.Class != txn.Accepted {
		t.Errorf("the one behind it: %+v", o)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.sends > maxConcurrentSends+1 {
		t.Errorf("%d transactions were sent", n.sends)
	}
}

// An owner that leaves while its batch waits for a free call has sent nothing, whoever else is in
// the batch.
func TestOutbox_OwnerLeavesWaitingBatch_NothingSent(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	all := manySigned(4)
	var got sync.Map
	n.set(func(n *fakeNode) {
		n.send = func(raw hexutil.Bytes) (common.Hash, error) {
			got.Store(string(raw), true)
			return takeAll(raw)
		}
	})
	c := dial(t, func(o *Options) { o.MaxInFlight = 1 }, n.url()).Client
	if o := c.Send(t.Context(), all[0]); o.Class != txn.Accepted { // connected and verified
		t.Fatalf("%+v", o)
	}
	e := c.endpoints[0]
	e.outbox.busy = maxConcurrentSends
	e.slots <- struct{}{} // a slow call
	ctx, abandon := context.WithCancel(t.Context())
	outcomes := make([]chan txn.Outcome, len(all))
	for i, owner := range []context.Context{nil, t.Context(), ctx, t.Context()} {
		if owner == nil {
			continue
		}
		outcomes[i] = make(chan txn.Outcome, 1)
		go func() { outcomes[i] <- c.Send(owner, all[i]) }()
		for waits := 0; waits < i; runtime.Gosched() {
			e.outbox.mu.Lock()
			waits = len(e.outbox.waiting)
			e.outbox.mu.Unlock()
		}
	}
	e.outbox.end(e) // all three are one batch now
	abandon()
	if o := <-outcomes[2]; o.Class == txn.Accepted {
		t.Errorf("whoever left: %+v", o)
	}
	<-e.slots
	for _, i := range []int{1, 3} {
		if o := <-outcomes[i]; o.Class != txn.Accepted {
			t.Errorf("transaction %d: %+v", i, o)
		}
	}
	if _, sent := got.Load(string(all[2].Raw)); sent {
		t.Error("what its owner had left was sent")
	}
}
