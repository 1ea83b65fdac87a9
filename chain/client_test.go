package chain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/txn"
)

// rig is a client of fake nodes under a clock that moves by hand, with its log.
type rig struct {
	*Client
	clock *clock.Fake
	log   *bytes.Buffer
}

func dial(t *testing.T, change func(*Options), urls ...string) *rig {
	t.Helper()
	r := &rig{clock: clock.NewFake(time.Unix(1_700_000_000, 0)), log: &bytes.Buffer{}}
	o := Options{Name: "dev", ChainID: testChain, Endpoints: urls, Timeout: 2 * time.Second, Clock: r.clock, Logger: slog.New(slog.NewTextHandler(r.log, nil))}
	if change != nil {
		change(&o)
	}
	var err error
	if r.Client, err = Dial(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func (r *rig) mustHead(t *testing.T) txn.Block {
	t.Helper()
	b, err := r.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDialRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	good := Options{Name: "dev", ChainID: 1, Endpoints: []string{"http://127.0.0.1:1"}}
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no chain id":      {func(o *Options) { o.ChainID = 0 }, "chain_id"},
		"no endpoint":      {func(o *Options) { o.Endpoints = nil }, "no RPC endpoint"},
		"other scheme":     {func(o *Options) { o.Endpoints = []string{"ftp://secret-host/x"} }, "endpoint 1"},
		"no host":          {func(o *Options) { o.Endpoints = []string{"http://"} }, "endpoint 1"},
		"second endpoint":  {func(o *Options) { o.Endpoints = append(o.Endpoints, "secret-host:8545") }, "endpoint 2"},
		"not an address":   {func(o *Options) { o.Endpoints = []string{"http://secret-host:port"} }, "endpoint 1"},
		"margin below 1":   {func(o *Options) { o.GasMargin = 0.5 }, "gas margin"},
		"negative timeout": {func(o *Options) { o.Timeout = -1 }, "negative"},
		"long history":     {func(o *Options) { o.Fees.HistoryBlocks = 5000 }, "fee history"},
		"percentile":       {func(o *Options) { o.Fees.Percentile = 101 }, "percentile"},
		"tip above cap": {func(o *Options) {
			o.Fees.MinTip.SetUint64(2)
			o.Fees.MaxFee.SetUint64(1)
		}, "minimum tip"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := good
			o.Endpoints = append([]string(nil), good.Endpoints...)
			c.change(&o)
			_, err := Dial(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `chain "dev"`) || strings.Contains(err.Error(), "secret-host") {
				t.Errorf("got %v, want an error of chain \"dev\" about %s, without the address", err, c.want)
			}
		})
	}
}

func TestHeadAndBlocks(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"http", "ws"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			r := dial(t, nil, transport+"://"+n.addr)
			if r.Genesis() != (txn.Hash{}) {
				t.Error("there is a genesis before anybody was asked")
			}
			head := r.mustHead(t)
			if head.Number != 10 || head.Hash != n.hash(10) || head.Parent != n.hash(9) || head.BaseFee != nil {
				t.Errorf("head %+v", head)
			}
			if r.Genesis() != n.genesis || r.ID() != testChain {
				t.Errorf("genesis %s, id %d", r.Genesis(), r.ID())
			}
			for name, get := range map[string]func() (*txn.Block, error){
				"by number": func() (*txn.Block, error) { return r.BlockByNumber(t.Context(), 7) },
				"by hash":   func() (*txn.Block, error) { return r.BlockByHash(t.Context(), n.hash(7)) },
			} {
				if b, err := get(); err != nil || b == nil || b.Number != 7 || b.Hash != n.hash(7) {
					t.Errorf("%s: %+v, %v", name, b, err)
				}
			}
			if b, err := r.BlockByNumber(t.Context(), 11); b != nil || err != nil {
				t.Errorf("above the head: %+v, %v; want neither", b, err)
			}
			if b, err := r.BlockByHash(t.Context(), common.HexToHash("0x404")); b != nil || err != nil {
				t.Errorf("an unknown hash: %+v, %v; want neither", b, err)
			}
		})
	}
}

