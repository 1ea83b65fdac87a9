package chain

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/fencepost/fencepost/txn"
)

// hang blocks every request until release is called; entered counts the blocked ones.
func (n *fakeNode) hang(t *testing.T) (entered *atomic.Int32, release func()) {
	t.Helper()
	entered = new(atomic.Int32)
	gate := make(chan struct{})
	n.set(func(n *fakeNode) {
		n.intercept = func(_ http.ResponseWriter, r *http.Request) bool {
			entered.Add(1)
			select {
			case <-gate:
				return false
			case <-r.Context().Done(): // the caller has left
				return true
			}
		}
	})
	var once atomic.Bool
	release = func() {
		if !once.Swap(true) {
			close(gate)
		}
	}
	t.Cleanup(release)
	return entered, release
}

// One call finds out that an endpoint hangs. After that no call waits for it while another serves,
// and one background probe at a time finds out when it is back.
func TestUnhealthy_OthersServe_NoWait(t *testing.T) {
	t.Parallel()
	a, b := newNode(t), newNode(t)
	b.set(func(n *fakeNode) { n.send = accept })
	r := dial(t, nil, a.url(), b.url())
	r.mustHead(t)
	a.answerHTTP(http.StatusBadGateway, nil, "")
	r.mustHead(t)           // of the second
	r.o.Timeout = time.Hour // from here on a call that waits for the first endpoint never ends
	entered, release := a.hang(t)
	r.clock.Advance(lastBackoff)
	for range 20 {
		r.mustHead(t)
		if _, err := r.BlockByNumber(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		if o := r.Send(t.Context(), signed); o.Class != txn.Accepted {
			t.Fatal(o)
		}
	}
	await(t, "a try aside", func() bool { return entered.Load() > 0 })
	r.mustHead(t)
	if n := entered.Load(); n != 1 {
		t.Errorf("%d calls wait for an endpoint that hangs, want one try aside", n)
	}
	release()
	r.awaitHealthy(t, 0)
	served := b.called("eth_getBlockByNumber")
	if r.mustHead(t); b.called("eth_getBlockByNumber") != served {
		t.Error("the first endpoint is not preferred again")
	}
}

// An endpoint that passes verification but fails calls backs off for a growing time.
func TestUnhealthy_PassesVerification_KeepsBackingOff(t *testing.T) {
	t.Parallel()
	a, b := newNode(t), newNode(t)
	r := dial(t, nil, a.url(), b.url())
	r.mustHead(t)
	a.set(func(n *fakeNode) {
		n.intercept = func(w http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(readBody(r), `"latest"`) {
				w.WriteHeader(http.StatusBadGateway)
				return true
			}
			return false
		}
	})
	var waits []time.Duration
	for range 4 {
		r.mustHead(t)
		e := r.endpoints[0]
		e.mu.Lock()
		waits = append(waits, e.retryAt.Sub(r.clock.Now()))
		e.mu.Unlock()
		r.clock.Advance(lastBackoff)
		r.mustHead(t)
		r.awaitHealthy(t, 0)
	}
	for i := 1; i < len(waits); i++ {
		if waits[i] <= waits[i-1] {
			t.Errorf("left alone for %v", waits)
			break
		}
	}
}

// After a failure another chain may answer at the address, even over the same connection.
func TestUnhealthy_AfterFailure_Verified(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	r := dial(t, nil, n.url())
	r.mustHead(t)
	n.answerHTTP(http.StatusBadGateway, nil, "")
	if _, err := r.Head(t.Context()); err == nil {
		t.Fatal("the fault did not show")
	}
	n.set(func(n *fakeNode) { n.intercept, n.chainID = nil, 5 })
	r.clock.Advance(lastBackoff)
	if head, err := r.Head(t.Context()); !errors.Is(err, ErrWrongChain) {
		t.Errorf("%+v, %v; want ErrWrongChain", head, err)
	}
}

// A request limit does not cast doubt on the chain behind the address.
func TestUnhealthy_RateLimited_NotVerified(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	r := dial(t, nil, n.url())
	r.mustHead(t)
	n.answerHTTP(http.StatusTooManyRequests, nil, "")
	_, _ = r.Head(t.Context()) // it is limited
	n.set(func(n *fakeNode) { n.intercept = nil })
	r.clock.Advance(lastBackoff)
	r.mustHead(t)
	if asked := n.called("eth_chainId"); asked != 1 {
		t.Errorf("verified %d times", asked)
	}
}

// Some providers report in a well-formed response that they refuse the client. It is not a response
// of a node.
func TestUnhealthy_HeadRefused(t *testing.T) {
	t.Parallel()
	a, b := newNode(t), newNode(t)
	r := dial(t, nil, a.url(), b.url())
	r.mustHead(t)
	const refusal = `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"project ID is ` +
		`required, invalid API key"}}`
	asked := 0
	a.set(func(n *fakeNode) {
		n.intercept = func(w http.ResponseWriter, r *http.Request) bool {
			asked++
			id := strings.SplitN(strings.SplitN(readBody(r), `"id":`, 2)[1], ",", 2)[0]
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(strings.Replace(refusal, `"id":1`, `"id":`+id, 1)))
			return true
		}
	})
	r.mustHead(t)
	r.mustHead(t)
	r.clock.Advance(lastBackoff)
	r.mustHead(t)
	if asked != 1 {
		t.Errorf("asked %d times within %v", asked, longBackoff)
	}
	a.set(func(n *fakeNode) { n.intercept = nil })
	r.clock.Advance(longBackoff)
	r.mustHead(t)
	r.awaitHealthy(t, 0)
}

