package conformance_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"github.com/fencepost/fencepost/chain"
	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/chain/conformance"
	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/txn"
	"github.com/holiman/uint256"
)

func TestChaintest(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]chaintest.Options{
		"like go-ethereum": {},
		"legacy":           {Legacy: true},
		"polled":           {Poll: true},
		"sequencer":        {StrictNonce: true, StrictFeeCap: true},
		"without tags":     {NoTags: true},
		"with final ones":  {SafeDepth: 1, FinalDepth: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conformance.Run(t, func(t *testing.T) *conformance.Harness {
				c := chaintest.New(o)
				c.Fund(chaintest.Address(0), *new(uint256.Int).Lsh(uint256.NewInt(1), 64))
				reverter := txn.Address{0x4e, 0x0e}
				c.Register(reverter, chaintest.Reverter("nope"))
				return &conformance.Harness{
					Chain:    c,
					ChainID:  c.ID(),
					Key:      chaintest.Key(0),
					Manual:   true,
					Reverter: &reverter,
					Quirks: conformance.Quirks{
						RefusesGaps:  o.StrictNonce,
						NoDelegation: o.Legacy,
						NoTags:       o.NoTags,
					},
					Mine: func() { c.Mine(1) },
					Reorg: func(depth int, keep bool) {
						disposition := chaintest.Drop
						if keep {
							disposition = chaintest.Keep
						}
						if err := c.Reorg(depth, disposition); err != nil {
							t.Fatal(err)
						}
					},
				}
			})
		})
	}
}

func TestClient(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"http", "websocket"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			node, err := devchain.Start(devchain.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = node.Close() })
			url := node.URL()
			if transport == "websocket" {
				url = node.WSURL()
			}
			runOn(t, node, chain.Options{Endpoints: []string{url}})
		})
	}
}

// runOn runs the suite on a development chain.
func runOn(t *testing.T, node *devchain.Chain, o chain.Options) {
	o.Name, o.ChainID = "dev", txn.ChainID(node.ID())
	conformance.Run(t, func(t *testing.T) *conformance.Harness {
		c, err := chain.Dial(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return &conformance.Harness{
			Chain: c, ChainID: o.ChainID, Key: devchain.Key(0), Manual: true,
			Mine: func() {
				if _, err := node.Mine(1); err != nil {
					t.Fatal(err)
				}
			},
			Reorg: func(depth int, keep bool) {
				disposition := devchain.Drop
				if keep {
					disposition = devchain.Keep
				}
				if err := node.Reorg(depth, disposition); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}

// limited is a node's address that refuses batches of more calls.
func limited(t *testing.T, node string, limit int) string {
	t.Helper()
	target, err := url.Parse(node)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body, r.Host = io.NopCloser(bytes.NewReader(body)), target.Host
		var calls []json.RawMessage
		if json.Unmarshal(body, &calls) == nil && (len(calls) > limit || limit == 1) {
			http.Error(w, "batch too large", http.StatusRequestEntityTooLarge)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// A node with a limit of calls per request serves everything, whether the limit is configured or
// has to be found out.
func TestClient_BatchLimit(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 2, 5} {
		for _, configured := range []int{limit, 0} {
			t.Run(fmt.Sprintf("%d, configured %d", limit, configured), func(t *testing.T) {
				t.Parallel()
				node, err := devchain.Start(devchain.Options{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = node.Close() })
				address := limited(t, node.URL(), limit)
				runOn(t, node, chain.Options{Endpoints: []string{address}, BatchLimit: configured})
			})
		}
	}
}

// As for an external node, the suite has only an address, a key and patience.
func TestClient_AutomaticBlocks(t *testing.T) {
	t.Parallel()
	node, err := devchain.Start(devchain.Options{Period: 30 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = node.Close() })
	conformance.Run(t, func(t *testing.T) *conformance.Harness {
		c, err := chain.Dial(
			t.Context(),
			chain.Options{
				Name:      "dev",
				ChainID:   txn.ChainID(node.ID()),
				Endpoints: []string{node.URL()},
			},
		)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return &conformance.Harness{
			Chain:   c,
			ChainID: c.ID(),
			Key:     devchain.Key(0),
			Mine:    conformance.NextBlock(t, c),
		}
	})
}