func TestWrongChain(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.set(func(n *fakeNode) { n.chainID = 5 })
	r := dial(t, nil, "http://user:hunter2@"+n.addr+"/v3/secret-key")
	_, headErr := r.Head(t.Context())
	for what, err := range map[string]error{"verify": r.Verify(t.Context()), "head": headErr} {
		if !errors.Is(err, ErrWrongChain) || !errors.Is(err, txn.ErrUnavailable) {
			t.Fatalf("%s: %v; want ErrWrongChain, and unavailable for a read", what, err)
		}
		for _, part := range []string{`"dev"`, "31337", "answers 5"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not say %s", what, err, part)
			}
		}
		for _, secret := range []string{n.addr, "hunter2", "secret-key"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: %q tells the address", what, err)
			}
		}
	}
	o := r.Send(t.Context(), txn.Signed{Raw: []byte{1}})
	if o.Class != txn.Unavailable || n.called("eth_sendRawTransaction") != 0 {
		t.Errorf("a send to a wrong chain: %+v after %d calls; want UNAVAILABLE and none", o, n.called("eth_sendRawTransaction"))
	}
	// It is looked at again: the address may be mended while we run.
	n.set(func(n *fakeNode) { n.chainID = uint64(testChain) })
	r.clock.Advance(longBackoff)
	r.mustHead(t)
}

func TestWrongChainBehindOneOfSeveral(t *testing.T) {
	t.Parallel()
	good, wrong := newNode(t), newNode(t)
	wrong.set(func(n *fakeNode) { n.chainID = 5 })
	r := dial(t, nil, good.url(), wrong.url())
	if err := r.Verify(t.Context()); !errors.Is(err, ErrWrongChain) {
		t.Errorf("verify: %v; want ErrWrongChain although the other endpoint is right", err)
	}
	r.mustHead(t)
}

func TestWrongGenesis(t *testing.T) {
	t.Parallel()
	t.Run("expected", func(t *testing.T) {
		t.Parallel()
		n := newNode(t)
		r := dial(t, func(o *Options) { o.Genesis = common.HexToHash("0xabc") }, n.url())
		err := r.Verify(t.Context())
		if !errors.Is(err, ErrWrongGenesis) || !strings.Contains(err.Error(), common.HexToHash("0xabc").Hex()) || !strings.Contains(err.Error(), n.genesis.Hex()) {
			t.Errorf("%v; want ErrWrongGenesis with both hashes", err)
		}
	})
	t.Run("of another endpoint", func(t *testing.T) {
		t.Parallel()
		a, b := newNode(t), newNode(t)
		b.set(func(n *fakeNode) { n.genesis, n.head = common.HexToHash("0xbad"), 99 })
		r := dial(t, nil, a.url(), b.url())
		r.mustHead(t)
		a.stop()
		if _, err := r.Head(t.Context()); !errors.Is(err, ErrWrongGenesis) || !errors.Is(err, txn.ErrUnavailable) {
			t.Errorf("head with the right endpoint down: %v; want ErrWrongGenesis", err)
		}
		if r.Genesis() != a.genesis {
			t.Error("the other endpoint changed the genesis")
		}
	})
	t.Run("not served", func(t *testing.T) {
		t.Parallel()
		n := newNode(t)
		n.set(func(n *fakeNode) { n.genesis = common.Hash{} })
		r := dial(t, nil, n.url())
		if err := r.Verify(t.Context()); !errors.Is(err, txn.ErrUnavailable) || errors.Is(err, ErrWrongGenesis) {
			t.Errorf("%v; want unavailable", err)
		}
	})
}

func TestRecoversByItself(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"http", "ws"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.stop()
			r := dial(t, nil, transport+"://"+n.addr)
			if err := r.Verify(t.Context()); !errors.Is(err, txn.ErrUnavailable) || errors.Is(err, ErrWrongChain) {
				t.Fatalf("verify of a chain that is down: %v; want unavailable", err)
			}
			for round := range 3 {
				n.listen(t, n.addr)
				if _, err := r.Head(t.Context()); !errors.Is(err, txn.ErrUnavailable) {
					t.Fatalf("round %d: asked again at once: %v", round, err)
				}
				r.clock.Advance(lastBackoff)
				r.mustHead(t)
				n.stop()
				if _, err := r.Head(t.Context()); !errors.Is(err, txn.ErrUnavailable) {
					t.Fatalf("round %d: %v", round, err)
				}
			}
			n.listen(t, n.addr)
		})
	}
}

