package chain

import (
	"testing"
	"time"

	"github.com/fencepost/fencepost/chain/outcome"
	"github.com/fencepost/fencepost/txn"
)

// An endpoint that states that it accepts no transactions gets none for a growing time, while reads
// continue.
func TestSendBackoff(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refusal reply
		first   time.Duration // of the backoffs
	}{
		"not synced": {words(-32000, "node is not synced"), firstBackoff},
		"method not found": {
			words(-32601, "the method eth_sendRawTransaction does not exist/is not available"),
			longBackoff,
		},
		"key is not valid": {words(-32000, "invalid api key"), longBackoff},
		"asks for some time": {
			words(-32000, "node is not synced, try again in 20s"),
			20 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := newNode(t), newNode(t)
			c.refusal(a)
			words(-32000, "txpool is full")(b)
			r := dial(t, nil, a.url(), b.url())
			r.mustHead(t)
			send := func(asked int) {
				t.Helper()
				if o := r.Send(t.Context(), signed); o.Class != txn.PoolFull {
					t.Errorf("%+v, want POOL_FULL of the other endpoint", o)
				}
				if got := a.called("eth_sendRawTransaction"); got != asked {
					t.Fatalf("the endpoint that takes none was asked %d times, want %d", got, asked)
				}
			}
			for range 5 {
				send(1)
			}
			heads := a.called("eth_getBlockByNumber")
			if r.mustHead(t); a.called("eth_getBlockByNumber") == heads {
				t.Error("it is not asked for the head any more")
			}
			r.clock.Advance(c.first - time.Millisecond)
			send(1)
			r.clock.Advance(time.Millisecond)
			send(2)
			if c.first == firstBackoff {
				r.clock.Advance(2*c.first - time.Millisecond)
				send(2)
			}
			r.clock.Advance(longBackoff)
			answers(accept)(a)
			for range 2 { // it accepts them again, and is preferred again
				if o := r.Send(t.Context(), signed); o.Class != txn.Accepted {
					t.Errorf("%+v, want ACCEPTED", o)
				}
			}
		})
	}
}

// The refusal may concern one account only, so the endpoint is tried if no other one processes the
// bytes.
func TestSendBackoff_NoOtherEndpoint_StillTried(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]reply{
		"alone":                nil,
		"the other takes none": words(-32000, "node is not synced"),
		"the other is limited": words(-32005, "rate limited, try again in 9s"),
		"the other is down":    overHTTP(401, nil, ""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := []*fakeNode{newNode(t)}
			urls := []string{nodes[0].url()}
			words(-32000, "sender is blacklisted")(nodes[0])
			if other != nil {
				nodes = append(nodes, newNode(t))
				urls = append(urls, nodes[1].url())
			}
			r := dial(t, nil, urls...)
			r.mustHead(t)
			if other != nil {
				other(nodes[1])
			}
			for range 2 {
				if o := r.Send(
					t.Context(),
					signed,
				); outcome.RankOf(o.Class) != outcome.RankUnprocessed {
					t.Errorf("%+v", o)
				}
			}
			answers(accept)(nodes[0])
			if o := r.Send(t.Context(), signed); o.Class != txn.Accepted {
				t.Errorf("%+v; another account's transaction would have been taken", o)
			}
		})
	}
}

// An endpoint that does not serve the head is unusable. An unknown block or method has no effect on
// health.
func TestHealth_ByResponse(t *testing.T) {
	t.Parallel()
	unsynced := func(n *fakeNode) {
		n.answerHTTP(200, nil,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"node is not synced"}}`)
	}
	a, b := newNode(t), newNode(t)
	r := dial(t, nil, a.url(), b.url())
	r.mustHead(t)
	unsynced(a)
	r.mustHead(t)
	if !r.endpoints[0].isUnhealthy() {
		t.Error("an endpoint that does not tell its head is taken for well")
	}
	c := newNode(t)
	alone := dial(t, nil, c.url())
	alone.mustHead(t)
	unsynced(c)
	if _, err := alone.BlockByNumber(t.Context(), 3); err == nil {
		t.Error("there was no answer")
	}
	if alone.endpoints[0].isUnhealthy() {
		t.Error("an unknown block makes an endpoint ill")
	}
	alone.endpoints[0].recordHealth(t.Context(), &fault{class: txn.Ambiguous}, 0)
	alone.clock.Advance(lastBackoff)
	c.set(func(n *fakeNode) { n.intercept = nil })
	c.set(func(n *fakeNode) { n.send = says(-32000, "node is not synced") })
	_ = alone.Send(t.Context(), signed)
	if !alone.endpoints[0].isUnhealthy() {
		t.Error("a refusal to serve makes an endpoint well")
	}
}
