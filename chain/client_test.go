package chain

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/fencepost/fencepost/chain/jsonrpc"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/txn"
)

// harness is a client of fake nodes with a fake clock and a log.
type harness struct {
	*Client
	clock *clock.Fake
	log   *bytes.Buffer
}

func dial(t *testing.T, change func(*Options), urls ...string) *harness {
	t.Helper()
	r := &harness{clock: clock.NewFake(time.Unix(1_700_000_000, 0)), log: &bytes.Buffer{}}
	o := Options{
		Name:      "dev",
		ChainID:   testChain,
		Endpoints: urls,
		Timeout:   2 * time.Second,
		Clock:     r.clock,
		Logger:    slog.New(slog.NewTextHandler(r.log, nil)),
	}
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

func (r *harness) mustHead(t *testing.T) txn.Block {
	t.Helper()
	b, err := r.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// awaitHealthy waits until a background probe marks an endpoint healthy.
func (r *harness) awaitHealthy(t *testing.T, endpoint int) {
	t.Helper()
	await(t, "the endpoint well again", func() bool { return !r.endpoints[endpoint].isUnhealthy() })
}

// await waits for a condition in the background.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	giveUp := time.After(20 * time.Second)
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for !holds() {
		select {
		case <-look.C:
		case <-giveUp:
			t.Fatalf("%s: did not come true", what)
		}
	}
}

func TestDial_InvalidOptions_Fails(t *testing.T) {
	t.Parallel()
	good := Options{Name: "dev", ChainID: 1, Endpoints: []string{"http://127.0.0.1:1"}}
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no chain id": {func(o *Options) { o.ChainID = 0 }, "chain_id"},
		"no endpoint": {func(o *Options) { o.Endpoints = nil }, "no RPC endpoint"},
		"other scheme": {
			func(o *Options) { o.Endpoints = []string{"ftp://secret-host/x"} },
			"endpoint 1",
		},
		"no host": {func(o *Options) { o.Endpoints = []string{"http://"} }, "endpoint 1"},
		"second endpoint": {
			func(o *Options) { o.Endpoints = append(o.Endpoints, "secret-host:8545") },
			"endpoint 2",
		},
		"not an address": {
			func(o *Options) { o.Endpoints = []string{"http://secret-host:port"} },
			"endpoint 1",
		},
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
			if err == nil || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), `chain "dev"`) ||
				strings.Contains(err.Error(), "secret-host") {
				t.Errorf("got %v, want an error of chain \"dev\" about %s, without the address",
					err, c.want)
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
			if head.Number != 10 || head.Hash != n.hash(10) || head.Parent != n.hash(9) ||
				head.BaseFee != nil {
				t.Errorf("head %+v", head)
			}
			if r.Genesis() != n.genesis || r.ID() != testChain {
				t.Errorf("genesis %s, id %d", r.Genesis(), r.ID())
			}
			for name, get := range map[string]func() (*txn.Block, error){
				"by number": func() (*txn.Block, error) { return r.BlockByNumber(t.Context(), 7) },
				"by hash": func() (*txn.Block, error) {
					return r.BlockByHash(t.Context(), n.hash(7))
				},
			} {
				if b, err := get(); err != nil || b == nil || b.Number != 7 || b.Hash != n.hash(7) {
					t.Errorf("%s: %+v, %v", name, b, err)
				}
			}
			if b, err := r.BlockByNumber(t.Context(), 11); b != nil || err != nil {
				t.Errorf("above the head: %+v, %v; want neither", b, err)
			}
			if b, err := r.BlockByHash(t.Context(), common.HexToHash("0x404")); b != nil ||
				err != nil {
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
		for _, part := range []string{`"dev"`, "31337", "5 at the node"} {
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
		t.Errorf("a send to a wrong chain: %+v after %d calls; want UNAVAILABLE and none", o,
			n.called("eth_sendRawTransaction"))
	}
	// It is checked again, because the address may be fixed at run time.
	n.set(func(n *fakeNode) { n.chainID = uint64(testChain) })
	r.clock.Advance(longBackoff)
	r.mustHead(t)
}

func TestVerify_OneWrongEndpoint_Fails(t *testing.T) {
	t.Parallel()
	good, wrong := newNode(t), newNode(t)
	wrong.set(func(n *fakeNode) { n.chainID = 5 })
	r := dial(t, nil, good.url(), wrong.url())
	if err := r.Verify(t.Context()); !errors.Is(err, ErrWrongChain) {
		t.Errorf("verify: %v; want ErrWrongChain although the other endpoint is right", err)
	}
	r.mustHead(t)
}

func TestVerify_OneEndpointDown_Succeeds(t *testing.T) {
	t.Parallel()
	down, good := newNode(t), newNode(t)
	down.stop()
	r := dial(t, nil, down.url(), good.url())
	if err := r.Verify(t.Context()); err != nil {
		t.Errorf("verify: %v", err)
	}
	down.listen(t)
}

// An endpoint that rejects the verification backs off like an unreachable one.
func TestVerify_Refused_BacksOff(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.set(func(n *fakeNode) { n.idErr = coded{code: -32000, msg: "node is syncing"} })
	r := dial(t, nil, n.url())
	for range 3 {
		if _, err := r.Head(t.Context()); !errors.Is(err, txn.ErrUnavailable) ||
			!strings.Contains(err.Error(), "syncing") {
			t.Fatal(err)
		}
	}
	if asked := n.called("eth_chainId"); asked != 1 {
		t.Errorf("asked %d times at once", asked)
	}
	n.set(func(n *fakeNode) { n.idErr = nil })
	r.clock.Advance(lastBackoff)
	r.mustHead(t)
}

func TestBlock_MismatchedResponse_Fails(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	r := dial(t, nil, n.url())
	r.mustHead(t)
	n.set(func(n *fakeNode) { n.shift = 1 })
	if b, err := r.BlockByNumber(t.Context(), 7); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("block 7: %+v, %v", b, err)
	}
	if b, err := r.BlockByHash(t.Context(), n.hash(7)); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("block 7 by hash: %+v, %v", b, err)
	}
}