// A chain that was swapped behind the same address must be noticed before an answer of it counts, even if no call failed in between.
func TestAnotherChainBehindTheSameAddress(t *testing.T) {
	t.Parallel()
	for name, swap := range map[string]struct {
		change func(*fakeNode)
		want   error
	}{
		"chain id": {func(n *fakeNode) { n.chainID = 5 }, ErrWrongChain},
		"genesis":  {func(n *fakeNode) { n.genesis = common.HexToHash("0xbad") }, ErrWrongGenesis},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.set(func(n *fakeNode) {
				n.send = func(raw hexutil.Bytes) (common.Hash, error) { return common.HexToHash("0x1"), nil }
			})
			r := dial(t, nil, n.url())
			r.mustHead(t)
			n.http.CloseClientConnections() // idle ones: the client opens another without a failed call
			n.set(swap.change)
			n.set(func(n *fakeNode) { n.head = 11 })
			if o := r.Send(t.Context(), txn.Signed{Hash: common.HexToHash("0x1"), Raw: []byte{1}}); o.Class == txn.Accepted {
				t.Errorf("a send over an unchecked connection: %+v", o)
			}
			r.clock.Advance(longBackoff)
			if b, err := r.Head(t.Context()); !errors.Is(err, swap.want) {
				t.Errorf("head %+v, %v; want %v", b, err, swap.want)
			}
		})
	}
}

func TestFailOverAndBack(t *testing.T) {
	t.Parallel()
	a, b := newNode(t), newNode(t)
	r := dial(t, nil, a.url(), b.url())
	r.mustHead(t)
	if b.called("eth_chainId") != 0 {
		t.Error("the second endpoint was asked although the first is well")
	}
	a.stop()
	b.set(func(n *fakeNode) { n.head = 11 })
	if head := r.mustHead(t); head.Number != 11 {
		t.Fatalf("head %d of the second endpoint, want 11", head.Number)
	}
	// The reads of a pass stay where its head came from, also when the first is back.
	a.set(func(n *fakeNode) { n.head = 11 })
	a.listen(t, a.addr)
	r.clock.Advance(lastBackoff)
	asked := a.called("eth_getBlockByNumber")
	if _, err := r.BlockByNumber(t.Context(), 3); err != nil || a.called("eth_getBlockByNumber") != asked {
		t.Errorf("a read within the pass: %v, %d calls to the first endpoint", err, a.called("eth_getBlockByNumber")-asked)
	}
	r.mustHead(t)
	if a.called("eth_getBlockByNumber") == asked {
		t.Error("the first endpoint is not preferred again after it came back")
	}
	if !strings.Contains(r.log.String(), "is not usable") || !strings.Contains(r.log.String(), "is back") {
		t.Errorf("the log does not tell of the fault and its end:\n%s", r.log)
	}
}

func TestLaggingFallback(t *testing.T) {
	t.Parallel()
	a, b := newNode(t), newNode(t)
	b.set(func(n *fakeNode) { n.head = 7 })
	r := dial(t, nil, a.url(), b.url())
	r.mustHead(t)
	a.stop()
	if head, err := r.Head(t.Context()); !errors.Is(err, txn.ErrUnavailable) || !strings.Contains(err.Error(), "behind") {
		t.Fatalf("head %+v, %v; the fallback lags and must not be taken for a reorg", head, err)
	}
	if _, err := r.Account(t.Context(), common.Address{1}, 0); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("an account as the lagging endpoint sees it: %v", err)
	}
	if got := r.Receipts(t.Context(), []txn.Hash{{1}}); !errors.Is(got[0].Err, txn.ErrUnavailable) {
		t.Errorf("a lagging endpoint's missing receipt is evidence: %+v", got[0])
	}
	b.set(func(n *fakeNode) { n.head = 10 })
	r.clock.Advance(probeAge)
	if got := r.Receipts(t.Context(), []txn.Hash{{1}}); got[0].Err != nil {
		t.Errorf("the fallback has caught up and is not used: %v", got[0].Err)
	}
	if head := r.mustHead(t); head.Number != 10 {
		t.Errorf("head %d", head.Number)
	}
}

