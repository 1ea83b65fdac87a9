package e2e

import (
	"math/big"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/params"

	"github.com/fencepost/fencepost/chain"
	"github.com/fencepost/fencepost/chain/conformance"
	"github.com/fencepost/fencepost/txn"
)

// TestAnvilConforms runs the connector's suite against anvil, an implementation independent of
// go-ethereum. The quirks list the differences.
func TestAnvilConforms(t *testing.T) {
	t.Parallel()
	c := anvil(t)
	conformance.Run(t, func(t *testing.T) *conformance.Harness {
		client, err := chain.Dial(t.Context(),
			chain.Options{Name: "anvil", ChainID: txn.ChainID(c.id), Endpoints: []string{c.url}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		return &conformance.Harness{
			Chain: client, ChainID: txn.ChainID(c.id), Key: c.keys[0], Manual: true,
			Mine:   func() { c.ask(t, nil, "evm_mine") },
			Reorg:  func(depth int, keep bool) { c.reorg(t, depth, keep) },
			Quirks: conformance.Quirks{AnyBump: true, AnyLegacyChain: true},
		}
	})
}

// anvil is an anvil process that mines on request.
func anvil(t *testing.T) *testChain {
	t.Helper()
	// The program itself: npm's wrapper would be the one that is killed in the end, and leave it
	// running.
	found, err := filepath.Glob("../node_modules/@foundry-rs/anvil-*/bin/anvil")
	if err != nil || len(found) != 1 {
		t.Fatalf(
			"anvil is not in node_modules (%v, %v); run this through `make e2e`, which fetches it",
			found, err)
	}
	port := freePort(t)
	startProcess(t,
		exec.Command(found[0], "--quiet", "--no-mining", "--host", "127.0.0.1", "--port", port),
		filepath.Join(t.TempDir(), "anvil.log"))
	url := "http://127.0.0.1:" + port
	eventually(t, 60*time.Second, "anvil answers", func() error { return answers(url) })
	c := dial(t, url)
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	c.keys = append(c.keys, key)
	c.ask(t, nil, "anvil_setBalance", crypto.PubkeyToAddress(key.PublicKey),
		(*hexutil.Big)(new(big.Int).Mul(big.NewInt(100), big.NewInt(params.Ether))))
	return c
}

// ask calls a method of the node.
func (c *testChain) ask(t *testing.T, result any, method string, args ...any) {
	t.Helper()
	if err := c.Client.Client().CallContext(t.Context(), result, method, args...); err != nil {
		t.Fatalf("%s: %v", method, err)
	}
}

// reorg makes anvil replace the newest blocks and add one. anvil drops their transactions, so the
// ones to keep are sent again.
func (c *testChain) reorg(t *testing.T, depth int, keep bool) {
	t.Helper()
	head, err := c.BlockNumber(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	type placed [2]any // signed bytes, and into which of the new blocks
	again := []placed{}
	for at := range depth {
		var block struct {
			Transactions []common.Hash `json:"transactions"`
		}
		c.ask(t, &block, "eth_getBlockByNumber", hexutil.Uint64(head-uint64(depth-1-at)), false)
		for _, hash := range block.Transactions {
			var raw hexutil.Bytes
			c.ask(t, &raw, "eth_getRawTransactionByHash", hash)
			if keep {
				again = append(again, placed{raw, at})
			}
		}
	}
	c.ask(t, nil, "anvil_reorg", depth, again)
	c.ask(t, nil, "evm_mine")
}