func TestWrongGenesis(t *testing.T) {
	t.Parallel()
	t.Run("expected", func(t *testing.T) {
		t.Parallel()
		n := newNode(t)
		r := dial(t, func(o *Options) { o.Genesis = common.HexToHash("0xabc") }, n.url())
		err := r.Verify(t.Context())
		if !errors.Is(err, ErrWrongGenesis) ||
			!strings.Contains(err.Error(), common.HexToHash("0xabc").Hex()) ||
			!strings.Contains(err.Error(), n.genesis.Hex()) {
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
		if _, err := r.Head(t.Context()); !errors.Is(err, ErrWrongGenesis) ||
			!errors.Is(err, txn.ErrUnavailable) {
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
		if err := r.Verify(t.Context()); !errors.Is(err, txn.ErrUnavailable) ||
			errors.Is(err, ErrWrongGenesis) {
			t.Errorf("%v; want unavailable", err)
		}
	})
}

func TestClient_EndpointRestarts_Recovers(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"http", "ws"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.stop()
			r := dial(t, nil, transport+"://"+n.addr)
			if err := r.Verify(t.Context()); !errors.Is(err, txn.ErrUnavailable) ||
				errors.Is(err, ErrWrongChain) {
				t.Fatalf("verify of a chain that is down: %v; want unavailable", err)
			}
			for round := range 3 {
				n.listen(t)
				if _, err := r.Head(t.Context()); !errors.Is(err, txn.ErrUnavailable) {
					t.Fatalf("round %d: asked again at once: %v", round, err)
				}
				r.clock.Advance(lastBackoff)
				r.mustHead(t)
				n.stop()
				for range 2 { // a lost call, and the verification after it
					if _, err := r.Head(t.Context()); !errors.Is(err, txn.ErrUnavailable) {
						t.Fatalf("round %d: %v", round, err)
					}
				}
			}
			n.listen(t)
		})
	}
}

// A chain replaced behind the same address is detected before a response counts, even without a
// failed call in between.
func TestClient_ChainReplaced_Detected(t *testing.T) {
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
				n.send = func(raw hexutil.Bytes) (common.Hash, error) {
					return common.HexToHash("0x1"), nil
				}
			})
			r := dial(t, nil, n.url())
			r.mustHead(t)
			r.endpoints[0].client.Close() // the next call opens a new connection, and no call fails
			n.set(swap.change)
			n.set(func(n *fakeNode) { n.head = 11 })
			if o := r.Send(
				t.Context(),
				txn.Signed{Hash: common.HexToHash("0x1"), Raw: []byte{1}},
			); o.Class == txn.Accepted {
				t.Errorf("a send over an unchecked connection: %+v", o)
			}
			r.clock.Advance(longBackoff)
			if b, err := r.Head(t.Context()); !errors.Is(err, swap.want) {
				t.Errorf("head %+v, %v; want %v", b, err, swap.want)
			}
		})
	}
}