func TestLaggingFallbackIsBelievedInTheEnd(t *testing.T) {
	t.Parallel()
	a, b := newNode(t), newNode(t)
	b.set(func(n *fakeNode) { n.head = 7 })
	r := dial(t, nil, a.url(), b.url())
	r.mustHead(t)
	a.stop()
	if _, err := r.Head(t.Context()); err == nil {
		t.Fatal("the lagging endpoint was used at once")
	}
	r.clock.Advance(defaultLagGrace)
	if head := r.mustHead(t); head.Number != 7 {
		t.Errorf("head %d, want the 7 that there is", head.Number)
	}
}

func TestLaggingFirstEndpoint(t *testing.T) {
	t.Parallel()
	a, b := newNode(t), newNode(t)
	r := dial(t, nil, a.url(), b.url())
	r.mustHead(t)
	a.answerHTTP(http.StatusBadGateway, nil, "")
	b.set(func(n *fakeNode) { n.head = 12 })
	r.mustHead(t)
	a.set(func(n *fakeNode) { n.intercept, n.head = nil, 11 })
	r.clock.Advance(lastBackoff)
	if head := r.mustHead(t); head.Number != 12 {
		t.Errorf("head %d of the endpoint that lags, want 12", head.Number)
	}
}

// An endpoint that was at the mark itself and goes back reports a reorg, and nobody may hold that up.
func TestOwnReorgIsBelieved(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	r := dial(t, nil, n.url())
	r.mustHead(t)
	n.set(func(n *fakeNode) { n.head = 6 })
	if head := r.mustHead(t); head.Number != 6 {
		t.Errorf("head %d, want 6", head.Number)
	}
}

func TestRefusalOfBytesIsNotIllHealth(t *testing.T) {
	t.Parallel()
	a, b := newNode(t), newNode(t)
	a.set(func(n *fakeNode) {
		n.send = func(hexutil.Bytes) (common.Hash, error) {
			return common.Hash{}, coded{code: -32000, msg: "nonce too low: next nonce 12, tx nonce 11"}
		}
	})
	r := dial(t, nil, a.url(), b.url())
	for i := range 3 {
		o := r.Send(t.Context(), txn.Signed{Raw: []byte{1}})
		if o.Class != txn.NonceTooLow || a.called("eth_sendRawTransaction") != i+1 || b.called("eth_sendRawTransaction") != 0 {
			t.Fatalf("send %d: %+v, %d and %d calls; want NONCE_TOO_LOW of the first endpoint each time", i, o, a.called("eth_sendRawTransaction"), b.called("eth_sendRawTransaction"))
		}
	}
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	r := dial(t, nil, n.url())
	r.mustHead(t)
	n.answerHTTP(http.StatusTooManyRequests, map[string]string{"Retry-After": "7"}, "slow down")
	if o := r.Send(t.Context(), txn.Signed{Raw: []byte{1}}); o.Class != txn.RateLimited || o.RetryAfter != 7*time.Second {
		t.Fatalf("%+v; want RATE_LIMITED for 7 s", o)
	}
	n.set(func(n *fakeNode) { n.intercept = nil })
	before := n.called("eth_getBlockByNumber")
	r.clock.Advance(6 * time.Second)
	if _, err := r.Head(t.Context()); !errors.Is(err, txn.ErrUnavailable) || n.called("eth_getBlockByNumber") != before {
		t.Errorf("asked within the time that the provider wants: %v, %d calls", err, n.called("eth_getBlockByNumber")-before)
	}
	if o := r.Send(t.Context(), txn.Signed{Raw: []byte{1}}); o.Class != txn.RateLimited || o.RetryAfter != time.Second {
		t.Errorf("%+v; want RATE_LIMITED for the second that is left", o)
	}
	r.clock.Advance(time.Second)
	r.mustHead(t)
}

func TestRateLimitMovesOn(t *testing.T) {
	t.Parallel()
	a, b := newNode(t), newNode(t)
	hash := common.HexToHash("0x5e")
	a.set(func(n *fakeNode) {
		n.send = func(hexutil.Bytes) (common.Hash, error) {
			return common.Hash{}, coded{code: -32005, msg: "daily request count exceeded", data: map[string]any{"rate": map[string]any{"backoff_seconds": 30}}}
		}
	})
	b.set(func(n *fakeNode) { n.send = func(hexutil.Bytes) (common.Hash, error) { return hash, nil } })
	r := dial(t, nil, a.url(), b.url())
	for range 2 {
		if o := r.Send(t.Context(), txn.Signed{Hash: hash, Raw: []byte{1}}); o.Class != txn.Accepted {
			t.Fatalf("%+v; the second endpoint would take it", o)
		}
	}
	if a.called("eth_sendRawTransaction") != 1 {
		t.Errorf("the limited endpoint was asked %d times", a.called("eth_sendRawTransaction"))
	}
}

