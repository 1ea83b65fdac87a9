package conformance_test

import (
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
						fate := chaintest.Drop
						if keep {
							fate = chaintest.Keep
						}
						if err := c.Reorg(depth, fate); err != nil {
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
			conformance.Run(t, func(t *testing.T) *conformance.Harness {
				c, err := chain.Dial(
					t.Context(),
					chain.Options{
						Name:      "dev",
						ChainID:   txn.ChainID(node.ID()),
						Endpoints: []string{url},
					},
				)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(c.Close)
				return &conformance.Harness{
					Chain: c, ChainID: txn.ChainID(node.ID()), Key: devchain.Key(0), Manual: true,
					Mine: func() {
						if _, err := node.Mine(1); err != nil {
							t.Fatal(err)
						}
					},
					Reorg: func(depth int, keep bool) {
						fate := devchain.Drop
						if keep {
							fate = devchain.Keep
						}
						if err := node.Reorg(depth, fate); err != nil {
							t.Fatal(err)
						}
					},
				}
			})
		})
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