// A new connection may reach another chain, so it is verified.
func TestWebSocket_Reconnect_Verified(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	r := dial(t, nil, n.wsURL())
	r.mustHead(t)
	n.stop()
	n.set(func(n *fakeNode) { n.chainID = 5 })
	n.listen(t)
	var err error
	for range 3 {
		var head txn.Block
		if head, err = r.Head(t.Context()); err == nil {
			t.Fatalf("head %+v of a chain that nobody configured", head)
		}
		r.clock.Advance(longBackoff)
	}
	if !errors.Is(err, ErrWrongChain) {
		t.Errorf("%v; want ErrWrongChain", err)
	}
}

func TestWebSocket_ConnectsOnce(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	e := newEndpoint(0, &Options{Endpoints: []string{n.wsURL()}, Timeout: time.Second}, nil)
	client, err := e.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	n.stop()
	n.listen(t)
	for range 3 { // the first may still use the broken connection
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err = client.Call(ctx, nil, "eth_chainId")
		cancel()
		if err == nil {
			t.Fatal("answered over a second connection")
		}
	}
	if !errors.Is(err, jsonrpc.ErrClosed) {
		t.Errorf("%v; want ErrClosed", err)
	}
}

func TestClient_EndpointDown_FailsOverAndBack(t *testing.T) {
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
	// Reads stay with the endpoint of the last head, even if a preferred one is back.
	a.set(func(n *fakeNode) { n.head = 11 })
	a.listen(t)
	r.clock.Advance(lastBackoff)
	served := b.called("eth_getBlockByNumber")
	if _, err := r.BlockByNumber(t.Context(), 3); err != nil ||
		b.called("eth_getBlockByNumber") != served+1 {
		t.Errorf("a read within the pass: %v, %d calls to the second endpoint", err,
			b.called("eth_getBlockByNumber")-served)
	}
	r.awaitHealthy(t, 0) // it is probed in the background, because the other one serves
	served = b.called("eth_getBlockByNumber")
	r.mustHead(t)
	if b.called("eth_getBlockByNumber") != served {
		t.Error("the first endpoint is not preferred again after it came back")
	}
	if !strings.Contains(r.log.String(), "unhealthy") ||
		!strings.Contains(r.log.String(), "RPC endpoint healthy") {
		t.Errorf("the log lacks the fault or its end:\n%s", r.log)
	}
}

func TestLaggingFallback(t *testing.T) {
	t.Parallel()
	a, b := newNode(t), newNode(t)
	b.set(func(n *fakeNode) { n.head = 7 })
	r := dial(t, nil, a.url(), b.url())
	r.mustHead(t)
	a.stop()
	if head, err := r.Head(t.Context()); !errors.Is(err, txn.ErrUnavailable) ||
		!strings.Contains(err.Error(), "behind") {
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

func TestLaggingFallback_AfterGrace_Accepted(t *testing.T) {
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
	r.mustHead(t)
	r.awaitHealthy(t, 0)
	if head := r.mustHead(t); head.Number != 12 {
		t.Errorf("head %d of the endpoint that lags, want 12", head.Number)
	}
}

// If an endpoint that was at the mark goes back, the reorg is reported at once.
func TestHead_OwnReorg_Accepted(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	r := dial(t, nil, n.url())
	r.mustHead(t)
	n.set(func(n *fakeNode) { n.head = 6 })
	if head := r.mustHead(t); head.Number != 6 {
		t.Errorf("head %d, want 6", head.Number)
	}
}

// After an endpoint went back it must reach the mark again, regardless of its highest head.
func TestHead_OwnReorg_HighestReset(t *testing.T) {
	t.Parallel()
	a, b := newNode(t), newNode(t)
	r := dial(t, nil, a.url(), b.url())
	r.mustHead(t)
	a.set(func(n *fakeNode) { n.head = 6 })
	r.mustHead(t)
	a.answerHTTP(http.StatusBadGateway, nil, "")
	b.set(func(n *fakeNode) { n.head = 8 })
	r.mustHead(t)
	a.set(func(n *fakeNode) { n.intercept, n.head = nil, 7 })
	r.clock.Advance(lastBackoff)
	r.mustHead(t)
	r.awaitHealthy(t, 0)
	if head := r.mustHead(t); head.Number != 8 {
		t.Errorf("head %d of the endpoint that lags, want 8", head.Number)
	}
}
