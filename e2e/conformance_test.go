package e2e

import (
	"testing"

	"github.com/fencepost/fencepost/chain"
	"github.com/fencepost/fencepost/chain/conformance"
	"github.com/fencepost/fencepost/txn"
)

// TestGethConforms runs the connector's suite against geth as a process of its own: the suite that
// the in-memory chain and the embedded one pass as well.
func TestGethConforms(t *testing.T) {
	t.Parallel()
	c := geth(t, 1)
	conformance.Run(t, func(t *testing.T) *conformance.Harness {
		client, err := chain.Dial(t.Context(),
			chain.Options{Name: "geth", ChainID: txn.ChainID(c.id), Endpoints: []string{c.url}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		return &conformance.Harness{
			Chain:   client,
			ChainID: txn.ChainID(c.id),
			Key:     c.keys[0],
			Mine:    conformance.NextBlock(t, client),
		}
	})
}
