package chain

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencepost/fencepost/txn"
)

// callAll makes one call per caller at the same time, and returns how many succeeded.
func callAll(t *testing.T, r *harness, callers int) int {
	t.Helper()
	var ok atomic.Int32
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			if _, err := r.BlockByNumber(t.Context(), 3); err == nil {
				ok.Add(1)
			}
		})
	}
	wg.Wait()
	return int(ok.Load())
}

// An outage counts once, however many calls end with it: while it lasts, one probe at a time is
// sent, and within a second of the endpoint's return every caller is served.
func TestOutage_ManyCallers_CountsOnce(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"http", "ws"} {
		for _, callers := range []int{1, 50, 500} {
			t.Run(fmt.Sprint(transport, " ", callers), func(t *testing.T) {
				t.Parallel()
				n := newNode(t)
				r := dial(t, func(o *Options) { o.MaxInFlight = callers }, transport+"://"+n.addr)
				r.mustHead(t)
				entered, release := make(chan struct{}, callers), make(chan struct{})
				n.set(func(n *fakeNode) {
					n.blockGate = func() {
						entered <- struct{}{}
						<-release
					}
				})
				ended := make(chan int)
				go func() { ended <- callAll(t, r, callers) }()
				for range callers {
					<-entered
				}
				n.http.CloseClientConnections() // as a gateway that restarts
				if transport == "ws" {
					r.endpoints[0].close()
				}
				if ok := <-ended; ok != 0 {
					t.Fatalf("%d calls of a broken connection succeeded", ok)
				}
				close(release)
				n.set(func(n *fakeNode) { n.blockGate = nil })
				n.stop()
				for range 60 { // a minute, with every caller trying again each second
					if ok := callAll(t, r, callers); ok != 0 {
						t.Fatalf("%d calls of a stopped endpoint succeeded", ok)
					}
					r.clock.Advance(time.Second)
				}
				n.listen(t)
				r.clock.Advance(time.Second)
				if ok := callAll(t, r, callers); ok != callers {
					t.Errorf("%d of %d callers served a second after the return; state %+v", ok,
						callers, r.Status())
				}
			})
		}
	}
}

// A short outage, in which only the calls under way are lost, costs no delay.
func TestOutage_OnlyCallsInFlightLost_NoDelay(t *testing.T) {
	t.Parallel()
	const callers = 50
	n := newNode(t)
	r := dial(t, nil, n.url())
	r.mustHead(t)
	entered, release := make(chan struct{}, callers), make(chan struct{})
	n.set(func(n *fakeNode) { n.blockGate = func() { entered <- struct{}{}; <-release } })
	ended := make(chan int)
	go func() { ended <- callAll(t, r, callers) }()
	for range callers {
		<-entered
	}
	n.http.CloseClientConnections()
	<-ended
	close(release)
	n.set(func(n *fakeNode) { n.blockGate = nil })
	verified := n.called("eth_chainId")
	if ok := callAll(t, r, callers); ok != callers {
		t.Errorf("%d of %d callers served at once; state %+v", ok, callers, r.Status())
	}
	if probes := n.called("eth_chainId") - verified; probes >= callers {
		t.Errorf("%d verifications, want fewer than calls: new connections share them", probes)
	}
}

// With one request in twenty failing, the calls need less than twice the requests and no delay: the
// clock stands still.
func TestOutage_FivePercentFail_NoDelay(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusBadGateway, http.StatusServiceUnavailable} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			const calls = 1000
			n := newNode(t)
			r := dial(t, nil, n.url())
			r.mustHead(t)
			var requests atomic.Int32
			n.set(func(n *fakeNode) {
				n.intercept = func(w http.ResponseWriter, _ *http.Request) bool {
					if requests.Add(1)%20 != 0 {
						return false
					}
					w.WriteHeader(status)
					return true
				}
			})
			served, tries := 0, 0
			for served < calls && tries < 2*calls {
				tries++
				if _, err := r.BlockByNumber(t.Context(), 3); err == nil {
					served++
				} else if wait := r.Status()[0].RetryIn; wait > 0 {
					r.clock.Advance(wait)
				}
			}
			if served < calls || requests.Load() >= 2*calls {
				t.Errorf("%d of %d calls served with %d requests", served, calls, requests.Load())
			}
			if delay := r.clock.Now().Sub(time.Unix(1_700_000_000, 0)); delay > time.Second {
				t.Errorf("the callers were kept waiting for %v", delay)
			}
		})
	}
}

// While an endpoint is down it gets one probe per delay, whatever the number of callers.
func TestOutage_Down_ProbedOnce(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	r := dial(t, nil, n.url())
	r.mustHead(t)
	var probes atomic.Int32
	n.set(func(n *fakeNode) {
		n.intercept = func(w http.ResponseWriter, _ *http.Request) bool {
			probes.Add(1)
			w.WriteHeader(http.StatusBadGateway)
			return true
		}
	})
	callAll(t, r, 1) // finds the outage
	for range 10 {
		before := probes.Load()
		r.clock.Advance(outageBackoff)
		callAll(t, r, 100)
		if n := probes.Load() - before; n != 1 {
			t.Fatalf("%d requests to an endpoint that is down, want one probe", n)
		}
	}
	if o := r.Send(t.Context(), signed); o.Class != txn.Unavailable ||
		o.RetryAfter > outageBackoff {
		t.Errorf("%+v, want UNAVAILABLE for a second at most", o)
	}
}
