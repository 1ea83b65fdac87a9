package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
)

// gateway is a proxy in front of a chain, which can be restarted on its address.
type gateway struct {
	t       *testing.T
	address string
	handler http.Handler
	chain   *testChain

	mu     sync.Mutex
	server *http.Server
	calls  []time.Time
	sent   map[common.Address]time.Time // the first broadcast of each sender
}

func newGateway(t *testing.T, c *testChain) *gateway {
	t.Helper()
	to, err := url.Parse(c.url)
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{t: t, address: address(freePort(t)), chain: c}
	g.handler = &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:    &http.Transport{MaxIdleConnsPerHost: 64},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { hangUp(w) },
	}
	g.start()
	t.Cleanup(g.stop)
	return g
}

// start listens, and forgets all calls.
func (g *gateway) start() {
	g.t.Helper()
	listener, err := net.Listen("tcp", g.address)
	if err != nil {
		g.t.Fatal(err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls, g.sent = nil, map[common.Address]time.Time{}
	g.server = &http.Server{Handler: http.HandlerFunc(g.serve)}
	go func(s *http.Server) { _ = s.Serve(listener) }(g.server)
}

// stop closes the listener and all connections.
func (g *gateway) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = g.server.Close()
}

func (g *gateway) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		hangUp(w)
		return
	}
	g.note(body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	g.handler.ServeHTTP(w, r)
}

// note records a call and its broadcasts.
func (g *gateway) note(body []byte) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, now)
	for _, raw := range rawTransactions(body) {
		var tx types.Transaction
		if tx.UnmarshalBinary(raw) != nil {
			continue
		}
		from, err := types.Sender(types.LatestSignerForChainID(tx.ChainId()), &tx)
		if _, known := g.sent[from]; err == nil && !known {
			g.sent[from] = now
		}
	}
}

// seen returns the first call, the longest time between two calls, and the last of the first
// broadcasts of the senders, since the start.
func (g *gateway) seen() (first time.Time, gap time.Duration, sent []time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, at := range g.calls {
		if i == 0 {
			first = at
			continue
		}
		gap = max(gap, at.Sub(g.calls[i-1]))
	}
	for _, at := range g.sent {
		sent = append(sent, at)
	}
	return first, gap, sent
}

// awaitSent waits for a broadcast of each of so many senders, and returns when the last was.
func (g *gateway) awaitSent(t *testing.T, senders int) (last time.Time) {
	t.Helper()
	eventually(t, time.Minute, "every account broadcasts", func() error {
		_, _, sent := g.seen()
		if len(sent) < senders {
			return fmt.Errorf("%d of %d", len(sent), senders)
		}
		for _, at := range sent {
			if at.After(last) {
				last = at
			}
		}
		return nil
	})
	return last
}

// TestGateway_Restarted_CallsResume restarts the proxy in front of a chain while accounts have
// work. The time until calls resume does not grow with the number of accounts, nor with the calls
// that died together: it is a second more than the longest time between two calls of the healthy
// node. Each account then sends after at most the delay of its own retries.
func TestGateway_Restarted_CallsResume(t *testing.T) {
	const most, retryDelay = 50, 5 * time.Second
	c := embedded(t, 200*time.Millisecond, most)
	g := newGateway(t, c)
	n := newNode(t, c, nodeOptions{
		confirmations: 1, poll: 100 * time.Millisecond, rpc: "http://" + g.address,
	})
	for round, accounts := range []int{1, 15, most} {
		t.Run(fmt.Sprint(accounts), func(t *testing.T) {
			g.stop()
			g.start()
			healthy := time.Now()
			n.requestOneEach(t, accounts, fmt.Sprintf("before-%d", round))
			latency := g.awaitSent(t, accounts).Sub(healthy)
			n.awaitOutcomes(t)
			_, gap, _ := g.seen()
			g.stop()
			n.requestOneEach(t, accounts, fmt.Sprintf("during-%d", round))
			n.awaitLongestBackoff(t)
			returned := time.Now()
			g.start()
			last := g.awaitSent(t, accounts)
			first, _, _ := g.seen()
			t.Logf("%d accounts: the first call came %s after the return (limit 1s + %s), the "+
				"last account broadcast after %s (healthy: %s)", accounts,
				first.Sub(returned).Round(time.Millisecond), gap.Round(time.Millisecond),
				last.Sub(returned).Round(time.Millisecond), latency.Round(time.Millisecond))
			if took := first.Sub(returned); took > time.Second+gap {
				t.Errorf("the first call came %s after the return", took)
			}
			if took := last.Sub(returned); took > retryDelay+2*latency {
				t.Errorf("the last account broadcast %s after the return", took)
			}
			n.awaitOutcomes(t)
		})
	}
	n.proc.stop(t)
}

// requestOneEach requests a transaction of each of the first accounts.
func (n *node) requestOneEach(t *testing.T, accounts int, request string) {
	t.Helper()
	var wg sync.WaitGroup
	for _, name := range n.names[:accounts] {
		wg.Go(func() { n.create(t, name, request, transfer) })
	}
	wg.Wait()
}

// awaitOutcomes waits until all is final.
func (n *node) awaitOutcomes(t *testing.T) {
	t.Helper()
	eventually(t, time.Minute, "everything is final", func() error {
		var open int
		err := n.pool.QueryRow(t.Context(),
			"SELECT count(*) FROM managed_tx WHERE terminal_at IS NULL").Scan(&open)
		if err == nil && open > 0 {
			err = fmt.Errorf("%d are not", open)
		}
		return err
	})
}

// awaitLongestBackoff waits until the outage has lasted so long that calls are as far apart as they
// get.
func (n *node) awaitLongestBackoff(t *testing.T) {
	t.Helper()
	eventually(t, 30*time.Second, "the chain is down for a while", func() error {
		_, chains := n.getOps(t, "/chains")
		for _, wait := range retryIn.FindAllStringSubmatch(chains, -1) {
			if ns, err := strconv.ParseInt(wait[1], 10, 64); err == nil && ns > longBackoff {
				return nil
			}
		}
		return errNotYet
	})
}

var retryIn = regexp.MustCompile(`"retry_in_ns": ?(\d+)`)

// longBackoff is in ns. Only the longest wait between two calls is longer.
const longBackoff = int64(600 * time.Millisecond)