func TestInFlightLimit(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	r := dial(t, func(o *Options) { o.MaxInFlight = 2 }, n.url())
	r.mustHead(t)
	inside, release := make(chan struct{}, 8), make(chan struct{})
	n.onSend(func(http.ResponseWriter, *http.Request) { inside <- struct{}{}; <-release })
	done := make(chan txn.Outcome, 3)
	for range 3 {
		go func() { done <- r.Send(t.Context(), txn.Signed{Raw: []byte{1}}) }()
	}
	<-inside
	<-inside
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.BlockByNumber(ctx, 1); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("a call that found no slot: %v", err)
	}
	if len(inside) != 0 {
		t.Error("a third call is under way")
	}
	close(release)
	for range 3 {
		<-done
	}
}

// Whatever fails, no text that leaves the package holds a part of the address.
func TestAddressIsNeverTold(t *testing.T) {
	t.Parallel()
	secrets := []string{"hunter2", "SeCrEtKeY0123456789", "queryToken987"}
	for name, breakIt := range map[string]func(*fakeNode){
		"down":     func(n *fakeNode) { n.stop() },
		"wrong id": func(n *fakeNode) { n.set(func(n *fakeNode) { n.chainID = 5 }) },
		"echo": func(n *fakeNode) {
			n.set(func(n *fakeNode) {
				n.intercept = func(w http.ResponseWriter, r *http.Request) bool {
					http.Error(w, fmt.Sprintf("<h1>failed</h1> http://%s%s and %s%s for user:hunter2", r.Host, r.URL, r.Host, r.URL), http.StatusInternalServerError)
					return true
				}
			})
		},
		"echo in JSON": func(n *fakeNode) {
			n.set(func(n *fakeNode) {
				n.intercept = func(w http.ResponseWriter, r *http.Request) bool {
					w.WriteHeader(http.StatusForbidden)
					fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"key SeCrEtKeY0123456789 at http://%s%s is not valid"}}`, r.Host, r.URL)
					return true
				}
			})
		},
		"not JSON": func(n *fakeNode) { n.answerHTTP(200, nil, "<html>hello</html>") },
		"redirect": func(n *fakeNode) {
			n.answerHTTP(302, map[string]string{"Location": "http://127.0.0.1:1/SeCrEtKeY0123456789"}, "")
		},
		"cut": func(n *fakeNode) { n.set(func(n *fakeNode) { n.intercept = cutConnection }) },
	} {
		for _, transport := range []string{"http", "ws"} {
			t.Run(name+" "+transport, func(t *testing.T) {
				t.Parallel()
				n := newNode(t)
				r := dial(t, nil, transport+"://user:hunter2@"+n.addr+"/v3/SeCrEtKeY0123456789?token=queryToken987")
				breakIt(n)
				_, headErr := r.Head(t.Context())
				if headErr == nil {
					t.Fatal("the fault did not show")
				}
				r.clock.Advance(time.Minute)
				o := r.Send(t.Context(), txn.Signed{Raw: []byte{1}})
				r.clock.Advance(time.Minute)
				_, quoted := r.Quote(t.Context(), txn.Draft{})
				r.clock.Advance(time.Minute)
				receipt := r.Receipts(t.Context(), []txn.Hash{{1}})[0].Err
				text := fmt.Sprint(headErr, o.Detail, quoted.Detail, receipt, r.Verify(t.Context()), r.log)
				for _, secret := range append(secrets, n.addr) {
					if strings.Contains(text, secret) {
						t.Errorf("%q is told: %s", secret, text)
					}
				}
				if name == "down" {
					n.listen(t, n.addr)
				}
			})
		}
	}
}

// cutConnection ends the connection without an answer.
func cutConnection(w http.ResponseWriter, _ *http.Request) bool {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		conn.Close()
	}
	return true
}