// A limit that hits part of a batch keeps the other responses and makes the endpoint back off.
func TestRateLimit_PartOfBatch(t *testing.T) {
	t.Parallel()
	a, b := newNode(t), newNode(t)
	a.set(func(n *fakeNode) {
		n.receipt = func(hash common.Hash) (map[string]any, error) {
			if hash == (common.Hash{2}) {
				return nil, coded{code: -32005, msg: "rate limited, try again in 5s"}
			}
			return receiptOf(hash), nil
		}
	})
	b.set(func(n *fakeNode) {
		n.receipt = func(hash common.Hash) (map[string]any, error) { return receiptOf(hash), nil }
	})
	r := dial(t, nil, a.url(), b.url())
	r.mustHead(t)
	got := r.Receipts(t.Context(), []txn.Hash{{1}, {2}})
	if got[0].Receipt == nil || !errors.Is(got[1].Err, txn.ErrUnavailable) {
		t.Errorf("%+v", got)
	}
	if got := r.Receipts(t.Context(), []txn.Hash{{2}}); got[0].Receipt == nil ||
		a.called("eth_getTransactionReceipt") != 2 {
		t.Errorf("%+v after %d calls to the endpoint that is limited", got,
			a.called("eth_getTransactionReceipt"))
	}
	r.clock.Advance(5*time.Second - 1)
	r.mustHead(t)
	if r.endpoints[0].isUnhealthy(); a.called("eth_chainId") != 1 {
		t.Error("it is tried again within the time that it asked for")
	}
}

func TestRetryAfter_ErrorWithStatus200_Used(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	r := dial(t, nil, n.url())
	r.mustHead(t)
	n.onSend(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Retry-After", "11")
		w.Header().Set("Content-Type", "application/json")
		id := strings.SplitN(strings.SplitN(readBody(req), `"id":`, 2)[1], ",", 2)[0]
		_, _ = w.Write(
			[]byte(
				`{"jsonrpc":"2.0","id":` + id +
					`,"error":{"code":-32005,"message":"limit exceeded"}}`),
		)
	})
	if o := r.Send(t.Context(), signed); o.Class != txn.RateLimited ||
		o.RetryAfter != 11*time.Second {
		t.Errorf("%+v", o)
	}
}

// Two chains in one process: one accepts every call and answers none, under more calls than it has
// slots. The other works normally.
func TestClients_OneChainDown_OthersUnaffected(t *testing.T) {
	t.Parallel()
	const (
		room    = 4
		callers = 60
		rounds  = 20
	)
	dead, live := newNode(t), newNode(t)
	live.set(func(n *fakeNode) {
		n.send = func(hexutil.Bytes) (common.Hash, error) { return signed.Hash, nil }
		n.receipt = func(hash common.Hash) (map[string]any, error) { return receiptOf(hash), nil }
		n.baseFee = (*hexutil.Big)(common.Big1)
	})
	hung := dial(t, func(o *Options) {
		o.Name = "dead"
		o.Timeout = time.Hour
		o.MaxInFlight = room
	},
		dead.url())
	fast := dial(t, func(o *Options) { o.Name, o.MaxInFlight = "live", room }, live.url())
	hung.mustHead(t)
	entered, _ := dead.hang(t)
	ctx, cancel := context.WithCancel(t.Context())
	var back atomic.Int32
	done := make(chan struct{}, callers)
	for i := range callers {
		go func() {
			switch i % 4 {
			case 0:
				_, _ = hung.Head(ctx)
			case 1:
				hung.Send(ctx, signed)
			case 2:
				hung.Receipts(ctx, []txn.Hash{{1}})
			case 3:
				_, _ = hung.Quote(ctx, txn.Draft{})
			}
			back.Add(1)
			done <- struct{}{}
		}()
	}
	await(t, "calls inside the dead chain", func() bool { return entered.Load() > 0 })
	for range rounds {
		fast.mustHead(t)
		if o := fast.Send(t.Context(), signed); o.Class != txn.Accepted {
			t.Fatalf("send: %+v", o)
		}
		if a := fast.Receipts(t.Context(), []txn.Hash{{1}})[0]; a.Receipt == nil {
			t.Fatalf("receipt: %+v", a)
		}
		if _, o := fast.Fees(t.Context(), txn.FeeRequest{}); o.Class != txn.Accepted {
			t.Fatalf("fees: %+v", o)
		}
		if _, err := fast.Account(t.Context(), txn.Address{1}, 1); err != nil {
			t.Fatal(err)
		}
	}
	if n, m := back.Load(), entered.Load(); n != 0 || m > room {
		t.Errorf(
			"%d calls to the dead chain came back, and %d are under way where there is room for %d",
			n, m, room)
	}
	cancel()
	for range callers {
		<-done
	}
}
